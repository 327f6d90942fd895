"""Moving one table to its V2 path, offline (R8). The only operation that moves table data.

A writer that has the table open while it moves would go on in the old place, where nobody looks
any more: so people are warned, and the move is given up when the table changed meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lance_catalog.config import Mode
from lance_catalog.directory.context import Context
from lance_catalog.directory.dropping import Drop, finish, new_hidden
from lance_catalog.directory.layout import fresh_directory
from lance_catalog.directory.resolve import require_table
from lance_catalog.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    UnsupportedOperationError,
    storage_errors,
)
from lance_catalog.identifiers import Identifier, encode, format_text
from lance_catalog.lifecycle import trash
from lance_catalog.lifecycle.locations import v1_name
from lance_catalog.lifecycle.purge import check_deletable
from lance_catalog.lifecycle.trash import TrashRow
from lance_catalog.manifest import Change, Snapshot
from lance_catalog.model import Entry, Kind
from lance_catalog.storage.port import Progress

__all__ = ["Relocation", "plan_relocation", "relocate"]


@dataclass(frozen=True, slots=True)
class Relocation:
    """One move: what, from where, to where, and how much."""

    names: Identifier
    source: str
    target: str
    objects: int
    size: int


def plan_relocation(ctx: Context, names: Identifier) -> Relocation:
    """Return what a move would do; 13 when the table is at a V2 path already."""
    if ctx.mode is Mode.V1:
        raise UnsupportedOperationError(
            "relocate: V1 (manifest_enabled=false) knows a table by its directory only"
        )
    found = require_table(ctx, ctx.view(), names)
    if v1_name(found.location) is None:
        raise InvalidInputError(
            f"table '{format_text(names)}' lies at {found.location}, a V2 path already"
        )
    with storage_errors(f"listing {found.location}"):
        files = list(ctx.store.list_tree(found.location))
    return Relocation(
        names,
        found.location,
        fresh_directory(names),
        len(files),
        sum(info.size for info in files),
    )


def relocate(ctx: Context, move: Relocation, progress: Progress | None = None) -> str:
    """Copy the table, point its row at the copy in one commit, purge the old place.

    Until the commit nothing has changed; a crash leaves a directory nobody names.
    """
    before = _state(ctx, move.source)
    with storage_errors(f"copying {move.source}"):
        copied = size = 0
        for path, (length, _) in before.items():
            ctx.store.copy(path, move.target + path[len(move.source) :])
            copied, size = copied + 1, size + length
            if progress is not None:
                progress(copied, size)
    hidden = new_hidden(ctx, encode(move.names), Drop(0, purge=True))

    def plan(view: Snapshot) -> tuple[Change, TrashRow]:
        found = require_table(ctx, view, move.names)
        if found.location != move.source or _state(ctx, move.source) != before:
            raise ConcurrentModificationError(
                f"table '{format_text(move.names)}' changed while it was copied; the copy is "
                "removed and the table is where it was. Stop its writers and try again."
            )
        old = found.entry or Entry(encode(move.names), Kind.TABLE.value, move.source)
        row = replace(old, location=move.target, address=-1)
        former = trash.hide(old, hidden)
        if found.entry is not None:
            check_deletable(view, old, f"relocating '{format_text(move.names)}'")
        change = Change(
            view.rows_of(old.object_id),
            (row, former),
            {} if found.entry is None else {row.object_id: old, former.object_id: old},
        )
        return change, TrashRow(former, old.object_id, hidden)

    try:
        former = ctx.commit(plan)
    except ConcurrentModificationError:
        ctx.store.delete_tree(move.target)
        raise
    finish(ctx, [former])
    return move.target


def _state(ctx: Context, place: str) -> dict[str, tuple[int, str | None]]:
    """Return what lies at a place, so that any change shows."""
    with storage_errors(f"listing {place}"):
        return {info.path: (info.size, info.e_tag) for info in ctx.store.list_tree(place)}
