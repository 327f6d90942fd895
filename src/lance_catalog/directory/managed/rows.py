"""What becomes of version rows when their table comes, goes or is renamed: in the same commit.

Storage holds the manifests, so a table that leaves takes its rows out of the registry, and one
that comes (back) brings those of the manifests it has. So no id ever has rows of something else.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace

from lance_catalog.directory.context import Context
from lance_catalog.directory.managed.adoption import from_files
from lance_catalog.directory.managed.target import Target
from lance_catalog.errors import (
    ConcurrentModificationError,
    InvalidTableStateError,
    storage_errors,
)
from lance_catalog.identifiers import DELIMITER
from lance_catalog.lifecycle.locations import normalise
from lance_catalog.lifecycle.spans import Spans
from lance_catalog.manifest import Change, Snapshot
from lance_catalog.model import Entry
from lance_catalog.versions import registry

__all__ = ["arriving", "forgetting", "leaving", "renamed"]


def leaving(ctx: Context, view: Snapshot, entry: Entry) -> tuple[Entry, ...]:
    """Return the version rows that go with a table's row."""
    if ctx.log is None or not registry.keeps_rows(view.table_metadata):
        return ()
    rows = tuple(registry.all_rows(ctx.log, view, entry.object_id))
    if any(row.address < 0 for row in rows):
        # Its rows would never be: if the writer died, nobody could end what it committed.
        raise ConcurrentModificationError(
            f"a version of '{entry.object_id}' is being committed at this very moment; retry. (A "
            "batch cannot write a version of a table that it deregisters.)"
        )
    _finish_last(ctx, view, entry, rows)
    return rows


def _finish_last(ctx: Context, view: Snapshot, entry: Entry, rows: Sequence[Entry]) -> None:
    """Put the last version in place if its committer died: without its row nobody would.

    Harmless whether or not the change lands: what is registered is committed.
    """
    place = normalise(entry.location)
    known = [one for row in rows if (one := registry.parse(row)) is not None]
    if place is not None and known:
        last = max(known, key=lambda one: one.version)
        # Nowhere: then there is nothing to keep, and the table may go all the same.
        with contextlib.suppress(InvalidTableStateError), storage_errors(f"leaving {place}"):
            Target(ctx, view, entry, place).put_in_place(last)


def arriving(
    ctx: Context, view: Snapshot, entry: Entry, known: str | None = None
) -> tuple[Entry, ...]:
    """Return the version rows that come with a table's row: of the manifests at its place.

    ``known``: those that it had when it left, and what came on top; any other was deleted before.
    """
    place = normalise(entry.location)
    if ctx.log is None or place is None or not registry.keeps_rows(view.table_metadata):
        return ()
    with storage_errors(f"looking for the versions of '{entry.object_id}'"):
        kept = None if known is None else Spans.parse(known)
        return from_files(Target(ctx, view, entry, place), kept)


def forgetting(view: Snapshot, table: str, rows: Sequence[Entry]) -> Change:
    """Return the change that takes out version rows, the highest among them.

    Its number is free again, and every process has it in memory: the table's own row is written
    again, which tells them to look it up.
    """
    own = view.get(table)
    if own is None or not rows:
        return Change(remove=tuple(rows))
    fresh = replace(own, address=-1)
    return Change((*rows, own), (fresh,), {fresh.object_id: own})


def renamed(
    ctx: Context, view: Snapshot, entry: Entry, new_key: str
) -> tuple[tuple[Entry, ...], tuple[Entry, ...]]:
    """Return (rows that go, rows that come) when a table gets another id."""
    old: tuple[Entry, ...] = ()
    if ctx.log is not None and registry.keeps_rows(view.table_metadata):
        old = tuple(registry.all_rows(ctx.log, view, entry.object_id))
    new = tuple(
        replace(
            row,
            object_id=DELIMITER.join((new_key, row.object_id.rpartition(DELIMITER)[2])),
            address=-1,
        )
        for row in old
    )
    return old, new
