"""Several tables written and published by one commit: all of it is seen, or nothing (issue 5).

Inside the block tables are written by Lance as always; each commit of Lance's is kept back: its
manifest stays staged. At the end all of them are registered by one strict commit. Until then
nobody else sees anything, and when somebody changed one of the tables meanwhile, nothing is
published and what was written is removed.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import lance
import lance_namespace as ln

from lance_catalog.directory.context import Context
from lance_catalog.directory.edge import operation
from lance_catalog.directory.layout import RESERVED, RESERVED_BODY, fresh_directory
from lance_catalog.directory.managed import batch
from lance_catalog.directory.managed.commit import Asked
from lance_catalog.directory.managed.reading import describe, list_page
from lance_catalog.directory.managed.target import Target, managed_target
from lance_catalog.directory.places import require_free
from lance_catalog.directory.requests import parse
from lance_catalog.directory.resolve import find_table, require_table, table_id
from lance_catalog.errors import (
    CommitOutcomeUnknownError,
    ConcurrentModificationError,
    InvalidInputError,
    LanceNamespaceError,
    UnsupportedOperationError,
    storage_errors,
)
from lance_catalog.identifiers import Identifier, check_new_name, format_text
from lance_catalog.model import check_user_properties
from lance_catalog.versions.registry import is_managed

if TYPE_CHECKING:
    from lance_catalog.directory.namespace import DirectoryNamespace

__all__ = ["Transaction", "run"]

T = TypeVar("T")


@dataclass
class _Collector:
    """What Lance takes for the namespace of one table: keeps its commits back."""

    ctx: Context
    names: Identifier
    directory: str
    #: None for a table that the transaction makes.
    target: Target | None
    base: int
    staged: list[Asked] = field(default_factory=list)

    def namespace_id(self) -> str:
        return "lance-catalog transaction"

    def _answer(self, model: Any) -> Any:
        return model(
            location=self.ctx.store.uri_of(self.directory),
            storage_options=dict(self.ctx.store.lance_options) or None,
            managed_versioning=True,
        )

    def declare_table(self, request: Any) -> Any:
        return self._answer(ln.DeclareTableResponse)

    def describe_table(self, request: Any) -> Any:
        return self._answer(ln.DescribeTableResponse)

    @operation
    def create_table_version(self, request: Any) -> Any:
        asked = parse(request, ln.CreateTableVersionRequest)
        if asked.version != self.base + len(self.staged) + 1:
            raise ConcurrentModificationError(f"version {asked.version} is not the next")
        self.staged.append(
            Asked(
                asked.version,
                asked.manifest_path,
                asked.naming_scheme,
                asked.manifest_size,
                asked.e_tag,
            )
        )
        return _told(self.staged[-1])

    @operation
    def list_table_versions(self, request: Any) -> Any:
        if self.target is None:
            return {"versions": []}
        found, _ = list_page(self.target, descending=True, limit=1, page_token=None)
        return {"versions": [one.model_dump(exclude_none=True) for one in found]}

    @operation
    def describe_table_version(self, request: Any) -> Any:
        asked = parse(request, ln.DescribeTableVersionRequest)
        for one in self.staged:
            if one.version == asked.version:
                return _told(one)
        if self.target is None:
            raise InvalidInputError("the table is being created")
        found = describe(self.target, asked.version)
        return {"version": found.model_dump(exclude_none=True)}


def _told(one: Asked) -> dict[str, Any]:
    size = one.size or 0
    return {
        "version": {
            "version": one.version,
            "manifest_path": one.manifest_path,
            "manifest_size": size,
        }
    }


class Transaction:
    """A ``with`` block in which several tables are written and published at once."""

    def __init__(self, catalog: DirectoryNamespace) -> None:
        self._ctx = catalog.context
        view = self._ctx.exact()
        if self._ctx.log is None or not is_managed(view.table_metadata):
            raise UnsupportedOperationError(
                "transaction: publishing several tables at once needs managed versions; "
                "`lance-catalog versions enable` switches them on for this catalog"
            )
        self._view = view
        self._tables: dict[Identifier, _Collector] = {}
        self._handles: dict[Identifier, Any] = {}
        self._made: dict[Identifier, dict[str, str]] = {}
        self._deregistered: list[Identifier] = []
        self._ended = False

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._ended:
            return
        if error is not None:
            self.rollback()
        else:
            self.commit()

    def open(self, id: Sequence[str]) -> Any:
        """Return Lance's handle on a table; what it commits is published with the rest."""
        names = self._names(id)
        if names not in self._handles:
            collector = self._collector(names)
            if collector.target is None:
                raise InvalidInputError(f"'{format_text(names)}' has no data yet; write it first")
            with storage_errors(f"opening '{format_text(names)}'"):
                self._handles[names] = lance.dataset(
                    namespace_client=collector,  # type: ignore[arg-type]
                    table_id=list(names),
                    storage_options=dict(self._ctx.store.lance_options) or None,
                )
        return self._handles[names]

    def write(
        self,
        id: Sequence[str],
        data: Any,
        mode: str = "append",
        *,
        properties: dict[str, str] | None = None,
        **how: Any,
    ) -> Any:
        """Write rows: mode create, append or overwrite; return Lance's handle.

        A new table may be appended to and overwritten in the same transaction. ``how`` goes to
        ``lance.write_dataset``.
        """
        if mode not in ("create", "append", "overwrite"):
            raise InvalidInputError(f"mode '{mode}' is not one of create, append, overwrite")
        names = self._names(id)
        if mode == "create":
            self._create(names, properties)
        handle = self._handles.get(names)
        collector = self._collector(names)
        if handle is None and collector.target is not None:
            handle = self.open(names)
        with storage_errors(f"writing '{format_text(names)}'"):
            if handle is None:
                handle = lance.write_dataset(
                    data,
                    namespace_client=collector,  # type: ignore[arg-type]
                    table_id=list(names),
                    mode="create",
                    **how,
                )
            else:
                handle = lance.write_dataset(data, handle, mode=mode, **how)
        self._handles[names] = handle
        return handle

    def deregister(self, id: Sequence[str]) -> None:
        """Take a table out of the catalog with the rest, its data kept."""
        self._deregistered.append(self._names(id))

    def _names(self, id: Sequence[str]) -> Identifier:
        if self._ended:
            raise InvalidInputError("the transaction has ended; begin another")
        return table_id(self._ctx, list(id), "transaction")

    def _collector(self, names: Identifier) -> _Collector:
        if names not in self._tables:
            found = require_table(self._ctx, self._view, names)
            target = managed_target(self._ctx, self._view, found)
            if target is None:
                raise UnsupportedOperationError(
                    f"'{format_text(names)}' is not in the manifest; `lance-catalog migrate` "
                    "registers it"
                )
            latest = list_page(target, descending=True, limit=1, page_token=None)[0]
            base = latest[0].version if latest else 0
            place = found.location
            self._tables[names] = _Collector(
                self._ctx, names, place, target if latest else None, base
            )
        return self._tables[names]

    def _create(self, names: Identifier, properties: dict[str, str] | None) -> None:
        given = check_user_properties(properties)
        check_new_name(names, stored=True)
        require_free(self._ctx, self._view, names)
        if names in self._made:
            raise InvalidInputError(
                f"'{format_text(names)}' is created by this transaction already"
            )
        place = fresh_directory(names)
        body = RESERVED_BODY + b" " + uuid.uuid4().hex.encode()
        with storage_errors(f"declaring '{format_text(names)}'"):
            self._ctx.store.put_flag(f"{place}/{RESERVED}", body)
        self._made[names] = given
        self._tables[names] = _Collector(self._ctx, names, place, None, 0)

    def commit(self) -> None:
        """Publish everything at once; 14 when one of the tables changed: then nothing is."""
        if self._ended:
            raise InvalidInputError("the transaction has ended; begin another")
        operations: list[batch.Operation] = [
            batch.Declare(names, given, self._tables[names].directory)
            for names, given in self._made.items()
        ]
        for names, collector in self._tables.items():
            operations += [batch.Version(names, asked) for asked in collector.staged]
        operations += [batch.Deregister(names) for names in self._deregistered]
        try:
            if operations:
                batch.carry_out(self._ctx, operations)
        except CommitOutcomeUnknownError:
            self._ended = True
            raise
        except LanceNamespaceError:
            self.rollback()
            raise
        self._ended = True

    def rollback(self) -> None:
        """Publish nothing, and remove what was written."""
        if self._ended:
            return
        self._ended = True
        for names, collector in self._tables.items():
            with contextlib.suppress(LanceNamespaceError, OSError):
                self._remove(names, collector)

    def _remove(self, names: Identifier, collector: _Collector) -> None:
        store, place = self._ctx.store, collector.directory
        if names in self._made:
            # Nobody knows the place but us.
            if find_table(self._ctx, self._ctx.exact(), names) is None:
                store.delete_tree(place)
            return
        staged = [one.manifest_path.rsplit("/", 1)[-1] for one in collector.staged]
        paths = [f"{place}/_versions/{name}" for name in staged]
        handle = self._handles.get(names)
        if handle is not None and collector.staged and collector.target is not None:
            paths += _fresh_files(handle, place, collector)
        store.delete(paths)


def _fresh_files(handle: Any, place: str, collector: _Collector) -> list[str]:
    """Return the data files that only the versions kept back name."""
    options = dict(collector.ctx.store.lance_options) or None
    uri = collector.ctx.store.uri_of(place)
    before = lance.dataset(uri, version=collector.base, storage_options=options)
    known = {file.path for part in before.get_fragments() for file in part.metadata.files}
    fresh = {file.path for part in handle.get_fragments() for file in part.metadata.files}
    return [f"{place}/data/{path}" for path in fresh - known]


def run(catalog: DirectoryNamespace, work: Callable[[Transaction], T], retries: int = 5) -> T:
    """Run work in a transaction, again from the beginning when others came between."""
    for attempt in range(retries + 1):
        try:
            with Transaction(catalog) as transaction:
                return work(transaction)
        except ConcurrentModificationError as error:
            if isinstance(error, CommitOutcomeUnknownError) or attempt == retries:
                raise
    raise AssertionError("unreachable")
