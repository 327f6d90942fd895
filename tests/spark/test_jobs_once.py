"""Exactly once on a real Spark: drivers that die and run again, two at once, killed workers."""

from __future__ import annotations

import importlib
import signal
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lance_catalog import DirectoryNamespace
from lance_catalog.directory.jobs import Job
from lance_catalog.maintenance.check import check
from lance_catalog.spark.catalogs import resolve
from lance_catalog.spark.results import WriteResult
from lance_catalog.spark.sink import open_sink
from lance_catalog.spark.write import write
from tests.spark import driver
from tests.spark.driver import T
from tests.spark.tables import column, created, folder, mended, opened, refused, strays

#: By its full name: the package offers the function under it.
writing: Any = importlib.import_module("lance_catalog.spark.write")


def made(folder: Path, spark: SparkSession, *, managed: bool) -> DirectoryNamespace:
    catalog = DirectoryNamespace(root=str(folder / "root"))
    catalog.create_namespace({"id": ["db"]})
    if managed:
        catalog.enable_managed_versions()
    write(spark.range(0, 110, 1, 2), catalog, T)
    return catalog


EXPECTED = {
    "append": sorted([*range(110), *range(100, 120)]),
    "merge": list(range(120)),
    "publish": list(range(100, 120)),
    "create": list(range(110)),
}
KILLS = [
    pytest.param("append", "job.staged", False, marks=pytest.mark.soak),
    ("publish", "job.landed", True),
    pytest.param("append", "job.task_written", True, marks=pytest.mark.soak),
    pytest.param("append", "job.landed", False, marks=pytest.mark.soak),
    pytest.param("append", "job.finalized", True, marks=pytest.mark.soak),
    pytest.param("merge", "job.staged", True, marks=pytest.mark.soak),
    pytest.param("merge", "job.finalized", False, marks=pytest.mark.soak),
    pytest.param("publish", "job.staged", True, marks=pytest.mark.soak),
    pytest.param("publish", "version.row_written", True, marks=pytest.mark.soak),
    pytest.param("create", "table.version_finalized", False, marks=pytest.mark.soak),
    pytest.param("create", "table.registered", True, marks=pytest.mark.soak),
]


@pytest.mark.parametrize(("verb", "point", "managed"), KILLS)
def test_a_driver_that_dies_and_runs_again(
    spark: SparkSession, tmp_path: Path, verb: str, point: str, managed: bool
) -> None:
    catalog = made(tmp_path, spark, managed=managed)
    root = str(tmp_path / "root")
    ended = driver.run(root, verb, "job", LANCE_CATALOG_FAILPOINTS=f"{point}=kill")
    if point == "job.task_written":
        assert ended != 0  # A worker was killed, and local[2] tries once.
    else:
        assert ended == -signal.SIGKILL
    # The second run here: a session of its own costs many seconds.
    driver.act(spark, catalog, verb, "job")
    driver.act(spark, catalog, verb, "job")
    assert column(catalog, T, "id") == EXPECTED[verb]
    if verb in ("publish", "create"):
        assert column(catalog, driver.U, "id") == list(range(100, 120))
    mended(catalog)
    assert strays(catalog, T) == set()


@pytest.mark.parametrize("managed", [False, True])
def test_two_drivers_at_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, managed: bool
) -> None:
    catalog = made(tmp_path, spark, managed=managed)
    real: Any = writing.run_write
    both = threading.Barrier(2)

    def run_write(df: Any, sink: Any) -> Any:
        messages = real(df, sink)
        both.wait(timeout=300)  # Both have written before either commits.
        return messages

    monkeypatch.setattr(writing, "run_write", run_write)
    answers: list[WriteResult] = []

    def one() -> None:
        rival = DirectoryNamespace(root=str(tmp_path / "root"))
        answers.append(write(spark.range(100, 120), rival, T, "append", job_id="job"))

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer.repeated for answer in answers) == [False, True]
    assert len({answer.version for answer in answers}) == 1
    assert column(catalog, T, "id") == EXPECTED["append"]
    assert strays(catalog, T) == set()
    assert check(catalog.context, grace_seconds=-3600).problems == []


@pytest.mark.soak  # On a cluster in tests/spark/test_cluster.py.
def test_a_worker_that_is_killed_is_replaced(spark: SparkSession, tmp_path: Path) -> None:
    catalog = made(tmp_path, spark, managed=False)
    once = tmp_path / "killed"
    ended = driver.run(
        str(tmp_path / "root"),
        "append",
        "job",
        "local[2,4]",
        LANCE_CATALOG_FAILPOINTS="job.task_written=kill",
        LANCE_CATALOG_FAILPOINTS_ONCE=str(once),
    )
    assert (ended, once.exists()) == (0, True)
    assert column(catalog, T, "id") == EXPECTED["append"]
    mended(catalog)
    assert strays(catalog, T) == set()


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_a_task_that_outlives_its_job_leaves_nothing(tmp_path: Path, mode: str) -> None:
    """As in an executor that Spark took for lost."""
    catalog = DirectoryNamespace(root=str(tmp_path / "root"))
    catalog.create_namespace({"id": ["db"]})
    table = pa.table({"id": pa.array([1, 2], pa.int64())})
    created(catalog, T, table)
    keys = ("id",) if mode == "merge" else ()
    sink = open_sink(resolve(catalog), tuple(T), mode, Job("job"), None, keys=keys)
    ended = sink.target.write(sink.ref, table.to_batches())
    sink.commit([ended])
    assert refused(sink.target.write, sink.ref, table.to_batches())[0] == 14
    assert column(catalog, T, "id") == [1, 1, 2, 2]
    assert strays(catalog, T) == set()
    assert not (folder(catalog, T) / "_lance_catalog" / "tasks").exists()


def test_an_append_against_compaction(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = made(tmp_path, spark, managed=True)
    real: Any = writing.run_write

    def run_write(df: Any, sink: Any) -> Any:
        messages = real(df, sink)
        before = catalog.open_table(T)
        before.optimize.compact_files()
        assert opened(catalog, T).version > sink.base.version
        return messages

    monkeypatch.setattr(writing, "run_write", run_write)
    write(spark.range(200, 203), catalog, T, "append")
    assert column(catalog, T, "id") == [*range(110), 200, 201, 202]
