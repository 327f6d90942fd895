"""Point lookups of a process that has not loaded the catalog: through the BTREE, not the snapshot.

Loading a million rows takes most of a second; a command that describes one table should not wait
for that. Values reach Lance as Arrow expressions, never as text (invariant 5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow.compute as pc

from lance_catalog.manifest.base import VERSION_TYPE
from lance_catalog.manifest.reading import entries_of
from lance_catalog.manifest.schema import COLUMNS
from lance_catalog.model import Entry

__all__ = ["IndexedView", "PointView"]


class PointView(Protocol):
    """What a lookup of one object needs of the catalog."""

    @property
    def version(self) -> int: ...

    @property
    def table_metadata(self) -> Mapping[str, str]: ...

    def get(self, key: str) -> Entry | None:
        """Return the row of a stored id."""
        ...

    def at_location(self, location: str) -> list[Entry]:
        """Return the rows whose location is exactly this one."""
        ...


@dataclass(frozen=True)
class IndexedView:
    """The manifest at one version, asked row by row."""

    dataset: Any

    @property
    def version(self) -> int:
        return int(self.dataset.version)

    @property
    def table_metadata(self) -> Mapping[str, str]:
        return dict(self.dataset.metadata)

    def get(self, key: str) -> Entry | None:
        found = self._where(pc.field("object_id") == key)
        return found[0] if found else None

    def at_location(self, location: str) -> list[Entry]:
        return self._where(pc.field("location") == location)

    def _where(self, condition: pc.Expression) -> list[Entry]:
        rows = self.dataset.scanner(
            columns=list(COLUMNS), filter=condition, with_row_address=True
        ).to_table()
        found = [entry for entry in entries_of(rows) if entry.object_type != VERSION_TYPE]
        # Of duplicates, which only a broken writer makes, the snapshot shows the first.
        return sorted(found, key=lambda entry: entry.address)
