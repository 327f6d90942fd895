"""Catalog jobs that look: inventory and verify, among tables that are damaged or dropped; what all
jobs share."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lance
import pytest
from pyspark.sql import SparkSession

from lance_catalog import DirectoryNamespace, connect, errors
from lance_catalog.spark import jobs
from lance_catalog.spark.catalogs import resolve
from lance_catalog.spark.jobs import stocktaking, sweep, verification
from lance_catalog.spark.jobs.scope import chosen
from lance_catalog.spark.jobs.sweep import GONE
from tests.cli.support import digest
from tests.spark.job_tables import Sweeps, asked, data_files, fill, made, place


@pytest.fixture
def plain(tmp_path: Path) -> DirectoryNamespace:
    return made(tmp_path)


@pytest.fixture
def sweeps(monkeypatch: pytest.MonkeyPatch) -> Sweeps:
    return Sweeps(monkeypatch)


def ten(folder: Path, *, managed: bool) -> DirectoryNamespace:
    """Ten tables: one cannot be opened, and one will be dropped."""
    catalog = made(folder, managed=managed)
    for number in range(8):
        fill(catalog, "db", f"t{number}", parts=1 + number % 3)
    fill(catalog, "db", "corrupt")
    fill(catalog, "going")
    for manifest in (place(catalog, "db", "corrupt") / "_versions").iterdir():
        manifest.write_bytes(b"not a manifest")
    return catalog


def dropping(
    module: Any, monkeypatch: pytest.MonkeyPatch, *names: str, purge: bool = False
) -> None:
    """Let a table be dropped when the job knows its tables and has not begun."""
    real = module.chosen

    def choose(catalog: DirectoryNamespace, scope: Any) -> Any:
        found = real(catalog, scope)
        catalog.drop_table({"id": list(names)}, purge=purge)
        return found

    monkeypatch.setattr(module, "chosen", choose)


class TestInventory:
    def test_the_numbers_are_pylances_own(
        self, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        catalog = ten(tmp_path, managed=True)
        catalog.open_table(["db", "t2"]).create_scalar_index("id", "BTREE")
        catalog.open_table(["db", "t2"]).delete("id < 10")
        catalog.declare_table({"id": ["db", "promised"]})
        dropping(stocktaking, monkeypatch, "going", purge=True)
        told: list[tuple[int, int | None]] = []
        tracker = spark.sparkContext.statusTracker()
        monkeypatch.setattr(sweep.uuid, "uuid4", lambda: SimpleNamespace(hex="counted"))
        frame = jobs.inventory(spark, catalog, tasks=3, progress=lambda *said: told.append(said))
        monkeypatch.undo()
        found = asked(frame)
        # Eleven tables by three tasks, and none of them twice.
        new = tracker.getJobIdsForGroup("lance_catalog_job_counted")
        stages = [stage for job in new for stage in tracker.getJobInfo(job).stageIds]
        assert sum(tracker.getStageInfo(stage).numTasks for stage in stages) == 3
        assert told[0] == (0, 11) and told[-1] == (11, 11)
        assert found.pop("going")["status"] == GONE
        corrupt = found.pop("db.corrupt")
        assert corrupt["status"] == "failed" and "db.corrupt" in corrupt["error"]
        promised = found.pop("db.promised")
        assert (promised["status"], promised["rows"]) == ("declared", 0)
        assert sorted(found) == [f"db.t{number}" for number in range(8)]
        for name, row in found.items():
            table = lance.dataset(str(place(catalog, *name.split("."))))
            fragments = table.get_fragments()
            expected = {
                "rows": table.count_rows(),
                "bytes": sum(f.file_size_bytes for one in fragments for f in one.metadata.files),
                "versions": len(table.versions()),
                "version": table.version,
                "fragments": len(fragments),
                "deleted_rows": sum(one.num_deletions for one in fragments),
                "indices": len(table.describe_indices()),
                "columns": len(table.schema.names),
                "status": "ok",
                "error": None,
                "id": name.split("."),
            }
            assert {key: row[key] for key in expected} == expected
            assert 0 <= row["age_seconds"] < 600
        assert (found["db.t2"]["rows"], found["db.t2"]["deleted_rows"]) == (140, 10)
        assert found["db.t2"]["indices"] == 1

    def test_which_tables(self, spark: SparkSession, plain: DirectoryNamespace) -> None:
        assert jobs.inventory(spark, plain).collect() == []
        with pytest.raises(errors.TableNotFoundError):
            jobs.inventory(spark, plain, "db.nothing")
        for names in (("db", "a"), ("db", "b"), ("top",)):
            fill(plain, *names, rows=2)
        assert chosen(plain, None) == [("db", "a"), ("db", "b"), ("top",)]
        assert chosen(plain, "db") == chosen(plain, ["db"]) == [("db", "a"), ("db", "b")]
        assert chosen(plain, "db.b") == [("db", "b")]

    def test_a_catalog_in_memory_is_refused(self) -> None:
        catalog = connect("memory://jobs")
        fill(catalog, "t", rows=2)
        with pytest.raises(errors.UnsupportedOperationError, match="memory of this process"):
            jobs.inventory(None, catalog)  # type: ignore[arg-type]


def _fails_twice(catalog: Any, item: sweep.Item) -> list[dict[str, Any]]:
    marks = Path(item.payload)
    marks.mkdir(exist_ok=True)
    tries = len(list(marks.iterdir()))
    if tries < 2:
        (marks / str(tries)).touch()
        raise errors.ConcurrentModificationError("another writer was first")
    return [{"count": tries}]


def _is_wrong(catalog: Any, item: sweep.Item) -> list[dict[str, Any]]:
    item.payload.append(1)
    raise errors.InvalidInputError("always wrong")


class TestSweep:
    def test_only_what_can_be_retried_is(self, tmp_path: Path, plain: DirectoryNamespace) -> None:
        task = sweep._Task(resolve(plain), _fails_twice, ("count", "status", "attempts"), 2, 3)
        rows = list(task.rows([sweep.Item(("t",), str(tmp_path / "marks"))]))
        assert rows == [(2, "ok", 3)]
        impatient = sweep._Task(resolve(plain), _fails_twice, ("status", "attempts"), 2, 1)
        assert list(impatient.rows([sweep.Item(("t",), str(tmp_path / "m2"))])) == [("failed", 2)]
        tries: list[int] = []
        wrong = sweep._Task(resolve(plain), _is_wrong, ("status", "attempts"), 2, 3)
        assert list(wrong.rows([sweep.Item(("t",), tries)])) == [("failed", 1)]
        assert len(tries) == 1

    def test_secrets_do_not_show(self, spark: SparkSession, tmp_path: Path) -> None:
        ref = resolve(connect(str(tmp_path / "c"), **{"storage.aws_secret_access_key": "hunter22"}))
        task = sweep._Task(ref, _fails_twice, (), 1, 0)
        schema = sweep.schema_of("count int")
        source = sweep._source("lance_catalog_job_shown", schema, task, [[sweep.Item(("t",))]])
        spark.dataSource.register(source)
        frame = spark.read.format("lance_catalog_job_shown").load()
        plan = frame._jdf.queryExecution().toString()
        assert "hunter22" not in plan + repr(task) + repr(frame)

    def test_jobs_and_pipelines_are_names_of_the_package(self) -> None:
        code = (
            "import sys, lance_catalog.spark as s;"
            "assert 'pyspark' not in sys.modules;"
            "assert callable(s.pipeline.run) and 'pyspark' not in sys.modules;"
            "assert callable(s.jobs.inventory) and {'jobs', 'pipeline'} <= set(dir(s))"
        )
        assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0


def flip(file: Path) -> None:
    """Flip a byte of the values: the ids stand first in the file."""
    body = bytearray(file.read_bytes())
    body[80] ^= 0x40
    file.write_bytes(body)


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


class TestVerify:
    def test_damage_is_found_among_ten(
        self, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        catalog = ten(tmp_path, managed=False)
        catalog.open_table(["db", "t2"]).delete("id < 5")
        catalog.declare_table({"id": ["db", "promised"]})
        first = jobs.verify(spark, catalog)
        rows = [row.asDict() for row in first.collect()]
        whole = [row for row in rows if row["status"] == "ok"]
        assert len(whole) == sum(1 + number % 3 for number in range(8)) + 1
        two = [row for row in rows if row["table"] == "db.t2"]
        assert [row["fragment"] for row in two] == [0, 1, 2]
        assert [(row["rows"], row["deleted_rows"]) for row in two] == [(45, 5), (50, 0), (50, 0)]
        assert len({row["checksum"] for row in two}) == 3
        others = {row["table"]: row["status"] for row in rows if row["status"] != "ok"}
        assert others == {"db.corrupt": "failed", "db.promised": "declared"}

        flip(data_files(catalog, "db", "t3")[0])
        truncate(data_files(catalog, "db", "t5")[0])
        data_files(catalog, "db", "t6")[0].unlink()
        dropping(verification, monkeypatch, "going", purge=True)
        # Lance reads the flipped byte as another number, and sees nothing wrong with it.
        assert catalog.open_table(["db", "t3"]).count_rows("id >= 0") == 50
        again = [row.asDict() for row in jobs.verify(spark, catalog, against=first).collect()]
        bad = {(row["table"], row["fragment"]): row for row in again if row["status"] == "failed"}
        assert {name for name, _ in bad} == {"db.corrupt", "db.t3", "db.t5", "db.t6"}
        assert len(bad) == 4
        assert "changed in place" in bad["db.t3", 0]["error"]
        assert all("fragment" in row["error"] for key, row in bad.items() if key[1] is not None)
        assert [row["status"] for row in again if row["table"] == "going"] == [GONE]
        known = {(row["table"], row["fragment"]): row["checksum"] for row in whole}
        for row in again:
            if row["status"] == "ok":
                assert row["checksum"] == known[row["table"], row["fragment"]]

    def test_what_was_committed_since_is_not_damage(
        self, plain: DirectoryNamespace, sweeps: Sweeps
    ) -> None:
        fill(plain, "db", "t", parts=3)
        first = jobs.verify(None, plain)  # type: ignore[arg-type]
        plain.open_table(["db", "t"]).delete("id < 10")
        plain.open_table(["db", "t"]).add_columns({"twice": "id * 2"})
        second = jobs.verify(None, plain, against=first).collect()  # type: ignore[arg-type]
        assert [row["status"] for row in second] == ["ok"] * 3
        with pytest.raises(errors.InvalidInputError, match="not what a verify returned"):
            jobs.verify(None, plain, against=[{"x": 1}])  # type: ignore[arg-type]

    def test_a_table_that_goes_while_it_is_read(
        self, plain: DirectoryNamespace, sweeps: Sweeps
    ) -> None:
        fill(plain, "db", "t")
        fill(plain, "db", "u")

        def then(number: int) -> None:
            if number == 1:  # Its fragments are listed, and not read yet.
                plain.drop_table({"id": ["db", "t"]}, purge=True)

        sweeps.then = then
        found = asked(jobs.verify(None, plain))  # type: ignore[arg-type]
        assert (found["db.t"]["status"], found["db.u"]["status"]) == (GONE, "ok")

    def test_nothing_is_written(self, plain: DirectoryNamespace, sweeps: Sweeps) -> None:
        fill(plain, "db", "t", parts=2)
        root = Path(plain.context.store.uri.removeprefix("file://"))
        before = digest(root)
        jobs.verify(None, plain)  # type: ignore[arg-type]
        jobs.inventory(None, plain)  # type: ignore[arg-type]
        assert digest(root) == before
