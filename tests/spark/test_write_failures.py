"""What happens to a table while a job writes to it, and what the job makes of that."""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

from lance_catalog import DirectoryNamespace
from lance_catalog.directory import jobs
from lance_catalog.errors import CommitOutcomeUnknownError
from lance_catalog.maintenance.check import check
from lance_catalog.maintenance.repair import apply, plan
from lance_catalog.spark.write import write
from tests.spark.tables import column, mended, opened, refused, strays

#: By its full name: the package offers the function under it.
writing: Any = importlib.import_module("lance_catalog.spark.write")
giving: Any = importlib.import_module("lance_catalog.spark.given_properties")
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


def test_properties_that_a_dead_driver_did_not_set(
    spark: SparkSession, catalog: DirectoryNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*given: Any) -> None:
        raise KeyboardInterrupt

    def properties() -> Any:
        return catalog.describe_table({"id": T}).properties or {}

    how: dict[str, Any] = {"mode": "overwrite", "job_id": "job", "properties": {"run": "1"}}
    monkeypatch.setattr(giving, "set_of_table", killed)
    with pytest.raises(KeyboardInterrupt):
        write(spark.range(5, 6), catalog, T, **how)
    monkeypatch.undo()
    assert column(catalog, T, "id") == [5] and properties() == {}
    assert write(spark.range(5, 6), catalog, T, **how).repeated
    assert properties() == {"run": "1"}
    later = {**how, "job_id": "later", "properties": {"run": "2"}}
    write(spark.range(6, 7), catalog, T, **later)
    assert write(spark.range(5, 6), catalog, T, **how).repeated  # The table is another's by now.
    assert properties() == {"run": "2"}
    mended(catalog)


def test_the_driver_is_interrupted(
    spark: SparkSession, catalog: DirectoryNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the tasks and the commit, and in it: the files are found by their record."""

    def interrupted(*given: Any, **how: Any) -> Any:
        raise KeyboardInterrupt

    for module, name in ((writing, "run_write"), (jobs, "_land")):
        monkeypatch.setattr(module, name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            write(spark.range(3, 5), catalog, T, "append", job_id="job")
        monkeypatch.undo()
    assert any("data/" in path for path in strays(catalog, T))
    assert column(catalog, T, "id") == [0, 1, 2]
    mended(catalog)
    assert strays(catalog, T) == set()
    assert write(spark.range(3, 5), catalog, T, "append", job_id="job").repeated is False


def test_a_cancelled_job(spark: SparkSession, catalog: DirectoryNamespace, tmp_path: Path) -> None:
    begun = tmp_path / "begun"

    def slow(number: int) -> int:
        begun.touch()
        while number == 3:
            time.sleep(0.05)  # Until it is cancelled.
        return number

    def cancel() -> None:
        deadline = time.monotonic() + 120
        while not begun.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        spark.sparkContext.cancelAllJobs()

    df = spark.range(3, 5, 1, 2).select(udf(slow, "long", useArrow=False)("id").alias("id"))
    canceller = threading.Thread(target=cancel)
    canceller.start()
    code, text = refused(write, df, catalog, T, "append", job_id="job")
    canceller.join()
    assert begun.exists() and code == 18 and "cancel" in text.lower()
    assert column(catalog, T, "id") == [0, 1, 2]
    mended(catalog)
    assert strays(catalog, T) == set()


def test_somebody_makes_a_table_that_is_to_be_overwritten(
    spark: SparkSession, catalog: DirectoryNamespace, meanwhile: Meanwhile
) -> None:
    meanwhile(lambda: catalog.rename_table({"id": T, "new_table_name": "new"}))
    code, text = refused(write, spark.range(9), catalog, ["db", "new"], "overwrite")
    assert code == 14 and "Run it again" in text
    assert column(catalog, ["db", "new"], "id") == [0, 1, 2]
    meanwhile(lambda: catalog.rename_table({"id": ["db", "new"], "new_table_name": "t"}))
    assert write(spark.range(9), catalog, T, "ignore").version is None
    assert column(catalog, T, "id") == [0, 1, 2]
    assert check(catalog.context, grace_seconds=-3600).problems == []
