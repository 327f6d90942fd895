"""``log`` and ``diff``: what changed in the catalog, when and by whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lance_catalog.cli.command import command
from lance_catalog.cli.completion import complete_object
from lance_catalog.cli.moments import exact
from lance_catalog.cli.results import Listing, Result
from lance_catalog.cli.session import Session

if TYPE_CHECKING:
    from lance_catalog import CatalogChange

__all__ = ["add_to", "told"]

Since = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="POINT",
        help="Only what came after: a version of the catalog, or a time as 2026-11-15T12:00:00; "
        "default the oldest point there is.",
        show_default=False,
    ),
]
Until = Annotated[
    str | None,
    typer.Option(
        "--until",
        metavar="POINT",
        help="Only what was there by then; default now.",
        show_default=False,
    ),
]
OfTable = Annotated[
    str | None,
    typer.Option(
        "--table",
        metavar="ID",
        help="Only what became of this id.",
        autocompletion=complete_object,
        show_default=False,
    ),
]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    command(app, "log")(log)
    command(app, "diff")(diff)


def log(
    session: Session, since: Since = None, until: Until = None, table: OfTable = None
) -> Result:
    """List the changes of the catalog: when, by whom, what; oldest first.

    As far back as manifest_retention keeps old versions.
    """
    names = None if table is None else session.parse_table(table)
    found = session.catalog.history(since, until)
    if names is not None:
        found = [one for one in found if names in (one.id, one.former)]
    keys = ("version", "at", "who", "action", "kind", "text", "detail")
    return Listing(
        rows=[_row(session, one) for one in found],
        columns=keys,
        titles=("version", "when", "who", "action", "kind", "id", "detail"),
        plain=keys,
        note=None if found else session.remark("no changes"),
    )


def diff(
    session: Session,
    one: Annotated[str, typer.Argument(metavar="A", help="A version of the catalog, or a time.")],
    other: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
) -> Result:
    """Show what is different at point B from point A, as if it had been one change."""
    found = session.catalog.diff(one, other)
    rows = []
    for change in found:
        row = _row(session, change)
        # Of a difference nobody can say when it came about, or by whom.
        rows.append({key: row[key] for key in row if key not in ("version", "at", "who")})
    keys = ("action", "kind", "text", "detail")
    return Listing(
        rows=rows,
        columns=keys,
        titles=("action", "kind", "id", "detail"),
        plain=keys,
        note=None if rows else session.remark("no difference"),
    )


def _row(session: Session, change: CatalogChange) -> dict[str, Any]:
    return {
        "version": change.version,
        "at": exact(change.timestamp_ms),
        "who": change.who,
        "action": change.action,
        "kind": change.kind,
        **session.row(change.id),
        "from": None if change.former is None else list(change.former),
        "detail": told(session, change),
    }


def told(session: Session, change: CatalogChange) -> str:
    """Return what there is to say beside the action, ids as they are typed here."""
    if change.former is None:
        return change.detail
    was = f"was {session.text(change.former)}"
    return f"{was}, {change.detail}" if change.detail else was
