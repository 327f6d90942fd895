"""Rows: insert, merge, update, delete, count."""

from __future__ import annotations

import re
from datetime import timedelta

from lance_namespace import (
    CountTableRowsRequest,
    CountTableRowsResponse,
    DeleteFromTableRequest,
    DeleteFromTableResponse,
    InsertIntoTableRequest,
    InsertIntoTableResponse,
    MergeInsertIntoTableRequest,
    MergeInsertIntoTableResponse,
    UpdateTableRequest,
    UpdateTableResponse,
)

from lance_catalog.directory.operations.access import (
    TableAccess,
    lance_errors,
    open_target,
)
from lance_catalog.directory.operations.arrow import stream_table
from lance_catalog.errors import InvalidInputError, UnsupportedOperationError

__all__ = [
    "count_table_rows",
    "delete_from_table",
    "insert_into_table",
    "merge_insert_into_table",
    "update_table",
]


def insert_into_table(
    access: TableAccess, request: InsertIntoTableRequest, data: bytes
) -> InsertIntoTableResponse:
    """Append the rows, or put them in the place of all there are (schema included)."""
    mode = (request.mode or "append").lower()
    if mode not in ("append", "overwrite"):
        raise InvalidInputError(
            f"insert_into_table: unknown mode '{request.mode}'; use append or overwrite"
        )
    dataset = open_target(access, request)
    table = stream_table(data, "insert_into_table")
    with lance_errors("insert_into_table"):
        dataset.insert(table, mode=mode)
    return InsertIntoTableResponse(num_inserted_rows=table.num_rows, version=dataset.version)


def merge_insert_into_table(
    access: TableAccess, request: MergeInsertIntoTableRequest, data: bytes
) -> MergeInsertIntoTableResponse:
    """Match the rows by key; update, insert and delete as the request says."""
    if not request.on:
        raise InvalidInputError("merge_insert_into_table: 'on' is required: the key columns")
    timeout = None if request.timeout is None else _duration(request.timeout)
    dataset = open_target(access, request)
    for key in request.on:
        # Lance looks for the last part of the path at the top level and reports that as missing.
        if "." in key and "`" not in key and dataset.lance_schema.field(key) is not None:
            raise InvalidInputError(
                f"merge_insert_into_table: 'on' names {key}, inside a struct; "
                "Lance matches rows by top-level columns only"
            )
    table = stream_table(data, "merge_insert_into_table")
    with lance_errors("merge_insert_into_table"):
        merge = dataset.merge_insert(request.on)
        # A condition alone asks for the action too, as native reads it.
        if request.when_matched_update_all or request.when_matched_update_all_filt:
            merge = merge.when_matched_update_all(request.when_matched_update_all_filt)
        if request.when_not_matched_insert_all:
            merge = merge.when_not_matched_insert_all()
        delete_filter = request.when_not_matched_by_source_delete_filt
        if request.when_not_matched_by_source_delete or delete_filter:
            merge = merge.when_not_matched_by_source_delete(delete_filter)
        if timeout is not None:
            merge = merge.retry_timeout(timeout)
        if request.use_index is not None:
            merge = merge.use_index(request.use_index)
        done = merge.execute(table)
    return MergeInsertIntoTableResponse(
        num_updated_rows=done["num_updated_rows"],
        num_inserted_rows=done["num_inserted_rows"],
        num_deleted_rows=done["num_deleted_rows"],
        version=dataset.version,
    )


def update_table(access: TableAccess, request: UpdateTableRequest) -> UpdateTableResponse:
    """Set columns to SQL expressions, in the rows the predicate selects or in all."""
    if not request.updates:
        raise InvalidInputError("update_table: 'updates' is empty; give [column, expression] pairs")
    if request.properties:
        raise UnsupportedOperationError(
            "update_table: 'properties' cannot be changed together with rows; "
            "send the update without them"
        )
    updates: dict[str, str] = {}
    for column, expression in request.updates:
        if column in updates:
            raise InvalidInputError(f"update_table: column '{column}' is updated twice")
        updates[column] = expression
    dataset = open_target(access, request)
    with lance_errors("update_table"):
        done = dataset.update(updates, request.predicate)
    return UpdateTableResponse(updated_rows=done["num_rows_updated"], version=dataset.version)


def delete_from_table(
    access: TableAccess, request: DeleteFromTableRequest
) -> DeleteFromTableResponse:
    """Delete the rows the predicate selects; ``true`` selects all."""
    if not request.predicate.strip():
        raise InvalidInputError("delete_from_table: 'predicate' is empty; use 'true' for all rows")
    dataset = open_target(access, request)
    with lance_errors("delete_from_table"):
        dataset.delete(request.predicate)
    return DeleteFromTableResponse(version=dataset.version)


def count_table_rows(access: TableAccess, request: CountTableRowsRequest) -> CountTableRowsResponse:
    """Count the rows, or those the predicate selects."""
    dataset = open_target(access, request, version=request.version)
    with lance_errors("count_table_rows"):
        return CountTableRowsResponse(count=dataset.count_rows(request.predicate))


_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h)\s*")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def _duration(text: str) -> timedelta:
    match = _DURATION.fullmatch(text)
    if match is None:
        raise InvalidInputError(
            f"merge_insert_into_table: 'timeout' is '{text}'; write 500ms, 30s, 5m or 1h"
        )
    try:
        return timedelta(seconds=float(match[1]) * _SECONDS[match[2]])
    except OverflowError as error:
        raise InvalidInputError(f"merge_insert_into_table: 'timeout' {text} is too long") from error
