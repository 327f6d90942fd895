"""Several tables at once on a real Spark."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
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
parts: Any = importlib.import_module("lance_catalog.spark.publish_part")

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
        "db.a": (spark.range(3, 5), {"mode": "append", "properties": {"run": "1"}}),
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
    assert catalog.describe_table({"id": A}).properties == {"run": "1"}
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
    real_write: Any = parts.run_write

    def carry_out(ctx: Any, operations: Any) -> None:
        runs.append(1)
        if len(runs) == 1:
            write(spark.range(50, 51), catalog, A, "append")
        real(ctx, operations)

    def run_write(df: Any, sink: Any) -> Any:
        written.append(1)
        return real_write(df, sink)

    monkeypatch.setattr(batch, "carry_out", carry_out)
    monkeypatch.setattr(parts, "run_write", run_write)
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

    monkeypatch.setattr(batch, "carry_out", carry_out)
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


def _before_the_commit(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> list[int]:
    """Something happens once between staging and the commit; return how often it is tried."""
    real: Any = batch.carry_out
    tries: list[int] = []

    def carry_out(ctx: Any, operations: Any) -> None:
        tries.append(1)
        if len(tries) == 1:
            act()
        real(ctx, operations)

    monkeypatch.setattr(batch, "carry_out", carry_out)
    return tries


def _made(catalog: DirectoryNamespace, table: list[str], numbers: list[int]) -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema({"id": pa.int64()})) as writer:
        writer.write_table(pa.table({"id": numbers}))
    catalog.create_table({"id": table}, sink.getvalue().to_pybytes())


def _renamed(catalog: DirectoryNamespace) -> None:
    catalog.rename_table({"id": A, "new_table_name": "old"})


@pytest.mark.parametrize(
    ("what", "ends"),
    [("drop", 4), ("rename", 4), ("replace", 14), ("compact", None)],
)
def test_a_table_changes_before_the_commit(
    spark: SparkSession,
    catalog: DirectoryNamespace,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
    ends: int | None,
) -> None:
    _made(catalog, A, [0, 1, 2])
    acts: dict[str, Callable[[], object]] = {
        "drop": lambda: catalog.drop_table({"id": A}),
        "rename": lambda: _renamed(catalog),
        "replace": lambda: (_renamed(catalog), _made(catalog, A, [9])),
        "compact": lambda: opened(catalog, A).delete("id = 0"),
    }
    tries = _before_the_commit(monkeypatch, acts[what])
    tables: dict[Any, Any] = {
        "db.a": (spark.range(3, 5), {"mode": "append"}),
        "db.c": spark.range(2),
    }
    if ends is None:
        assert publish(catalog, tables, job_id="job").rows == 4
        assert len(tries) == 2 and column(catalog, A, "id") == [1, 2, 3, 4]
        clean(catalog, A, C)
        return
    code, text = refused(publish, catalog, tables, job_id="job")
    assert code == ends
    assert "c" not in catalog.list_tables({"id": ["db"]}).tables
    if what == "replace":
        assert "made anew" in text and column(catalog, A, "id") == [9]
    if what == "drop":
        catalog.undrop_table(A)
        assert column(catalog, A, "id") == [0, 1, 2]
        clean(catalog, A)
    mended(catalog)


def test_a_table_that_was_restored_gets_its_part_again(
    spark: SparkSession, catalog: DirectoryNamespace
) -> None:
    _made(catalog, A, [0])
    tables: dict[Any, Any] = {
        "db.a": (spark.range(3, 5), {"mode": "append"}),
        "db.c": spark.range(2),
    }
    publish(catalog, tables, job_id="job")
    catalog.restore_table({"id": A, "version": 1})
    again = publish(catalog, tables, job_id="job")
    assert [(one.table[1], one.repeated) for one in again.tables] == [("a", False), ("c", True)]
    assert column(catalog, A, "id") == [0, 3, 4] and column(catalog, C, "id") == [0, 1]
    catalog.drop_table({"id": C})
    third = publish(catalog, tables, job_id="job")
    assert [(one.table[1], one.repeated) for one in third.tables] == [("a", True), ("c", False)]
    assert column(catalog, A, "id") == [0, 3, 4] and column(catalog, C, "id") == [0, 1]
    clean(catalog, A, C)


def test_a_table_comes_before_the_commit(
    spark: SparkSession, catalog: DirectoryNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    _before_the_commit(monkeypatch, lambda: _made(catalog, C, [7]))
    code, text = refused(publish, catalog, {"db.b": spark.range(2), "db.c": spark.range(2)})
    assert code == 14 and "'db.c'" in text
    assert catalog.list_tables({"id": ["db"]}).tables == ["c"]
    monkeypatch.undo()
    catalog.drop_table({"id": C})
    _before_the_commit(monkeypatch, lambda: _made(catalog, C, [7]))
    given = {"db.b": spark.range(2), "db.c": (spark.range(2), {"mode": "ignore"})}
    done = publish(catalog, given)
    assert [one.version for one in done.tables] == [1, None]
    assert column(catalog, B, "id") == [0, 1] and column(catalog, C, "id") == [7]
    before = catalog.snapshot().version
    ignored = publish(catalog, {"db.c": (spark.range(2), {"mode": "ignore"})})
    assert ignored.tables[0].version is None and catalog.snapshot().version == before
    mended(catalog)
    clean(catalog, B)
