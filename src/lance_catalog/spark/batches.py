"""Batches: a Lance batch as Spark expects it, and Spark's as the table holds it.

Both ways are one conversion to a given Arrow type, without copying where the layout allows it.
A failure names the column, and the row where one row is to blame.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from lance_catalog.errors import TableSchemaValidationError
from lance_catalog.spark.types import BLOB_V2, extension_name

__all__ = ["ReadPlan", "realign", "slices", "to_lance", "to_spark"]


@dataclass(frozen=True)
class ReadPlan:
    """What batches of a table become: the schema Spark was promised, and how to get there."""

    schema: StructType
    #: Cut digits below the microsecond, instead of refusing them.
    truncate_ns: bool = False
    _arrow: list[pa.Schema] = field(default_factory=list, repr=False, compare=False)

    @property
    def arrow(self) -> pa.Schema:
        """The Arrow schema that Spark checks batches against."""
        if not self._arrow:
            self._arrow.append(to_arrow_schema(self.schema, timezone="UTC"))
        return self._arrow[0]


@dataclass(frozen=True, slots=True)
class _Way:
    """One conversion: where we are in the schema, for messages, and which rules hold."""

    path: str
    writing: bool
    truncate_ns: bool = False
    first_row: int = 0

    def into(self, name: str) -> _Way:
        return _Way(self.path + name, self.writing, self.truncate_ns, self.first_row)


def to_spark(batch: pa.RecordBatch, plan: ReadPlan) -> pa.RecordBatch:
    """Return a batch of a Lance scan as Spark's schema has it; 20 names a column that cannot."""
    target = plan.arrow
    columns = [
        _convert(batch.column(one.name), one.type, _Way(one.name, False, plan.truncate_ns))
        for one in target
    ]
    return pa.RecordBatch.from_arrays(columns, schema=target)


def to_lance(
    batch: pa.RecordBatch, target_schema: pa.Schema, *, first_row: int = 0
) -> pa.RecordBatch:
    """Return a batch of Spark's as the table holds it, ready for ``write_fragments``.

    Columns are matched by name, missing ones that may be null are. 20 for nulls in a column that
    has none, vectors of another length and values that do not fit, with column and row;
    ``first_row`` is the number of the batch's first row in its task.
    """
    columns = []
    for one in target_schema:
        way = _Way(one.name, True, first_row=first_row)
        index = batch.schema.get_field_index(one.name)
        column = pa.nulls(batch.num_rows) if index < 0 else batch.column(index)
        made = _convert(column, one.type, way)
        if not one.nullable:
            _require_values(made, None, way)
        columns.append(realign(made) if _holds_decimal(one.type) else made)
    return pa.RecordBatch.from_arrays(columns, schema=target_schema)


def slices(batch: pa.RecordBatch, most: int) -> Iterator[pa.RecordBatch]:
    """Yield a batch in parts of about so many bytes at most, none of them empty; without a copy."""
    if not batch.num_rows:
        return
    if batch.num_rows == 1 or batch.nbytes <= most:
        yield batch
        return
    half = batch.num_rows // 2
    yield from slices(batch.slice(0, half), most)
    yield from slices(batch.slice(half), most)


def realign(array: pa.Array) -> pa.Array:
    """Return an array whose buffers Lance takes: decimals at multiples of 16 bytes.

    Batches that came through a socket of Spark's are aligned to 8, and Lance then panics.
    """
    if all(buffer is None or buffer.address % 16 == 0 for buffer in array.buffers()):
        return array
    return pa.concat_arrays([array, array.slice(0, 0)])


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _holds_decimal(kind: pa.DataType) -> bool:
    kind = _plain(kind)
    if pa.types.is_dictionary(kind):
        return _holds_decimal(kind.value_type)
    if pa.types.is_nested(kind):
        return any(_holds_decimal(kind.field(i).type) for i in range(kind.num_fields))
    return bool(pa.types.is_decimal(kind))


def _convert(array: pa.Array, target: pa.DataType, way: _Way) -> pa.Array:
    source = array.type
    if isinstance(source, pa.BaseExtensionType):
        if source == target:
            return array
        return _convert(array.storage, target, way)
    if isinstance(target, pa.BaseExtensionType):
        return _to_extension(array, target, way)
    if pa.types.is_dictionary(source):
        return _convert(array.dictionary_decode(), target, way)
    if pa.types.is_null(source):
        return pa.nulls(len(array), target)
    if pa.types.is_dictionary(target):
        values = _convert(array, target.value_type, way)
        return _attempt(lambda: values.dictionary_encode().cast(target), values, target, way)
    if pa.types.is_struct(target) and pa.types.is_struct(source):
        return _to_struct(array, target, way)
    if pa.types.is_map(target) and pa.types.is_map(source):
        return _to_map(array, target, way)
    if _is_list(target) and _is_list(source):
        return _to_list(array, target, way)
    return _to_scalar(array, target, way)


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def _to_extension(array: pa.Array, target: pa.DataType, way: _Way) -> pa.Array:
    if extension_name(target) == BLOB_V2 and not pa.types.is_struct(array.type):
        return pa.ExtensionArray.from_storage(target, _to_blob(array, target.storage_type, way))
    return pa.ExtensionArray.from_storage(target, _convert(array, target.storage_type, way))


def _to_blob(array: pa.Array, storage: pa.DataType, way: _Way) -> pa.Array:
    """The bytes of each row, in the struct that Lance takes for a blob."""
    data = _convert(array, pa.large_binary(), way)
    columns = [data if one.name == "data" else pa.nulls(len(array), one.type) for one in storage]
    return pa.StructArray.from_arrays(columns, fields=list(storage), mask=data.is_null())


def _to_struct(array: pa.Array, target: pa.DataType, way: _Way) -> pa.Array:
    missing = array.null_count > 0
    mask = array.is_null() if missing else None
    columns = []
    for one in target:
        inner = way.into(f".{one.name}")
        index = array.type.get_field_index(one.name)
        given = pa.nulls(len(array)) if index < 0 else array.field(index)
        made = _convert(given, one.type, inner)
        if way.writing and not one.nullable:
            _require_values(made, mask, inner)
        columns.append(made)
    return pa.StructArray.from_arrays(columns, fields=list(target), mask=mask)


def _to_map(array: pa.Array, target: pa.DataType, way: _Way) -> pa.Array:
    offsets, start, length = _offsets(array)
    keys = _convert(_part(array.keys, start, length), target.key_type, way.into(".key"))
    items = _convert(_part(array.items, start, length), target.item_type, way.into(".value"))
    if way.writing and not target.item_field.nullable:
        _require_values(items, None, way.into(".value"))
    return pa.MapArray.from_arrays(offsets, keys, items, target, mask=_mask(array))


def _to_list(array: pa.Array, target: pa.DataType, way: _Way) -> pa.Array:
    inner = way.into("[]")
    item = target.value_field
    if pa.types.is_fixed_size_list(target):
        values = _convert(_vector_values(array, target.list_size, way), item.type, inner)
        made = pa.FixedSizeListArray.from_arrays(values, type=target, mask=_mask(array))
    else:
        offsets, start, length = _offsets(array)
        values = _convert(_part(array.values, start, length), item.type, inner)
        kind = pa.LargeListArray if pa.types.is_large_list(target) else pa.ListArray
        width = pa.int64() if pa.types.is_large_list(target) else pa.int32()
        made = kind.from_arrays(offsets.cast(width), values, type=target, mask=_mask(array))
    if way.writing and not item.nullable and values.null_count:
        # Under a null row there may be anything.
        _require_values(made.flatten(), None, inner, rows=False)
    return made


def _mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def _offsets(array: pa.Array) -> tuple[pa.Array, int, int]:
    """Offsets from 0 of a list or map, and the slice of its values they point into."""
    if pa.types.is_fixed_size_list(array.type):
        size = array.type.list_size
        made = pa.array(np.arange(len(array) + 1, dtype=np.int64) * size)
        return made.cast(pa.int32()), array.offset * size, len(array) * size
    offsets = array.offsets
    start, end = offsets[0].as_py(), offsets[-1].as_py()
    # New memory also where nothing changes: Arrow takes no mask with a slice of offsets.
    return pc.subtract(offsets, offsets[0]), start, end - start


def _part(values: pa.Array, start: int, length: int) -> pa.Array:
    if length:
        return values.slice(start, length)
    # Lance refuses nothing at all that begins in the middle of something (pylance 14.0.2).
    plain = pa.nulls(0, _plain(values.type))
    return (
        plain if plain.type == values.type else pa.ExtensionArray.from_storage(values.type, plain)
    )


def _vector_values(array: pa.Array, size: int, way: _Way) -> pa.Array:
    """The items of vectors, one after the other, with room under each null row."""
    lengths = pc.list_value_length(array)
    wrong = pc.not_equal(lengths, size)
    if pc.any(wrong).as_py():
        row = pc.index(wrong, True).as_py()
        raise TableSchemaValidationError(
            f"column '{way.path}', row {way.first_row + row}: a vector of length "
            f"{lengths[row].as_py()}, and the table holds vectors of length {size}. Rows are "
            "counted from 0 in their task; filter or pad the vectors, "
            f"as by size({way.path}) = {size}"
        )
    if pa.types.is_fixed_size_list(array.type):
        return _part(array.values, array.offset * size, len(array) * size)
    offsets, start, length = _offsets(array)
    values = _part(array.values, start, length)
    if not array.null_count:
        return values
    places = offsets.to_numpy(zero_copy_only=False)[:-1, None] + np.arange(size)
    # A null row may be the last, where its room would lie behind the values.
    under_null = np.repeat(array.is_null().to_numpy(zero_copy_only=False), size)
    return values.take(pa.array(places.reshape(-1), pa.int64(), mask=under_null))


def _to_scalar(array: pa.Array, target: pa.DataType, way: _Way) -> pa.Array:
    source = array.type
    if not way.writing and _finer_than_micros(source):
        array = _whole_micros(array, way)
        source = array.type
    if source == target:
        return array
    # The schema makes floats of two bytes only where they are a bfloat16.
    if source == pa.binary(2) and pa.types.is_float32(target):
        return _from_bfloat16(array)
    if target == pa.binary(2) and pa.types.is_floating(source):
        return _to_bfloat16(array.cast(pa.float32()))
    if pa.types.is_float16(target):
        return _attempt(lambda: _to_half(array), array, target, way)
    return _attempt(lambda: array.cast(target), array, target, way)


def _finer_than_micros(kind: pa.DataType) -> bool:
    timed = pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_time64(kind)
    return bool(timed and kind.unit == "ns")


def _whole_micros(array: pa.Array, way: _Way) -> pa.Array:
    """Nanoseconds as microseconds; digits below are refused, or cut towards the past."""
    kind = array.type
    if pa.types.is_timestamp(kind):
        target = pa.timestamp("us", kind.tz)
    else:
        target = pa.time64("us") if pa.types.is_time(kind) else pa.duration("us")
    try:
        return array.cast(target)
    except pa.ArrowInvalid as error:
        if not way.truncate_ns:
            raise TableSchemaValidationError(
                f"column '{way.path}' has digits below the microsecond, which Spark cannot hold; "
                "cut them by truncate_ns=True, or leave the column out by columns=[...]"
            ) from error
    numbers = array.cast(pa.int64())
    floored = np.floor_divide(numbers.fill_null(0).to_numpy(zero_copy_only=False), 1000)
    return pa.array(floored, mask=np.asarray(array.is_null())).cast(target)


def _to_half(array: pa.Array) -> pa.Array:
    made = array.cast(pa.float16())
    back = made.cast(array.type)
    if pc.any(pc.and_(pc.is_inf(back), pc.is_finite(array))).as_py():
        raise pa.ArrowInvalid("a value is beyond the range of half floats")
    return made


def _from_bfloat16(storage: pa.Array) -> pa.Array:
    """The upper half of a float32 each, as Lance stores them."""
    raw = np.frombuffer(storage.buffers()[1] or b"", dtype=np.uint16)
    used = raw[storage.offset : storage.offset + len(storage)].astype(np.uint32) << 16
    return pa.array(used.view(np.float32), mask=np.asarray(storage.is_null()))


def _to_bfloat16(floats: pa.Array) -> pa.Array:
    """Rounded to the nearest, ties to even; not-a-number stays one."""
    bits = floats.fill_null(0).to_numpy(zero_copy_only=False).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) >> 16
    half = np.where(np.isnan(bits.view(np.float32)), (bits >> 16) | 0x40, rounded)
    buffer = pa.py_buffer(half.astype(np.uint16).tobytes())
    made = pa.FixedSizeBinaryArray.from_buffers(pa.binary(2), len(floats), [None, buffer])
    return pc.if_else(floats.is_valid(), made, None) if floats.null_count else made


_FAILURES: Final = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, OverflowError)


def _attempt(work: Any, array: pa.Array, target: pa.DataType, way: _Way) -> pa.Array:
    try:
        return work()
    except _FAILURES as error:
        where = f"column '{way.path}'"
        if way.writing:
            where += f", rows {way.first_row} to {way.first_row + len(array) - 1} of their task"
        raise TableSchemaValidationError(
            f"{where}: {array.type} cannot be turned into {target}: {error}"
        ) from error


def _require_values(
    array: pa.Array, mask: pa.Array | None, way: _Way, *, rows: bool = True
) -> None:
    """Refuse nulls, except where the mask says that the row around them is null itself."""
    if not array.null_count:
        return
    nulls = array.is_null() if mask is None else pc.and_not(array.is_null(), mask)
    if not pc.any(nulls).as_py():
        return
    where = f", row {way.first_row + pc.index(nulls, True).as_py()} of its task" if rows else ""
    raise TableSchemaValidationError(
        f"column '{way.path}'{where}: null, and the table allows none there; "
        f"filter them out, or fill them by coalesce({way.path}, ...)"
    )
