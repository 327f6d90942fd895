"""The LanceNamespace interface over a folder or a bucket: requests in, the library's models out.

Nothing is decided here: each method parses its request, calls the room that knows, and answers.
"""

from __future__ import annotations

from typing import Any

import lance_namespace as ln

from lance_catalog.config import Mode, Settings
from lance_catalog.directory import (
    describing,
    dropping,
    namespaces,
    registration,
    tables,
    undo,
)
from lance_catalog.directory.context import Context
from lance_catalog.directory.edge import operation
from lance_catalog.directory.managed.api import ManagedVersions
from lance_catalog.directory.operations.arrow import json_schema, stream_table
from lance_catalog.directory.operations.mixin import DataOperations
from lance_catalog.directory.paging import page
from lance_catalog.directory.past_only import readable_in_the_past
from lance_catalog.directory.requests import parse
from lance_catalog.directory.resolve import (
    FoundTable,
    require_table,
    resolve_table,
    table_id,
    tables_below,
    tables_in,
)
from lance_catalog.directory.undo import TableLifecycle
from lance_catalog.directory.version_operations import VersionOperations
from lance_catalog.directory.whole import WholeCatalog
from lance_catalog.errors import TableVersionNotFoundError
from lance_catalog.identifiers import decode, from_request, name_of, parent_of
from lance_catalog.manifest import Snapshot
from lance_catalog.storage import Store, open_store
from lance_catalog.versions.registry import is_managed

__all__ = ["DirectoryNamespace"]


@readable_in_the_past
class DirectoryNamespace(
    DataOperations,
    TableLifecycle,
    VersionOperations,
    ManagedVersions,
    WholeCatalog,
    ln.LanceNamespace,
):
    """A catalog of Lance tables in one folder or bucket prefix.

    ``manifest_enabled`` and ``dir_listing_enabled`` choose V1, V2 or compatibility mode (both, the
    default). Building one does no I/O; reading never writes.
    """

    def __init__(self, **properties: Any) -> None:
        self._properties = properties
        settings = Settings.from_properties(properties)
        self._ctx = Context.build(settings, open_store(settings.root, settings.storage))

    @classmethod
    def with_store(cls, store: Store, **properties: Any) -> DirectoryNamespace:
        """Build one on a given store: how tests count requests and inject faults."""
        made = cls(**properties)
        made._ctx = Context.build(made._ctx.settings, store)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        # Workers of Spark and Ray get the properties and build their own.
        return _rebuild, (type(self), self._properties)

    def namespace_id(self) -> str:
        """Return a text that names this catalog: its root and mode."""
        return f'DirectoryNamespace {{ root: "{self._ctx.store.uri}", mode: {self.mode.value} }}'

    def __repr__(self) -> str:
        return self.namespace_id()

    @property
    def mode(self) -> Mode:
        """V1, V2 or compatibility."""
        return self._ctx.mode

    @property
    def context(self) -> Context:
        """What maintenance and the command line work with."""
        return self._ctx

    # Namespaces.

    @operation
    def create_namespace(self, request: Any) -> ln.CreateNamespaceResponse:
        asked = parse(request, ln.CreateNamespaceRequest)
        names = from_request(asked.id, "create_namespace")
        made = namespaces.create(self._ctx, names, asked.mode, asked.properties)
        return ln.CreateNamespaceResponse(properties=made)

    @operation
    def list_namespaces(self, request: Any) -> ln.ListNamespacesResponse:
        asked = parse(request, ln.ListNamespacesRequest)
        names = from_request(asked.id, "list_namespaces")
        found, token = namespaces.list_children(self._ctx, names, asked.page_token, asked.limit)
        return ln.ListNamespacesResponse(namespaces=found, page_token=token)

    @operation
    def describe_namespace(self, request: Any) -> ln.DescribeNamespaceResponse:
        asked = parse(request, ln.DescribeNamespaceRequest)
        names = from_request(asked.id, "describe_namespace")
        return ln.DescribeNamespaceResponse(properties=namespaces.describe(self._ctx, names))

    @operation
    def namespace_exists(self, request: Any) -> ln.NamespaceExistsResponse:
        asked = parse(request, ln.NamespaceExistsRequest)
        namespaces.require(self._ctx, from_request(asked.id, "namespace_exists"))
        return ln.NamespaceExistsResponse()

    @operation
    def drop_namespace(
        self,
        request: Any,
        *,
        ttl: str | float | None = None,
        purge: bool | None = None,
        force: bool | None = None,
    ) -> ln.DropNamespaceResponse:
        """Drop a namespace; with behavior cascade its tables go to the trash, in one commit.

        ``ttl``, ``purge`` and ``force`` as in :meth:`drop_table`, for every table below.
        """
        asked = parse(request, ln.DropNamespaceRequest)
        names = from_request(asked.id, "drop_namespace")
        how = undo.drop_of(self._ctx, request, ttl, purge, force)
        taken = namespaces.drop(
            self._ctx,
            names,
            asked.mode,
            asked.behavior,
            lambda key: dropping.new_hidden(self._ctx, key, how),
            force=how.force,
        )
        dropping.finish(self._ctx, taken or [])
        return ln.DropNamespaceResponse()

    # Tables.

    @operation
    def list_tables(self, request: Any) -> ln.ListTablesResponse:
        asked = parse(request, ln.ListTablesRequest)
        names = from_request(asked.id, "list_tables")
        view = self._ctx.view()
        namespaces.require(self._ctx, names, view)
        found = tables_in(self._ctx, view, names, asked.page_token or None)
        if asked.include_declared is False:
            found = (name for name in found if not self._is_declared(view, (*names, name)))
        listed, token = page(found, asked.limit)
        return ln.ListTablesResponse(tables=listed, page_token=token)

    def _is_declared(self, view: Snapshot, names: tuple[str, ...]) -> bool:
        place = require_table(self._ctx, view, names).location
        return describing.is_declared(self._ctx, place)

    @operation
    def list_all_tables(self, request: Any) -> ln.ListTablesResponse:
        asked = parse(request, ln.ListTablesRequest)
        names = from_request(asked.id or [], "list_all_tables")
        view = self._ctx.view()
        namespaces.require(self._ctx, names, view)
        found = tables_below(self._ctx, view, names, asked.page_token or None)
        if asked.include_declared is False:
            found = (key for key in found if not self._is_declared(view, decode(key)))
        listed, token = page(found, asked.limit)
        return ln.ListTablesResponse(tables=listed, page_token=token)

    @operation
    def table_exists(self, request: Any) -> ln.TableExistsResponse:
        asked = parse(request, ln.TableExistsRequest)
        names = table_id(self._ctx, asked.id, "table_exists")
        found = resolve_table(self._ctx, names)
        if asked.version is not None:
            describing.open_dataset(self._ctx, found, version=asked.version)
        return ln.TableExistsResponse()

    @operation
    def describe_table(self, request: Any) -> ln.DescribeTableResponse:
        asked = parse(request, ln.DescribeTableRequest)
        names = table_id(self._ctx, asked.id, "describe_table")
        found = resolve_table(self._ctx, names)
        declared = dataset = None
        chosen = (asked.version, asked.tag, asked.branch) != (None, None, None)
        if asked.check_declared or asked.load_detailed_metadata:
            declared = describing.is_declared(self._ctx, found.location)
        if chosen and declared:
            raise TableVersionNotFoundError(f"table '{name_of(names)}' has no versions yet")
        if chosen or (asked.load_detailed_metadata and not declared):
            dataset = describing.open_dataset(
                self._ctx, found, version=asked.version, tag=asked.tag, branch=asked.branch
            )
        location = self._ctx.store.uri_of(found.location)
        detailed = dataset is not None and asked.load_detailed_metadata
        return ln.DescribeTableResponse(
            table=name_of(names),
            namespace=list(parent_of(names)),
            location=location,
            table_uri=location,
            version=None if dataset is None else dataset.version,
            schema=json_schema(dataset.schema) if dataset is not None and detailed else None,
            metadata=_counters(dataset) if detailed else None,
            properties=describing.properties_of(found, dataset),
            storage_options=self._storage_options(),
            # In the past too: then Lance asks before it commits, and is refused.
            managed_versioning=self._manages(found) or self._ctx.settings.as_of is not None or None,
            is_only_declared=declared,
        )

    def _manages(self, found: FoundTable) -> bool:
        """Whether the catalog decides over the versions of a table."""
        if found.entry is None or self._ctx.log is None:
            return False
        return is_managed(found.catalog)

    def _storage_options(self) -> dict[str, str] | None:
        if not self._ctx.settings.vend_storage_options:
            return None
        return dict(self._ctx.store.lance_options)

    @operation
    def declare_table(self, request: Any) -> ln.DeclareTableResponse:
        asked = parse(request, ln.DeclareTableRequest)
        names = table_id(self._ctx, asked.id, "declare_table")
        made = tables.declare(self._ctx, names, asked.location, asked.properties)
        log = self._ctx.log
        # As of the commit that declared it: no further look.
        managed = log is not None and is_managed(log.snapshot(float("inf")).table_metadata)
        return ln.DeclareTableResponse(
            location=self._ctx.store.uri_of(made.location),
            properties=made.properties or None,
            managed_versioning=managed or None,
            storage_options=self._storage_options(),
        )

    @operation
    def create_table(self, request: Any, request_data: bytes) -> ln.CreateTableResponse:
        asked = parse(request, ln.CreateTableRequest)
        names = table_id(self._ctx, asked.id, "create_table")
        data = stream_table(request_data, "create_table")
        fresh = undo.starts_fresh(self._ctx, request)
        made = tables.create(self._ctx, names, asked.mode, asked.properties, data, fresh=fresh)
        return ln.CreateTableResponse(
            location=self._ctx.store.uri_of(made.location),
            version=made.version,
            properties=made.properties or None,
            storage_options=self._storage_options(),
        )

    @operation
    def create_empty_table(self, request: Any) -> Any:
        """Declare a table: the deprecated name of declare_table."""
        asked = parse(request, ln.CreateEmptyTableRequest)
        names = table_id(self._ctx, asked.id, "create_empty_table")
        made = tables.declare(self._ctx, names, None, asked.properties)
        return ln.CreateEmptyTableResponse(
            location=self._ctx.store.uri_of(made.location),
            properties=made.properties or None,
            storage_options=self._storage_options(),
        )

    @operation
    def register_table(self, request: Any) -> ln.RegisterTableResponse:
        asked = parse(request, ln.RegisterTableRequest)
        names = table_id(self._ctx, asked.id, "register_table")
        place, properties = registration.register(
            self._ctx, names, asked.location, asked.mode, asked.properties
        )
        return ln.RegisterTableResponse(
            location=self._ctx.store.uri_of(place), properties=properties or None
        )

    @operation
    def deregister_table(self, request: Any) -> ln.DeregisterTableResponse:
        asked = parse(request, ln.DeregisterTableRequest)
        names = table_id(self._ctx, asked.id, "deregister_table")
        place, properties = registration.deregister(self._ctx, names)
        return ln.DeregisterTableResponse(
            id=list(names), location=self._uri(place), properties=properties or None
        )

    def _uri(self, place: str) -> str | None:
        """The URI of a place; a broken location of another writer's has none."""
        try:
            return self._ctx.store.uri_of(place)
        except ValueError:
            return None

    @operation
    def rename_table(self, request: Any) -> ln.RenameTableResponse:
        asked = parse(request, ln.RenameTableRequest)
        names = table_id(self._ctx, asked.id, "rename_table")
        parent = None if asked.new_namespace_id is None else tuple(asked.new_namespace_id)
        registration.rename(self._ctx, names, asked.new_table_name, parent)
        return ln.RenameTableResponse()

    @operation
    def drop_table(
        self,
        request: Any,
        *,
        ttl: str | float | None = None,
        purge: bool | None = None,
        force: bool | None = None,
    ) -> ln.DropTableResponse:
        """Drop a table: hidden at once, its data kept until it is purged (S03).

        ``ttl`` is how long it can be undropped (as ``"7d"``, seconds, or ``"never"``), by default
        the property ``drop_ttl``. ``purge`` deletes at once. ``force`` drops a protected table.
        All three can also come in the request's context (R13).
        """
        asked = parse(request, ln.DropTableRequest)
        names = table_id(self._ctx, asked.id, "drop_table")
        how = undo.drop_of(self._ctx, request, ttl, purge, force)
        place, hidden = dropping.drop(self._ctx, names, how)
        return ln.DropTableResponse(
            id=list(names),
            location=self._uri(place),
            transaction_id=hidden.drop_id,
            properties=dropping.answer(hidden),
        )

    # What the data operations need.

    def open_table(
        self,
        table: list[str] | None,
        *,
        version: int | None = None,
        branch: str | None = None,
        tag: str | None = None,
    ) -> Any:
        """Return Lance's handle on a table."""
        names = table_id(self._ctx, table, "opening a table")
        found = resolve_table(self._ctx, names)
        client = self if self._manages(found) else None
        return describing.open_dataset(
            self._ctx, found, version=version, branch=branch, tag=tag, client=client
        )


def _counters(dataset: Any) -> dict[str, str]:
    """What Lance keeps with a version, as native answers it: total rows, files, bytes."""
    return {key: str(value) for key, value in dataset.get_version()["metadata"].items()}


def _rebuild(kind: type[DirectoryNamespace], properties: dict[str, Any]) -> DirectoryNamespace:
    return kind(**properties)
