"""Several tables written and published by one commit: all of it is seen, or nothing (issue 5).

Inside the block tables are written by Lance as always; each commit of Lance's is kept back: its
manifest stays staged. At the end all of them are registered by one strict commit. Until then
nobody else sees anything, and when somebody changed one of the tables meanwhile, nothing is
published and what was written is removed.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import lance
import lance_namespace as ln

from lance_catalog.directory.context import Context
from lance_catalog.directory.edge import operation
from lance_catalog.directory.layout import RESERVED, RESERVED_BODY, fresh_directory
from lance_catalog.directory.managed import batch
from lance_catalog.directory.managed.adoption import above, adopt
from lance_catalog.directory.managed.commit import Asked
from lance_catalog.directory.managed.reading import describe
from lance_catalog.directory.managed.target import Target, managed_target
from lance_catalog.directory.places import require_free
from lance_catalog.directory.requests import parse
from lance_catalog.directory.resolve import require_table, table_id
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
from lance_catalog.versions.contents import contents_of, only_in
from lance_catalog.versions.finalize import staged_name
from lance_catalog.versions.registry import is_managed

if TYPE_CHECKING:
    from lance_catalog.directory.whole import WholeCatalog

__all__ = ["Collector", "Transaction", "run"]

T = TypeVar("T")


@dataclass
class Collector:
    """What Lance takes for the namespace of one table: keeps its commits back."""

    ctx: Context
    names: Identifier
    directory: str
    #: None for a table that the transaction makes.
    target: Target | None
    base: int
    staged: list[Asked] = field(default_factory=list)
    closed: bool = False

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
        if self.closed:
            raise InvalidInputError(
                f"the transaction in which '{format_text(self.names)}' was opened has ended, so "
                "nothing would publish this; open the table anew"
            )
        if asked.version != self.base + len(self.staged) + 1:
            # It can never land, and Lance would leave it.
            name = staged_name(asked.manifest_path)
            self.ctx.store.delete([f"{self.directory}/_versions/{name}"])
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
        # As of the moment at which the transaction began, whatever came on top since.
        found = describe(self.target, self.base)
        return {"versions": [found.model_dump(exclude_none=True)]}

    @operation
    def describe_table_version(self, request: Any) -> Any:
        asked = parse(request, ln.DescribeTableVersionRequest)
        if self.target is None or (asked.version or 0) > self.base:
            # Lance puts in place what it is told of, and then everybody sees it.
            raise InvalidInputError(
                f"version {asked.version} of '{format_text(self.names)}' is not published yet: "
                "tags, restore and compaction of what a transaction wrote come after it"
            )
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

    def __init__(self, catalog: WholeCatalog) -> None:
        self._ctx = catalog._ctx
        view = self._ctx.exact()
        if self._ctx.log is None or not is_managed(view.table_metadata):
            raise UnsupportedOperationError(
                "transaction: publishing several tables at once needs managed versions; "
                "`lance-catalog versions enable` switches them on for this catalog"
            )
        self._view = view
        self._tables: dict[Identifier, Collector] = {}
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
        with self._conflicts(names, collector), storage_errors(f"writing '{format_text(names)}'"):
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

    @contextlib.contextmanager
    def _conflicts(self, names: Identifier, collector: Collector) -> Iterator[None]:
        """Raise 14 for a failure because somebody changed the table since the transaction began."""
        try:
            yield
        except LanceNamespaceError as error:
            target = collector.target
            # What somebody committed without the catalog is registered by this, for the next try.
            if target is None or (target.now().head() == collector.base and not adopt(target)):
                raise
            raise ConcurrentModificationError(
                f"'{format_text(names)}' was changed since the transaction began; retry"
            ) from error

    def deregister(self, id: Sequence[str]) -> None:
        """Take a table out of the catalog with the rest, its data kept."""
        self._deregistered.append(self._names(id))

    def _names(self, id: Sequence[str]) -> Identifier:
        if self._ended:
            raise InvalidInputError("the transaction has ended; begin another")
        return table_id(self._ctx, list(id), "transaction")

    def _collector(self, names: Identifier) -> Collector:
        if names not in self._tables:
            found = require_table(self._ctx, self._view, names)
            target = managed_target(self._ctx, self._view, found)
            if target is None:
                raise UnsupportedOperationError(
                    f"'{format_text(names)}' is not in the manifest; `lance-catalog migrate` "
                    "registers it"
                )
            with storage_errors(f"looking at '{format_text(names)}'"):
                base = target.head()
                if base:
                    target.ready()
                elif above(target, 0):
                    # Not of the moment at which this began: registered since, or by nobody.
                    adopt(target)
                    raise ConcurrentModificationError(
                        f"'{format_text(names)}' was written to since the transaction began; retry"
                    )
            place = found.location
            self._tables[names] = Collector(self._ctx, names, place, target if base else None, base)
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
        self._tables[names] = Collector(self._ctx, names, place, None, 0)

    def commit(self) -> None:
        """Publish everything at once; 14 when one of the tables changed: then nothing is."""
        if self._ended:
            raise InvalidInputError("the transaction has ended; begin another")
        self._close()
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
        except batch.UNDECIDED:
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
        self._close()
        for names, collector in self._tables.items():
            with contextlib.suppress(LanceNamespaceError, OSError):
                self._remove(names, collector)

    def _close(self) -> None:
        for collector in self._tables.values():
            collector.closed = True

    def _remove(self, names: Identifier, collector: Collector) -> None:
        store, place = self._ctx.store, collector.directory
        if names in self._made:
            # Nobody knows the place but us; the name may be somebody else's by now.
            if not self._ctx.exact().at_location(place):
                store.delete_tree(place)
            return
        staged = {
            one.version: f"{place}/_versions/{one.manifest_path.rsplit('/', 1)[-1]}"
            for one in collector.staged
        }
        bodies = {version: store.get(path) for version, path in staged.items()}
        # From here on nobody can put them in place any more.
        store.delete(staged.values())
        if any(_is_in_place(collector, version, body) for version, body in bodies.items()):
            return  # Somebody did before: a reader of a moment in which they were registered.
        base = None if collector.target is None else collector.target.file(collector.base)
        if base is not None:
            made = [contents_of(body, version) for version, body in bodies.items() if body]
            store.delete(only_in(store, place, made, base[1]))


def _is_in_place(collector: Collector, version: int, body: bytes | None) -> bool:
    """Whether what was staged is a version after all."""
    file = None if collector.target is None else collector.target.file(version)
    return file is not None and collector.ctx.store.get(file[1].path) == body


def run(catalog: WholeCatalog, work: Callable[[Transaction], T], retries: int = 5) -> T:
    """Run work in a transaction, again from the beginning when others came between."""
    for attempt in range(retries + 1):
        try:
            with Transaction(catalog) as transaction:
                return work(transaction)
        except ConcurrentModificationError as error:
            if isinstance(error, CommitOutcomeUnknownError) or attempt == retries:
                raise
    raise AssertionError("unreachable")
