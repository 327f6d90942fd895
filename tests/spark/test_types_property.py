"""Any schema and any values: Spark sees what pylance reads, and what goes back is what was there.

And any name and value in a filter: it means that value and nothing else (invariant 5).
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import tempfile
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as some
from pyspark.sql import SparkSession
from pyspark.sql import types as st

from lance_catalog.errors import InvalidInputError
from lance_catalog.spark import col, read
from lance_catalog.spark.batches import ReadPlan, to_lance, to_spark
from lance_catalog.spark.types import spark_schema
from tests.spark.lance_tables import catalog_at, create

EPOCH = dt.datetime(1970, 1, 1)


def whole(bits: int, signed: bool) -> some.SearchStrategy[int]:
    low = -(2 ** (bits - 1)) if signed else 0
    return some.integers(low, 2 ** (bits - 1) - 1 if signed else 2**bits - 1)


def instants(unit: int) -> some.SearchStrategy[Any]:
    # Between 1678 and 2262, which nanoseconds hold as well.
    steps = some.integers(-(9 * 10**15) // unit, 9 * 10**15 // unit)
    return steps.map(lambda n: EPOCH + dt.timedelta(microseconds=n * unit))


TEXT = some.text(some.characters(exclude_categories=["Cs"]), max_size=8)
SPANS = some.integers(-(10**12), 10**12)
SCALARS: list[tuple[pa.DataType, some.SearchStrategy[Any]]] = [
    (pa.bool_(), some.booleans()),
    *((getattr(pa, f"int{bits}")(), whole(bits, True)) for bits in (8, 16, 32, 64)),
    *((getattr(pa, f"uint{bits}")(), whole(bits, False)) for bits in (8, 16, 32, 64)),
    (pa.float16(), some.floats(width=16, allow_nan=False)),
    (pa.float32(), some.floats(width=32, allow_nan=False)),
    (pa.float64(), some.floats(allow_nan=False)),
    (pa.decimal128(38, 4), some.decimals(-(10**20), 10**20, places=4)),
    (pa.decimal128(5, 0), some.decimals(-99999, 99999, places=0)),
    (pa.string(), TEXT),
    (pa.large_string(), TEXT),
    (pa.binary(), some.binary(max_size=6)),
    (pa.large_binary(), some.binary(max_size=6)),
    (pa.binary(3), some.binary(min_size=3, max_size=3)),
    (pa.dictionary(pa.int32(), pa.string()), some.sampled_from(["a", "b", ""])),
    (pa.date32(), some.dates()),
    (pa.date64(), some.dates(dt.date(1900, 1, 1))),
    *((pa.timestamp(unit), instants(size)) for unit, size in (("s", 10**6), ("us", 1), ("ns", 1))),
    (pa.timestamp("us", "Asia/Tokyo"), instants(1).map(lambda t: t.replace(tzinfo=dt.UTC))),
    (pa.time32("s"), some.integers(0, 86399).map(lambda n: (EPOCH + dt.timedelta(0, n)).time())),
    (pa.time64("us"), some.times()),
    (pa.time64("ns"), some.times()),
    (pa.duration("s"), SPANS.map(lambda n: dt.timedelta(seconds=n // 10**4))),
    (pa.duration("us"), SPANS.map(lambda n: dt.timedelta(microseconds=n))),
]

Typed = tuple[pa.DataType, some.SearchStrategy[Any]]


def nested(inner: some.SearchStrategy[Typed]) -> some.SearchStrategy[Typed]:
    def lists(one: Typed) -> Typed:
        return pa.list_(one[0]), some.lists(some.none() | one[1], max_size=3)

    def structs(members: list[Typed]) -> Typed:
        fields = [(f"f{number}", one[0]) for number, one in enumerate(members)]
        values = {f"f{number}": some.none() | one[1] for number, one in enumerate(members)}
        return pa.struct(fields), some.fixed_dictionaries(values)

    def maps(one: Typed) -> Typed:
        values = some.dictionaries(TEXT, some.none() | one[1], max_size=3)
        return pa.map_(pa.string(), one[0]), values.map(lambda found: list(found.items()))

    # Lance takes no dictionaries inside of lists and maps.
    plain = inner.filter(lambda one: not pa.types.is_dictionary(one[0]))
    return (
        plain.map(lists) | some.lists(plain, min_size=1, max_size=3).map(structs) | plain.map(maps)
    )


def vectors(size: int) -> some.SearchStrategy[Typed]:
    items = [one for one in SCALARS if one[0] in (pa.float16(), pa.float32(), pa.uint8())]
    return some.sampled_from(items).map(
        lambda one: (pa.list_(one[0], size), some.lists(one[1], min_size=size, max_size=size))
    )


COLUMN = some.recursive(
    some.sampled_from(SCALARS), lambda inner: nested(inner) | vectors(2) | vectors(5), max_leaves=4
)


@some.composite
def tables(draw: some.DrawFn, columns: int = 8) -> pa.Table:
    rows = draw(some.integers(1, 7))
    made = {}
    for number in range(draw(some.integers(1, columns))):
        kind, values = draw(COLUMN)
        cells = draw(some.lists(some.none() | values, min_size=rows, max_size=rows))
        made[f"c{number}"] = pa.array(cells, kind)
    return pa.table(made)


def seen(value: Any) -> Any:
    """A value of pylance's or Spark's in one form."""
    if isinstance(value, st.Row):
        return {key: seen(one) for key, one in value.asDict().items()}
    if isinstance(value, dict):
        return {key: seen(one) for key, one in value.items()}
    if isinstance(value, list):
        pairs = bool(value) and all(type(one) is tuple for one in value)
        return {key: seen(one) for key, one in value} if pairs else [seen(one) for one in value]
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    if isinstance(value, decimal.Decimal):
        return decimal.Decimal(value)
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.UTC)
    return value


@settings(max_examples=30)
@given(tables())
def test_there_and_back_through_arrow(data: pa.Table) -> None:
    with tempfile.TemporaryDirectory() as folder:
        stored = lance.write_dataset(data, folder)
        read_back = stored.to_table()
        plan = ReadPlan(spark_schema(stored.schema))
        found = [
            to_lance(to_spark(one, plan), stored.schema)
            for one in read_back.to_batches(max_chunksize=3)
        ]
        back = pa.Table.from_batches(found)
        assert back.schema.equals(stored.schema)
        assert back.to_pylist() == read_back.to_pylist()
        # And Lance takes it.
        again = lance.write_dataset(back, folder, mode="append")
        assert again.to_table().to_pylist() == read_back.to_pylist() * 2


# To shrink what fails would take Spark minutes; the test above shrinks in no time.
@settings(max_examples=4, phases=[Phase.generate])
@given(data=tables(columns=16))
def test_spark_sees_what_pylance_reads(spark: SparkSession, data: pa.Table) -> None:
    with tempfile.TemporaryDirectory() as folder:
        catalog = catalog_at(Path(folder))
        stored = create(catalog, "t", data)
        expected = stored.to_table().to_pylist()
        found = read(spark, catalog, "t").collect()
        assert len(found) == len(expected)
        for ours, theirs in zip(found, expected, strict=True):
            for name, value in theirs.items():
                assert _close(ours[name], value), (name, ours[name], value)


def _close(one: Any, other: Any) -> bool:
    one, other = seen(one), seen(other)
    if isinstance(one, dt.datetime) and isinstance(other, dt.datetime):
        if (one.tzinfo is None) != (other.tzinfo is None):
            # Spark's timestamps come as local time without a zone.
            aware, naive = (one, other) if one.tzinfo is not None else (other, one)
            return aware == naive.astimezone(dt.UTC)
        return one == other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_close(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_close, one, other))
    # An empty map is an empty list of pairs to pylance.
    if not one and not other and {type(one), type(other)} == {list, dict}:
        return True
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return bool(one == other)


# Filters.

VALUES = TEXT | some.sampled_from(
    ["'", "''", "\\'", "' OR 1=1 --", "`", '"', "%", "x'; DROP TABLE t; --", "/*", "a\nb", "\u2028"]
)


@settings(max_examples=60)
@given(stored=some.lists(VALUES, min_size=1, max_size=6), asked=VALUES)
def test_a_text_in_a_filter_is_that_text(stored: list[str], asked: str) -> None:
    data = pa.table({"s": stored})
    dataset = lance.write_dataset(data, "memory://filters", mode="overwrite")
    pairs = [
        (lambda: col("s") == asked, lambda one: one == asked),
        (lambda: col("s") != asked, lambda one: one != asked),
        (lambda: col("s").isin([asked, "zz"]), lambda one: one in (asked, "zz")),
        (lambda: col("s").startswith(asked), lambda one: one.startswith(asked)),
        (lambda: ~(col("s") == asked) | (col("s") == asked), lambda one: True),
    ]
    for build, means in pairs:
        if "\0" in asked:
            with pytest.raises(InvalidInputError):
                build()
            continue
        found = dataset.to_table(filter=str(build()))["s"].to_pylist()
        assert found == [one for one in stored if means(one)]


@settings(max_examples=40)
@given(name=TEXT.filter(lambda one: one.strip() != "") | VALUES.filter(bool))
def test_a_name_in_a_filter_is_that_column(name: str) -> None:
    if "`" in name or "\0" in name or "." in name:
        if "." not in name:
            with pytest.raises(InvalidInputError):
                str(col(name) == 1)
        return
    data = pa.table({name: [1, 2, 3], "other one": [3, 3, 3]})
    dataset = lance.write_dataset(data, "memory://names", mode="overwrite")
    assert dataset.count_rows(str(col(name) >= 2)) == 2
    assert dataset.count_rows(str(col(name) == col("other one"))) == 1


@settings(max_examples=60)
@given(data=some.data())
def test_a_value_of_any_type_finds_itself(data: some.DataObject) -> None:
    comparable = [
        one
        for one in SCALARS
        if not pa.types.is_time(one[0])
        and not pa.types.is_duration(one[0])
        and not pa.types.is_dictionary(one[0])
        and one[0] not in (pa.float16(), pa.uint64(), pa.date64(), pa.binary(3), pa.large_binary())
    ]
    kind, values = data.draw(some.sampled_from(comparable))
    value = data.draw(values.filter(lambda one: not isinstance(one, float) or math.isfinite(one)))
    if isinstance(value, str) and "\0" in value:
        return
    table = pa.table({"c": pa.array([value, None], kind)})
    dataset = lance.write_dataset(table, "memory://values", mode="overwrite")
    assert dataset.count_rows(str(col("c") == value)) == 1, str(col("c") == value)
    assert dataset.count_rows(str(col("c").is_null())) == 1
    assert dataset.count_rows(str(col("c") != None)) == 1  # noqa: E711
    assert dataset.count_rows(str(~(col("c") == value))) == 0


@pytest.mark.parametrize(
    "wrong", [float("nan"), float("inf"), object(), [1], decimal.Decimal("NaN")]
)
def test_what_is_no_value_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidInputError):
        _ = col("c") == wrong


def test_conditions_are_combined_by_operators_only() -> None:
    with pytest.raises(TypeError, match="&"):
        _ = col("a") > 1 and col("b") > 2
    with pytest.raises(InvalidInputError):
        _ = (col("a") > 1) & "b > 2"  # type: ignore[operator]
    with pytest.raises(InvalidInputError):
        read(None, "/tmp/x", "t", filter=3)  # type: ignore[arg-type]
