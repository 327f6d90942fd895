"""Every type of a Lance table comes to Spark as it should and goes back, or is refused by name."""

from __future__ import annotations

import datetime as dt
import decimal
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as st
from pyspark.sql.pandas.types import to_arrow_schema

from lance_catalog.errors import InvalidInputError, TableSchemaValidationError
from lance_catalog.spark import read
from lance_catalog.spark.batches import ReadPlan, realign, to_lance, to_spark
from lance_catalog.spark.types import arrow_schema_for, require_castable, spark_schema
from tests.spark.lance_tables import catalog_at, create

D = decimal.Decimal
NOON = dt.datetime(2024, 5, 6, 12, 0, 0, 123456)
BFLOAT = {"ARROW:extension:name": "lance.bfloat16", "ARROW:extension:metadata": ""}

#: name: Arrow type, Spark type, values in the table, values in Spark where they are others.
COLUMNS: dict[str, tuple[pa.DataType, str, list[Any], list[Any] | None]] = {
    "bool": (pa.bool_(), "boolean", [True, None, False], None),
    "i8": (pa.int8(), "tinyint", [-128, None, 127], None),
    "i64": (pa.int64(), "bigint", [-(2**63), None, 2**63 - 1], None),
    "u8": (pa.uint8(), "smallint", [0, None, 255], None),
    "u16": (pa.uint16(), "int", [0, None, 65535], None),
    "u32": (pa.uint32(), "bigint", [0, None, 2**32 - 1], None),
    "u64": (
        pa.uint64(),
        "decimal(20,0)",
        [0, None, 2**64 - 1],
        [D(0), None, D(2**64 - 1)],
    ),
    "f16": (pa.float16(), "float", [1.5, None, -0.25], None),
    "f32": (pa.float32(), "float", [1.5, None, float("inf")], None),
    "f64": (pa.float64(), "double", [0.1, None, -1e300], None),
    "dec": (pa.decimal128(38, 10), "decimal(38,10)", [D("1.5"), None, D("-2.25")], None),
    "text": (pa.string(), "string", ["", None, "日本 ' \" \n"], None),
    "ltext": (pa.large_string(), "string", ["a", None, "b"], None),
    "bytes": (pa.binary(), "binary", [b"", None, b"\x00\xff"], None),
    "lbytes": (pa.large_binary(), "binary", [b"a", None, b"b"], None),
    "fbytes": (pa.binary(3), "binary", [b"abc", None, b"\x00\x01\x02"], None),
    "dict": (pa.dictionary(pa.int32(), pa.string()), "string", ["a", None, "a"], None),
    "date": (pa.date32(), "date", [dt.date(1, 1, 1), None, dt.date(9999, 12, 31)], None),
    "date64": (pa.date64(), "date", [dt.date(1960, 1, 1), None, dt.date(2030, 1, 1)], None),
    "ntz": (pa.timestamp("us"), "timestamp_ntz", [NOON, None, dt.datetime(1900, 1, 1)], None),
    "ntz_s": (pa.timestamp("s"), "timestamp_ntz", [dt.datetime(2024, 1, 1), None, None], None),
    "ntz_ns": (pa.timestamp("ns"), "timestamp_ntz", [NOON, None, None], None),
    "t32": (pa.time32("ms"), "time(6)", [dt.time(1, 2, 3, 4000), None, dt.time(0)], None),
    "t64": (pa.time64("us"), "time(6)", [dt.time(1, 2, 3, 4), None, dt.time(0)], None),
    "t64ns": (pa.time64("ns"), "time(6)", [dt.time(1, 2, 3, 4), None, dt.time(0)], None),
    "span": (
        pa.duration("s"),
        "interval day to second",
        [dt.timedelta(days=3), None, dt.timedelta(seconds=-5)],
        None,
    ),
    "nothing": (pa.null(), "void", [None, None, None], None),
    "list": (pa.list_(pa.int32()), "array<int>", [[1, None], None, []], None),
    "llist": (pa.large_list(pa.uint8()), "array<smallint>", [[255], None, []], None),
    "vec": (pa.list_(pa.float32(), 2), "array<float>", [[1.0, 2.0], None, [3.0, 4.0]], None),
    "vec16": (pa.list_(pa.float16(), 2), "array<float>", [[1.0, 2.0], None, [3.0, 4.0]], None),
    "vecu8": (pa.list_(pa.uint8(), 2), "array<smallint>", [[1, 255], None, [3, 4]], None),
    "vecs": (
        pa.list_(pa.list_(pa.float64(), 2)),
        "array<array<double>>",
        [[[1.0, 2.0], [3.0, 4.0]], None, []],
        None,
    ),
    "struct": (
        pa.struct([("a", pa.uint8()), ("v", pa.list_(pa.float32(), 1))]),
        "struct<a:smallint,v:array<float>>",
        [{"a": 1, "v": [0.5]}, None, {"a": None, "v": None}],
        None,
    ),
    "map": (
        pa.map_(pa.string(), pa.decimal128(5, 1)),
        "map<string,decimal(5,1)>",
        [[("a", D("1.5"))], None, []],
        [{"a": D("1.5")}, None, {}],
    ),
    "json": (pa.json_(), "string", ['{"a":1}', None, "[1]"], None),
}


def table_of(columns: dict[str, Any]) -> pa.Table:
    return pa.table({name: pa.array(one[2], one[0]) for name, one in columns.items()})


def plain(value: Any) -> Any:
    if isinstance(value, st.Row):
        return {key: plain(one) for key, one in value.asDict().items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    return bytes(value) if isinstance(value, bytearray) else value


def test_every_type_is_read_and_written_back(spark: SparkSession, tmp_path: Path) -> None:
    catalog = catalog_at(tmp_path)
    dataset = create(catalog, "t", table_of(COLUMNS))
    frame = read(spark, catalog, "t")
    kinds = {one.name: one.dataType.simpleString() for one in frame.schema.fields}
    assert kinds == {name: one[1] for name, one in COLUMNS.items()}
    rows = frame.collect()
    for name, (_, _, stored, seen) in COLUMNS.items():
        assert [plain(row[name]) for row in rows] == (stored if seen is None else seen), name
    # And back: what Spark would send, into the schema of the table.
    target = dataset.schema
    require_castable(frame.schema, target)
    batches = [to_spark(one, ReadPlan(frame.schema)) for one in dataset.to_batches()]
    back = [to_lance(one, target) for one in batches]
    again = lance.write_dataset(pa.Table.from_batches(back), str(tmp_path / "again.lance"))
    assert again.schema.equals(dataset.schema)
    assert again.to_table().to_pylist() == dataset.to_table().to_pylist()


def test_zoned_timestamps_keep_the_instant(spark: SparkSession, tmp_path: Path) -> None:
    catalog = catalog_at(tmp_path)
    instant = NOON.replace(tzinfo=dt.UTC)
    data = pa.table({"t": pa.array([instant], pa.timestamp("us", "Asia/Tokyo"))})
    dataset = create(catalog, "t", data)
    frame = read(spark, catalog, "t")
    assert frame.schema["t"].dataType == st.TimestampType()
    micros = frame.selectExpr("unix_micros(t)").collect()[0][0]
    assert micros == int(instant.timestamp()) * 10**6 + 123456
    plan = ReadPlan(frame.schema)
    back = to_lance(to_spark(dataset.to_table().to_batches()[0], plan), dataset.schema)
    assert back.schema.field("t").type.tz == "Asia/Tokyo"
    assert back.to_pylist() == dataset.to_table().to_pylist()


def test_blobs_are_bytes_or_descriptors(spark: SparkSession, tmp_path: Path) -> None:
    catalog = catalog_at(tmp_path)
    values = [b"abc" * 1000, None, b""]
    marked = pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    old = pa.table([pa.array(values, pa.large_binary())], schema=pa.schema([marked]))
    create(catalog, "old", old, data_storage_version="2.1")
    new = pa.table([lance.blob_array(values)], schema=pa.schema([lance.blob_field("blob")]))
    create(catalog, "new", new, data_storage_version="2.2")
    for name, fields in (("old", {"position", "size"}), ("new", {"kind", "blob_id", "size"})):
        stored = read(spark, catalog, name).collect()
        assert [plain(row.blob) or None for row in stored] == [values[0], None, None], name
        told = read(spark, catalog, name, blobs="descriptors").collect()
        assert fields <= set(told[0].blob.asDict()) and told[0].blob["size"] == 3000
        target = catalog.open_table([name]).schema
        given = pa.record_batch({"blob": pa.array(values, pa.binary())})
        made = to_lance(given, target)
        copy = str(tmp_path / f"{name}-copy.lance")
        version = catalog.open_table([name]).data_storage_version
        lance.write_dataset(made, copy, schema=target, data_storage_version=version)
        got = lance.dataset(copy).scanner(blob_handling="all_binary").to_table()
        assert got["blob"].to_pylist()[0] == values[0]


def test_bfloat16_vectors_are_floats(spark: SparkSession, tmp_path: Path) -> None:
    catalog = catalog_at(tmp_path)
    item = pa.field("item", pa.binary(2), metadata=BFLOAT)
    raw = pa.array([[b"\x80\x3f", b"\x00\xc0"], None], pa.list_(item, 2))
    field = pa.field("v", pa.list_(item, 2))
    dataset = create(catalog, "t", pa.table([raw], schema=pa.schema([field])))
    frame = read(spark, catalog, "t")
    assert [row.v for row in frame.collect()] == [[1.0, -2.0], None]
    there = to_spark(dataset.to_table().to_batches()[0], ReadPlan(frame.schema))
    back = to_lance(there, dataset.schema)
    assert back.to_pylist() == dataset.to_table().to_pylist()


def test_digits_below_the_microsecond(spark: SparkSession, tmp_path: Path) -> None:
    catalog = catalog_at(tmp_path)
    nanos = pa.array([1_999, -1, None], pa.int64())
    data = pa.table({"fine": nanos.cast(pa.timestamp("ns")), "coarse": [1, 2, 3]})
    create(catalog, "t", data)
    with pytest.raises(Exception, match=r"'fine'.*truncate_ns"):
        read(spark, catalog, "t").collect()
    assert read(spark, catalog, "t", columns=["coarse"]).count() == 3
    cut = read(spark, catalog, "t", truncate_ns=True).collect()
    epoch = dt.datetime(1970, 1, 1)
    # Towards the past on both sides of 1970, so that order is kept.
    assert [row.fine for row in cut] == [
        epoch + dt.timedelta(microseconds=1),
        epoch - dt.timedelta(microseconds=1),
        None,
    ]


# Without Spark's engine from here on.


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        (pa.decimal256(50, 2), "'c'"),
        (pa.list_(pa.decimal256(50, 2)), r"'c\[\]'"),
        (pa.struct([("x", pa.decimal256(39, 0))]), "'c.x'"),
        (pa.map_(pa.string(), pa.decimal256(39, 0)), "'c.value'"),
        (pa.month_day_nano_interval(), "'c'"),
    ],
)
def test_what_spark_cannot_hold_is_refused_by_name(kind: pa.DataType, path: str) -> None:
    with pytest.raises(TableSchemaValidationError, match=path):
        spark_schema(pa.schema([("c", kind)]))


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        (st.VariantType(), "to_json"),
        (st.YearMonthIntervalType(), "integer"),
        (st.CalendarIntervalType(), "three columns"),
    ],
)
def test_what_a_table_cannot_hold_is_refused_by_name(kind: st.DataType, advice: str) -> None:
    schema = st.StructType([st.StructField("a", st.StructType([st.StructField("b", kind)]))])
    with pytest.raises(TableSchemaValidationError, match=rf"'a\.b'.*{advice}"):
        arrow_schema_for(schema)


def test_a_new_table_gets_vectors_as_told() -> None:
    floats = st.ArrayType(st.FloatType())
    schema = st.StructType(
        [
            st.StructField("emb", floats),
            st.StructField("tags", st.ArrayType(st.StringType())),
            st.StructField("s", st.StructType([st.StructField("v", floats)]), False),
        ]
    )
    made = arrow_schema_for(schema, {"emb": 3, "s.v": 2})
    assert made.field("emb").type == pa.list_(pa.float32(), 3)
    assert made.field("s").type.field("v").type == pa.list_(pa.float32(), 2)
    assert made.field("tags").type == pa.list_(pa.string())
    assert not made.field("s").nullable
    for wrong, told in (
        ({"embb": 3}, "no column 'embb'.*emb, tags, s.v"),
        ({"tags": 3}, "'tags'.*array of numbers"),
        ({"emb": 0}, "'emb'"),
    ):
        with pytest.raises(InvalidInputError, match=told):
            arrow_schema_for(schema, wrong)


def test_a_vector_that_was_read_is_one_again_in_a_new_table() -> None:
    for item in (pa.float16(), pa.float32(), pa.float64(), pa.uint8(), pa.int8()):
        stored = pa.schema([("v", pa.list_(item, 4))])
        assert arrow_schema_for(spark_schema(stored)) == stored
    told = arrow_schema_for(spark_schema(stored), {"v": 8})
    assert told.field("v").type.list_size == 8


def batch(**columns: pa.Array) -> pa.RecordBatch:
    return pa.record_batch(columns)


@pytest.mark.parametrize(
    ("given", "kind", "told"),
    [
        ([[1.0, 2.0], [1.0]], pa.list_(pa.float32(), 2), "'c', row 11.*length 1.*length 2"),
        ([300, 3], pa.uint8(), "'c', rows 10 to 11"),
        ([-1, 3], pa.uint64(), "'c'"),
        ([1e6, 1.0], pa.float16(), "'c'.*half"),
        ([b"abc", b"ab"], pa.binary(3), "'c'"),
        ([D("123.45"), D(1)], pa.decimal128(4, 2), "'c'"),
        ([dt.datetime(2024, 1, 1, 0, 0, 0, 5)] * 2, pa.timestamp("s"), "'c'"),
        ([dt.datetime(3000, 1, 1)] * 2, pa.timestamp("ns"), "'c'"),
    ],
)
def test_values_that_do_not_fit_name_column_and_row(
    given: list[Any], kind: pa.DataType, told: str
) -> None:
    with pytest.raises(TableSchemaValidationError, match=told):
        to_lance(batch(c=pa.array(given)), pa.schema([("c", kind)]), first_row=10)


def test_nulls_where_there_may_be_none_are_named() -> None:
    inner = pa.struct([pa.field("x", pa.int64(), False)])
    target = pa.schema(
        [
            pa.field("a", pa.int64(), False),
            pa.field("s", inner),
            pa.field("l", pa.list_(pa.field("item", pa.int64(), False))),
        ]
    )
    good = {
        "a": pa.array([1, 2]),
        "s": pa.array([{"x": 1}, None], pa.struct([("x", pa.int64())])),
        "l": pa.array([[1], None]),
    }
    assert to_lance(batch(**good), target).num_rows == 2
    for name, wrong, told in (
        ("a", pa.array([1, None]), "'a', row 6"),
        ("s", pa.array([{"x": 1}, {"x": None}], pa.struct([("x", pa.int64())])), r"'s\.x', row 6"),
        ("l", pa.array([[1], [None]], pa.list_(pa.int64())), r"'l\[\]'"),
    ):
        with pytest.raises(TableSchemaValidationError, match=told):
            to_lance(batch(**{**good, name: wrong}), target, first_row=5)
    with pytest.raises(TableSchemaValidationError, match="'a'"):
        to_lance(batch(s=good["s"], l=good["l"]), target)


def test_a_column_that_may_be_null_can_be_left_out() -> None:
    target = pa.schema([("a", pa.int64()), ("v", pa.list_(pa.float32(), 2)), ("j", pa.json_())])
    made = to_lance(batch(a=pa.array([1])), target)
    assert made.to_pylist() == [{"a": 1, "v": None, "j": None}]


def test_sliced_batches_convert_as_whole_ones_do() -> None:
    data = table_of(COLUMNS)
    schema = spark_schema(data.schema)
    whole = data.combine_chunks().to_batches()[0]
    plan = ReadPlan(schema)
    for start in range(3):
        part = to_spark(whole.slice(start, 2), plan)
        assert part.to_pylist() == to_spark(whole, plan).slice(start, 2).to_pylist()
        assert part.schema.equals(to_arrow_schema(schema, timezone="UTC"))
        back = to_lance(to_spark(whole, plan).slice(start, 2), data.schema)
        assert back.to_pylist() == whole.slice(start, 2).to_pylist()


def test_decimals_are_brought_to_sixteen_bytes() -> None:
    raw = np.zeros(64 + 16, dtype=np.uint8)
    start = (8 - raw.ctypes.data) % 16
    buffer = pa.py_buffer(raw)[start : start + 48]
    assert buffer.address % 16 == 8
    kind = pa.decimal128(10, 2)
    crooked = pa.Array.from_buffers(kind, 3, [None, buffer])
    straight = realign(crooked)
    assert straight.equals(crooked)
    assert all(one is None or one.address % 16 == 0 for one in straight.buffers())
    made = to_lance(batch(c=crooked), pa.schema([("c", kind)]))
    assert made.column(0).buffers()[1].address % 16 == 0


@pytest.mark.parametrize(
    ("given", "target", "told"),
    [
        ("a int, x int", [("a", pa.int32())], "'x' is not in the table.*columns are a"),
        ("a string", [("a", pa.int32())], r"'a' is string.*int32.*cast\('int'\)"),
        ("a bigint", [("a", pa.int32())], "'a' is bigint"),
        ("a decimal(10,2)", [("a", pa.decimal128(8, 2))], "'a'"),
        ("a timestamp_ntz", [("a", pa.timestamp("us", "UTC"))], "'a'"),
        ("a struct<b:string>", [("a", pa.struct([("b", pa.int32())]))], r"'a\.b'"),
        ("a array<string>", [("a", pa.list_(pa.float32(), 3))], r"'a\[\]'"),
        ("a map<string,string>", [("a", pa.map_(pa.string(), pa.int8()))], r"'a\.value'"),
    ],
)
def test_schemas_that_differ_are_told_by_column(given: str, target: list[Any], told: str) -> None:
    schema = _ddl(given)
    with pytest.raises(TableSchemaValidationError, match=told):
        require_castable(schema, pa.schema(target))


def test_a_required_column_must_be_there() -> None:
    target = pa.schema([("a", pa.int32()), pa.field("b", pa.int32(), False), ("c", pa.int8())])
    with pytest.raises(TableSchemaValidationError, match=r"'b'.*missing"):
        require_castable(_ddl("a int"), target)
    require_castable(_ddl("b int, a smallint"), target)


def _ddl(text: str) -> st.StructType:
    """A schema without a session: DDL of the few types these tests use."""
    simple = {
        "int": st.IntegerType(),
        "smallint": st.ShortType(),
        "bigint": st.LongType(),
        "string": st.StringType(),
        "timestamp_ntz": st.TimestampNTZType(),
        "decimal(10,2)": st.DecimalType(10, 2),
        "struct<b:string>": st.StructType([st.StructField("b", st.StringType())]),
        "array<string>": st.ArrayType(st.StringType()),
        "map<string,string>": st.MapType(st.StringType(), st.StringType()),
    }
    pairs = [one.split(" ") for one in text.split(", ")]
    return st.StructType([st.StructField(name, simple[kind]) for name, kind in pairs])
