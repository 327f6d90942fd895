"""Several tables at once on a real Spark."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lance_catalog import DirectoryNamespace
from lance_catalog.directory.managed import batch
from lance_catalog.errors import CommitOutcomeUnknownError
from lance_catalog.maintenance.check import check
from lance_catalog.spark.publish import publish
from lance_catalog.spark.write import write
from tests.spark.tables import column, mended, opened, refused, strays

#: By its full name: the package offers the function under it.
publishing: Any = importlib.import_module("lance_catalog.spark.publish")

A, B, C = ["db", "a"], ["db", "b"], ["db", "c"]


@pytest.fixture
def catalog(tmp_path: Path) -> DirectoryNamespace:
    made = DirectoryNamespace(root=str(tmp_path / "root"))
    made.create_namespace({"id": ["db"]})
    made.enable_managed_versions()
    return made


def clean(catalog: DirectoryNamespace, *tables: list[str]) -> None:
    for one in tables:
        assert strays(catalog, one) == set()
    assert check(catalog.context, grace_seconds=-3600).problems == []


def test_all_modes_by_one_commit(spark: SparkSession, catalog: DirectoryNamespace) -> None:
    write(spark.range(3), catalog, A)
    write(spark.range(3), catalog, B)
    before = catalog.snapshot().version
    what: dict[Any, Any] = {
        "db.a": (spark.range(3, 5), {"mode": "append"}),
        ("db", "b"): (spark.range(2, 6), {"mode": "merge", "keys": ["id"]}),
        "db.c": (spark.range(7), {"properties": {"owner": "me"}}),
        "db.d": (spark.range(1), {"mode": "ignore"}),
    }
    done = publish(catalog, what, job_id="job")
    assert [one.rows for one in done.tables] == [2, 4, 7, 1]
    assert (done.atomic, done.repeated) == (True, False)
    assert catalog.snapshot().version == before + 1
    assert column(catalog, A, "id") == [0, 1, 2, 3, 4]
    assert column(catalog, B, "id") == [0, 1, 2, 3, 4, 5]
    assert column(catalog, C, "id") == list(range(7))
    assert catalog.describe_table({"id": C}).properties == {"owner": "me"}
    again = publish(catalog, what, job_id="job")
    assert again.repeated and [one.rows for one in again.tables] == [2, 4, 7, 1]
    assert catalog.snapshot().version == before + 1
    clean(catalog, A, B, C)


def test_conflicts_are_staged_again_without_new_rows(
    spark: SparkSession, catalog: DirectoryNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(spark.range(3), catalog, A)
    real: Any = batch.carry_out
    runs: list[int] = []
    written: list[int] = []
    real_write: Any = publishing.run_write

    def carry_out(ctx: Any, operations: Any) -> None:
        runs.append(1)
        if len(runs) == 1:
            write(spark.range(50, 51), catalog, A, "append")
        real(ctx, operations)

    def run_write(df: Any, sink: Any) -> Any:
        written.append(1)
        return real_write(df, sink)

    monkeypatch.setattr(publishing.batch, "carry_out", carry_out)
    monkeypatch.setattr(publishing, "run_write", run_write)
    publish(catalog, {"db.a": (spark.range(3, 5), {"mode": "append"}), "db.c": spark.range(2)})
    assert (len(runs), len(written)) == (2, 2)
    assert column(catalog, A, "id") == [0, 1, 2, 3, 4, 50]
    clean(catalog, A, C)


@pytest.mark.parametrize("landed", [True, False])
def test_a_lost_answer(
    spark: SparkSession,
    catalog: DirectoryNamespace,
    monkeypatch: pytest.MonkeyPatch,
    landed: bool,
) -> None:
    write(spark.range(3), catalog, A)
    real: Any = batch.carry_out
    left = [True]

    def carry_out(ctx: Any, operations: Any) -> None:
        lose = bool(left)
        left.clear()
        if landed or not lose:
            real(ctx, operations)
        if lose:
            raise CommitOutcomeUnknownError("no answer")

    monkeypatch.setattr(publishing.batch, "carry_out", carry_out)
    done = publish(
        catalog,
        {"db.a": (spark.range(3, 5), {"mode": "append"}), "db.c": spark.range(2)},
        job_id="job",
    )
    assert done.repeated is False
    assert column(catalog, A, "id") == [0, 1, 2, 3, 4]
    assert column(catalog, C, "id") == [0, 1]
    assert strays(catalog, A) == set()


def test_what_fails_publishes_nothing(spark: SparkSession, catalog: DirectoryNamespace) -> None:
    write(spark.range(3), catalog, A)
    twice = spark.range(3).union(spark.range(3))
    code, _ = refused(
        publish,
        catalog,
        {"db.c": spark.range(2), "db.a": (twice, {"mode": "merge", "keys": ["id"]})},
    )
    assert code == 13
    assert refused(publish, catalog, {"db.c": (spark.range(2), {"mod": "x"})})[0] == 13
    assert refused(publish, catalog, {})[0] == 13
    assert opened(catalog, A).count_rows() == 3
    assert catalog.list_tables({"id": ["db"]}).tables == ["a"]
    mended(catalog)
    clean(catalog, A)


def test_without_managed_versions(spark: SparkSession, tmp_path: Path) -> None:
    catalog = DirectoryNamespace(root=str(tmp_path / "plain"))
    catalog.create_namespace({"id": ["db"]})
    what = {"db.a": spark.range(2), "db.b": spark.range(3)}
    assert refused(publish, catalog, what)[0] == 0
    done = publish(catalog, what, job_id="job", atomic=False)
    assert (done.atomic, done.rows) == (False, 5)
    assert publish(catalog, what, job_id="job", atomic=False).repeated
    clean(catalog, A, B)
