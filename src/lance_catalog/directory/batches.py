"""From the requests of batch_commit_tables to a managed batch, and back to its answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import lance_namespace as ln

from lance_catalog.config import parse_bool
from lance_catalog.directory.context import Context
from lance_catalog.directory.managed import batch
from lance_catalog.directory.managed.commit import Asked
from lance_catalog.directory.requests import control, parse
from lance_catalog.directory.resolve import table_id
from lance_catalog.errors import InvalidInputError
from lance_catalog.model import check_user_properties, user_properties
from lance_catalog.versions.files import as_table_version, branch_of

__all__ = ["commit_tables"]


def commit_tables(
    ctx: Context, operations: Sequence[tuple[str, Any]]
) -> ln.BatchCommitTablesResponse:
    """Carry out operations, as (kind, request), in one commit."""
    wanted = [_operation(ctx, kind, raw) for kind, raw in operations]
    batch.carry_out(ctx, wanted)
    return ln.BatchCommitTablesResponse(results=[_result(ctx, one) for one in wanted])


def _operation(ctx: Context, kind: str, raw: Any) -> batch.Operation:
    if kind == "declare_table":
        declared = parse(raw, ln.DeclareTableRequest)
        if declared.location is not None:
            raise InvalidInputError("declare_table in a batch takes no location; leave it out")
        given = check_user_properties(declared.properties)
        return batch.Declare(table_id(ctx, declared.id, kind), given)
    if kind == "create_table_version":
        asked = parse(raw, ln.CreateTableVersionRequest)
        _require_main(asked.branch)
        version = Asked(
            asked.version,
            asked.manifest_path,
            asked.naming_scheme,
            asked.manifest_size,
            asked.e_tag,
            asked.metadata,
        )
        return batch.Version(table_id(ctx, asked.id, kind), version)
    if kind == "delete_table_versions":
        gone = parse(raw, ln.BatchDeleteTableVersionsRequest)
        _require_main(gone.branch)
        ranges = tuple((part.start_version, part.end_version) for part in gone.ranges)
        return batch.Delete(
            table_id(ctx, gone.id, kind),
            ranges,
            _switch(raw, "ignore_missing", True),
            _switch(raw, "force", False),
        )
    leaving = parse(raw, ln.DeregisterTableRequest)
    return batch.Deregister(table_id(ctx, leaving.id, kind))


def _switch(request: Any, name: str, default: bool) -> bool:
    value = control(request, name)
    return default if value is None else parse_bool(name, value)


def _require_main(branch: str | None) -> None:
    if branch_of(branch) is not None:
        raise InvalidInputError(
            f"branch '{branch}': versions of branches are not registered, so they cannot be part "
            "of an atomic batch; commit them on their own"
        )


def _result(ctx: Context, one: batch.Operation) -> ln.CommitTableResult:
    if isinstance(one, batch.Declare):
        declared = ln.DeclareTableResponse(
            location=ctx.store.uri_of(one.place),
            properties=one.properties or None,
            managed_versioning=True,
        )
        return ln.CommitTableResult(declare_table=declared)
    if isinstance(one, batch.Version):
        assert one.made is not None
        made = as_table_version(ctx.store, one.asked.version, one.made)
        made.metadata = dict(one.asked.metadata) if one.asked.metadata else None
        return ln.CommitTableResult(
            create_table_version=ln.CreateTableVersionResponse(version=made)
        )
    if isinstance(one, batch.Delete):
        count = ln.BatchDeleteTableVersionsResponse(deleted_count=len(one.gone))
        return ln.CommitTableResult(delete_table_versions=count)
    assert one.entry is not None
    left = ln.DeregisterTableResponse(
        id=list(one.names),
        location=ctx.store.uri_of(one.entry.location or ""),
        properties=user_properties(one.entry.properties()) or None,
    )
    return ln.CommitTableResult(deregister_table=left)
