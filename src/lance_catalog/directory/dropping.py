"""Dropping tables: one commit hides the table, then the one purge function deletes (I25, R5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lance_catalog.config import Mode
from lance_catalog.directory.context import Context
from lance_catalog.directory.layout import v1_directory
from lance_catalog.directory.listing import is_component, occupied
from lance_catalog.directory.registration import mark_v1, yield_to_rows
from lance_catalog.directory.resolve import find_table, lookup, require_table
from lance_catalog.errors import ConcurrentModificationError, TableNotFoundError, storage_errors
from lance_catalog.identifiers import Identifier, encode, format_text, is_addressable
from lance_catalog.lifecycle import markers, purge, trash
from lance_catalog.lifecycle.states import (
    DROP_ID,
    EXPIRES_AT,
    Hidden,
    HiddenState,
    new_drop_id,
)
from lance_catalog.lifecycle.trash import TrashRow
from lance_catalog.manifest import Change, Snapshot
from lance_catalog.storage.capabilities import require_put_if_absent

__all__ = ["drop", "new_hidden", "purge_rows"]


def new_hidden(ctx: Context) -> Hidden:
    """Return a hiding that begins now and ends in deletion at once."""
    return Hidden(new_drop_id(), HiddenState.PURGING, ctx.clock(), ttl_ms=0)


def answer(hidden: Hidden) -> dict[str, str]:
    """Return what drop_table answers in its properties (R13)."""
    expires = hidden.deleted_at_ms + (hidden.ttl_ms or 0)
    return {DROP_ID: hidden.drop_id, EXPIRES_AT: str(expires)}


def drop(ctx: Context, names: Identifier) -> tuple[str, Hidden]:
    """Drop a table, also a deregistered one; return its place and the drop."""
    require_put_if_absent(ctx.store)
    hidden = new_hidden(ctx)
    if ctx.mode is Mode.V1:
        return _drop_directory(ctx, names, hidden)

    def plan(view: Snapshot) -> tuple[Change, TrashRow | None]:
        what = f"dropping '{format_text(names)}'"
        live = lookup(view, names)
        if live is not None and live.is_table:
            purge.check_deletable(view, live, what)
            row, remove = trash.take(view, live, hidden)
            return Change(remove, (row.entry,), {row.entry.object_id: live}), row
        if live is None and _by_directory(ctx, view, names):
            return Change(), None
        former = trash.find(view, encode(names)) if is_addressable(names) else None
        if live is None and former is not None and not purge.is_purging(former.hidden):
            purge.check_deletable(view, former.entry, what)
            # The same hiding goes on, so its markers stay its own; only its end is decided.
            own = replace(hidden, drop_id=former.hidden.drop_id)
            entry = trash.hide(trash.brought_back(former, former.object_id, {}), own)
            row = TrashRow(entry, former.object_id, own)
            return Change((former.entry,), (entry,), {entry.object_id: former.entry}), row
        require_table(ctx, view, names)
        raise TableNotFoundError(f"table '{format_text(names)}' does not exist")

    row = ctx.commit(plan)
    if row is None:
        return _drop_directory(ctx, names, hidden)
    purge_rows(ctx, [row])
    return row.entry.location or "", row.hidden


def _by_directory(ctx: Context, view: Snapshot, names: Identifier) -> bool:
    """Whether only a directory tells of the table, visible or deregistered by a marker."""
    if find_table(ctx, view, names) is not None:
        return True
    if ctx.mode is not Mode.COMPAT or len(names) > 1 or not is_component(names[0]):
        return False
    directory = v1_directory(names[0])
    if view.at_location(directory) or not occupied(ctx.store, directory):
        return False
    with storage_errors(f"looking at '{names[0]}'"):
        hidden = markers.read(ctx.store, names[0], directory)
        return hidden is not None and hidden.state is not HiddenState.CREATING


def purge_rows(ctx: Context, rows: Sequence[TrashRow]) -> None:
    """Delete the data of tables that a commit has hidden for good."""
    assert ctx.log is not None
    for row in rows:
        mark_v1(ctx, row.entry.location or "", row.hidden)
        purge.purge_row(ctx.log, row)


def _drop_directory(ctx: Context, names: Identifier, hidden: Hidden) -> tuple[str, Hidden]:
    """Drop a table that only its directory tells of: the root-level marker is the commit point."""
    name = names[0]
    if not is_component(name):
        raise TableNotFoundError(f"table '{name}' does not exist")
    directory = v1_directory(name)
    with storage_errors(f"dropping '{name}'"):
        present = markers.read(ctx.store, name, directory)
        if present is not None and present.state is HiddenState.CREATING:
            raise TableNotFoundError(f"table '{name}' is still being created by somebody else")
        if present is not None and purge.is_purging(present):
            raise TableNotFoundError(
                f"table '{name}' was dropped already; `lance-catalog repair` finishes the deletion"
            )
        rooted = ctx.store.head(markers.marker_path(name)) is not None
        if present is None or not rooted:
            if present is None:
                require_table(ctx, ctx.view(), names)
            elif not ctx.store.any_object(directory):
                raise TableNotFoundError(f"table '{name}' does not exist")
            if not markers.hide(ctx.store, name, directory, hidden):
                _lost_to(ctx, name, directory)
            present = hidden
    yield_to_rows(ctx, name, directory, present)
    purge.purge_directory(ctx.store, name, directory, present)
    return directory, present


def _lost_to(ctx: Context, name: str, directory: str) -> None:
    """Tell why another hiding was first: a deregistered table can still be dropped."""
    now = markers.read(ctx.store, name, directory)
    if now is None or purge.is_purging(now):
        raise TableNotFoundError(f"table '{name}' was dropped by somebody else just now")
    raise ConcurrentModificationError(
        f"table '{name}' was deregistered by somebody else just now; retry to drop it"
    )
