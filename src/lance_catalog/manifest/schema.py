"""The columns of ``__manifest`` (C04), and what we do about tables that look otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from lance_catalog.errors import InternalError
from lance_catalog.model import Entry

__all__ = ["COLUMNS", "DIRECTORY", "SCHEMA", "STORAGE_VERSION", "check_schema", "rows_table"]

DIRECTORY: Final = "__manifest"
#: What native writes; readers of other implementations know it (C04).
STORAGE_VERSION: Final = "2.2"

SCHEMA: Final = pa.schema(
    [
        pa.field(
            "object_id",
            pa.string(),
            nullable=False,
            metadata={"lance-schema:unenforced-primary-key:position": "0"},
        ),
        pa.field("object_type", pa.string(), nullable=False),
        pa.field("location", pa.string()),
        pa.field("metadata", pa.string()),
        pa.field("base_objects", pa.list_(pa.field("object_id", pa.string()))),
    ]
)
#: The columns the catalog works with; base_objects and others are carried along untouched.
COLUMNS: Final = ("object_id", "object_type", "location", "metadata")


def check_schema(schema: pa.Schema, where: str) -> None:
    """Raise 18, naming the column, when a table at ``__manifest`` is not a catalog's."""
    for expected in SCHEMA:
        index = schema.get_field_index(expected.name)
        if index < 0:
            raise InternalError(
                f"{where} is not a catalog's manifest: column '{expected.name}' is missing. "
                "Point root elsewhere, or move that table away."
            )
        found = schema.field(index).type
        same = found == expected.type or (
            expected.name == "base_objects"
            and pa.types.is_list(found)
            and found.value_type == pa.string()
        )
        if not same:
            raise InternalError(
                f"{where} is not a catalog's manifest: column '{expected.name}' is {found}, "
                f"expected {expected.type}. Point root elsewhere, or move that table away."
            )


def rows_table(
    entries: Sequence[Entry], carried: Sequence[dict[str, object] | None], schema: pa.Schema
) -> pa.Table:
    """Return rows to write, in the manifest's own schema.

    ``carried`` holds, per entry, the other columns of the row it replaces: what other writers
    keep in there survives a rename or a drop.
    """
    columns: dict[str, list[object]] = {field.name: [] for field in schema}
    for entry, others in zip(entries, carried, strict=True):
        for name, values in columns.items():
            if name in COLUMNS:
                values.append(getattr(entry, name))
            else:
                values.append(None if others is None else others.get(name))
    return pa.table(
        [pa.array(columns[field.name], type=field.type) for field in schema], schema=schema
    )
