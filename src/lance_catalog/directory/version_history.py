"""Which table versions were registered and deleted between two versions of the manifest.

A snapshot does not hold version rows, and a commit may move rows that did not change, so both
sides of every fragment that differs are read and compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc

from lance_catalog.identifiers import split_key
from lance_catalog.manifest import ManifestLog, Snapshot
from lance_catalog.manifest.base import VERSION_TYPE

__all__ = ["VersionChanges", "version_changes"]


@dataclass(frozen=True, slots=True)
class VersionChanges:
    """Numbers by the stored id of their table."""

    added: dict[str, set[int]] = field(default_factory=dict)
    removed: dict[str, set[int]] = field(default_factory=dict)

    def moved(self, old: str, new: str) -> None:
        """Take a rename into account: what went under one id and came under the other stayed."""
        gone, come = self.removed.pop(old, set()), self.added.pop(new, set())
        self.added[new], self.removed[new] = come - gone, gone - come

    def forget(self, table: str) -> None:
        """Leave out a table whose versions came or went with it."""
        self.added.pop(table, None)
        self.removed.pop(table, None)


def version_changes(log: ManifestLog, before: Snapshot, after: Snapshot) -> VersionChanges:
    """Return which version rows one snapshot has and the other has not."""
    old = {n for n, state in before.fragments.items() if after.fragments.get(n) != state}
    new = {n for n, state in after.fragments.items() if before.fragments.get(n) != state}
    gone, come = _ids(log, before, old), _ids(log, after, new)
    return VersionChanges(_by_table(come - gone), _by_table(gone - come))


def _ids(log: ManifestLog, view: Snapshot, fragments: set[int]) -> set[str]:
    if not fragments:
        return set()
    dataset: Any = log.opened(view.version)
    rows = dataset.scanner(
        fragments=[dataset.get_fragment(number) for number in sorted(fragments)],
        columns=["object_id"],
        filter=pc.field("object_type") == VERSION_TYPE,
        # An index is asked about the whole table, and knows nothing of the fragments chosen.
        use_scalar_index=False,
    ).to_table()
    return set(rows["object_id"].to_pylist())


def _by_table(ids: Iterable[str]) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for key in ids:
        table, number = split_key(key)
        if number.isdecimal():
            found.setdefault(table, set()).add(int(number))
    return found
