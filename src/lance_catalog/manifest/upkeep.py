"""Keeping the manifest small and quick to look things up in (C08). Never on a read.

Small fragments are merged by the very commit that would add another one: no version of its own,
and the same strict validation. Indices and old versions are looked after by whoever committed,
after its change is acknowledged, every few versions and a bounded piece at a time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lance_catalog.config import DEFAULT_RETENTION_MS
from lance_catalog.errors import LanceNamespaceError
from lance_catalog.manifest import indices
from lance_catalog.manifest.indices import is_indexed
from lance_catalog.manifest.retention import Retention
from lance_catalog.storage.manifests import Naming
from lance_catalog.storage.port import Store

__all__ = ["Size", "Upkeep", "choose", "choose_merge", "is_indexed", "pack", "sizes_of"]

log = logging.getLogger(__name__)

#: Fragments that are not full, from which on a commit merges some of them.
_MANY: Final = 16
#: How many it merges at least, unless they make a full one before.
_LEAST: Final = 8
#: From this many rows on a fragment is full, and from this share of all rows on.
_FULL_ROWS: Final = 131_072
_FULL_SHARE: Final = 8
#: Indices and retention are looked after every so many versions.
_EVERY: Final = 16
#: Versions that one commit removes at most: twice as many as come, so that a backlog shrinks.
_AT_ONCE: Final = 32


@dataclass(frozen=True, slots=True)
class Size:
    """A fragment as the choice sees it."""

    number: int
    rows: int
    deleted: int = 0


def choose_merge(dataset: Any) -> list[int]:
    """Return the fragments a commit should merge: none, until there are too many.

    Asked by every commit, so it looks at fragments only when there are many: their number costs
    0.2 µs, their sizes 3 µs each.
    """
    if len(dataset.fragment_ids()) < _MANY:
        return []
    return choose(sizes_of(dataset))


def sizes_of(dataset: Any) -> list[Size]:
    """Return the fragments of a version by their sizes."""
    found: list[Size] = []
    for fragment in dataset.get_fragments():
        meta = fragment.metadata
        found.append(Size(meta.id, meta.num_rows, meta.num_deletions))
    return found


def choose(sizes: Sequence[Size]) -> list[int]:
    """Return which fragments to merge into the one a commit is about to write.

    The smallest first, as long as the next is not much larger than what is gathered already: so
    a row that is written again lies in a fragment at least half as large again, and is written
    again a logarithmic number of times. A full one stays as it is, so that no commit rewrites a
    large share of the catalog; there are at most eight of those, and with fewer than sixteen
    others never more than 24 in all.
    """
    full = _full(sizes)
    small = _small(sizes, full)
    if len(small) < _MANY:
        return []
    chosen: list[int] = []
    gathered = 0
    for size in small:
        if len(chosen) >= 2 and gathered >= full:
            break
        if len(chosen) >= _LEAST and size.rows > 2 * gathered:
            break
        chosen.append(size.number)
        gathered += size.rows
    return chosen


def pack(sizes: Sequence[Size]) -> list[list[int]]:
    """Return every group of fragments worth merging now, whatever it costs: for upkeep on demand.

    One group becomes one fragment. A lone one is worth it when most of it is deleted.
    """
    full = _full(sizes)
    groups: list[list[Size]] = [[]]
    for size in _small(sizes, full):
        if sum(member.rows for member in groups[-1]) >= full:
            groups.append([])
        groups[-1].append(size)
    return [
        [member.number for member in group]
        for group in groups
        if len(group) > 1 or any(member.deleted > member.rows for member in group)
    ]


def _full(sizes: Sequence[Size]) -> int:
    return max(_FULL_ROWS, sum(size.rows for size in sizes) // _FULL_SHARE)


def _small(sizes: Sequence[Size], full: int) -> list[Size]:
    open_ones = [size for size in sizes if size.rows < full or size.deleted > size.rows]
    return sorted(open_ones, key=lambda size: (size.rows, size.number))


def now_ms() -> int:
    """Return the time; tests give another clock."""
    return time.time_ns() // 1_000_000


class Upkeep:
    """What one log does after its commits. ``keep_ms`` None keeps every version for ever."""

    def __init__(
        self,
        store: Store,
        uri: str,
        *,
        keep_ms: int | None = DEFAULT_RETENTION_MS,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self.store = store
        self.uri = uri
        self.keep_ms = keep_ms
        self.clock = clock
        self.retention = Retention(store, uri)
        self._looked: dict[str, int] = {}

    def after_commit(self, version: int, opened: Callable[[], Any], naming: Naming) -> int:
        """Do what is due, and return the latest version we know of then.

        ``opened`` gives Lance's handle at this version, if that is needed. Failing is no harm:
        the next commit tries.
        """
        latest = version
        try:
            # The first versions are looked at too: a catalog has its indices from the start.
            if self._due("indices", version, 0) or version <= 2:
                dataset = opened()
                if indices.is_due(dataset) and indices.refresh(
                    self.store, self.uri, dataset, naming
                ):
                    latest += 1
            # Half way between, so that no commit pays for both.
            if self.keep_ms is not None and self._due("retention", version, _EVERY // 2):
                older = self.clock() - self.keep_ms
                self.retention.some(opened(), naming, older_than_ms=older, limit=_AT_ONCE)
        except (OSError, RuntimeError, ValueError, LanceNamespaceError) as error:
            log.debug("upkeep of %s left for later: %s", self.uri, error)
        return latest

    def _due(self, what: str, version: int, offset: int) -> bool:
        """Whether it is time: at certain versions, or when others took those away from us.

        Short-lived processes have nothing but the version to go by.
        """
        last = self._looked.setdefault(what, version - 1)
        if version % _EVERY != offset and version - last < _EVERY:
            return False
        self._looked[what] = version
        return True
