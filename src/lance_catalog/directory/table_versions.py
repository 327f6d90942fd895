"""The version operations of the interface: by the registry where versions are managed, else by the
files of a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import lance_namespace as ln
from pydantic import BaseModel

from lance_catalog import versions
from lance_catalog.directory import batches
from lance_catalog.directory.context import Context
from lance_catalog.directory.managed import commit, deletion, reading
from lance_catalog.directory.managed.target import Target
from lance_catalog.directory.requests import control, parse
from lance_catalog.errors import (
    InvalidInputError,
    LanceNamespaceError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from lance_catalog.storage.port import ObjectInfo, Store
from lance_catalog.versions.files import as_table_version, branch_of
from lance_catalog.versions.registry import is_managed

__all__ = [
    "VersionAccess",
    "batch_commit_tables",
    "batch_create_table_versions",
    "batch_delete_table_versions",
    "create_table_version",
    "describe_table_version",
    "list_table_versions",
]


class VersionAccess(Protocol):
    """What the operations need of the namespace."""

    def locate(self, table_id: list[str] | None, /) -> tuple[Store, str]:
        """Return where a table lies; 13 for no id, 1 and 4 for what does not exist."""
        ...

    def managed(self, table_id: list[str] | None, branch: str | None = None) -> Target | None:
        """Return a table whose versions the catalog manages; None where its files tell."""
        ...

    @property
    def context(self) -> Context: ...

    def declare_table(self, request: Any) -> ln.DeclareTableResponse: ...

    def deregister_table(self, request: Any) -> ln.DeregisterTableResponse: ...


def list_table_versions(access: VersionAccess, request: Any) -> ln.ListTableVersionsResponse:
    """List versions, latest first unless ``descending`` is false (R2)."""
    asked = parse(request, ln.ListTableVersionsRequest)
    target = access.managed(asked.id, asked.branch)
    if target is not None:
        found, token = reading.list_page(
            target, descending=asked.descending, limit=asked.limit, page_token=asked.page_token
        )
        return ln.ListTableVersionsResponse(versions=found, page_token=token)
    store, directory = access.locate(asked.id)
    found, token = versions.list_versions(
        store,
        directory,
        branch=asked.branch,
        descending=asked.descending,
        limit=asked.limit,
        page_token=asked.page_token,
    )
    return ln.ListTableVersionsResponse(versions=found, page_token=token)


def describe_table_version(access: VersionAccess, request: Any) -> ln.DescribeTableVersionResponse:
    """Describe a version; without a number, the latest."""
    asked = parse(request, ln.DescribeTableVersionRequest)
    target = access.managed(asked.id, asked.branch)
    if target is not None:
        return ln.DescribeTableVersionResponse(version=reading.describe(target, asked.version))
    store, directory = access.locate(asked.id)
    return ln.DescribeTableVersionResponse(
        version=versions.describe_version(store, directory, asked.version, asked.branch)
    )


def create_table_version(access: VersionAccess, request: Any) -> ln.CreateTableVersionResponse:
    """Make a version of a staged manifest.

    ``metadata`` of the request is not kept: without managed versions there is no place for it.
    """
    asked = parse(request, ln.CreateTableVersionRequest)
    target = access.managed(asked.id, asked.branch)
    if target is not None:
        made = commit.create(access.context, [(target, _asked(asked))])
        return ln.CreateTableVersionResponse(version=_answer(target.ctx.store, asked, made[0]))
    return ln.CreateTableVersionResponse(version=_create(*access.locate(asked.id), asked))


def batch_create_table_versions(
    access: VersionAccess, request: Any
) -> ln.BatchCreateTableVersionsResponse:
    """Make versions of several tables: as one commit where versions are managed, all or none.

    Without managed versions one after another, and not atomic.

    Everything is checked before the first is made. If a race makes a later one fail all the same,
    those before it have landed, and the error says how many.
    """
    entries = parse(request, ln.BatchCreateTableVersionsRequest).entries
    targets = [access.managed(entry.id, entry.branch) for entry in entries]
    if entries and any(target is not None for target in targets):
        return _create_at_once(access, entries, targets)
    places = [access.locate(entry.id) for entry in entries]
    seen: set[tuple[str, str | None]] = set()
    for (store, directory), entry in zip(places, entries, strict=True):
        # A second version of a table cannot be judged before the first is there.
        if (directory, branch_of(entry.branch)) not in seen:
            _check_create(store, directory, entry)
        seen.add((directory, branch_of(entry.branch)))
    made: list[ln.TableVersion] = []
    for (store, directory), entry in zip(places, entries, strict=True):
        try:
            made.append(_create(store, directory, entry))
        except LanceNamespaceError as error:
            if len(entries) == 1:
                raise
            raise _partly(error, len(made), len(entries)) from error
    return ln.BatchCreateTableVersionsResponse(versions=made)


def batch_delete_table_versions(
    access: VersionAccess, request: Any
) -> ln.BatchDeleteTableVersionsResponse:
    """Delete manifests by ranges, never data (O07).

    Controls (R13): ``ignore_missing`` (default true), ``force`` for the range (0, -1).
    """
    asked = parse(request, ln.BatchDeleteTableVersionsRequest)
    target = access.managed(asked.id, asked.branch)
    if target is not None:
        how = _deletion(request, asked)
        wanted = deletion.Deletion.of(
            target, how["ranges"], ignore_missing=how["ignore_missing"], force=how["force"]
        )
        return ln.BatchDeleteTableVersionsResponse(
            deleted_count=deletion.delete(access.context, wanted)
        )
    store, directory = access.locate(asked.id)
    return ln.BatchDeleteTableVersionsResponse(
        deleted_count=versions.delete_versions(store, directory, **_deletion(request, asked))
    )


def batch_commit_tables(access: VersionAccess, request: Any) -> ln.BatchCommitTablesResponse:
    """Carry out declarations, new versions, deletions and deregistrations, in order.

    One commit, all or nothing, where versions are managed.

    Not atomic without managed versions: everything that can be is checked first (the shape of
    each operation, that its table exists or is declared earlier in the batch, that its versions
    are free or there), then one after another is executed. If a race makes one fail all the same,
    those before it stay, and the error says how many.
    """
    asked = parse(request, ln.BatchCommitTablesRequest)
    operations = [_operation(asked, request, i) for i in range(len(asked.operations))]
    if is_managed(access.context.view().table_metadata):
        return batches.commit_tables(access.context, operations)
    _check_batch(access, operations)
    results: list[ln.CommitTableResult] = []
    for kind, raw in operations:
        try:
            results.append(_execute(access, kind, raw))
        except LanceNamespaceError as error:
            if len(operations) == 1:
                raise
            raise _partly(error, len(results), len(operations)) from error
    return ln.BatchCommitTablesResponse(results=results)


_Create = ln.CreateTableVersionRequest | ln.CreateTableVersionEntry


def _asked(asked: _Create) -> commit.Asked:
    return commit.Asked(
        asked.version,
        asked.manifest_path,
        asked.naming_scheme,
        asked.manifest_size,
        asked.e_tag,
        asked.metadata,
    )


def _answer(store: Store, asked: _Create, info: ObjectInfo) -> ln.TableVersion:
    made = as_table_version(store, asked.version, info)
    made.metadata = dict(asked.metadata) if asked.metadata else None
    return made


def _create_at_once(
    access: VersionAccess, entries: Sequence[Any], targets: Sequence[Target | None]
) -> ln.BatchCreateTableVersionsResponse:
    """Make versions of managed tables as one commit."""
    pairs: list[tuple[Target, commit.Asked]] = []
    for entry, target in zip(entries, targets, strict=True):
        if target is None:
            raise InvalidInputError(
                f"{entry.id}: a version of a branch, or of a table that is not in the manifest, "
                "cannot be part of an atomic batch; create it on its own"
            )
        pairs.append((target, _asked(entry)))
    made = commit.create(access.context, pairs)
    store = access.context.store
    answers = [_answer(store, entry, info) for entry, info in zip(entries, made, strict=True)]
    return ln.BatchCreateTableVersionsResponse(versions=answers)


def _create(store: Store, directory: str, asked: _Create) -> ln.TableVersion:
    return versions.create_version(
        store,
        directory,
        asked.version,
        asked.manifest_path,
        naming_scheme=asked.naming_scheme,
        manifest_size=asked.manifest_size,
        branch=asked.branch,
    )


def _check_create(store: Store, directory: str, asked: _Create) -> None:
    versions.check_version(
        store,
        directory,
        asked.version,
        asked.manifest_path,
        naming_scheme=asked.naming_scheme,
        manifest_size=asked.manifest_size,
        branch=asked.branch,
    )


def _deletion(request: Any, asked: ln.BatchDeleteTableVersionsRequest) -> dict[str, Any]:
    return {
        "ranges": [(part.start_version, part.end_version) for part in asked.ranges],
        "branch": asked.branch,
        "ignore_missing": _switch(request, "ignore_missing", True),
        "force": _switch(request, "force", False),
    }


def _switch(request: Any, name: str, default: bool) -> bool:
    value = control(request, name)
    if value is None:
        return default
    if value.lower() not in ("true", "false"):
        raise InvalidInputError(f"{name} is 'true' or 'false', not {value!r}")
    return value.lower() == "true"


def _partly(error: LanceNamespaceError, done: int, total: int) -> LanceNamespaceError:
    """Return the error with what a caller needs to know of the operations before it."""
    landed = f"the {done} before it have landed" if done else "nothing has landed"
    return type(error)(
        f"operation {done + 1} of {total}: {error} Without managed versions a batch is not "
        f"atomic: {landed}, the rest was not tried."
    )


_Operation = tuple[str, Any]

_MODELS: dict[str, type[BaseModel]] = {
    "declare_table": ln.DeclareTableRequest,
    "create_table_version": ln.CreateTableVersionRequest,
    "delete_table_versions": ln.BatchDeleteTableVersionsRequest,
    "deregister_table": ln.DeregisterTableRequest,
}


def _operation(asked: ln.BatchCommitTablesRequest, request: Any, index: int) -> _Operation:
    """Return (kind, request) of one operation; as the caller sent it, for its controls (R13)."""
    model = asked.operations[index]
    kinds = [kind for kind in type(model).model_fields if getattr(model, kind) is not None]
    if len(kinds) != 1:
        raise InvalidInputError(
            f"operation {index + 1} of the batch sets {', '.join(kinds) or 'nothing'}; each sets "
            f"exactly one of {', '.join(type(model).model_fields)}"
        )
    raw: Any = request
    for step in ("operations", index, kinds[0]):
        by_key = isinstance(raw, Mapping) or isinstance(step, int)
        raw = raw[step] if by_key else getattr(raw, str(step))
    return kinds[0], raw


def _check_batch(access: VersionAccess, operations: list[_Operation]) -> None:
    """Raise for what would fail, as far as that can be known before the first is executed."""
    #: Tables that the batch has declared (True) or deregistered (False) so far.
    changed: dict[tuple[str, ...], bool] = {}
    seen: set[tuple[str, str | None]] = set()
    for number, (kind, raw) in enumerate(operations, 1):
        asked: Any = parse(raw, _MODELS[kind])
        names = tuple(asked.id or ())
        place = None if names in changed else _find(access, asked.id)
        exists = changed.get(names, place is not None)
        if kind == "declare_table" and exists:
            raise TableAlreadyExistsError(
                f"operation {number} of the batch declares {list(names)}, which exists"
            )
        if kind != "declare_table" and not exists:
            raise TableNotFoundError(
                f"operation {number} of the batch needs the table {list(names)}, which does not "
                "exist at that point"
            )
        if kind in ("declare_table", "deregister_table"):
            changed[names] = kind == "declare_table"
        elif place is not None:
            # After the first operation on a branch, the rest cannot be judged beforehand.
            target = (place[1], branch_of(asked.branch))
            if target not in seen:
                seen.add(target)
                _check_versions(*place, raw, asked)


def _find(access: VersionAccess, table_id: list[str] | None) -> tuple[Store, str] | None:
    try:
        return access.locate(table_id)
    except TableNotFoundError:
        return None


def _check_versions(store: Store, directory: str, raw: Any, asked: Any) -> None:
    if isinstance(asked, ln.CreateTableVersionRequest):
        _check_create(store, directory, asked)
    else:
        versions.select_versions(store, directory, **_deletion(raw, asked))


def _execute(access: VersionAccess, kind: str, raw: Any) -> ln.CommitTableResult:
    if kind == "declare_table":
        return ln.CommitTableResult(declare_table=access.declare_table(raw))
    if kind == "deregister_table":
        return ln.CommitTableResult(deregister_table=access.deregister_table(raw))
    if kind == "create_table_version":
        return ln.CommitTableResult(create_table_version=create_table_version(access, raw))
    return ln.CommitTableResult(delete_table_versions=batch_delete_table_versions(access, raw))
