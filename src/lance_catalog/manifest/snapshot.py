"""The manifest at one version, in memory and immutable.

Columnar: a base of Arrow columns sorted by (depth, object_id), so that the children of a parent
are one slice in name order and an id is a binary search; on top an overlay of what changed since
(overlay.py). A new version shares the base and most of the overlay, so a pinned snapshot costs
nothing.
Rows of type ``table_version`` are not held: there may be millions, and no listing wants them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress, pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_catalog.identifiers import DELIMITER
from lance_catalog.manifest.overlay import MISSING, Layer, Missing, Overlay
from lance_catalog.manifest.schema import COLUMNS
from lance_catalog.model import Entry

__all__ = ["Base", "FragmentState", "Snapshot"]

#: (data file paths, deletion file) of a fragment: while both stay, its rows stay.
FragmentState = tuple[tuple[str, ...], str | None]

VERSION_TYPE: Final = "table_version"
# Just after the delimiter in every encoding order: the end of "starts with parent$".
_AFTER: Final = chr(ord(DELIMITER) + 1)
#: Changes held on top of a base before both are sorted into a new one: so many, and a share.
_OVERLAY_MIN: Final = 1024
_OVERLAY_SHARE: Final = 16
_BATCH: Final = 128
_REMEMBERED: Final = 8192
_SAMPLED: Final = 64


@dataclass(frozen=True)
class Base:
    """Rows as columns, sorted by (depth, object_id)."""

    table: pa.Table
    addresses: np.ndarray[tuple[int], np.dtype[np.uint64]]
    #: Where each depth starts; depth of "a$b" is 1.
    starts: tuple[int, ...]
    #: Ids with more than one row, which only a broken writer makes; all their rows.
    duplicates: Mapping[str, tuple[Entry, ...]] = field(default_factory=dict)

    @classmethod
    def build(cls, rows: pa.Table) -> Base:
        """Sort rows (the four columns and ``_rowaddr``) into a base."""
        rows = rows.filter(pc.not_equal(rows["object_type"], VERSION_TYPE))
        depth = pc.count_substring(rows["object_id"], DELIMITER)
        rows = rows.append_column("depth", depth)
        rows = rows.sort_by(
            [("depth", "ascending"), ("object_id", "ascending"), ("_rowaddr", "ascending")]
        ).combine_chunks()
        depths = rows["depth"].to_numpy()
        top = int(depths[-1]) if len(depths) else -1
        starts = tuple(int(np.searchsorted(depths, d)) for d in range(top + 2))
        base = cls(
            rows.select(COLUMNS), rows["_rowaddr"].to_numpy().astype(np.uint64), starts or (0,)
        )
        return cls(base.table, base.addresses, base.starts, base._find_duplicates())

    def _find_duplicates(self) -> dict[str, tuple[Entry, ...]]:
        ids = self._ids
        if len(ids) < 2:
            return {}
        same = pc.equal(ids[1:], ids[:-1]).to_numpy(zero_copy_only=False)
        found: dict[str, list[Entry]] = {}
        for index in np.flatnonzero(same):
            rows = found.setdefault(ids[int(index)].as_py(), [self.entry(int(index))])
            rows.append(self.entry(int(index) + 1))
        return {key: tuple(rows) for key, rows in found.items()}

    @cached_property
    def _ids(self) -> pa.Array:
        return _one_chunk(self.table["object_id"])

    @cached_property
    def _locations(self) -> pa.Array:
        return _one_chunk(self.table["location"])

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @cached_property
    def _columns(self) -> tuple[pa.Array, ...]:
        return tuple(_one_chunk(self.table[name]) for name in COLUMNS)

    def entry(self, index: int) -> Entry:
        object_id, object_type, location, metadata = (
            column[index].as_py() for column in self._columns
        )
        return Entry(object_id, object_type, location, metadata, int(self.addresses[index]))

    def slice_of(self, depth: int, low: str, high: str | None) -> range:
        """Return the rows of one depth with low ≤ object_id < high."""
        if depth + 1 >= len(self.starts):
            return range(0)
        stop = self.starts[depth + 1] if high is None else self._bisect(depth, high)
        first = self._bisect(depth, low)
        return range(first, max(first, stop))

    def _bisect(self, depth: int, key: str) -> int:
        """Return the first row of a depth whose id is not below a key, or where the depth ends.

        Every 64th id is a plain string, found at once; Arrow's are unwrapped for the rest only.
        """
        start, stop = self.starts[depth], self.starts[depth + 1]
        step = bisect_left(self._samples[depth], key)
        low = start + max(step - 1, 0) * _SAMPLED
        high = min(start + step * _SAMPLED, stop)
        ids = self._ids
        while low < high:
            middle = (low + high) // 2
            if ids[middle].as_py() < key:
                low = middle + 1
            else:
                high = middle
        return low

    @cached_property
    def _samples(self) -> tuple[list[str], ...]:
        """Every 64th id of each depth, beginning with its first."""
        return tuple(
            self._ids.take(pa.array(range(start, stop, _SAMPLED), pa.int64())).to_pylist()
            for start, stop in pairwise(self.starts)
        )

    def find(self, key: str) -> Entry | None:
        known = self._found.get(key, MISSING)
        if not isinstance(known, Missing):
            return known
        depth = key.count(DELIMITER)
        rows = self.slice_of(depth, key, None)
        here = len(rows) > 0 and self._ids[rows.start].as_py() == key
        if len(self._found) >= _REMEMBERED:
            self._found.clear()
        found = self.entry(rows.start) if here else None
        self._found[key] = found
        return found

    @cached_property
    def _found(self) -> dict[str, Entry | Missing | None]:
        """What was asked for lately: some tables are asked for all the time."""
        return {}

    def entries(self, rows: range) -> Iterator[Entry]:
        """Yield a range of rows, converted in small batches: a page costs the page."""
        for start in range(rows.start, rows.stop, _BATCH):
            stop = min(start + _BATCH, rows.stop)
            values = [column[start:stop].to_pylist() for column in self._columns]
            yield from map(Entry, *values, self.addresses[start:stop].tolist())

    def ids_of(self, kind: str, rows: range) -> Iterator[str]:
        """Yield the ids of the rows of one kind in a range, in small batches."""
        ids = self._columns[0]
        wanted = self._is_of(kind)
        for start in range(rows.start, rows.stop, _BATCH):
            stop = min(start + _BATCH, rows.stop)
            chosen = wanted[start:stop]
            found = ids[start:stop].to_pylist()
            yield from found if chosen.all() else compress(found, chosen)

    def _is_of(self, kind: str) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        found = self._masks.get(kind)
        if found is None:
            mask = pc.equal(self._columns[1], kind).to_numpy(zero_copy_only=False)
            found = self._masks[kind] = mask.astype(np.bool_)
        return found

    @cached_property
    def _masks(self) -> dict[str, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
        return {}

    @cached_property
    def _fragments(self) -> frozenset[int]:
        return frozenset(np.unique(self.addresses >> np.uint64(32)).tolist())

    def in_fragments(self, fragments: Iterable[int]) -> list[Entry]:
        # Mostly none: what changes is what came last.
        known = [number for number in fragments if number in self._fragments]
        if not known:
            return []
        wanted = np.isin(self.addresses >> np.uint64(32), np.array(known, dtype=np.uint64))
        return [self.entry(int(index)) for index in np.flatnonzero(wanted)]

    @cached_property
    def _by_location(self) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        """Rows in the order of their locations; those without one last."""
        order: np.ndarray[tuple[int], np.dtype[np.uint64]] = pc.sort_indices(
            self._locations
        ).to_numpy()
        return order[: len(order) - self._locations.null_count]

    def at_location(self, location: str) -> list[Entry]:
        order, locations = self._by_location, self._locations
        position = bisect_left(
            range(len(order)), location, key=lambda i: locations[int(order[i])].as_py()
        )
        found: list[Entry] = []
        while position < len(order):
            index = int(order[position])
            if locations[index].as_py() != location:
                break
            found.append(self.entry(index))
            position += 1
        return found

    @cached_property
    def unusual_locations(self) -> tuple[Entry, ...]:
        """Rows whose location is not one plain path component: compared one by one."""
        plain = pc.and_(
            pc.invert(pc.match_substring(self._locations, "/")),
            pc.invert(pc.starts_with(self._locations, ".")),
        )
        mask = pc.invert(pc.fill_null(plain, True)).to_numpy(zero_copy_only=False)
        return tuple(self.entry(int(index)) for index in np.flatnonzero(mask))


@dataclass(frozen=True)
class Snapshot:
    """All objects of the catalog at one version of the manifest. Version 0: no manifest yet."""

    version: int
    base: Base
    overlay: Overlay
    fragments: Mapping[int, FragmentState]
    table_metadata: Mapping[str, str]

    @classmethod
    def empty(cls) -> Snapshot:
        schema = pa.schema([*((name, pa.string()) for name in COLUMNS), ("_rowaddr", pa.uint64())])
        return cls(0, Base.build(schema.empty_table()), Overlay(), {}, {})

    def get(self, key: str) -> Entry | None:
        """Return the row of a stored id."""
        changed = self.overlay.get(key)
        return self.base.find(key) if isinstance(changed, Missing) else changed

    def rows_of(self, key: str) -> tuple[Entry, ...]:
        """Return every row of a stored id: more than one only where a writer broke uniqueness."""
        if key in self.base.duplicates and key not in self.overlay:
            return self.base.duplicates[key]
        entry = self.get(key)
        return () if entry is None else (entry,)

    def children(self, parent: str, after: str | None = None) -> Iterator[Entry]:
        """Yield the objects one level below a parent ("" is the root), by name, past ``after``."""
        prefix = parent + DELIMITER if parent else ""
        skip = None if after is None else prefix + after
        low = prefix if skip is None else skip
        high = parent + _AFTER if parent else None
        for entry in self._level(prefix.count(DELIMITER), low, high):
            if entry.object_id != skip:
                yield entry

    def names(self, parent: str, kind: str, after: str | None = None) -> Iterator[str]:
        """Yield the names of the objects of one kind below a parent, in order, past ``after``.

        As :meth:`children`, and four times as fast where nothing changed: most pages are of that.
        """
        prefix = parent + DELIMITER if parent else ""
        depth, cut = prefix.count(DELIMITER), len(prefix)
        skip = None if after is None else prefix + after
        low = prefix if skip is None else skip
        high = parent + _AFTER if parent else None
        if self.overlay.keys(depth, low, high):
            for entry in self.children(parent, after):
                if entry.object_type == kind:
                    yield entry.object_id[cut:]
            return
        previous = skip
        # Up to the end of the depth: where the parent ends shows on the way, for one look less.
        for key in self.base.ids_of(kind, self.base.slice_of(depth, low, None)):
            if high is not None and key >= high:
                return
            if key != previous:
                yield key[cut:]
            previous = key

    def _level(self, depth: int, low: str, high: str | None) -> Iterator[Entry]:
        """Yield the rows of one depth with low ≤ id < high, by id, each id once."""
        changed = self.overlay.keys(depth, low, high)
        position = 0
        previous: str | None = None
        for entry in self.base.entries(self.base.slice_of(depth, low, high)):
            key = entry.object_id
            while position < len(changed) and changed[position] < key:
                yield from self._in_overlay(changed[position])
                position += 1
            if position < len(changed) and changed[position] == key:
                yield from self._in_overlay(key)
                position += 1
            elif key != previous and key not in self.overlay:
                yield entry
            previous = key
        for key in changed[position:]:
            yield from self._in_overlay(key)

    def _in_overlay(self, key: str) -> Iterator[Entry]:
        entry = self.overlay.get(key)
        if isinstance(entry, Entry):
            yield entry

    def descendants(self, parent: str) -> Iterator[Entry]:
        """Yield everything below a parent, level by level."""
        prefix = parent + DELIMITER if parent else ""
        high = parent + _AFTER if parent else None
        first = prefix.count(DELIMITER)
        deepest = max([len(self.base.starts) - 2, *self.overlay.depths()])
        for depth in range(first, deepest + 1):
            yield from self._level(depth, prefix, high)

    def entries(self) -> Iterator[Entry]:
        """Yield every object."""
        return self.descendants("")

    def has_children(self, parent: str) -> bool:
        """Whether anything lies below a parent, at any depth: orphans of other writers count."""
        return next(iter(self.descendants(parent)), None) is not None

    def at_location(self, location: str) -> list[Entry]:
        """Return the rows whose location is exactly this one."""
        found = [e for e in self.base.at_location(location) if e.object_id not in self.overlay]
        return found + self.overlay.at_location(location)

    def unusual_locations(self) -> list[Entry]:
        """Return rows whose location is not one plain component (natives accept any string)."""
        found = [e for e in self.base.unusual_locations if e.object_id not in self.overlay]
        return found + self.overlay.unusual()

    def rows_in(self, fragments: set[int]) -> list[Entry]:
        """Return the rows that lie in some fragments."""
        found = [e for e in self.base.in_fragments(fragments) if e.object_id not in self.overlay]
        return found + self.overlay.in_fragments(fragments)

    def replaced(
        self,
        version: int,
        removed: Iterable[Entry],
        added: Iterable[Entry],
        fragments: Mapping[int, FragmentState],
        table_metadata: Mapping[str, str],
    ) -> Snapshot | None:
        """Return the next snapshot, or None when only a full load tells the truth.

        That is when a delta would leave two rows with one id, which this view cannot show.
        """
        layer = Layer()
        for entry in removed:
            if entry.object_id in self.base.duplicates:
                return None
            current = self.overlay.get(entry.object_id)
            if not isinstance(current, Entry) or current.address == entry.address:
                layer.set(entry.object_id, None)
        for entry in added:
            if entry.object_type == VERSION_TYPE:
                continue
            known = (
                layer.rows[entry.object_id]
                if entry.object_id in layer.rows
                else self.get(entry.object_id)
            )
            if known is not None and known.address != entry.address:
                return None
            layer.set(entry.object_id, entry)
        return self.layered(version, layer, fragments, table_metadata)

    def layered(
        self,
        version: int,
        layer: Layer,
        fragments: Mapping[int, FragmentState],
        table_metadata: Mapping[str, str],
    ) -> Snapshot:
        """Return the next snapshot, given what changed as a layer that is known to be right."""
        overlay = self.overlay.plus(layer)
        snapshot = Snapshot(version, self.base, overlay, fragments, table_metadata)
        if len(overlay) > _OVERLAY_MIN + len(self.base) // _OVERLAY_SHARE:
            return snapshot._folded()
        return snapshot

    def _folded(self) -> Snapshot:
        """Return the same snapshot with the overlay merged into a new base."""
        changed = dict(self.overlay.rows())
        keep = pc.invert(
            pc.is_in(self.base.table["object_id"], value_set=pa.array(list(changed), pa.string()))
        )
        old = self.base.table.append_column("_rowaddr", pa.array(self.base.addresses)).filter(keep)
        new = [entry for entry in changed.values() if entry is not None]
        columns = {name: pa.array([getattr(e, name) for e in new], pa.string()) for name in COLUMNS}
        columns["_rowaddr"] = pa.array([e.address for e in new], pa.uint64())
        merged = pa.concat_tables(
            [
                old.select([*COLUMNS, "_rowaddr"]).cast(
                    pa.schema([*((n, pa.string()) for n in COLUMNS), ("_rowaddr", pa.uint64())])
                ),
                pa.table(columns),
            ]
        )
        base = Base.build(merged)
        return Snapshot(self.version, base, Overlay(), self.fragments, self.table_metadata)


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
