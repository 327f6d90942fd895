"""Hidden tables in the manifest: the row of ``ns$t`` becomes ``__trash$<drop id>$ns$t``.

The name is free at once, native writers keep the row, and because it is one strict commit the log
alone decides who wins: a drop, a rename, a register.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from lance_catalog.errors import InvalidTableStateError
from lance_catalog.identifiers import DELIMITER, TRASH, decode, is_internal_key
from lance_catalog.lifecycle.locations import normalise, overlapping
from lance_catalog.lifecycle.states import (
    DELETED_AT,
    DROP_ID,
    STATE,
    TTL,
    Hidden,
    HiddenState,
)
from lance_catalog.manifest.snapshot import Snapshot
from lance_catalog.model import Entry, dump_metadata, parse_metadata

__all__ = ["TrashRow", "brought_back", "find", "hide", "owner_of", "rows", "superseded", "take"]

RAW: Final = "lance_catalog.raw_metadata"
_OURS: Final = (DELETED_AT, DROP_ID, STATE, TTL)


@dataclass(frozen=True, slots=True)
class TrashRow:
    """A hidden table: its row, the id it had, and how it got here."""

    entry: Entry
    object_id: str
    hidden: Hidden


def hide(entry: Entry, hidden: Hidden) -> Entry:
    """Return the trash row of a table's row."""
    try:
        properties = entry.properties()
    except InvalidTableStateError:
        # Another writer's, not ours to lose: comes back as it was.
        properties = {RAW: entry.metadata or ""}
    return Entry(
        DELIMITER.join((TRASH, hidden.drop_id, entry.object_id)),
        entry.object_type,
        entry.location,
        dump_metadata({**properties, **hidden.properties()}),
    )


def take(view: Snapshot, entry: Entry, hidden: Hidden) -> tuple[TrashRow, tuple[Entry, ...]]:
    """Return the trash row of a live row, and every row that goes when it comes."""
    before = superseded(view, entry)
    # An older hiding goes on under its id, so the markers it left stay its own.
    own = replace(hidden, drop_id=before[0].hidden.drop_id) if before else hidden
    row = TrashRow(hide(entry, own), entry.object_id, own)
    return row, (*view.rows_of(entry.object_id), *(old.entry for old in before))


def brought_back(row: TrashRow, object_id: str, properties: dict[str, str]) -> Entry:
    """Return the live row of a hidden table, its properties updated."""
    stored = parse_metadata(row.entry.metadata, object_id)
    kept = {key: value for key, value in stored.items() if key not in _OURS}
    if RAW in kept and not properties:
        return Entry(object_id, row.entry.object_type, row.entry.location, kept[RAW])
    return Entry(
        object_id, row.entry.object_type, row.entry.location, dump_metadata({**kept, **properties})
    )


def rows(view: Snapshot) -> Iterator[TrashRow]:
    """Yield every hidden table."""
    for entry in view.descendants(TRASH):
        parsed = _parse(entry)
        if parsed is not None:
            yield parsed


def _parse(entry: Entry) -> TrashRow | None:
    names = decode(entry.object_id)
    if len(names) < 3 or not entry.is_table:
        return None
    try:
        hidden = Hidden.from_properties(entry.properties())
    except InvalidTableStateError:
        return None
    return None if hidden is None else TrashRow(entry, DELIMITER.join(names[2:]), hidden)


def find(view: Snapshot, object_id: str) -> TrashRow | None:
    """Return the latest hiding of an id, if there is one."""
    found = [row for row in rows(view) if row.object_id == object_id]
    return max(found, key=lambda row: row.hidden.deleted_at_ms, default=None)


def owner_of(view: Snapshot, location: str) -> list[TrashRow]:
    """Return the hidden tables at a location."""
    return [row for row in rows(view) if row.entry.location == location]


def superseded(view: Snapshot, entry: Entry) -> list[TrashRow]:
    """Return the hidden tables whose very place a live row has, the oldest first.

    Another implementation brought the table back: it registers a place without looking at our
    trash. What is hidden there is that live table, and goes its way with it.
    """
    place = normalise(entry.location)
    if place is None or is_internal_key(entry.object_id):
        return []
    found = [
        row
        for other in overlapping(view, place)
        if is_internal_key(other.object_id)
        and normalise(other.location) == place
        and (row := _parse(other)) is not None
        and row.hidden.state is HiddenState.DEREGISTERED
    ]
    return sorted(found, key=lambda row: row.hidden.deleted_at_ms)
