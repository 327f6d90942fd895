"""The version operations of the interface, unmanaged: the files of a table are the truth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import lance_namespace as ln
from pydantic import BaseModel

from lance_catalog import versions
from lance_catalog.directory.requests import control, parse
from lance_catalog.errors import (
    InvalidInputError,
    LanceNamespaceError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from lance_catalog.storage.port import Store
from lance_catalog.versions.files import branch_of

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

    def declare_table(self, request: Any) -> ln.DeclareTableResponse: ...

    def deregister_table(self, request: Any) -> ln.DeregisterTableResponse: ...


def list_table_versions(access: VersionAccess, request: Any) -> ln.ListTableVersionsResponse:
    """List versions, latest first unless ``descending`` is false (R2)."""
    asked = parse(request, ln.ListTableVersionsRequest)
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
    store, directory = access.locate(asked.id)
    return ln.DescribeTableVersionResponse(
        version=versions.describe_version(store, directory, asked.version, asked.branch)
    )


def create_table_version(access: VersionAccess, request: Any) -> ln.CreateTableVersionResponse:
    """Make a version of a staged manifest.

    ``metadata`` of the request is not kept: without managed versions there is no place for it.
    """
    asked = parse(request, ln.CreateTableVersionRequest)
    return ln.CreateTableVersionResponse(version=_create(*access.locate(asked.id), asked))


def batch_create_table_versions(
    access: VersionAccess, request: Any
) -> ln.BatchCreateTableVersionsResponse:
    """Make versions of several tables, one after another. Not atomic without managed versions.

    Everything is checked before the first is made. If a race makes a later one fail all the same,
    those before it have landed, and the error says how many.
    """
    entries = parse(request, ln.BatchCreateTableVersionsRequest).entries
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
    store, directory = access.locate(asked.id)
    return ln.BatchDeleteTableVersionsResponse(
        deleted_count=versions.delete_versions(store, directory, **_deletion(request, asked))
    )


def batch_commit_tables(access: VersionAccess, request: Any) -> ln.BatchCommitTablesResponse:
    """Carry out declarations, new versions, deletions and deregistrations, in order.

    Not atomic without managed versions: everything that can be is checked first (the shape of
    each operation, that its table exists or is declared earlier in the batch, that its versions
    are free or there), then one after another is executed. If a race makes one fail all the same,
    those before it stay, and the error says how many.
    """
    asked = parse(request, ln.BatchCommitTablesRequest)
    operations = [_operation(asked, request, i) for i in range(len(asked.operations))]
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
