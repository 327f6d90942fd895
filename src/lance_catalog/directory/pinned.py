"""The whole catalog at one moment: what is resolved from it belongs together.

A snapshot is a version of the manifest. Where versions are managed it also says which version of
each table was the latest then, so two tables opened from one snapshot are from one moment, and
what a transaction published is there with all of it or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lance_catalog.directory import describing
from lance_catalog.directory.context import Context
from lance_catalog.directory.edge import operation
from lance_catalog.directory.managed.adoption import above
from lance_catalog.directory.managed.target import Target, managed_target
from lance_catalog.directory.resolve import (
    FoundTable,
    require_namespace,
    require_table,
    table_id,
    tables_in,
)
from lance_catalog.errors import InvalidTableStateError, storage_errors
from lance_catalog.identifiers import (
    encode,
    format_text,
    from_request,
    is_internal_key,
    split_key,
)
from lance_catalog.manifest import Snapshot, open_log
from lance_catalog.model import Entry
from lance_catalog.versions import registry

__all__ = ["CatalogSnapshot"]


@dataclass(frozen=True)
class CatalogSnapshot:
    """A pinned, read-only view of a catalog."""

    _ctx: Context
    _view: Snapshot

    @property
    def version(self) -> int:
        """The version of the manifest; 0 for a catalog without one."""
        return self._view.version

    def entries(self) -> Iterator[Entry]:
        """Yield every row of the manifest, bookkeeping included."""
        return self._view.entries()

    @property
    def view(self) -> Snapshot:
        """The rows behind it, for maintenance and the command line."""
        return self._view

    def get(self, key: str) -> Entry | None:
        """Return the row of a stored id."""
        return self._view.get(key)

    @operation
    def list_namespaces(self, id: Sequence[str] = ()) -> list[str]:
        """Return the namespaces one level below."""
        names = from_request(list(id), "list_namespaces")
        require_namespace(self._view, names)
        return [
            split_key(entry.object_id)[1]
            for entry in self._view.children(encode(names))
            if entry.is_namespace and not is_internal_key(entry.object_id)
        ]

    @operation
    def list_tables(self, id: Sequence[str] = ()) -> list[str]:
        """Return the tables of a namespace."""
        names = from_request(list(id), "list_tables")
        require_namespace(self._view, names)
        return list(tables_in(self._ctx, self._view, names, None))

    def _found(self, id: Sequence[str]) -> FoundTable:
        return require_table(self._ctx, self._view, table_id(self._ctx, list(id), "snapshot"))

    @operation
    def table_version(self, id: Sequence[str]) -> int | None:
        """Return the version a table had; None where the catalog does not manage versions.

        19 for a table that had no data yet.
        """
        found = self._found(id)
        target = managed_target(self._ctx, self._view, found)
        if target is None:
            return None
        with storage_errors("looking for a version"):
            head = target.head()
            known = target.registered(head).get(head) if head else None
            if known is not None:
                target.put_in_place(known)
                return head
            # Committed behind the catalog's back, before anything was registered.
            later = [one.version for one in above(target, head)]
            if not later or self._registered_since(target, later):
                raise InvalidTableStateError(
                    f"table '{format_text(found.names)}' had no data yet at version "
                    f"{self.version} of the catalog"
                )
            return max(later)

    def _registered_since(self, target: Target, versions: list[int]) -> bool:
        """Whether the catalog knows versions by now that it did not know at this moment.

        Then they came after it, and with them what was published at once. A table that has left
        the catalog since tells no more; it is taken for one of those.
        """
        log = open_log(self._ctx.store, keep_ms=self._ctx.settings.retention_ms)
        now = log.snapshot()
        rows = now.at_location(target.entry.location or "")
        return any(
            is_internal_key(row.object_id) or registry.registered(log, now, row.object_id, versions)
            for row in rows
        )

    @operation
    def open_table(self, id: Sequence[str]) -> Any:
        """Return Lance's handle on a table as it was then; read only in spirit: it is the past.

        Where versions are not managed, at its latest version: the files alone tell nothing more.
        """
        version = self.table_version(id)
        return describing.open_dataset(self._ctx, self._found(id), version=version)
