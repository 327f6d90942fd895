"""Merges by key on a real Spark, against a model and against other writers."""

from __future__ import annotations

import importlib
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from lance_catalog import DirectoryNamespace
from lance_catalog.directory import jobs
from lance_catalog.maintenance.check import check
from lance_catalog.spark.catalogs import resolve
from lance_catalog.spark.read import read
from lance_catalog.spark.write import write
from tests.spark.lance_tables import create
from tests.spark.tables import folder, opened, refused, strays

#: By its full name: the package offers the function under it.
merging: Any = importlib.import_module("lance_catalog.spark.merge")

T = ["db", "t"]


@pytest.fixture(params=["plain", "managed"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> DirectoryNamespace:
    made = DirectoryNamespace(root=str(tmp_path / "root"))
    made.create_namespace({"id": ["db"]})
    if request.param == "managed":
        made.enable_managed_versions()
    return made


def frame(spark: SparkSession, values: dict[int, str], parts: int = 2) -> DataFrame:
    made = spark.createDataFrame(sorted(values.items()), "k long, v string")
    return made.repartition(parts)


def table(catalog: DirectoryNamespace) -> dict[int, str]:
    found = opened(catalog, T).to_table().to_pylist()
    assert len(found) == len({row["k"] for row in found})
    return {row["k"]: row["v"] for row in found}


@pytest.mark.parametrize("catalog", ["plain"], indirect=True)
def test_rows_are_replaced_and_added(spark: SparkSession, catalog: DirectoryNamespace) -> None:
    model = dict.fromkeys(range(40), "old")
    write(frame(spark, model, 4), catalog, T)
    opened(catalog, T)
    for number, changed in enumerate(
        [dict.fromkeys(range(35, 45), "one"), dict.fromkeys(range(0, 60, 7), "two"), {99: "new"}]
    ):
        job = f"merge {number}"
        done = write(frame(spark, changed), catalog, T, "merge", keys=["k"], job_id=job)
        model |= changed
        assert (done.rows, done.repeated) == (len(changed), False)
        assert write(frame(spark, changed), catalog, T, "merge", keys=["k"], job_id=job).repeated
        assert table(catalog) == model
    # Fragments that lose all their rows go.
    write(frame(spark, dict.fromkeys(model, "all")), catalog, T, "merge", keys=["k"])
    assert table(catalog) == dict.fromkeys(model, "all")
    assert all(one.num_deletions == 0 for one in opened(catalog, T).get_fragments())
    nothing = frame(spark, model).where("k < 0")
    assert write(nothing, catalog, T, "merge", keys=["k"]).rows == 0
    assert strays(catalog, T) == set()
    assert check(catalog.context, grace_seconds=-3600).problems == []


@pytest.mark.parametrize("catalog", ["plain"], indirect=True)
def test_several_keys_and_bad_ones(spark: SparkSession, catalog: DirectoryNamespace) -> None:
    columns = "a string, b int, v int"
    write(spark.createDataFrame([("x", 1, 1), ("x", 2, 2), ("y", 1, 3)], columns), catalog, T)
    source = spark.createDataFrame([("x", 2, 20), ("y", 2, 40)], columns)
    write(source, catalog, T, "merge", keys=["a", "b"])
    found = opened(catalog, T).to_table().to_pylist()
    assert sorted(r["v"] for r in found) == [1, 3, 20, 40]
    twice = source.union(source)
    code, text = refused(write, twice, catalog, T, "merge", keys=["a", "b"])
    assert code == 13 and "a='x', b=2 (2 rows)" in text
    null = spark.createDataFrame([(None, 2, 20)], columns)
    code, text = refused(write, null, catalog, T, "merge", keys=["a"])
    assert code == 13 and "null" in text
    assert refused(write, source, catalog, T, "merge")[0] == 13
    assert refused(write, source, catalog, T, "merge", keys=["z"])[0] == 12
    assert sorted(r["v"] for r in opened(catalog, T).to_table().to_pylist()) == [1, 3, 20, 40]
    from tests.spark.tables import mended

    mended(catalog)
    assert strays(catalog, T) == set()


@pytest.mark.parametrize("catalog", ["managed"], indirect=True)
def test_a_merge_against_other_writers(
    spark: SparkSession, catalog: DirectoryNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the join and the commit another merge takes the same keys, and a compaction runs."""
    write(frame(spark, dict.fromkeys(range(10), "old")), catalog, T)
    real: Any = merging.Merger.plan
    rivals: list[Any] = [
        lambda: opened(catalog, T).optimize.compact_files(),
        lambda: opened(catalog, T).delete("k = 4"),
        lambda: lance.write_dataset(
            pa.table({"k": [60], "v": ["rival"]}), opened(catalog, T), mode="append"
        ),
        lambda: write(
            frame(spark, {3: "rival", 50: "rival"}), catalog, T, "merge", keys=["k"], job_id="r"
        ),
    ]

    def plan(self: Any, now: jobs.Opened) -> jobs.Planned:
        planned = real(self, now)
        if self.sink.job.id == "mine" and rivals:
            rivals.pop()()
        return planned

    monkeypatch.setattr(merging.Merger, "plan", plan)
    mine = {3: "mine", 4: "mine", 50: "mine", 60: "mine"}
    assert write(frame(spark, mine), catalog, T, "merge", keys=["k"], job_id="mine").rows == 4
    assert rivals == []
    assert table(catalog) == {**dict.fromkeys(range(10), "old"), **mine}
    assert strays(catalog, T) == set()


@pytest.mark.parametrize("catalog", ["plain"], indirect=True)
def test_a_merge_that_always_loses(
    spark: SparkSession, catalog: DirectoryNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(frame(spark, {1: "old"}), catalog, T)
    real: Any = merging.Merger.plan

    def plan(self: Any, now: jobs.Opened) -> jobs.Planned:
        planned = real(self, now)
        catalog.open_table(T).update({"v": "'rival'"})
        return planned

    monkeypatch.setattr(merging.Merger, "plan", plan)
    monkeypatch.setattr(merging, "MAX_CONFLICTS", 1)
    assert refused(write, frame(spark, {1: "mine"}), catalog, T, "merge", keys=["k"])[0] == 14
    assert table(catalog) == {1: "rival"}
    assert strays(catalog, T) == set()


@pytest.mark.parametrize("catalog", ["managed"], indirect=True)
def test_keys_are_compared_as_spark_does(spark: SparkSession, catalog: DirectoryNamespace) -> None:
    """Into an empty table first; a key may be called as what is counted."""
    columns = "f double, count string, v int"
    nan = float("nan")
    write(spark.createDataFrame([], columns), catalog, T)
    old = [(nan, "a", 1), (0.0, "b", 2), (1.0, "c ", 3)]
    source = spark.createDataFrame(old, columns)
    assert write(source, catalog, T, "merge", keys=["f", "count"]).rows == 3
    new = [(nan, "a", 10), (-0.0, "b", 20), (1.0, "c", 30)]
    write(spark.createDataFrame(new, columns), catalog, T, "merge", keys=["f", "count"])
    assert sorted(opened(catalog, T).to_table()["v"].to_pylist()) == [3, 10, 20, 30]
    # From the table itself, as it is when the merge begins.
    found = read(spark, catalog, T).selectExpr("f", "count", "v + 1 as v")
    write(found, catalog, T, "merge", keys=["f", "count"])
    assert sorted(opened(catalog, T).to_table()["v"].to_pylist()) == [4, 11, 21, 31]
    twice = spark.createDataFrame([(nan, "a", 1), (nan, "a", 2)], columns)
    code, text = refused(write, twice, catalog, T, "merge", keys=["f", "count"])
    assert code == 13 and "count='a' (2 rows)" in text


@pytest.mark.parametrize("catalog", ["plain"], indirect=True)
def test_small_fragments_share_a_task(spark: SparkSession, catalog: DirectoryNamespace) -> None:
    create(catalog, "db.t", pa.table({"k": list(range(600))}), max_rows_per_file=1)
    place = str(folder(catalog, T).name)
    told = {"place": place, "version": 1, "keys": ["k"], "tasks": "x"}
    schema = StructType([StructField("k", LongType()), StructField("_rowaddr", LongType())])
    reader = merging.KeyReader(resolve(catalog), json.dumps(told), schema)
    parts = reader.partitions()
    assert len(parts) == 3
    found = [batch for part in parts for batch in reader.read(part)]
    assert sorted(n for batch in found for n in batch["k"].to_pylist()) == list(range(600))
    assert merging._grouped([("a", 1 << 20), ("b", 1), ("c", 1)]) == [["a"], ["b", "c"]]


KEYS: dict[str, tuple[pa.DataType, list[Any], str]] = {
    "decimal": (pa.decimal128(20, 2), [Decimal("1.10"), Decimal("-2.00")], "decimal(20,2)"),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        [datetime(2026, 1, 1, 1, tzinfo=UTC), datetime(1960, 1, 1, tzinfo=UTC)],
        "timestamp",
    ),
    "binary": (pa.binary(), [b"a\x00", b"a"], "binary"),
    "uint64": (pa.uint64(), [2**63 + 1, 0], "decimal(20,0)"),
    "bool": (pa.bool_(), [True, False], "boolean"),
    "date": (pa.date32(), [date(2026, 1, 1), date(1, 1, 1)], "date"),
    "string": (pa.large_string(), ["", " "], "string"),
    "float16": (pa.float16(), [1.5, -2.25], "float"),
}


@pytest.mark.soak
@pytest.mark.parametrize("catalog", ["plain"], indirect=True)
@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_a_type(spark: SparkSession, catalog: DirectoryNamespace, kind: str) -> None:
    arrow, values, text = KEYS[kind]
    column = pa.array(np.float16(values) if kind == "float16" else values, arrow)
    create(catalog, "db.t", pa.table({"k": column, "v": [1, 2]}))
    given = Decimal(values[0]) if kind == "uint64" else values[0]
    source = spark.createDataFrame([(given, 10)], f"k {text}, v long")
    write(source, catalog, T, "merge", keys=["k"])
    found = opened(catalog, T).to_table().to_pylist()
    assert sorted((r["v"], r["k"]) for r in found) == sorted([(2, values[1]), (10, values[0])])
