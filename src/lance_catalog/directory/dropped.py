"""What is in the trash: every dropped table, by rows and by markers, as one list (S05, S06)."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lance_catalog.config import Mode
from lance_catalog.directory import listing
from lance_catalog.directory.context import Context
from lance_catalog.directory.protection import is_protected
from lance_catalog.directory.resolve import find_table
from lance_catalog.errors import InvalidTableStateError, TableNotFoundError, storage_errors
from lance_catalog.identifiers import Identifier, decode, encode, format_text, is_addressable
from lance_catalog.lifecycle import markers, trash
from lance_catalog.lifecycle.locations import SUFFIX
from lance_catalog.lifecycle.states import Hidden, HiddenState
from lance_catalog.lifecycle.trash import TrashRow
from lance_catalog.manifest import Snapshot

__all__ = [
    "DroppedTable",
    "Found",
    "TableState",
    "TableStatus",
    "drops",
    "find",
    "require",
    "status",
]


_PARALLEL: Final = 16


class TableState(StrEnum):
    """Whether a table is there (S06); a purged one is not found, as one that never was."""

    EXISTS = "exists"
    SOFT_DELETED = "soft-deleted"
    NOT_FOUND = "not-found"


@dataclass(frozen=True, slots=True)
class TableStatus:
    """Answer of ``table_status``: the times, in milliseconds, are of a soft-deleted table."""

    state: TableState
    deleted_at_ms: int | None = None
    #: None: never purged by itself.
    expires_at_ms: int | None = None
    drop_id: str | None = None
    #: Its deletion has begun: it cannot come back any more.
    purging: bool = False


@dataclass(frozen=True, slots=True)
class DroppedTable:
    """A table in the trash: which drop of which id, where its data is, and until when."""

    id: Identifier
    drop_id: str
    location: str
    deleted_at_ms: int
    #: None: never purged by itself.
    expires_at_ms: int | None
    #: Its deletion has begun: it cannot come back any more.
    purging: bool = False
    protected: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """A dropped table as the code sees it: with its row, or hidden by a marker alone."""

    names: Identifier
    location: str
    hidden: Hidden
    row: TrashRow | None = None

    def told(self) -> DroppedTable:
        """Return it as users see it."""
        return DroppedTable(
            self.names,
            self.hidden.drop_id,
            self.location,
            self.hidden.deleted_at_ms,
            self.hidden.expires_at_ms,
            self.hidden.is_purging,
            self.row is not None and _protects(self.row),
        )


def _protects(row: TrashRow) -> bool:
    try:
        return is_protected(row.entry.properties())
    except InvalidTableStateError:
        return False


def drops(ctx: Context, view: Snapshot | None = None) -> Iterator[Found]:
    """Yield every dropped table, by id and then the latest first."""
    view = ctx.exact() if view is None else view
    found = [_of_row(row) for row in trash.rows(view) if _is_dropped(row)]
    if ctx.mode is not Mode.V2:
        found += _marked(ctx, view)
    yield from sorted(found, key=lambda one: (one.names, -one.hidden.deleted_at_ms))


def _is_dropped(row: TrashRow) -> bool:
    return row.hidden.state is HiddenState.DROPPED


def _of_row(row: TrashRow) -> Found:
    return Found(decode(row.object_id), row.entry.location or "", row.hidden, row)


def _marked(ctx: Context, view: Snapshot) -> Iterator[Found]:
    """Yield what only a marker hides; a directory that a row names is the row's to tell of."""
    names = [n for n in listing.marked_names(ctx.store) if not view.at_location(n + SUFFIX)]
    if ctx.store.remote and len(names) > 1:
        # Each costs requests: several at a time.
        with ThreadPoolExecutor(_PARALLEL) as pool:
            looked = list(pool.map(lambda name: _by_marker(ctx, name), names))
    else:
        looked = [_by_marker(ctx, name) for name in names]
    yield from (found for found in looked if found is not None)


def _by_marker(ctx: Context, name: str) -> Found | None:
    place = name + SUFFIX
    with storage_errors(f"looking at {place}"):
        hidden = markers.read_with_claim(ctx.store, name, place)
        if hidden is None or hidden.state is not HiddenState.DROPPED:
            return None
        # Being deleted, its directory may be gone already; else a marker alone brings nothing back.
        if not hidden.is_purging and not ctx.store.any_object(place):
            return None
    return Found((name,), place, hidden)


def find(
    ctx: Context, view: Snapshot, names: Identifier, drop_id: str | None = None
) -> list[Found]:
    """Return the drops of an id, the latest first; costs what there is of that id."""
    found: list[Found] = []
    if ctx.mode is not Mode.V1 and is_addressable(names):
        found = [_of_row(row) for row in trash.drops_of(view, encode(names)) if _is_dropped(row)]
    if ctx.mode is not Mode.V2 and len(names) == 1 and listing.is_component(names[0]):
        place = names[0] + SUFFIX
        marked = None if view.at_location(place) else _by_marker(ctx, names[0])
        found += [] if marked is None else [marked]
    found.sort(key=lambda one: -one.hidden.deleted_at_ms)
    return [one for one in found if drop_id is None or one.hidden.drop_id == drop_id]


def require(ctx: Context, view: Snapshot, names: Identifier, drop_id: str | None) -> Found:
    """Return the latest drop of an id, or the one that was asked for; 4 when there is none."""
    found = find(ctx, view, names, drop_id)
    if found:
        return found[0]
    text = format_text(names)
    which = "" if drop_id is None else f" with the drop id {drop_id}"
    why = _other_state(ctx, view, names) or "`lance-catalog trash list` shows what is"
    raise TableNotFoundError(f"table '{text}'{which} is not in the trash; {why}")


def _other_state(ctx: Context, view: Snapshot, names: Identifier) -> str | None:
    """Say how a table is hidden that was not dropped, and what brings it back."""
    deregistered = "it is deregistered: register_table brings it back, drop_table drops it"
    stored = ctx.mode is not Mode.V1 and is_addressable(names)
    if stored and trash.find(view, encode(names), HiddenState.DEREGISTERED) is not None:
        return deregistered
    if ctx.mode is Mode.V2 or len(names) > 1 or not listing.is_component(names[0]):
        return None
    with storage_errors(f"looking at '{names[0]}'"):
        hidden = markers.read(ctx.store, names[0], names[0] + SUFFIX)
    if hidden is None or hidden.state is HiddenState.DROPPED:
        return None
    if hidden.state is HiddenState.DEREGISTERED:
        return deregistered
    return f"its marker {names[0]}{markers.SUFFIX} says '{hidden.state.value}'"


def status(ctx: Context, names: Identifier) -> TableStatus:
    """Tell whether a table exists, waits in the trash, or neither."""
    view = ctx.view()
    if find_table(ctx, view, names) is not None:
        return TableStatus(TableState.EXISTS)
    found = find(ctx, view, names)
    if not found:
        return TableStatus(TableState.NOT_FOUND)
    hidden = found[0].hidden
    return TableStatus(
        TableState.SOFT_DELETED,
        hidden.deleted_at_ms,
        hidden.expires_at_ms,
        hidden.drop_id,
        hidden.is_purging,
    )
