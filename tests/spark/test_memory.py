"""What a task takes, whatever the table: real workers of Spark's, their peak told by the kernel."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from lance_catalog.spark import jobs
from lance_catalog.spark.ingest import ingest
from lance_catalog.spark.read import read
from lance_catalog.spark.streaming import read_stream, write_stream
from lance_catalog.spark.write import write
from tests.spark.lance_tables import catalog_at, create
from tests.spark.worker_memory import measured, resident

MIB = 1 << 20


def wide(start: int, rows: int) -> pa.Table:
    """Rows of a MiB that nothing makes smaller."""
    data = [os.urandom(MIB) for _ in range(rows)]
    return pa.table({"id": pa.array(range(start, start + rows), pa.int64()), "data": data})


def narrow(start: int, rows: int) -> pa.Table:
    ids = np.arange(start, start + rows)
    return pa.table(
        {
            "id": ids,
            "kind": (ids % 97).astype(np.int32),
            "amount": np.random.default_rng(start).random(rows),
            "text": pa.array([f"row number {one}" for one in ids]),
        }
    )


Made = Callable[[int, int], pa.Table]


class Tables:
    """One shape of rows, as a Lance table of several fragments and as parquet.

    A page is read as a whole, of either format; so files have pages that writers of wide rows
    make, of some MiB, not one for all that pyarrow was given at a time.
    """

    def __init__(self, base: Path, make: Made, rows: int, parts: int) -> None:
        self.base, self.rows = base, rows
        self.catalog = catalog_at(base / "root", "db")
        self.parquet = base / "rows.parquet"
        each = rows // parts
        schema = make(0, 1).schema
        page = 8 if make is wide else 8192
        with pq.ParquetWriter(self.parquet, schema, write_batch_size=page) as writer:
            for part in range(parts):
                table = make(part * each, each)
                batches = table.to_batches(max_chunksize=page)
                for name in ("t", "many"):
                    reader = pa.RecordBatchReader.from_batches(schema, batches)
                    if part:
                        target = self.catalog.open_table(["db", name])
                        lance.write_dataset(reader, target, mode="append")
                    else:
                        create(self.catalog, f"db.{name}", reader)
                writer.write_table(table, row_group_size=each)


def operations(spark: SparkSession, tables: Tables) -> dict[str, Callable[[], Any]]:
    catalog, base, rows = tables.catalog, tables.base, tables.rows

    def scan() -> None:
        read(spark, catalog, "db.t").write.format("noop").mode("overwrite").save()

    def stream() -> None:
        create(catalog, "db.sink", catalog.open_table(["db", "t"]).schema.empty_table())
        into = write_stream(
            read_stream(spark, catalog, "db.t"),
            catalog,
            "db.sink",
            query_id="q",
            checkpoint=str(base / "checkpoint"),
        )
        into.trigger(availableNow=True).start().awaitTermination()

    def merge() -> None:
        half = read(spark, catalog, "db.t", filter=f"id % 2 = 0 and id < {rows}")
        write(half, catalog, "db.many", "merge", keys=["id"])

    return {
        "read": scan,
        "write": lambda: write(read(spark, catalog, "db.t"), catalog, "db.written"),
        "ingest parquet": lambda: ingest(spark, catalog, "db.in", str(tables.parquet)),
        "ingest lance": lambda: ingest(
            spark, catalog, "db.in2", catalog.open_table(["db", "t"]).uri, format="lance"
        ),
        "stream": stream,
        "verify": lambda: jobs.verify(spark, catalog, ["db", "written"]).collect(),
        "compact": lambda: jobs.compact(spark, catalog, ["db", "many"]).collect(),
        "merge": merge,
    }


SIZES = [
    pytest.param("wide", 320, 4, marks=pytest.mark.soak, id="wide"),
    pytest.param("wide", 1500, 5, marks=pytest.mark.soak, id="wide-real"),
    pytest.param("narrow", 4_000_000, 4, marks=pytest.mark.soak, id="narrow-real"),
]


@pytest.mark.parametrize(("shape", "rows", "parts"), SIZES)
def test_a_task_stays_below_its_bound(
    spark: SparkSession, tmp_path: Path, shape: str, rows: int, parts: int
) -> None:
    make: Made = wide if shape == "wide" else narrow
    tiny = catalog_at(tmp_path / "tiny", "db")
    create(tiny, "db.t", make(0, 2))
    write(read(spark, tiny, "db.t"), tiny, "db.u")
    # One that did the same with two rows: a worker just forked has not even loaded Lance.
    idle = max(resident())
    tables = Tables(tmp_path, make, rows, parts)
    found: dict[str, int] = {}
    for name, act in operations(spark, tables).items():
        with measured() as peak:
            act()
        assert peak.each
        found[name] = (peak.bytes - idle) // MIB
        print(
            f"{shape} {rows}: {name}: {found[name]} MiB above the {idle // MIB} of an idle worker"
        )
    most = {name: size for name, size in found.items() if size >= 512}
    assert most == {}
