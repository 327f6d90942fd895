"""What changed since a snapshot's base was sorted: a few layers, newest first.

A new version adds a layer and shares the others; layers are merged as they grow, the smaller
into the next once they are of like size. So a commit copies a logarithmic share of what changed
instead of all of it, a lookup asks a handful of dicts, and a pinned snapshot stays as it is.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from heapq import merge
from typing import Final

from lance_catalog.identifiers import DELIMITER
from lance_catalog.model import Entry

__all__ = ["MISSING", "Layer", "Missing", "Overlay"]


class Missing:
    """Says that an overlay knows nothing of a key; None says that its row is gone."""


MISSING: Final = Missing()


class Layer:
    """Rows added and, as None, rows removed; found by id, by place and in order."""

    __slots__ = ("_fragments", "_ordered", "_places", "_unusual", "rows")

    def __init__(self, rows: dict[str, Entry | None] | None = None) -> None:
        self.rows: dict[str, Entry | None] = {} if rows is None else rows
        # These are made when first asked for: most layers are merged away before that.
        self._ordered: dict[int, list[str]] | None = None
        self._places: dict[str, set[str]] | None = None
        self._unusual: set[str] | None = None
        self._fragments: dict[int, list[str]] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def set(self, key: str, entry: Entry | None) -> None:
        """Change one row; only the maker of a layer does, before anyone else sees it."""
        known = key in self.rows
        before = self.rows.get(key)
        self.rows[key] = entry
        self._fragments = None
        if self._ordered is not None and not known:
            insort(self._ordered.setdefault(key.count(DELIMITER), []), key)
        if self._places is not None:
            if before is not None and before.location is not None:
                self._places[before.location].discard(key)
            if entry is not None and entry.location is not None:
                self._places.setdefault(entry.location, set()).add(key)
        if self._unusual is not None:
            self._unusual.discard(key)
            if _is_unusual(entry):
                self._unusual.add(key)

    def keys(self, depth: int, low: str, high: str | None) -> list[str]:
        """Return the keys of one depth with low ≤ key < high, in order."""
        if self._ordered is None:
            ordered: dict[int, list[str]] = {}
            for key in self.rows:
                ordered.setdefault(key.count(DELIMITER), []).append(key)
            for found in ordered.values():
                found.sort()
            self._ordered = ordered
        keys = self._ordered.get(depth, [])
        stop = len(keys) if high is None else bisect_left(keys, high)
        return keys[bisect_left(keys, low) : stop]

    def depths(self) -> Iterable[int]:
        """Return the depths at which this layer has keys."""
        self.keys(0, "", "")
        return self._ordered or ()

    def at(self, location: str) -> Iterable[str]:
        """Return the keys of the rows with exactly this location."""
        if self._places is None:
            places: dict[str, set[str]] = {}
            for key, entry in self.rows.items():
                if entry is not None and entry.location is not None:
                    places.setdefault(entry.location, set()).add(key)
            self._places = places
        return self._places.get(location, ())

    def within(self, fragment: int) -> Iterable[str]:
        """Return the keys of the rows that lie in a fragment."""
        if self._fragments is None:
            fragments: dict[int, list[str]] = {}
            for key, entry in self.rows.items():
                if entry is not None:
                    fragments.setdefault(entry.address >> 32, []).append(key)
            self._fragments = fragments
        return self._fragments.get(fragment, ())

    def unusual(self) -> Iterable[str]:
        """Return the keys of the rows whose location is not one plain path component."""
        if self._unusual is None:
            self._unusual = {key for key, entry in self.rows.items() if _is_unusual(entry)}
        return self._unusual


@dataclass(frozen=True, slots=True)
class Overlay:
    """Layers, the newest first: what it says of a key counts."""

    layers: tuple[Layer, ...] = ()

    def __len__(self) -> int:
        """Return how many changes are held; one key counts once per layer."""
        return sum(map(len, self.layers))

    def __contains__(self, key: str) -> bool:
        return any(key in layer.rows for layer in self.layers)

    def get(self, key: str) -> Entry | Missing | None:
        """Return the row, None when it was removed, ``MISSING`` when nothing changed."""
        for layer in self.layers:
            if key in layer.rows:
                return layer.rows[key]
        return MISSING

    def plus(self, layer: Layer) -> Overlay:
        """Return this overlay with a newer layer, which nobody may change any more."""
        if not layer:
            return self
        layers = [layer, *self.layers]
        while len(layers) > 1 and 2 * len(layers[0]) >= len(layers[1]):
            layers[:2] = [Layer({**layers[1].rows, **layers[0].rows})]
        return Overlay(tuple(layers))

    def under(self, layer: Layer) -> Overlay:
        """Return this overlay below a layer that may still change."""
        return Overlay((layer, *self.layers))

    def keys(self, depth: int, low: str, high: str | None) -> list[str]:
        """Return the changed keys of one depth with low ≤ key < high, in order, each once."""
        found = [keys for layer in self.layers if (keys := layer.keys(depth, low, high))]
        if len(found) < 2:
            return found[0] if found else []
        return list(dict.fromkeys(merge(*found)))

    def depths(self) -> set[int]:
        """Return the depths at which something changed."""
        return {depth for layer in self.layers for depth in layer.depths()}

    def at_location(self, location: str) -> list[Entry]:
        """Return the rows here with exactly this location."""
        return self._current(lambda layer: layer.at(location))

    def in_fragments(self, fragments: Iterable[int]) -> list[Entry]:
        """Return the rows here that lie in some fragments."""
        return [
            entry
            for number in fragments
            for entry in self._current(lambda layer, number=number: layer.within(number))  # type: ignore[misc]
        ]

    def _current(self, keys: Callable[[Layer], Iterable[str]]) -> list[Entry]:
        """Return the rows that layers name by some keys and no newer layer changed."""
        return [
            entry
            for layer in self.layers
            for key in keys(layer)
            if isinstance(entry := self.get(key), Entry) and entry is layer.rows[key]
        ]

    def unusual(self) -> list[Entry]:
        """Return the rows whose location is not one plain path component."""
        return self._current(Layer.unusual)

    def rows(self) -> Iterator[tuple[str, Entry | None]]:
        """Yield every changed key with what became of it."""
        if len(self.layers) == 1:
            yield from self.layers[0].rows.items()
            return
        seen: set[str] = set()
        for layer in self.layers:
            for key, entry in layer.rows.items():
                if key not in seen:
                    seen.add(key)
                    yield key, entry


def _is_unusual(entry: Entry | None) -> bool:
    location = None if entry is None else entry.location
    return location is not None and ("/" in location or location.startswith("."))
