"""The version operations of the interface, and how they find a table; mixed into the namespace."""

from __future__ import annotations

from typing import Any

import lance_namespace as ln

from lance_catalog.directory import table_versions
from lance_catalog.directory.context import Context
from lance_catalog.directory.edge import operation
from lance_catalog.directory.managed.target import Target, managed_target
from lance_catalog.directory.resolve import require_table, resolve_table, table_id
from lance_catalog.directory.table_versions import VersionAccess
from lance_catalog.storage import Store
from lance_catalog.versions.files import branch_of
from lance_catalog.versions.registry import is_managed

__all__ = ["VersionOperations"]


class VersionOperations:
    """What the interface says of table versions; the rest of the namespace is beside it."""

    _ctx: Context

    def managed(self, table: list[str] | None, branch: str | None = None) -> Target | None:
        """Return a table as managed; None where its files alone are the truth, as of a branch."""
        names = table_id(self._ctx, table, "table versions")
        if self._ctx.log is None or branch_of(branch) is not None:
            return None
        view = self._ctx.view()
        if not is_managed(view.table_metadata):
            return None
        return managed_target(self._ctx, view, require_table(self._ctx, view, names))

    def locate(self, table: list[str] | None) -> tuple[Store, str]:
        """Return the store and the place of a table."""
        names = table_id(self._ctx, table, "table versions")
        return self._ctx.store, resolve_table(self._ctx, names).location

    @operation
    def list_table_versions(self: VersionAccess, request: Any) -> ln.ListTableVersionsResponse:
        return table_versions.list_table_versions(self, request)

    @operation
    def describe_table_version(
        self: VersionAccess, request: Any
    ) -> ln.DescribeTableVersionResponse:
        return table_versions.describe_table_version(self, request)

    @operation
    def create_table_version(self: VersionAccess, request: Any) -> ln.CreateTableVersionResponse:
        return table_versions.create_table_version(self, request)

    @operation
    def batch_create_table_versions(
        self: VersionAccess, request: Any
    ) -> ln.BatchCreateTableVersionsResponse:
        return table_versions.batch_create_table_versions(self, request)

    @operation
    def batch_delete_table_versions(
        self: VersionAccess, request: Any
    ) -> ln.BatchDeleteTableVersionsResponse:
        return table_versions.batch_delete_table_versions(self, request)

    @operation
    def batch_commit_tables(self: VersionAccess, request: Any) -> ln.BatchCommitTablesResponse:
        return table_versions.batch_commit_tables(self, request)
