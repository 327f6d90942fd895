"""Completion of ids in the shell: quick or nothing, and never an error."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import typer

if TYPE_CHECKING:
    from lance_catalog.cli.session import Session

__all__ = ["complete_dropped", "complete_namespace", "complete_object"]

_SECONDS: Final = 0.2
_MOST: Final = 200


def complete_namespace(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return ids of namespaces that begin as typed."""
    return _within_limit(ctx, lambda session: _children(session, incomplete, tables=False))


def complete_object(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return ids of namespaces and tables that begin as typed."""
    return _within_limit(ctx, lambda session: _children(session, incomplete, tables=True))


def complete_dropped(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return ids of dropped tables that begin as typed."""
    return _within_limit(ctx, lambda session: _dropped(session, incomplete))


def _within_limit(ctx: typer.Context, candidates: Callable[[Session], list[str]]) -> list[str]:
    found: list[str] = []

    def look() -> None:
        # A shell that waits for completions has no place for an error of any kind.
        try:
            found.extend(candidates(_session(ctx)))
        except Exception:
            found.clear()

    # A store that does not answer must not hold the shell, so the thread is left behind.
    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(_SECONDS)
    return [] if thread.is_alive() else list(found)


def _session(ctx: typer.Context) -> Session:
    from lance_catalog.cli.command import GLOBALS
    from lance_catalog.cli.session import Session

    session = Session()
    session.quiet = True
    known = {option.name for option in GLOBALS}
    session.take({k: v for k, v in ctx.find_root().params.items() if k in known})
    after = {option.name for option in GLOBALS if option.anywhere}
    session.take({k: v for k, v in ctx.params.items() if k in after})
    # Warnings of the library end here too, in silence.
    assert session.output.quiet
    return session


def _children(session: Session, incomplete: str, *, tables: bool) -> list[str]:
    from lance_catalog.cli.reading import child_namespaces, child_tables, take

    delimiter = session.settings.delimiter
    typed = incomplete.split(delimiter)
    parent, begin = tuple(typed[:-1]), typed[-1]
    names = take(child_namespaces(session, parent), _MOST, None)[0]
    if tables:
        names = names + take(child_tables(session, parent), _MOST, None)[0]
    return [session.text((*parent, name)) for name in names if name.startswith(begin)]


def _dropped(session: Session, incomplete: str) -> list[str]:
    found = {session.text(table.id) for table in session.catalog.list_dropped_tables()}
    return sorted(text for text in found if text.startswith(incomplete))[:_MOST]
