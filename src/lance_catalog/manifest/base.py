"""The rows a snapshot was loaded with: Arrow columns sorted by (depth, object_id), never changed.

The children of a parent are one slice in name order, and an id is a search.
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
from lance_catalog.manifest.overlay import MISSING, Missing
from lance_catalog.manifest.schema import COLUMNS
from lance_catalog.manifest.texts import Texts
from lance_catalog.model import Entry

__all__ = ["VERSION_TYPE", "Base"]

VERSION_TYPE: Final = "table_version"
_BATCH: Final = 128
_REMEMBERED: Final = 8192
_SAMPLED: Final = 16


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

    @cached_property
    def _texts(self) -> tuple[Texts, ...]:
        return tuple(map(Texts, self._columns))

    def entry(self, index: int) -> Entry:
        ids, types, locations, metadata = self._texts
        return Entry(
            ids[index],
            types[index],
            locations.get(index),
            metadata.get(index),
            self.addresses.item(index),
        )

    def slice_of(self, depth: int, low: str, high: str | None) -> range:
        """Return the rows of one depth with low ≤ object_id < high."""
        if depth + 1 >= len(self.starts):
            return range(0)
        stop = self.starts[depth + 1] if high is None else self._bisect(depth, high)
        first = self._bisect(depth, low)
        return range(first, max(first, stop))

    def _bisect(self, depth: int, key: str) -> int:
        """Return the first row of a depth whose id is not below a key, or where the depth ends.

        Every 16th id is a plain string, found at once; strings are made for the rest only.
        """
        start, stop = self.starts[depth], self.starts[depth + 1]
        step = bisect_left(self._samples[depth], key)
        low = start + max(step - 1, 0) * _SAMPLED
        high = min(start + step * _SAMPLED, stop)
        return bisect_left(self._texts[0], key, low, high)

    @cached_property
    def _samples(self) -> tuple[list[str], ...]:
        """Every 16th id of each depth, beginning with its first."""
        return tuple(
            self._ids.take(pa.array(range(start, stop, _SAMPLED), pa.int64())).to_pylist()
            for start, stop in pairwise(self.starts)
        )

    def find(self, key: str) -> Entry | None:
        known = self._found.get(key, MISSING)
        if not isinstance(known, Missing):
            return known
        found = None
        depth = key.count(DELIMITER)
        if depth + 1 < len(self.starts):
            row = self._bisect(depth, key)
            if row < self.starts[depth + 1] and self._texts[0][row] == key:
                found = self.entry(row)
        if len(self._found) >= _REMEMBERED:
            self._found.clear()
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


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
