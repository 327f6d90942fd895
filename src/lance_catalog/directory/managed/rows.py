"""What becomes of version rows when their table comes, goes or is renamed: in the same commit.

Storage holds the manifests, so a table that leaves takes its rows out of the registry, and one
that comes (back) brings those of the manifests it has. So no id ever has rows of something else.
"""

from __future__ import annotations

from dataclasses import replace

from lance_catalog.directory.context import Context
from lance_catalog.directory.managed.adoption import from_files
from lance_catalog.directory.managed.target import Target
from lance_catalog.errors import storage_errors
from lance_catalog.identifiers import DELIMITER
from lance_catalog.lifecycle.locations import normalise
from lance_catalog.manifest import Snapshot
from lance_catalog.model import Entry
from lance_catalog.versions import registry

__all__ = ["arriving", "leaving", "renamed"]


def leaving(ctx: Context, view: Snapshot, entry: Entry) -> tuple[Entry, ...]:
    """Return the version rows that go with a table's row."""
    if ctx.log is None or not registry.is_managed(view.table_metadata):
        return ()
    return tuple(registry.all_rows(ctx.log, view, entry.object_id))


def arriving(ctx: Context, view: Snapshot, entry: Entry) -> tuple[Entry, ...]:
    """Return the version rows that come with a table's row: of the manifests at its place."""
    place = normalise(entry.location)
    if ctx.log is None or place is None or not registry.is_managed(view.table_metadata):
        return ()
    with storage_errors(f"looking for the versions of '{entry.object_id}'"):
        return from_files(Target(ctx, view, entry, place))


def renamed(
    ctx: Context, view: Snapshot, entry: Entry, new_key: str
) -> tuple[tuple[Entry, ...], tuple[Entry, ...]]:
    """Return (rows that go, rows that come) when a table gets another id."""
    old = leaving(ctx, view, entry)
    new = tuple(
        replace(
            row,
            object_id=DELIMITER.join((new_key, row.object_id.rpartition(DELIMITER)[2])),
            address=-1,
        )
        for row in old
    )
    return old, new
