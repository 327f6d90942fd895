"""Reading: what is asked for comes, all of it once, and runs in Lance."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lance_catalog.errors import (
    InvalidInputError,
    TableColumnNotFoundError,
    TableNotFoundError,
    TableTagNotFoundError,
    TableVersionNotFoundError,
    UnsupportedOperationError,
)
from lance_catalog.spark import col, count, planning, read
from lance_catalog.spark.options import ReadOptions
from lance_catalog.spark.planning import Piece, Width, batch_rows, measure_width, plan_pieces
from lance_catalog.spark.scanning import batches_of, read_schema
from tests.spark.lance_tables import append, catalog_at, create


def rows_of(start: int, end: int) -> pa.Table:
    numbers = list(range(start, end))
    return pa.table(
        {
            "id": numbers,
            "name": [f"n{one}" for one in numbers],
            "v": pa.array([[float(one), 1.0] for one in numbers], pa.list_(pa.float32(), 2)),
            "text": ["even words" if one % 2 == 0 else "odd words" for one in numbers],
        }
    )


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Any:
    made = catalog_at(tmp_path_factory.mktemp("read"), "db")
    dataset = create(made, "db.t", rows_of(0, 60), max_rows_per_file=25)
    dataset.delete("id = 3")
    dataset = append(made, "db.t", rows_of(60, 100))
    dataset.create_scalar_index("text", "INVERTED")
    dataset.tags.create("early", 1)
    return made


def ids(frame: Any) -> list[int]:
    return sorted(row["id"] for row in frame.select("id").collect())


ALL = [one for one in range(100) if one != 3]


def test_projection_filter_and_row_ids_run_in_lance(spark: SparkSession, catalog: Any) -> None:
    frame = read(
        spark,
        catalog,
        "db.t",
        columns=["name", "id"],
        filter=(col("id") > 96) | (col("name") == "n1"),
        with_row_id=True,
    )
    assert frame.columns == ["name", "id", "_rowid"]
    assert sorted(row.id for row in frame.collect()) == [1, 97, 98, 99]
    expected = catalog.open_table(["db", "t"]).scanner(with_row_id=True).to_table()
    by_id = dict(zip(expected["id"].to_pylist(), expected["_rowid"].to_pylist(), strict=True))
    assert all(by_id[row.id] == row._rowid for row in frame.collect())


def test_the_filter_reaches_lance_and_not_only_spark(spark: SparkSession, catalog: Any) -> None:
    # Spark has no such function; only Lance can have run it.
    frame = read(spark, catalog, ["db", "t"], filter="array_length(v) = 2 AND id % 50 = 0")
    assert ids(frame) == [0, 50]


def test_a_root_as_text_reads_the_same(spark: SparkSession, catalog: Any) -> None:
    assert ids(read(spark, catalog.context.settings.root, "db.t")) == ALL


def test_a_limit_is_exact_over_several_tasks(spark: SparkSession, catalog: Any) -> None:
    frame = read(spark, catalog, "db.t", limit=70)
    assert len(frame.collect()) == 70
    assert len(read(spark, catalog, "db.t", limit=7, filter="id > 20").collect()) == 7
    assert read(spark, catalog, "db.t", limit=0).collect() == []


def test_nearest_gives_the_nearest_and_their_distance(spark: SparkSession, catalog: Any) -> None:
    asked = {"column": "v", "q": np.array([50.2, 1.0], dtype=np.float32), "k": 3}
    frame = read(spark, catalog, "db.t", columns=["id"], nearest=asked, filter="id <> 50")
    found = {row.id: row._distance for row in frame.collect()}
    assert set(found) == {49, 51, 52}
    assert found[51] == pytest.approx(0.64, rel=1e-4)


def test_full_text_search_scores(spark: SparkSession, catalog: Any) -> None:
    frame = read(spark, catalog, "db.t", columns=["id"], full_text="even", limit=60)
    found = frame.collect()
    assert sorted(row.id for row in found) == list(range(0, 100, 2))
    assert all(row._score > 0 for row in found)
    by_column = {"query": "odd", "columns": ["text"]}
    assert read(spark, catalog, "db.t", columns=["id"], full_text=by_column).count() == 49


def test_versions_tags_and_times(spark: SparkSession, catalog: Any) -> None:
    dataset = catalog.open_table(["db", "t"])
    times = {one["version"]: one["timestamp"] for one in dataset.versions()}
    assert ids(read(spark, catalog, "db.t", version=1)) == list(range(60))
    assert ids(read(spark, catalog, "db.t", tag="early")) == list(range(60))
    then = times[2].astimezone(dt.UTC)
    assert ids(read(spark, catalog, "db.t", as_of=then)) == [n for n in range(60) if n != 3]
    assert count(catalog, "db.t", as_of=then.isoformat()) == 59
    with pytest.raises(TableVersionNotFoundError, match="oldest"):
        read(spark, catalog, "db.t", as_of="2001-01-01T00:00:00+00:00")
    with pytest.raises(TableVersionNotFoundError):
        read(spark, catalog, "db.t", version=99)
    with pytest.raises(TableTagNotFoundError):
        read(spark, catalog, "db.t", tag="late")
    with pytest.raises(InvalidInputError, match="manages"):
        read(spark, catalog, "db.t", as_of=3)


def test_as_of_a_version_of_a_managed_catalog(spark: SparkSession, tmp_path: Path) -> None:
    catalog = catalog_at(tmp_path, "db")
    create(catalog, "db.t", rows_of(0, 5))
    catalog.enable_managed_versions()
    before = catalog.snapshot().version
    append(catalog, "db.t", rows_of(5, 9))
    assert ids(read(spark, catalog, "db.t", as_of=before)) == list(range(5))
    assert ids(read(spark, catalog, "db.t")) == list(range(9))


def test_a_dataframe_keeps_its_version(spark: SparkSession, tmp_path: Path) -> None:
    catalog = catalog_at(tmp_path, "db")
    create(catalog, "db.t", rows_of(0, 5))
    ours = read(spark, catalog, "db.t")
    plain = spark.read.format("lance").option("root", str(tmp_path)).load("db.t")
    append(catalog, "db.t", rows_of(5, 9))
    catalog.open_table(["db", "t"]).delete("id = 0")
    assert ids(ours) == ids(plain) == list(range(5))
    assert ours.filter("id > 2").count() == 2
    assert ids(read(spark, catalog, "db.t")) == list(range(1, 9))


def test_scans_of_one_dataframe_do_not_disturb_each_other(
    spark: SparkSession, catalog: Any
) -> None:
    # With pushFilters each of these would get the filter of the last.
    frame = read(spark, catalog, "db.t", columns=["id"])
    both = frame.filter("id = 1").union(frame.filter("id = 2")).union(frame)
    assert both.count() == 101
    assert frame.count() == 99


def test_count_runs_no_job(spark: SparkSession, catalog: Any) -> None:
    spark.sparkContext.setJobGroup("counting", "")
    assert count(catalog, "db.t") == 99
    assert count(catalog, "db.t", "id < 10") == 9
    assert count(catalog, "db.t", col("id").isin([1, 2, 3]), version=1) == 3
    assert spark.sparkContext.statusTracker().getJobIdsForGroup("counting") == []


def test_an_empty_table_and_an_empty_projection_of_it(spark: SparkSession, tmp_path: Path) -> None:
    catalog = catalog_at(tmp_path, "db")
    create(catalog, "db.empty", rows_of(0, 0))
    frame = read(spark, catalog, "db.empty")
    assert frame.collect() == [] and frame.columns == ["id", "name", "v", "text"]


def test_what_does_not_exist_is_told_on_the_driver(spark: SparkSession, catalog: Any) -> None:
    with pytest.raises(TableNotFoundError):
        read(spark, catalog, "db.gone")
    with pytest.raises(TableColumnNotFoundError, match=r"nam.*id, name, v, text"):
        read(spark, catalog, "db.t", columns=["nam"])
    with pytest.raises(TableColumnNotFoundError):
        read(spark, catalog, "db.t", filter="nam = 3")
    with pytest.raises(InvalidInputError):
        read(spark, catalog, "db.t", filter="id = = 3")
    with pytest.raises(InvalidInputError, match="one of version"):
        read(spark, catalog, "db.t", version=1, tag="early")
    with pytest.raises(InvalidInputError, match="'column'"):
        read(spark, catalog, "db.t", nearest={"q": [1.0, 2.0]})
    with pytest.raises(InvalidInputError, match="'vector'"):
        read(spark, catalog, "db.t", nearest={"column": "v", "q": [1.0, 2.0], "vector": 3})
    with pytest.raises(UnsupportedOperationError, match="memory"):
        read(spark, "memory://x", "db.t")


def test_a_table_in_the_trash_is_not_read(spark: SparkSession, tmp_path: Path) -> None:
    catalog = catalog_at(tmp_path, "db")
    create(catalog, "db.t", rows_of(0, 5))
    frame = read(spark, catalog, "db.t")
    catalog.drop_table({"id": ["db", "t"]})
    with pytest.raises(TableNotFoundError):
        read(spark, catalog, "db.t")
    # What was read before is still there to be read, also when the name is another table's.
    assert frame.count() == 5
    create(catalog, "db.t", rows_of(50, 52))
    assert ids(frame) == list(range(5))
    assert ids(read(spark, catalog, "db.t")) == [50, 51]


def test_a_table_that_vanishes_under_a_job_is_named(spark: SparkSession, tmp_path: Path) -> None:
    catalog = catalog_at(tmp_path, "db")
    create(catalog, "db.t", rows_of(0, 5))
    frame = read(spark, catalog, "db.t")
    catalog.drop_table({"id": ["db", "t"]}, purge=True)
    with pytest.raises(PySparkException, match=r"db\.t"):
        frame.collect()


# Planning, without Spark.


def pieces_of(dataset: Any, **asked: Any) -> list[Piece]:
    return plan_pieces(dataset, ReadOptions(**asked), dataset.schema.names)


def covered(dataset: Any, pieces: list[Piece], **asked: Any) -> list[int]:
    options = ReadOptions(**asked)
    schema = read_schema(dataset, options, "test")
    found = []
    for piece in pieces:
        for batch in batches_of(dataset, options, schema, piece, 7):
            found += batch["id"].to_pylist()
    return found


def test_small_fragments_share_a_task_and_large_ones_are_cut(catalog: Any) -> None:
    dataset = catalog.open_table(["db", "t"])
    assert len(pieces_of(dataset)) == 1
    cut = pieces_of(dataset, partition_bytes=200)
    assert len(cut) > len(dataset.get_fragments())
    assert sorted(covered(dataset, cut)) == ALL
    filtered = pieces_of(dataset, partition_bytes=200, filter="id > 10")
    assert len(filtered) == len(dataset.get_fragments())
    assert sorted(covered(dataset, filtered, filter="id > 10")) == list(range(11, 100))


MIB = 1 << 20


@pytest.mark.parametrize(
    ("sizes", "cores", "most", "expected"),
    [
        ([30, 31, 12, 31, 31, 12, 30, 31, 12, 31, 31, 12], 2, 512, [147, 147]),
        ([100] * 6, 2, 128, [100] * 6),
        ([60] * 10, 2, 128, [120, 60, 120, 120, 60, 120]),
        ([10, 1000, 10], 2, 510, [10, 1000, 10]),
        ([1] * 20, 8, 128, [7, 6, 7]),
        ([], 2, 128, []),
    ],
    ids=["one turn", "three turns", "two fit", "one too large", "never below the least", "none"],
)
def test_all_cores_have_something_to_do_until_the_end(
    sizes: list[int], cores: int, most: int, expected: list[int]
) -> None:
    """Fragments that differ a little: no further task for what is left over."""
    fragments = [planning._Fragment(n, 1, size * MIB) for n, size in enumerate(sizes)]
    asked = ReadOptions(partition_bytes=most * MIB, parallelism=cores)
    groups = list(planning._groups(fragments, planning._target(fragments, asked)))
    assert [sum(one.size for one in group) // MIB for group in groups] == expected
    assert [one for group in groups for one in group] == fragments


@pytest.mark.parametrize("limit", [1, 24, 25, 26, 59, 98, 99, 1000])
@pytest.mark.parametrize("size", [1, 200, 3000, 1 << 30])
def test_a_limit_is_exact_however_the_table_is_cut(catalog: Any, limit: int, size: int) -> None:
    dataset = catalog.open_table(["db", "t"])
    found = covered(dataset, pieces_of(dataset, limit=limit, partition_bytes=size))
    assert len(found) == len(set(found)) == min(limit, 99)


def test_rows_of_a_batch_follow_their_width(tmp_path: Path) -> None:
    catalog = catalog_at(tmp_path)
    wide = pa.table({"id": range(40), "s": ["x" * 1000 if n % 2 else "" for n in range(40)]})
    dataset = create(catalog, "t", wide)
    width = measure_width(dataset, ["id", "s"])
    assert 500 < width.average < 540 and 1000 < width.most < 1050
    assert measure_width(dataset, ["id"]) == Width(8.0, 8.0)
    assert batch_rows(width, 1 << 20) == pytest.approx((1 << 20) / width.average, rel=0.05)
    assert batch_rows(Width(1 << 20, 1 << 20), 1000) == 1
    assert batch_rows(Width(10, 1 << 20), 2 << 20) == 4
    # However wide the batches that Lance hands over: what goes to Spark is cut.
    schema = read_schema(dataset, ReadOptions(), "test")
    asked = ReadOptions(batch_bytes=2000)
    sizes = [b.nbytes for b in batches_of(dataset, asked, schema, Piece(None), 40)]
    assert max(sizes) <= 4000 and sum(sizes) > 20_000
