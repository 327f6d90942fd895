"""What dropping a table would do: asked before, changing nothing; and how a drop is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lance_catalog.cli.failures import usage
from lance_catalog.cli.moments import iso, spoken
from lance_catalog.config import Mode, parse_duration_ms
from lance_catalog.directory import protection
from lance_catalog.directory.dropping import Drop
from lance_catalog.directory.listing import is_component
from lance_catalog.directory.registration import own_properties
from lance_catalog.directory.resolve import find_table, lookup, require_table, table_id
from lance_catalog.errors import storage_errors
from lance_catalog.identifiers import decode, encode, is_addressable
from lance_catalog.lifecycle import markers, trash
from lance_catalog.lifecycle.deleting import measure
from lance_catalog.lifecycle.locations import SUFFIX
from lance_catalog.lifecycle.purge import check_deletable
from lance_catalog.lifecycle.states import HiddenState

if TYPE_CHECKING:
    from lance_catalog.cli.session import Session
    from lance_catalog.directory.context import Context
    from lance_catalog.identifiers import Identifier
    from lance_catalog.lifecycle.trash import TrashRow
    from lance_catalog.model import Entry

__all__ = ["asked_drop", "drop_fields", "drop_step", "dropped_below", "until"]


def asked_drop(session: Session, ttl: str | None, purge: bool | None, force: bool) -> Drop:
    """Return how to drop: the options, else the settings. A time to live means the trash."""
    if ttl is not None and purge:
        raise usage("--ttl and --purge exclude each other: what is purged cannot come back")
    if ttl is not None:
        return Drop(parse_duration_ms("--ttl", ttl), False, force)
    settings = session.context.settings
    return Drop(settings.drop_ttl_ms, settings.drop_purges if purge is None else purge, force)


def until(expires_at_ms: int | None) -> str:
    """Return until when a dropped table can come back, for a sentence."""
    if expires_at_ms is None:
        return "until it is purged; it never expires"
    return f"until {spoken(expires_at_ms)}"


def drop_fields(drop_id: str | None, expires_at_ms: int | None, how: Drop) -> dict[str, Any]:
    """Return what programs are told of a drop."""
    return {
        "purged": how.purge,
        "drop_id": drop_id,
        "expires_at": None if how.purge else iso(expires_at_ms),
    }


def drop_step(ctx: Context, names: Identifier, how: Drop) -> tuple[str, str]:
    """Return (what would be done, what becomes of the data); raise what the drop itself would."""
    table_id(ctx, list(names), "drop_table")
    view = ctx.view()
    action, hidden = "drop table", None
    entry = lookup(view, names) if ctx.mode is not Mode.V1 else None
    if entry is None and find_table(ctx, view, names) is None:
        hidden, entry = _deregistered(ctx, names)
        if hidden is not None:
            action = "drop deregistered table"
    if entry is not None and entry.is_table:
        place = check_deletable(view, entry, f"dropping '{names[-1]}'")
    else:
        place = hidden or require_table(ctx, view, names).location
    if not how.force:
        guard = entry if entry is not None else own_properties(ctx, place)
        protection.refuse(guard, names, "dropping", "table")
    return action, _fate(ctx, place, how)


def _deregistered(ctx: Context, names: Identifier) -> tuple[str | None, Entry | None]:
    """Return the place of a table that was deregistered, and its row if it has one."""
    if ctx.mode is not Mode.V1 and is_addressable(names):
        former = trash.find(ctx.view(), encode(names), HiddenState.DEREGISTERED)
        if former is not None:
            return former.entry.location, former.entry
    if ctx.mode is Mode.V2 or len(names) > 1 or not is_component(names[0]):
        return None, None
    place = names[0] + SUFFIX
    with storage_errors(f"looking at {place}"):
        marked = markers.read(ctx.store, names[0], place)
        deregistered = marked is not None and marked.state is HiddenState.DEREGISTERED
        if not deregistered or not ctx.store.any_object(place):
            return None, None
    return place, None


def _fate(ctx: Context, place: str, how: Drop) -> str:
    uri = ctx.store.uri_of(place)
    if not how.purge:
        expires = None if how.ttl_ms is None else ctx.clock() + how.ttl_ms
        return f"moves to the trash and keeps {uri}; can be undropped {until(expires)}"
    with storage_errors(f"listing {place}"):
        size = measure(ctx.store, place)
    return f"deletes {uri}: {size.objects} files, {size.bytes} bytes"


def dropped_below(ctx: Context, names: Identifier) -> dict[str, TrashRow]:
    """Return the dropped tables below a namespace by their drop ids, as the manifest has them."""
    return {
        row.hidden.drop_id: row
        for row in trash.rows(ctx.exact())
        if row.hidden.state is HiddenState.DROPPED and decode(row.object_id)[: len(names)] == names
    }
