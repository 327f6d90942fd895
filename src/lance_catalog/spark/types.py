"""Types: what a column of a Lance table is in Spark, and the other way round.

Reading goes by what the table holds; writing goes by the schema of the target table, so that a
table keeps its unsigned integers, its half floats and its vectors whatever Spark makes of them.
What has no counterpart is refused with the name of the column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

import pyarrow as pa
from pyspark.sql import types as st

from lance_catalog.errors import InvalidInputError, TableSchemaValidationError

__all__ = [
    "BLOB_KEY",
    "Blobs",
    "arrow_schema_for",
    "extension_name",
    "is_blob",
    "require_castable",
    "spark_schema",
]

Blobs = Literal["bytes", "descriptors"]

#: How Lance marks a column whose values lie outside the rows (file versions up to 2.1).
BLOB_KEY: Final = b"lance-encoding:blob"
BLOB_V2: Final = "lance.blob.v2"
BFLOAT16: Final = "lance.bfloat16"
#: Field metadata of a DataFrame that remembers a vector, so that a new table gets one again.
VECTOR_KEY: Final = "lance.vector"
ITEM_KEY: Final = "lance.item"
#: Columns that Lance adds to a scan; unsigned there, never near the top of the range.
ROW_ID_COLUMNS: Final = frozenset({"_rowid", "_rowaddr"})

_SIMPLE: Final[tuple[tuple[Any, st.DataType], ...]] = (
    (pa.types.is_boolean, st.BooleanType()),
    (pa.types.is_int8, st.ByteType()),
    (pa.types.is_int16, st.ShortType()),
    (pa.types.is_int32, st.IntegerType()),
    (pa.types.is_int64, st.LongType()),
    (pa.types.is_uint8, st.ShortType()),
    (pa.types.is_uint16, st.IntegerType()),
    (pa.types.is_uint32, st.LongType()),
    # A bigint would turn the upper half of the range into negative numbers.
    (pa.types.is_uint64, st.DecimalType(20, 0)),
    (pa.types.is_float16, st.FloatType()),
    (pa.types.is_float32, st.FloatType()),
    (pa.types.is_float64, st.DoubleType()),
    (pa.types.is_string, st.StringType()),
    (pa.types.is_large_string, st.StringType()),
    (pa.types.is_string_view, st.StringType()),
    (pa.types.is_binary, st.BinaryType()),
    (pa.types.is_large_binary, st.BinaryType()),
    (pa.types.is_binary_view, st.BinaryType()),
    (pa.types.is_fixed_size_binary, st.BinaryType()),
    (pa.types.is_date, st.DateType()),
    (pa.types.is_time, st.TimeType(6)),
    (pa.types.is_duration, st.DayTimeIntervalType()),
    (pa.types.is_null, st.NullType()),
)

_DESCRIPTOR_V1: Final = st.StructType(
    [st.StructField("position", st.LongType()), st.StructField("size", st.LongType())]
)
_DESCRIPTOR_V2: Final = st.StructType(
    [
        st.StructField("kind", st.ShortType(), False),
        st.StructField("position", st.LongType(), False),
        st.StructField("size", st.LongType(), False),
        st.StructField("blob_id", st.LongType(), False),
        st.StructField("blob_uri", st.StringType(), False),
    ]
)


def spark_schema(schema: pa.Schema, *, blobs: Blobs = "bytes") -> st.StructType:
    """Return the Spark schema of a Lance table; 20 names the column that Spark cannot hold."""
    return st.StructType([_spark_field(field, field.name, blobs) for field in schema])


def extension_name(kind: pa.DataType) -> str | None:
    """Return the name of an Arrow extension type, None for an ordinary type."""
    return str(kind.extension_name) if isinstance(kind, pa.BaseExtensionType) else None


def is_blob(field: pa.Field) -> bool:
    """Whether a column is one of Lance's blobs, of either kind."""
    marked = (field.metadata or {}).get(BLOB_KEY, b"").lower() == b"true"
    return marked or extension_name(field.type) == BLOB_V2


def _spark_field(field: pa.Field, path: str, blobs: Blobs) -> st.StructField:
    kind = _storage(field.type)
    metadata: dict[str, Any] | None = None
    if field.name in ROW_ID_COLUMNS and path == field.name:
        found: st.DataType = st.LongType()
    elif is_blob(field):
        descriptor = _DESCRIPTOR_V2 if extension_name(field.type) == BLOB_V2 else _DESCRIPTOR_V1
        found = st.BinaryType() if blobs == "bytes" else descriptor
    else:
        found = _inner_type(field, path, blobs)
        if pa.types.is_fixed_size_list(kind):
            item = extension_name(kind.value_type) or str(kind.value_type)
            metadata = {VECTOR_KEY: kind.list_size, ITEM_KEY: item}
    return st.StructField(field.name, found, field.nullable, metadata)


def _inner_type(field: pa.Field, path: str, blobs: Blobs) -> st.DataType:
    # A type that only its metadata tells, unless somebody registered it with Arrow.
    named = (field.metadata or {}).get(b"ARROW:extension:name", b"").decode()
    return st.FloatType() if named == BFLOAT16 else _spark_type(field.type, path, blobs)


def _storage(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _spark_type(kind: pa.DataType, path: str, blobs: Blobs) -> st.DataType:
    if extension_name(kind) == BFLOAT16:
        return st.FloatType()
    kind = _storage(kind)
    for test, found in _SIMPLE:
        if test(kind):
            return found
    if pa.types.is_timestamp(kind):
        return st.TimestampNTZType() if kind.tz is None else st.TimestampType()
    if pa.types.is_decimal(kind) and kind.precision <= 38 and 0 <= kind.scale <= kind.precision:
        return st.DecimalType(kind.precision, kind.scale)
    if pa.types.is_dictionary(kind):
        return _spark_type(kind.value_type, path, blobs)
    if _is_list(kind):
        item = kind.value_field
        return st.ArrayType(_inner_type(item, f"{path}[]", blobs), item.nullable)
    if pa.types.is_struct(kind):
        return st.StructType([_spark_field(one, f"{path}.{one.name}", blobs) for one in kind])
    if pa.types.is_map(kind):
        return st.MapType(
            _spark_type(kind.key_type, f"{path}.key", blobs),
            _inner_type(kind.item_field, f"{path}.value", blobs),
            kind.item_field.nullable,
        )
    advice = "leave it out by columns=[...]"
    if pa.types.is_decimal(kind):
        advice = f"Spark's decimals end at 38 digits; cast it in the table, or {advice}"
    raise TableSchemaValidationError(
        f"column '{path}' is {kind}, which Spark cannot hold; {advice}"
    )


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


# Writing: the Lance schema of a new table.

_TO_ARROW: Final[Mapping[type[st.DataType], pa.DataType]] = {
    st.BooleanType: pa.bool_(),
    st.ByteType: pa.int8(),
    st.ShortType: pa.int16(),
    st.IntegerType: pa.int32(),
    st.LongType: pa.int64(),
    st.FloatType: pa.float32(),
    st.DoubleType: pa.float64(),
    st.StringType: pa.string(),
    st.CharType: pa.string(),
    st.VarcharType: pa.string(),
    st.BinaryType: pa.binary(),
    st.DateType: pa.date32(),
    st.TimestampType: pa.timestamp("us", tz="UTC"),
    st.TimestampNTZType: pa.timestamp("us"),
    st.TimeType: pa.time64("us"),
    st.DayTimeIntervalType: pa.duration("us"),
    st.NullType: pa.null(),
}

#: What to do about a type of Spark's that a table cannot hold.
_ADVICE: Final[Mapping[type[st.DataType], str]] = {
    st.VariantType: "write to_json(column)",
    st.YearMonthIntervalType: "write the months as an integer",
    st.CalendarIntervalType: "write months, days and microseconds as three columns",
}


def arrow_schema_for(schema: st.StructType, vectors: Mapping[str, int] | None = None) -> pa.Schema:
    """Return the Lance schema of a new table for a DataFrame's schema.

    ``vectors`` gives the length of the array columns that are vectors (dotted names reach into
    structs); a column read from a vector of a Lance table is one without being named.
    """
    wanted = dict(vectors or {})
    made = pa.schema([_arrow_field(field, field.name, wanted) for field in schema.fields])
    if wanted:
        raise InvalidInputError(
            f"vectors: there is no column '{next(iter(wanted))}'; the array columns are "
            f"{', '.join(_arrays(schema)) or 'none'}"
        )
    return made


def _arrays(schema: st.StructType, prefix: str = "") -> Iterator[str]:
    for field in schema.fields:
        if isinstance(field.dataType, st.ArrayType):
            yield prefix + field.name
        elif isinstance(field.dataType, st.StructType):
            yield from _arrays(field.dataType, f"{prefix}{field.name}.")


def _arrow_field(field: st.StructField, path: str, vectors: dict[str, int]) -> pa.Field:
    kind = _arrow_type(field.dataType, path, vectors)
    size: Any = vectors.pop(path, None)
    remembered = False
    if size is None and isinstance(field.dataType, st.ArrayType):
        size, remembered = (field.metadata or {}).get(VECTOR_KEY), True
    if size is not None:
        kind = _vector(kind, size, path, field.metadata if remembered else None)
    return pa.field(field.name, kind, field.nullable)


def _vector(kind: pa.DataType, size: Any, path: str, memory: Mapping[str, Any] | None) -> Any:
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise InvalidInputError(f"vectors: the length of '{path}' is {size!r}; give a number > 0")
    if not pa.types.is_list(kind) or not (
        pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type)
    ):
        if memory is not None:
            return kind
        raise InvalidInputError(
            f"vectors: column '{path}' is {kind}; a vector is an array of numbers"
        )
    item = kind.value_type
    if (memory or {}).get(ITEM_KEY) == "halffloat":
        item = pa.float16()
    elif (memory or {}).get(ITEM_KEY) == "uint8" and pa.types.is_int16(item):
        item = pa.uint8()
    return pa.list_(pa.field("item", item, kind.value_field.nullable), size)


def _arrow_type(kind: st.DataType, path: str, vectors: dict[str, int]) -> pa.DataType:
    found = _TO_ARROW.get(type(kind))
    if found is not None:
        return found
    if isinstance(kind, st.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, st.ArrayType):
        item = _arrow_type(kind.elementType, f"{path}[]", vectors)
        return pa.list_(pa.field("item", item, kind.containsNull))
    if isinstance(kind, st.StructType):
        return pa.struct([_arrow_field(one, f"{path}.{one.name}", vectors) for one in kind.fields])
    if isinstance(kind, st.MapType):
        return pa.map_(
            pa.field("key", _arrow_type(kind.keyType, f"{path}.key", vectors), False),
            pa.field(
                "value",
                _arrow_type(kind.valueType, f"{path}.value", vectors),
                kind.valueContainsNull,
            ),
        )
    if isinstance(kind, st.UserDefinedType):
        return _arrow_type(kind.sqlType(), path, vectors)
    advice = _ADVICE.get(type(kind), "cast it or drop it")
    raise TableSchemaValidationError(
        f"column '{path}' is {kind.simpleString()}, which a Lance table cannot hold; {advice}"
    )


# Writing: whether a DataFrame fits a table that is there.


def require_castable(given: st.StructType, target: pa.Schema) -> None:
    """Refuse (20) a DataFrame whose columns do not fit a table, naming column and cast.

    Columns are matched by name; one that may be null can be left out.
    """
    _require_fields(given, list(target), "")


def _require_fields(given: st.StructType, target: list[pa.Field], prefix: str) -> None:
    names = [field.name for field in target]
    for field in given.fields:
        if field.name not in names:
            raise TableSchemaValidationError(
                f"column '{prefix}{field.name}' is not in the table, whose columns are "
                f"{', '.join(names)}; drop or rename it, or add it to the table first"
            )
    for one in target:
        path = prefix + one.name
        if one.name in given.names:
            _require_type(given[one.name].dataType, one, path)
        elif not one.nullable:
            raise TableSchemaValidationError(
                f"column '{path}' of the table may not be null and is missing in the data; add it"
            )


def _require_type(given: st.DataType, target: pa.Field, path: str) -> None:
    wanted = st.BinaryType() if is_blob(target) else _inner_type(target, path, "bytes")
    kind = _storage(target.type)
    if isinstance(given, st.UserDefinedType):
        given = given.sqlType()
    if isinstance(given, st.StructType) and isinstance(wanted, st.StructType):
        _require_fields(given, list(kind), f"{path}.")
        return
    if isinstance(given, st.ArrayType) and isinstance(wanted, st.ArrayType):
        _require_type(given.elementType, kind.value_field, f"{path}[]")
        return
    if isinstance(given, st.MapType) and isinstance(wanted, st.MapType):
        _require_type(given.keyType, kind.key_field, f"{path}.key")
        _require_type(given.valueType, kind.item_field, f"{path}.value")
        return
    if not _widens(given, wanted):
        hint = wanted.simpleString()
        raise TableSchemaValidationError(
            f"column '{path}' is {given.simpleString()} in the data and {kind} in the table; "
            f"cast it: df.withColumn('{path}', col('{path}').cast('{hint}'))"
        )


_INTEGERS: Final = (st.ByteType, st.ShortType, st.IntegerType, st.LongType)


def _widens(given: st.DataType, wanted: st.DataType) -> bool:
    """Whether every value of one type, or null, is one of the other."""
    if type(given) is st.NullType:
        return True
    if isinstance(given, _INTEGERS) and isinstance(wanted, _INTEGERS):
        return _INTEGERS.index(type(given)) <= _INTEGERS.index(type(wanted))
    if isinstance(given, st.DecimalType) and isinstance(wanted, st.DecimalType):
        whole = wanted.precision - wanted.scale
        return given.scale <= wanted.scale and given.precision - given.scale <= whole
    if isinstance(given, st.FloatType) and isinstance(wanted, st.DoubleType):
        return True
    if isinstance(wanted, st.StringType) and isinstance(given, (st.CharType, st.VarcharType)):
        return True
    return type(given) is type(wanted)
