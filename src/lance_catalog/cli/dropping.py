"""What dropping a table would delete: asked before, changing nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_catalog.config import Mode
from lance_catalog.directory.resolve import find_table, require_table, table_id
from lance_catalog.errors import storage_errors
from lance_catalog.identifiers import encode
from lance_catalog.lifecycle import markers, trash
from lance_catalog.lifecycle.locations import SUFFIX
from lance_catalog.lifecycle.purge import check_deletable
from lance_catalog.lifecycle.states import HiddenState

if TYPE_CHECKING:
    from lance_catalog.directory.context import Context
    from lance_catalog.identifiers import Identifier

__all__ = ["drop_step"]


def drop_step(ctx: Context, names: Identifier) -> tuple[str, str]:
    """Return (what would be done, what would be deleted); raise what the drop itself would."""
    table_id(ctx, list(names), "drop_table")
    view = ctx.view()
    row = view.get(encode(names)) if ctx.mode is not Mode.V1 else None
    if row is not None and row.is_table:
        return "drop table", _contents(ctx, check_deletable(view, row, f"dropping '{names[-1]}'"))
    hidden = _hidden_place(ctx, names) if row is None else None
    if hidden is not None and find_table(ctx, view, names) is None:
        return "drop deregistered table", _contents(ctx, hidden)
    return "drop table", _contents(ctx, require_table(ctx, view, names).location)


def _hidden_place(ctx: Context, names: Identifier) -> str | None:
    """Return the place of a table that was deregistered, if it was."""
    if ctx.mode is not Mode.V1:
        former = trash.find(ctx.view(), encode(names), HiddenState.DEREGISTERED)
        if former is not None:
            return check_deletable(ctx.view(), former.entry, f"dropping '{names[-1]}'")
    if ctx.mode is Mode.V2 or len(names) > 1:
        return None
    place = names[0] + SUFFIX
    with storage_errors(f"looking at {place}"):
        marked = markers.read(ctx.store, names[0], place)
        deregistered = marked is not None and marked.state is HiddenState.DEREGISTERED
        if not deregistered or not ctx.store.any_object(place):
            return None
    return place


def _contents(ctx: Context, place: str) -> str:
    with storage_errors(f"listing {place}"):
        sizes = [info.size for info in ctx.store.list_tree(place)]
    return f"deletes {ctx.store.uri_of(place)}: {len(sizes)} files, {sum(sizes)} bytes"
