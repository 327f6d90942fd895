"""Columns and metadata: add, alter, drop; what a schema and its fields say of themselves."""

from __future__ import annotations

from typing import Any

import lance
from lance_namespace import (
    AlterTableAddColumnsRequest,
    AlterTableAddColumnsResponse,
    AlterTableAlterColumnsRequest,
    AlterTableAlterColumnsResponse,
    AlterTableDropColumnsRequest,
    AlterTableDropColumnsResponse,
    UpdateFieldMetadataRequest,
    UpdateFieldMetadataResponse,
    UpdateTableSchemaMetadataRequest,
    UpdateTableSchemaMetadataResponse,
)
from lance_namespace_urllib3_client.models.add_columns_entry import AddColumnsEntry
from lance_namespace_urllib3_client.models.alter_columns_entry import AlterColumnsEntry
from lance_namespace_urllib3_client.models.update_field_metadata_entry import (
    UpdateFieldMetadataEntry,
)

from lance_catalog.directory.operations.access import (
    TableAccess,
    lance_errors,
    open_target,
    transaction_id,
)
from lance_catalog.directory.operations.arrow import parse_type
from lance_catalog.errors import (
    InvalidInputError,
    TableColumnNotFoundError,
    UnsupportedOperationError,
)

__all__ = [
    "alter_table_add_columns",
    "alter_table_alter_columns",
    "alter_table_drop_columns",
    "update_field_metadata",
    "update_table_schema_metadata",
]


_EXTENSION = "ARROW:extension:"


def alter_table_add_columns(
    access: TableAccess, request: AlterTableAddColumnsRequest
) -> AlterTableAddColumnsResponse:
    """Add columns, each computed once from an SQL expression."""
    transforms: dict[str, str] = {}
    for entry in request.new_columns:
        expression = _expression(entry)
        if entry.name in transforms:
            raise InvalidInputError(f"alter_table_add_columns: '{entry.name}' is given twice")
        transforms[entry.name] = expression
    _not_empty(transforms, "alter_table_add_columns", "new_columns")
    dataset = open_target(access, request)
    with lance_errors("alter_table_add_columns"):
        dataset.add_columns(transforms)
    return AlterTableAddColumnsResponse(version=dataset.version)


def _expression(entry: AddColumnsEntry) -> str:
    if not entry.name:
        raise InvalidInputError("alter_table_add_columns: a column needs a name")
    for field in ("computed", "virtual_column"):
        if getattr(entry, field) is not None:
            raise UnsupportedOperationError(
                f"alter_table_add_columns: '{field}' of column '{entry.name}' needs a service that "
                "keeps the column up to date; add it by 'expression' and update it yourself"
            )
    if not entry.expression:
        raise InvalidInputError(
            f"alter_table_add_columns: column '{entry.name}' needs an 'expression'; "
            "for an empty column use one such as cast(null as int)"
        )
    return entry.expression


def alter_table_alter_columns(
    access: TableAccess, request: AlterTableAlterColumnsRequest
) -> AlterTableAlterColumnsResponse:
    """Rename columns, change their types, make them nullable or not."""
    # lance annotates each as an iterable of alterations; it takes one.
    alterations: list[Any] = [_alteration(entry) for entry in request.alterations]
    _not_empty(alterations, "alter_table_alter_columns", "alterations")
    dataset = open_target(access, request)
    with lance_errors("alter_table_alter_columns"):
        dataset.alter_columns(*alterations)
    return AlterTableAlterColumnsResponse(version=dataset.version)


def _alteration(entry: AlterColumnsEntry) -> dict[str, Any]:
    if entry.virtual_column is not None:
        raise UnsupportedOperationError(
            f"alter_table_alter_columns: 'virtual_column' of '{entry.path}' needs a service that "
            "keeps the column up to date; update the column yourself"
        )
    alteration: dict[str, Any] = {"path": entry.path}
    if entry.rename is not None:
        alteration["name"] = entry.rename
    if entry.nullable is not None:
        alteration["nullable"] = entry.nullable
    if entry.data_type is not None:
        alteration["data_type"] = parse_type(
            entry.data_type, f"alter_table_alter_columns: 'data_type' of '{entry.path}'"
        )
    if len(alteration) == 1:
        raise InvalidInputError(
            f"alter_table_alter_columns: nothing to change on '{entry.path}'; "
            "set 'rename', 'nullable' or 'data_type'"
        )
    return alteration


def alter_table_drop_columns(
    access: TableAccess, request: AlterTableDropColumnsRequest
) -> AlterTableDropColumnsResponse:
    """Take columns out of the schema; their data stays until compaction."""
    _not_empty(request.columns, "alter_table_drop_columns", "columns")
    dataset = open_target(access, request)
    with lance_errors("alter_table_drop_columns"):
        dataset.drop_columns(request.columns)
    return AlterTableDropColumnsResponse(version=dataset.version)


def update_table_schema_metadata(
    access: TableAccess, request: UpdateTableSchemaMetadataRequest
) -> UpdateTableSchemaMetadataResponse:
    """Set keys of the schema's metadata; the others stay. The answer holds all of them."""
    dataset = open_target(access, request)
    with lance_errors("update_table_schema_metadata"):
        if not request.metadata:
            return UpdateTableSchemaMetadataResponse(metadata=dataset.schema_metadata)
        metadata = dataset.update_schema_metadata(dict(request.metadata))
        return UpdateTableSchemaMetadataResponse(
            metadata=metadata, transaction_id=transaction_id(dataset)
        )


def update_field_metadata(
    access: TableAccess, request: UpdateFieldMetadataRequest
) -> UpdateFieldMetadataResponse:
    """Change the metadata of fields, all in one version."""
    _not_empty(request.updates, "update_field_metadata", "updates")
    dataset = open_target(access, request)
    with lance_errors("update_field_metadata"):
        fields: dict[str, int] = {}
        for entry in request.updates:
            identity = _field(dataset, entry.path).id()
            if identity in fields.values():
                raise InvalidInputError(f"update_field_metadata: '{entry.path}' is given twice")
            fields[entry.path] = identity
        if any(entry.replace for entry in request.updates):
            # One commit has one mode, so what is to be merged is merged here.
            whole = {entry.path: _whole(dataset, entry) for entry in request.updates}
            dataset.update_field_metadata(whole, replace=True)
        else:
            changes = {entry.path: entry.metadata for entry in request.updates}
            dataset.update_field_metadata(changes)
        after = {path: _metadata(dataset, path) for path in fields}
    return UpdateFieldMetadataResponse(version=dataset.version, fields=after)


def _field(dataset: lance.LanceDataset, path: str) -> Any:
    field = dataset.lance_schema.field(path)
    if field is None:
        raise TableColumnNotFoundError(f"update_field_metadata: no field '{path}'")
    return field


def _metadata(dataset: lance.LanceDataset, path: str) -> dict[str, str]:
    return dict(_field(dataset, path).metadata)


def _whole(dataset: lance.LanceDataset, entry: UpdateFieldMetadataEntry) -> dict[str, str | None]:
    before = _metadata(dataset, entry.path)
    if entry.replace:
        # An extension type is kept in the metadata of its field; without it the type is lost.
        before = {key: value for key, value in before.items() if key.startswith(_EXTENSION)}
    after = {**before, **entry.metadata}
    return {key: value for key, value in after.items() if value is not None}


def _not_empty(given: Any, operation: str, field: str) -> None:
    # Lance commits an empty version for an empty list; a caller never means that.
    if not given:
        raise InvalidInputError(f"{operation}: '{field}' is empty")
