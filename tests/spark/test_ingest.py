"""Files brought into tables, on a real Spark."""

from __future__ import annotations

import json
from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from lance_catalog import DirectoryNamespace
from lance_catalog.maintenance.check import check
from lance_catalog.spark import ingest_files
from lance_catalog.spark.ingest import ingest
from lance_catalog.spark.ingest_files import Piece, Source, joined
from tests.spark.tables import column, mended, opened, refused, strays

T = ["db", "t"]


@pytest.fixture
def catalog(tmp_path: Path) -> DirectoryNamespace:
    made = DirectoryNamespace(root=str(tmp_path / "root"))
    made.create_namespace({"id": ["db"]})
    return made


def table(start: int, end: int) -> pa.Table:
    numbers = list(range(start, end))
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "name": [f"n{n}" for n in numbers],
            "v": pa.array([[float(n), 1.0] for n in numbers], pa.list_(pa.float32())),
        }
    )


def clean(catalog: DirectoryNamespace) -> None:
    assert strays(catalog, T) == set()
    assert check(catalog.context, grace_seconds=-3600).problems == []


def test_parquet_by_row_groups_once(
    spark: SparkSession, catalog: DirectoryNamespace, tmp_path: Path
) -> None:
    files = tmp_path / "in"
    files.mkdir()
    for number in range(3):
        part = table(number * 100, number * 100 + 100)
        pq.write_table(part, files / f"p{number}.parquet", row_group_size=30)
    (files / "_SUCCESS").write_text("")
    how = {"vectors": {"v": 2}, "task_bytes": 1, "job_id": "job"}
    done = ingest(spark, catalog, "db.t", str(files), **how)
    assert (done.rows, done.repeated) == (300, False)
    assert ingest(spark, catalog, "db.t", str(files), **how).repeated
    found = opened(catalog, T)
    assert found.schema.field("v").type == pa.list_(pa.float32(), 2)
    assert found.to_table().sort_by("id")["v"][7].as_py() == [7.0, 1.0]
    assert column(catalog, T, "id") == list(range(300))
    more = ingest(spark, catalog, T, str(files / "p1.parquet"), mode="append")
    assert more.rows == 100
    chosen = ingest(spark, catalog, T, f"{files}/*.parquet", mode="overwrite", columns=["id"])
    assert chosen.rows == 300 and opened(catalog, T).schema.names == ["id"]
    assert ingest(spark, catalog, T, str(files), mode="ignore").version is None
    clean(catalog)


def test_every_format(spark: SparkSession, catalog: DirectoryNamespace, tmp_path: Path) -> None:
    flat = table(0, 50).drop_columns(["v"])
    pa.csv.write_csv(flat, tmp_path / "a.csv")
    lines = [json.dumps(row) for row in table(0, 50).to_pylist()]
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n")
    pa.feather.write_feather(table(0, 50), tmp_path / "a.feather")
    with pa.ipc.new_stream(tmp_path / "a.arrow", table(0, 1).schema) as writer:
        writer.write_table(table(0, 50))
    lance.write_dataset(table(0, 50), tmp_path / "a.lance", max_rows_per_file=20)
    for name in ("a.csv", "a.jsonl", "a.feather", "a.arrow", "a.lance"):
        vectors = None if name == "a.csv" else {"v": 2}
        path = str(tmp_path / name)
        done = ingest(spark, catalog, T, path, mode="overwrite", vectors=vectors)
        assert done.rows == 50, name
        found = opened(catalog, T).to_table().sort_by("id")
        assert found["name"].to_pylist() == flat["name"].to_pylist(), name
        if vectors:
            assert found.schema.field("v").type == pa.list_(pa.float32(), 2), name
    clean(catalog)


def test_files_that_do_not_fit(
    spark: SparkSession, catalog: DirectoryNamespace, tmp_path: Path
) -> None:
    pq.write_table(table(0, 10), tmp_path / "a.parquet")
    ingest(spark, catalog, T, str(tmp_path / "a.parquet"), vectors={"v": 2})
    wider = table(0, 10).append_column("more", pa.array(range(10)))
    pq.write_table(wider, tmp_path / "b.parquet")
    code, text = refused(ingest, spark, catalog, T, str(tmp_path / "b.parquet"), mode="append")
    assert code == 20 and "'more'" in text and "b.parquet" in text
    long = table(0, 10).set_column(2, "v", pa.array([[1.0, 2.0, 3.0]] * 10, pa.list_(pa.float32())))
    pq.write_table(long, tmp_path / "c.parquet")
    code, text = refused(ingest, spark, catalog, T, str(tmp_path / "c.parquet"), mode="append")
    assert code == 20 and "'v'" in text
    (tmp_path / "d.parquet").write_bytes(b"nonsense")
    code, text = refused(ingest, spark, catalog, T, str(tmp_path / "d.parquet"), mode="append")
    assert code == 20 and "d.parquet" in text
    assert refused(ingest, spark, catalog, T, str(tmp_path / "absent"), mode="append")[0] == 4
    assert refused(ingest, spark, catalog, T, str(tmp_path / "a.parquet"))[0] == 5
    assert refused(ingest, spark, catalog, T, "x", format="xml", mode="append")[0] == 13
    assert column(catalog, T, "id") == list(range(10))
    mended(catalog)
    clean(catalog)


def test_neighbours_of_one_file_are_opened_once() -> None:
    one, other = Source("a.parquet", "parquet", 0), Source("b.parquet", "parquet", 0)
    half = ingest_files._AHEAD // 2
    parts = [Piece(one, (0,), half), Piece(one, (1, 2), half), Piece(one, (3,), 1)]
    rest = [Piece(other, (0,), 1), Piece(other, None, 1)]
    assert joined([*parts, *rest]) == [Piece(one, (0, 1, 2), 2 * half), parts[2], *rest]
