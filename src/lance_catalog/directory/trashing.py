"""Rows in the trash for what only a marker hides: where two arbiters meet.

Such a row comes with a claim of its own, under which nobody ends the hiding by the row. Whoever
ends it by the marker claims, and looks for a row before and after; we wrote the row, and then look
at the marker and its claims. At least one sees the other. If it is us, the row goes again. For a
migration that dies before its look, whoever wants the table next looks.
"""

from __future__ import annotations

from dataclasses import replace

from lance_catalog.directory.context import Context
from lance_catalog.directory.marking import mark_v1
from lance_catalog.directory.registration import table_properties
from lance_catalog.errors import storage_errors
from lance_catalog.failpoints import hit
from lance_catalog.identifiers import encode
from lance_catalog.lifecycle import markers, trash
from lance_catalog.lifecycle.claims import Verb, new_claim
from lance_catalog.lifecycle.locations import SUFFIX, v1_name
from lance_catalog.lifecycle.states import Hidden, HiddenState, drop_id_prefix, new_drop_id
from lance_catalog.lifecycle.trash import TrashRow
from lance_catalog.manifest import Change, Snapshot
from lance_catalog.model import Entry, Kind, dump_metadata

__all__ = ["bring", "is_unsettled", "settle", "settle_all", "settle_first"]


def is_unsettled(row: TrashRow) -> bool:
    """Whether a migration brought a row, and nobody has looked yet whether it may stay."""
    return row.hidden.claim is not None and row.hidden.claim.verb is Verb.MIGRATE


def settle_first(ctx: Context, row: TrashRow | None) -> bool:
    """Settle a row that a migration left; whether there was need to: then look again."""
    if row is None or not is_unsettled(row):
        return False
    settle(ctx, row)
    return True


def settle_all(ctx: Context) -> list[str]:
    """Settle every row that a migration left; return the ids of those that stay."""
    left = [row for row in trash.rows(ctx.exact()) if is_unsettled(row)]
    return [row.object_id for row in left if settle(ctx, row)]


def bring(ctx: Context, name: str, *, dry_run: bool) -> bool:
    """Give what only a marker hides a row in the trash; whether there was something to bring."""
    place = name + SUFFIX
    with storage_errors(f"looking at '{name}'"):
        hidden = markers.read_with_claim(ctx.store, name, place)
        if hidden is None or not _can_come(ctx, hidden, place):
            return False
    if dry_run:
        return True
    properties = dump_metadata(table_properties(ctx, place))
    # A drop id begins with its table's digest, so that its rows are found.
    known = hidden.drop_id.startswith(drop_id_prefix(name))
    own = hidden if known else replace(hidden, drop_id=new_drop_id(name))
    own = own.claimed(new_claim(Verb.MIGRATE, ctx.clock()))
    entry = trash.hide(Entry(encode((name,)), Kind.TABLE.value, place, properties), own)

    def plan(view: Snapshot) -> tuple[Change, bool]:
        free = not view.at_location(place)
        return Change(add=(entry,) if free else ()), free

    if not ctx.commit(plan):
        return False  # Registered, or created over, by somebody else meanwhile.
    hit("migrate.trashed")
    return settle(ctx, TrashRow(entry, encode((name,)), own))


def _can_come(ctx: Context, hidden: Hidden, place: str) -> bool:
    """Whether a marker tells of a table that can still come back, and nobody is at it."""
    kept = hidden.state in (HiddenState.DROPPED, HiddenState.DEREGISTERED)
    return kept and hidden.claim is None and ctx.store.any_object(place)


def settle(ctx: Context, row: TrashRow) -> bool:
    """Look whether a row that a migration brought may stay, and free it; else take it back.

    Right at any time and by anybody: who claims the marker after the row is there finds the row.
    """
    place, key = row.entry.location or "", row.entry.object_id
    name = v1_name(place)
    assert name is not None
    with storage_errors(f"looking at '{name}'"):
        now = markers.read_with_claim(ctx.store, name, place)
        stays = now is not None and _can_come(ctx, now, place) and _is_same(row, now, name)

    def plan(view: Snapshot) -> tuple[Change, bool]:
        current = trash.get(view, key)
        if current is None or current.hidden.claim != row.hidden.claim:
            return Change(), False
        if not stays:
            return Change(remove=view.rows_of(key)), False
        freed = trash.reclaimed(current, None)
        return Change(view.rows_of(key), (freed.entry,), {key: current.entry}), True

    if not ctx.commit(plan):
        return False
    mark_v1(ctx, trash.reclaimed(row, None))
    return True


def _is_same(row: TrashRow, now: Hidden, name: str) -> bool:
    """Whether a marker still tells of the hiding that a row was made for."""
    foreign = not now.drop_id.startswith(drop_id_prefix(name))
    if now.drop_id != row.hidden.drop_id and not foreign:
        return False
    return (now.state, now.deleted_at_ms) == (row.hidden.state, row.hidden.deleted_at_ms)
