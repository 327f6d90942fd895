"""Arrow on the wire: IPC bytes in and out, and schemas and types as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import lance
import pyarrow as pa
from lance.schema import LanceSchema
from lance_namespace_urllib3_client.models.json_arrow_data_type import JsonArrowDataType
from lance_namespace_urllib3_client.models.json_arrow_field import JsonArrowField
from lance_namespace_urllib3_client.models.json_arrow_schema import JsonArrowSchema

from lance_catalog.errors import InvalidInputError

__all__ = ["file_bytes", "json_schema", "parse_type", "stream_reader", "stream_table"]


def stream_table(data: bytes, operation: str = "request data") -> pa.Table:
    """Decode an Arrow IPC stream; 13 unless every batch of it is sound.

    All of it is checked before any of it is written: the bytes come from a stranger, Lance would
    find a broken batch only after it wrote the ones before, and Rust trusts the buffers it is
    handed. Uncompressed batches are not copied.
    """
    if not data:
        raise InvalidInputError(f"{operation}: the data is empty; send an Arrow IPC stream")
    try:
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            table = reader.read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InvalidInputError(
            f"{operation}: the data is not a sound Arrow IPC stream ({error}). "
            "Write it with pyarrow.ipc.new_stream."
        ) from error
    return table


def stream_reader(data: bytes, operation: str = "request data") -> pa.RecordBatchReader:
    """``stream_table``, as a reader."""
    return stream_table(data, operation).to_reader()


def file_bytes(reader: pa.RecordBatchReader) -> bytes:
    """Encode the batches as an Arrow IPC file."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
    return bytes(sink.getvalue())


_NAMES: Final[dict[pa.DataType, str]] = {
    pa.null(): "null",
    pa.bool_(): "bool",
    pa.int8(): "int8",
    pa.int16(): "int16",
    pa.int32(): "int32",
    pa.int64(): "int64",
    pa.uint8(): "uint8",
    pa.uint16(): "uint16",
    pa.uint32(): "uint32",
    pa.uint64(): "uint64",
    pa.float16(): "float16",
    pa.float32(): "float32",
    pa.float64(): "float64",
    pa.string(): "utf8",
    pa.large_string(): "large_utf8",
    pa.string_view(): "utf8",
    pa.binary(): "binary",
    pa.large_binary(): "large_binary",
    pa.binary_view(): "binary",
    pa.date32(): "date32",
    pa.date64(): "date64",
}
_PLAIN: Final = {name: kind for kind, name in reversed(_NAMES.items())}


def json_schema(schema: pa.Schema) -> JsonArrowSchema:
    """The schema as ``describe_table`` gives it, in the shape native gives.

    The model has no place for units and time zones, so like native we name the bare type.
    """
    return JsonArrowSchema(
        fields=[_json_field(field) for field in schema], metadata=_text(schema.metadata)
    )


def _json_field(field: pa.Field) -> JsonArrowField:
    metadata = _text(field.metadata) or {}
    kind = field.type
    if isinstance(kind, pa.BaseExtensionType):
        # pyarrow does not show how its own extension types are stored; Lance's schema does.
        stored: Any = LanceSchema.from_pyarrow(pa.schema([field])).fields()[0]
        metadata = dict(stored.metadata)
        kind = stored.to_arrow().type
        kind = getattr(kind, "storage_type", kind)
    return JsonArrowField(
        name=field.name,
        nullable=field.nullable,
        type=_json_type(kind),
        metadata=metadata or None,
    )


def _json_type(kind: pa.DataType) -> JsonArrowDataType:
    types = pa.types
    if name := _NAMES.get(kind):
        return JsonArrowDataType(type=name)
    if types.is_dictionary(kind):
        return _json_type(kind.value_type)
    if types.is_struct(kind):
        return JsonArrowDataType(type="struct", fields=[_json_field(child) for child in kind])
    if types.is_map(kind):
        entries = pa.field("entries", pa.struct([kind.key_field, kind.item_field]), nullable=False)
        return JsonArrowDataType(type="map", fields=[_json_field(entries)])
    if types.is_fixed_size_list(kind):
        return JsonArrowDataType(
            type="fixed_size_list", fields=[_json_field(kind.value_field)], length=kind.list_size
        )
    if types.is_list(kind) or types.is_large_list(kind):
        name = "list" if types.is_list(kind) else "large_list"
        return JsonArrowDataType(type=name, fields=[_json_field(kind.value_field)])
    if types.is_fixed_size_binary(kind) and not types.is_decimal(kind):
        return JsonArrowDataType(type="fixed_size_binary", length=kind.byte_width)
    if types.is_decimal(kind):
        # Native packs both numbers of a decimal into the one the model has.
        return JsonArrowDataType(
            type=f"decimal{kind.bit_width}", length=kind.precision * 1000 + kind.scale
        )
    return JsonArrowDataType(type=str(kind).split("[", 1)[0])


def parse_type(given: Mapping[str, Any], field: str) -> pa.DataType:
    """Read a type written as JSON: the names of ``json_schema`` or those of Lance's own JSON.

    Units are part of Lance's names: ``{"type": "timestamp:us:UTC"}``. 13 for anything else.
    """
    name = given.get("type")
    if not isinstance(name, str):
        raise InvalidInputError(f"{field}: expected an object with a 'type', got {dict(given)}")
    plain = _PLAIN.get(name.lower())
    if plain is not None:
        return plain
    if name.lower() in ("list", "large_list", "fixed_size_list", "struct"):
        return _parse_nested(name.lower(), given, field)
    try:
        schema = lance.json_to_schema(
            {"fields": [{"name": "c", "nullable": True, "type": dict(given)}]}
        )
    except (ValueError, TypeError) as error:
        raise InvalidInputError(
            f"{field}: unknown type {json.dumps(dict(given), default=str)}. Known are "
            f"{', '.join(sorted(_PLAIN))}, list, large_list, fixed_size_list, struct, and Lance's "
            "own names, such as timestamp:us:UTC or decimal:128:10:2"
        ) from error
    return schema.field(0).type


def _parse_nested(name: str, given: Mapping[str, Any], field: str) -> pa.DataType:
    children = [_parse_field(child, field) for child in given.get("fields") or ()]
    if name == "struct":
        return pa.struct(children)
    length = given.get("length")
    if len(children) != 1 or (name == "fixed_size_list" and not isinstance(length, int)):
        raise InvalidInputError(
            f"{field}: a {name} has one entry in 'fields', a fixed_size_list a 'length' too"
        )
    if name == "fixed_size_list":
        return pa.list_(children[0], length)
    return pa.list_(children[0]) if name == "list" else pa.large_list(children[0])


def _parse_field(given: Any, field: str) -> pa.Field:
    if not isinstance(given, Mapping) or not isinstance(given.get("type"), Mapping):
        raise InvalidInputError(f"{field}: every entry of 'fields' has a 'name' and a 'type'")
    return pa.field(
        str(given.get("name", "item")),
        parse_type(given["type"], field),
        nullable=bool(given.get("nullable", True)),
    )


def _text(metadata: dict[bytes, bytes] | None) -> dict[str, str] | None:
    if not metadata:
        return None
    return {
        key.decode(errors="replace"): value.decode(errors="replace")
        for key, value in metadata.items()
    }
