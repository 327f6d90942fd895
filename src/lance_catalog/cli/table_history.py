"""``table history``: the versions of a table, and what became of it in the catalog."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from lance_catalog.cli.command import command
from lance_catalog.cli.log import Since, told
from lance_catalog.cli.moments import exact
from lance_catalog.cli.options import TableId
from lance_catalog.cli.results import Listing, Result
from lance_catalog.cli.session import Session

if TYPE_CHECKING:
    from lance_namespace import TableVersion

    from lance_catalog import CatalogChange
    from lance_catalog.identifiers import Identifier

__all__ = ["add_to"]

_SHOWN: Final = 20


def add_to(app: typer.Typer) -> None:
    """Register the command with its noun."""
    command(app, "history")(history)


def history(
    session: Session,
    id: TableId,
    limit: Annotated[
        int,
        typer.Option("--limit", min=1, metavar="N", help="How many versions, the latest first."),
    ] = _SHOWN,
    everything: Annotated[bool, typer.Option("--all", help="Every version.")] = False,
    since: Since = None,
) -> Result:
    """Show the versions of a table and what became of it in the catalog, the latest first.

    What Lance did for each version and the rows it has cost a look each. The catalog tells of
    itself as far back as manifest_retention keeps its old versions; not in V1.
    """
    names = session.parse_table(id)
    answer = session.catalog.list_table_versions(
        {"id": list(names), "limit": None if everything else limit}
    )
    changes: list[CatalogChange] = []
    if session.context.log is not None:
        changes = list(_of_the_table(session.catalog.history(since), names))
    events = [*_versions(session, names, answer.versions, changes), *_events(session, changes)]
    # Within a millisecond the catalog's change comes after the version it is about.
    events.sort(key=lambda event: (event[0], event[1]["catalog_version"] or 0), reverse=True)
    keys = ("at", "event", "version", "rows", "who", "detail")
    note = None
    if answer.page_token is not None:
        note = "note: there are more versions; --all shows them"
    return Listing(
        rows=[row for _, row in events],
        columns=keys,
        titles=("when", "event", "version", "rows", "who", "detail"),
        plain=keys,
        note=note,
    )


def _of_the_table(changes: list[CatalogChange], names: Identifier) -> Iterator[CatalogChange]:
    """Yield what became of a table, latest first: under its former ids too, up to its creation."""
    for change in reversed(changes):
        if change.id != names or change.kind != "table":
            continue
        yield change
        if change.action == "created":
            return  # Whatever had the name before was another table.
        names = change.former or names


def _events(session: Session, changes: list[CatalogChange]) -> Iterator[tuple[int, dict[str, Any]]]:
    for change in changes:
        if change.action != "committed":
            detail = told(session, change)
            row = _row(change.timestamp_ms, change.action, change.version, change.who, detail)
            yield change.timestamp_ms, row


def _versions(
    session: Session,
    names: Identifier,
    versions: list[TableVersion],
    changes: list[CatalogChange],
) -> Iterator[tuple[int, dict[str, Any]]]:
    if not versions:
        return
    committed = {
        number: change
        for change in changes
        if change.action == "committed"
        for first, last in change.versions
        for number in range(first, last + 1)
    }
    dataset = session.catalog.snapshot().open_table(names)
    with session.output.progress("looking at versions") as progress:
        for count, version in enumerate(versions, 1):
            number, at = version.version, version.timestamp_millis or 0
            commit = committed.get(number)
            who, of_catalog = (None, None) if commit is None else (commit.who, commit.version)
            row = _row(at, "version", of_catalog, who, _operation(dataset, number) or "")
            yield at, {**row, "version": number, "rows": _count(dataset, number)}
            progress(count, len(versions))


def _row(
    at_ms: int, event: str, catalog_version: int | None, who: str | None, detail: str
) -> dict[str, Any]:
    return {
        "at": exact(at_ms),
        "event": event,
        "version": None,
        "rows": None,
        "catalog_version": catalog_version,
        "who": who,
        "detail": detail,
    }


def _operation(dataset: Any, version: int) -> str | None:
    """Return what Lance did; None when the file that tells it is gone."""
    try:
        transaction = dataset.read_transaction(version)
    except (OSError, ValueError):
        return None
    except TypeError:
        # pylance 14.0.2 cannot build the Python form of a compaction that rewrote an index.
        return "Rewrite"
    return None if transaction is None else type(transaction.operation).__name__


def _count(dataset: Any, version: int) -> int | None:
    """Return how many rows a version has, as its manifest tells; None when that is gone."""
    try:
        told = dataset.checkout_version(version).get_version()["metadata"].get("total_rows")
    except (OSError, ValueError):
        return None
    return None if told is None else int(told)
