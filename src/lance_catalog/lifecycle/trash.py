"""Hidden tables in the manifest: the row of ``ns$t`` becomes ``__trash$<drop id>$ns$t``.

The name is free at once, native writers keep the row, and because it is one strict commit the log
alone decides who wins: a drop, a rename, a register.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lance_catalog.errors import InvalidTableStateError
from lance_catalog.identifiers import DELIMITER, TRASH, decode, is_internal_key
from lance_catalog.lifecycle.claims import Claim, Verb
from lance_catalog.lifecycle.locations import normalise, overlapping
from lance_catalog.lifecycle.spans import Spans
from lance_catalog.lifecycle.states import (
    CLAIM,
    DELETED_AT,
    DROP_ID,
    STATE,
    TTL,
    VERSIONS,
    Hidden,
    HiddenState,
    drop_id_prefix,
)
from lance_catalog.manifest.snapshot import Snapshot
from lance_catalog.model import Entry, dump_metadata, parse_metadata

__all__ = [
    "TrashRow",
    "brought_back",
    "drops_of",
    "find",
    "get",
    "hide",
    "owner_of",
    "reclaimed",
    "remembering",
    "rows",
    "superseded",
    "take",
]

RAW: Final = "lance_catalog.raw_metadata"
_OURS: Final = (DELETED_AT, DROP_ID, STATE, TTL, CLAIM, VERSIONS)


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


def take(
    view: Snapshot, entry: Entry, hidden: Hidden, versions: Sequence[Entry] = ()
) -> tuple[TrashRow, tuple[Entry, ...]]:
    """Return the trash row of a live row, and every row that goes when it comes.

    ``versions`` are the rows of its versions: they go, and it remembers which they were.
    """
    before = superseded(view, entry)
    hidden = remembering(hidden, versions)
    row = TrashRow(hide(entry, hidden), entry.object_id, hidden)
    return row, (*view.rows_of(entry.object_id), *(old.entry for old in before), *versions)


def remembering(hidden: Hidden, versions: Sequence[Entry]) -> Hidden:
    """Return a hiding that knows which versions were registered."""
    if not versions:
        return hidden
    numbers = (row.object_id.rpartition(DELIMITER)[2] for row in versions)
    known = Spans.of(int(number) for number in numbers if number.isdecimal())
    return replace(hidden, versions=known.text())


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


def get(view: Snapshot, trash_id: str) -> TrashRow | None:
    """Return one hidden table by the id of its trash row."""
    entry = view.get(trash_id)
    return None if entry is None else _parse(entry)


def reclaimed(row: TrashRow, claim: Claim | None) -> TrashRow:
    """Return a hidden table under another claim."""
    hidden = row.hidden.claimed(claim)
    stored = parse_metadata(row.entry.metadata, row.entry.object_id)
    kept = {key: value for key, value in stored.items() if key not in _OURS}
    entry = replace(row.entry, metadata=dump_metadata({**kept, **hidden.properties()}), address=-1)
    return TrashRow(entry, row.object_id, hidden)


def _parse(entry: Entry) -> TrashRow | None:
    names = decode(entry.object_id)
    if len(names) < 3 or not entry.is_table:
        return None
    try:
        hidden = Hidden.from_properties(entry.properties())
    except InvalidTableStateError:
        return None
    return None if hidden is None else TrashRow(entry, DELIMITER.join(names[2:]), hidden)


def drops_of(view: Snapshot, object_id: str) -> list[TrashRow]:
    """Return every hiding of an id, the latest first; costs what there is of that id."""
    key = DELIMITER.join((TRASH, drop_id_prefix(object_id)))
    depth = object_id.count(DELIMITER) + 2
    # A drop id is that prefix, "-" and chance; "." comes right after "-".
    found = (_parse(entry) for entry in view.between(depth, key + "-", key + "."))
    mine = [row for row in found if row is not None and row.object_id == object_id]
    return sorted(mine, key=lambda row: row.hidden.deleted_at_ms, reverse=True)


def find(view: Snapshot, object_id: str, *states: HiddenState) -> TrashRow | None:
    """Return the latest hiding of an id, if there is one (in one of some states)."""
    for row in drops_of(view, object_id):
        if not states or row.hidden.state in states:
            return row
    return None


def owner_of(view: Snapshot, location: str) -> list[TrashRow]:
    """Return the hidden tables at a location, the latest first."""
    found = (_parse(e) for e in view.at_location(location) if is_internal_key(e.object_id))
    rows = [row for row in found if row is not None]
    return sorted(rows, key=lambda row: row.hidden.deleted_at_ms, reverse=True)


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
        and (row.hidden.claim is None or row.hidden.claim.verb is Verb.FREE)
    ]
    return sorted(found, key=lambda row: row.hidden.deleted_at_ms)
