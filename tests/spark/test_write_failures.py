"""What happens to a table while a job writes to it, and what the job makes of that."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lance_catalog import DirectoryNamespace
from lance_catalog.directory import jobs
from lance_catalog.errors import CommitOutcomeUnknownError
from lance_catalog.maintenance.check import check
from lance_catalog.maintenance.repair import apply, plan
from lance_catalog.spark.write import write
from tests.spark.tables import column, mended, opened, refused, strays

#: By its full name: the package offers the function under it.
writing: Any = importlib.import_module("lance_catalog.spark.write")
T = ["db", "t"]


@pytest.fixture
def catalog(spark: SparkSession, tmp_path: Path) -> DirectoryNamespace:
    made = DirectoryNamespace(root=str(tmp_path / "root"))
    made.create_namespace({"id": ["db"]})
    write(spark.range(3), made, T)
    return made


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Something that happens between the tasks and the commit."""
    real: Any = writing.run_write

    def planned(act: Callable[[], object]) -> None:
        def run_write(df: Any, sink: Any) -> Any:
            messages = real(df, sink)
            act()
            return messages

        monkeypatch.setattr(writing, "run_write", run_write)

    return planned


Meanwhile = Callable[[Callable[[], object]], None]


def test_the_table_is_dropped(
    spark: SparkSession, catalog: DirectoryNamespace, meanwhile: Meanwhile
) -> None:
    meanwhile(lambda: catalog.drop_table({"id": T}))
    code, text = refused(write, spark.range(3, 5), catalog, T, "append")
    assert code == 4 and "trash" in text
    catalog.undrop_table(T)
    assert column(catalog, T, "id") == [0, 1, 2]
    assert strays(catalog, T) == set()


def test_the_table_is_another_one_by_then(
    spark: SparkSession, catalog: DirectoryNamespace, meanwhile: Meanwhile
) -> None:
    def replaced() -> None:
        catalog.rename_table({"id": T, "new_table_name": "old"})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, pa.schema({"id": pa.int64()})) as writer:
            writer.write_table(pa.table({"id": [9]}))
        catalog.create_table({"id": T}, sink.getvalue().to_pybytes())

    meanwhile(replaced)
    assert refused(write, spark.range(3, 5), catalog, T, "append")[0] == 14
    assert column(catalog, T, "id") == [9]
    assert column(catalog, ["db", "old"], "id") == [0, 1, 2]
    assert strays(catalog, ["db", "old"]) == set()


def test_columns_change(
    spark: SparkSession, catalog: DirectoryNamespace, meanwhile: Meanwhile
) -> None:
    meanwhile(lambda: opened(catalog, T).add_columns(pa.schema({"more": pa.int64()})))
    write(spark.range(3, 5), catalog, T, "append")  # A new one may be null.
    assert opened(catalog, T).to_table(filter="id = 4").to_pylist() == [{"id": 4, "more": None}]
    meanwhile(lambda: opened(catalog, T).alter_columns({"path": "id", "data_type": pa.int32()}))
    code, text = refused(
        write, spark.range(5, 6).selectExpr("id", "id as more"), catalog, T, "append"
    )
    assert code == 20 and "'id'" in text
    meanwhile(lambda: opened(catalog, T).drop_columns(["more"]))
    df = spark.range(5, 6).selectExpr("cast(id as int) as id", "id as more")
    code, text = refused(write, df, catalog, T, "append")
    assert code == 20 and "'more' of 'db.t' is gone" in text
    assert column(catalog, T, "id") == [0, 1, 2, 3, 4]
    assert strays(catalog, T) == set()


def test_somebody_creates_the_table(
    spark: SparkSession, catalog: DirectoryNamespace, meanwhile: Meanwhile
) -> None:
    def rival() -> None:
        catalog.rename_table({"id": T, "new_table_name": "new"})

    meanwhile(rival)
    assert refused(write, spark.range(9), catalog, ["db", "new"])[0] == 5
    assert column(catalog, ["db", "new"], "id") == [0, 1, 2]
    assert check(catalog.context, grace_seconds=-3600).problems == []


def test_a_repair_takes_the_job_for_dead(
    spark: SparkSession, catalog: DirectoryNamespace, meanwhile: Meanwhile
) -> None:
    ctx = catalog.context
    meanwhile(lambda: apply(ctx, plan(ctx, grace_seconds=-3600)))
    code, text = refused(write, spark.range(3, 5), catalog, T, "append")
    assert code == 14 and "dead" in text
    assert column(catalog, T, "id") == [0, 1, 2]
    mended(catalog)


def test_an_unknown_outcome_keeps_the_files(
    spark: SparkSession, catalog: DirectoryNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    real: Any = jobs._land

    def land(*given: Any) -> Any:
        real(*given)
        monkeypatch.setattr(jobs, "open_for_job", gone)
        raise CommitOutcomeUnknownError("no answer")

    def gone(*given: Any) -> Any:
        raise CommitOutcomeUnknownError("still no answer")

    with monkeypatch.context():
        monkeypatch.setattr(jobs, "_land", land)
        code, text = refused(write, spark.range(3, 5), catalog, T, "append", job_id="job")
        monkeypatch.undo()
    assert code == 14 and "'job'" in text
    assert column(catalog, T, "id") == [0, 1, 2, 3, 4]
    assert write(spark.range(3, 5), catalog, T, "append", job_id="job").repeated
    mended(catalog)
    assert column(catalog, T, "id") == [0, 1, 2, 3, 4]
