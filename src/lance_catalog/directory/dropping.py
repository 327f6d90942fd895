"""Dropping tables: one commit, or one marker, hides the table; its data stays (S03, R5)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lance_catalog.config import Mode
from lance_catalog.directory import protection, trashing
from lance_catalog.directory.context import Context
from lance_catalog.directory.layout import v1_directory
from lance_catalog.directory.listing import is_component, occupied
from lance_catalog.directory.managed.rows import leaving
from lance_catalog.directory.marking import mark_v1, require_unregistered, yield_to_rows
from lance_catalog.directory.registration import own_properties
from lance_catalog.directory.resolve import find_table, lookup, require_table
from lance_catalog.errors import (
    ConcurrentModificationError,
    TableNotFoundError,
    storage_errors,
)
from lance_catalog.identifiers import Identifier, encode, format_text, is_addressable
from lance_catalog.lifecycle import markers, purge, trash
from lance_catalog.lifecycle.claims import Verb, new_claim
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

__all__ = ["Drop", "answer", "drop", "finish", "new_hidden"]


@dataclass(frozen=True, slots=True)
class Drop:
    """How to drop: how long it can come back, or that it cannot, and against what."""

    ttl_ms: int | None
    purge: bool = False
    force: bool = False


def new_hidden(ctx: Context, object_id: str, how: Drop) -> Hidden:
    """Return a drop that begins now; one that purges is claimed for it in the same step."""
    now = ctx.clock()
    claim = new_claim(Verb.PURGE, now) if how.purge else None
    ttl = 0 if how.purge else how.ttl_ms
    return Hidden(new_drop_id(object_id), HiddenState.DROPPED, now, ttl, claim)


def answer(hidden: Hidden) -> dict[str, str]:
    """Return what drop_table answers in its properties (R13)."""
    found = {DROP_ID: hidden.drop_id}
    if hidden.expires_at_ms is not None:
        found[EXPIRES_AT] = str(hidden.expires_at_ms)
    return found


def drop(ctx: Context, names: Identifier, how: Drop) -> tuple[str, Hidden]:
    """Drop a table, also a deregistered one; return its place and the drop."""
    require_put_if_absent(ctx.store)
    if ctx.mode is Mode.V1:
        return _drop_directory(ctx, names, how)
    hidden = new_hidden(ctx, encode(names), how)
    what = f"dropping '{format_text(names)}'"

    def plan(view: Snapshot) -> tuple[Change, TrashRow | None]:
        live = lookup(view, names)
        if live is not None and live.is_table:
            purge.check_deletable(view, live, what)
            if not how.force:
                protection.refuse(live, names, "dropping", "table")
            row, gone = trash.take(view, live, hidden, leaving(ctx, view, live))
            return Change(gone, (row.entry,), {row.entry.object_id: live}), row
        if live is None and _by_directory(ctx, view, names):
            return Change(), None
        former = None
        if live is None and is_addressable(names):
            former = trash.find(view, encode(names), HiddenState.DEREGISTERED)
        if former is not None and trashing.is_unsettled(former):
            return Change(), former
        if former is not None:
            purge.check_deletable(view, former.entry, what)
            if not how.force:
                protection.refuse(former.entry, names, "dropping", "table")
            # The same hiding goes on, so its markers stay its own; only its end is decided.
            before = former.hidden
            own = replace(hidden, drop_id=before.drop_id, versions=before.versions)
            entry = trash.hide(trash.brought_back(former, former.object_id, {}), own)
            row = TrashRow(entry, former.object_id, own)
            return Change((former.entry,), (entry,), {entry.object_id: former.entry}), row
        require_table(ctx, view, names)
        raise TableNotFoundError(f"table '{format_text(names)}' does not exist")

    row = ctx.commit(plan)
    if row is None:
        return _drop_directory(ctx, names, how)
    if trashing.settle_first(ctx, row):
        return drop(ctx, names, how)
    finish(ctx, [row])
    return row.entry.location or "", row.hidden


def finish(ctx: Context, rows: list[TrashRow]) -> None:
    """Do what follows the commit that dropped tables: V1 markers, and the purge if it was told."""
    assert ctx.log is not None
    for row in rows:
        mark_v1(ctx, row)
        if row.hidden.is_purging:
            purge.purge_row(ctx.log, row, ctx.clock, lease_ms=ctx.lease_ms)


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
        return hidden is not None and hidden.state is HiddenState.DEREGISTERED


def _drop_directory(ctx: Context, names: Identifier, how: Drop) -> tuple[str, Hidden]:
    """Drop a table that only its directory tells of: the root-level marker is the commit point."""
    name = names[0]
    if not is_component(name):
        raise TableNotFoundError(f"table '{name}' does not exist")
    directory = v1_directory(name)
    hidden = new_hidden(ctx, name, how).claimed(None)
    with storage_errors(f"dropping '{name}'"):
        present = markers.read(ctx.store, name, directory)
        if present is None:
            require_table(ctx, ctx.view(), names)
        elif present.state is not HiddenState.DEREGISTERED:
            raise TableNotFoundError(f"table '{name}' was not found: {_why(present)}")
        elif not ctx.store.any_object(directory):
            raise TableNotFoundError(f"table '{name}' does not exist")
        if not how.force:
            protection.refuse(own_properties(ctx, directory), names, "dropping", "table")
        if how.purge:
            require_unregistered(ctx, directory)
        if present is not None:
            hidden = markers.turn_into_drop(
                ctx.store, name, directory, present, hidden, ctx.terms()
            )
        elif not markers.hide(ctx.store, name, directory, hidden):
            _lost_to(ctx, name, directory)
    yield_to_rows(ctx, name, directory, hidden)
    if how.purge:
        purge.purge_directory(
            ctx.store,
            name,
            directory,
            hidden,
            ctx.clock,
            terms=ctx.terms(),
            guard=lambda: require_unregistered(ctx, directory),
        )
    return directory, hidden


def _why(hidden: Hidden) -> str:
    if hidden.state is HiddenState.CREATING:
        return "it is still being created by somebody else"
    if hidden.state is HiddenState.UNREADABLE:
        return "its marker cannot be read; `lance-catalog check` reports it"
    return "it was dropped already; `lance-catalog trash list` shows what can be undropped"


def _lost_to(ctx: Context, name: str, directory: str) -> None:
    """Tell why another hiding was first: a deregistered table can still be dropped."""
    now = markers.read(ctx.store, name, directory)
    if now is None or now.state is not HiddenState.DEREGISTERED:
        raise TableNotFoundError(f"table '{name}' was dropped by somebody else just now")
    raise ConcurrentModificationError(
        f"table '{name}' was deregistered by somebody else just now; retry to drop it"
    )
