"""Reading lists from the catalog, page by page."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from lance_catalog.cli.failures import usage

if TYPE_CHECKING:
    from lance_catalog.cli.session import Session
    from lance_catalog.identifiers import Identifier

__all__ = [
    "all_namespaces",
    "all_tables",
    "check_limit",
    "child_namespaces",
    "child_tables",
    "take",
]

_PAGE: Final = 1000

Fetch = Callable[[dict[str, Any]], tuple[list[str], str | None]]


def check_limit(limit: int | None, everything: bool) -> int | None:
    """Return how many to list; None is all of them, which is also the default."""
    if limit is not None and everything:
        raise usage("--limit and --all exclude each other")
    return limit


def take(fetch: Fetch, limit: int | None, after: str | None) -> tuple[list[str], str | None]:
    """Return up to ``limit`` names past ``after``, and the token of what follows or None."""
    found: list[str] = []
    token = after
    while True:
        size = _PAGE if limit is None else min(_PAGE, limit - len(found))
        names, token = fetch({"limit": size, "page_token": token})
        found += names
        if token is None or (limit is not None and len(found) >= limit):
            return found, token


def child_namespaces(session: Session, names: Identifier) -> Fetch:
    """Return the fetcher of the namespaces one level below."""

    def fetch(page: dict[str, Any]) -> tuple[list[str], str | None]:
        answer = session.catalog.list_namespaces({"id": list(names), **page})
        return answer.namespaces, answer.page_token

    return fetch


def child_tables(session: Session, names: Identifier) -> Fetch:
    """Return the fetcher of the tables of a namespace."""

    def fetch(page: dict[str, Any]) -> tuple[list[str], str | None]:
        answer = session.catalog.list_tables({"id": list(names), **page})
        return answer.tables, answer.page_token

    return fetch


def all_tables(session: Session, names: Identifier) -> Fetch:
    """Return the fetcher of the stored ids of every table below a namespace."""

    def fetch(page: dict[str, Any]) -> tuple[list[str], str | None]:
        answer = session.catalog.list_all_tables({"id": list(names), **page})
        return answer.tables, answer.page_token

    return fetch


def all_namespaces(session: Session, names: Identifier) -> list[Identifier]:
    """Return every namespace below one, parents before children, siblings in order."""
    from lance_catalog.identifiers import decode, encode, is_internal_key

    session.catalog.namespace_exists({"id": list(names)})
    # One moment and one look, where a listing for each namespace would cost a request each.
    found = session.catalog.snapshot().view.descendants(encode(names))
    return sorted(
        decode(entry.object_id)
        for entry in found
        if entry.is_namespace and not is_internal_key(entry.object_id)
    )
