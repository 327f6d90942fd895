"""Whole runs: published together or not at all, exactly once, with a record of each."""

from __future__ import annotations

import importlib
import json
import traceback
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

from lance_catalog import DirectoryNamespace, connect, errors
from lance_catalog.spark.pipeline import Event, InvalidPipelineError, RunReport, load, run
from lance_catalog.spark.pipeline.records import Records
from tests.cli.support import Cli

RUNS = ["lance_catalog_runs", "pipeline_runs"]

TWO = """\
[pipeline]
name = "shop"
[variables]
raw = "?"
least = 0
[sources.events]
files = "${raw}/*.parquet"
[steps.clean]
sql = "select * from events where id is not null"
cache = true
[steps.big]
sql = "select * from clean where amount >= 50"
[steps.small]
sql = "select * from clean where amount < 50"
[targets.big]
table = "db.big"
from = "big"
mode = "append"
indices = [{ column = "id", type = "BTREE" }]
[targets.big.expectations]
not_null = ["id"]
unique = ["id"]
conditions = ["amount >= ${least}"]
[targets.small]
table = "db.small"
from = "small"
mode = "append"
"""


@pytest.fixture
def catalog(tmp_path: Path) -> DirectoryNamespace:
    made = connect(str(tmp_path / "catalog"))
    made.create_namespace({"id": ["db"]})
    made.enable_managed_versions()
    return made


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    folder = tmp_path / "raw"
    folder.mkdir()
    events(folder / "one.parquet", 0, 100)
    return folder


def events(path: Path, start: int, count: int) -> None:
    ids: list[int | None] = [*range(start, start + count), None]
    amounts = [float(n % 100) for n in range(start, start + count)] + [1.0]
    table = pa.table({"id": pa.array(ids, pa.int64()), "amount": pa.array(amounts)})
    pa.parquet.write_table(table, path)


def ids(catalog: DirectoryNamespace, *names: str) -> list[int]:
    found = catalog.open_table(list(names)).to_table(columns=["id"])["id"].to_pylist()
    return sorted(found)


def records(catalog: DirectoryNamespace) -> list[dict[str, Any]]:
    found = catalog.open_table(RUNS).to_table().to_pylist()
    return sorted(found, key=lambda row: row["started"])


def one(source: str, target: str = "", more: str = "") -> str:
    target = target or 'from = "a"'
    head = f'[pipeline]\nname = "one"\n[sources.a]\n{source}\n{more}\n'
    return f'{head}[targets.t]\ntable = "db.t"\n{target}\n'


class TestPublishing:
    def test_from_the_first_run_to_the_next(
        self, spark: SparkSession, catalog: DirectoryNamespace, raw: Path, tmp_path: Path
    ) -> None:
        pipeline = load(TWO, {"raw": str(raw)})
        before = catalog.snapshot().version
        seen: list[Event] = []
        report = pipeline.run(spark, catalog, "monday", progress=seen.append)
        assert report.ok and report.status == "published"
        assert report.check() is report
        assert ids(catalog, "db", "big") == list(range(50, 100))
        assert ids(catalog, "db", "small") == list(range(50))
        told = {target.name: target for target in report.targets}
        assert [(told[n].rows, told[n].version) for n in ("big", "small")] == [(50, 1), (50, 1)]
        assert told["big"].bytes > 0 and told["big"].indices == ["id_idx"]
        # Both by one commit.
        created = {c.id: c.version for c in catalog.history(before) if c.action == "created"}
        assert created["db", "big"] == created["db", "small"]
        ended = [event.kind for event in seen if event.seconds is not None]
        assert ended == ["source", "step", "step", "step", "check", "publish", "index"]
        (record,) = records(catalog)
        assert (record["status"], record["job_id"]) == ("published", "monday")
        assert record["digest"] == report.digest and record["error"] is None
        assert [t["table"] for t in record["targets"]] == ["db.big", "db.small"]
        json.dumps(report.as_dict(), allow_nan=False)

        # The same job id does nothing again, and belongs to this file and these variables.
        again = pipeline.run(spark, catalog, "monday").check()
        assert again.status == "repeated" and again.steps == []
        assert [t.version for t in again.targets] == [t.version for t in report.targets]
        with pytest.raises(errors.InvalidInputError, match="choose another job id"):
            load(TWO, {"raw": str(raw), "least": 1}).run(spark, catalog, "monday")
        assert len(records(catalog)) == 1

        # The next run adds to both, and its index covers the new rows.
        more = tmp_path / "more"
        more.mkdir()
        events(more / "two.parquet", 100, 100)
        file = tmp_path / "shop.toml"
        file.write_text(TWO)
        second = run(file, spark, catalog, "tuesday", variables={"raw": str(more)}).check()
        assert ids(catalog, "db", "small") == [*range(50), *range(100, 150)]
        (index,) = catalog.open_table(["db", "big"]).describe_indices()
        assert index.num_rows_indexed == 100
        assert [target.rows for target in second.targets] == [50, 50]

        # Undone as docs/spark/pipelines.md says: both by one commit; then it may run again.
        with catalog.transaction() as transaction:
            for target in second.targets:
                table = transaction.open(target.table.split("."))
                table.checkout_version(int(target.version or 0) - 1).restore()
        assert ids(catalog, "db", "small") == list(range(50))
        assert ids(catalog, "db", "big") == list(range(50, 100))
        anew = run(file, spark, catalog, "tuesday", variables={"raw": str(more)}).check()
        assert anew.status == "published" and not anew.targets[0].repeated
        assert ids(catalog, "db", "small") == [*range(50), *range(100, 150)]
        assert load(TWO, {"raw": str(more)}).run(spark, catalog, "tuesday").status == "repeated"

        # A table of the catalog at a version is a source as well.
        text = one('table = "db.small"\nversion = 1\nfilter = "id < 10"\ncolumns = ["id"]')
        assert load(text).run(spark, catalog).check().targets[0].rows == 10

    def test_an_expectation_that_fails_publishes_nothing(
        self, spark: SparkSession, catalog: DirectoryNamespace, raw: Path
    ) -> None:
        report = load(TWO, {"raw": str(raw), "least": 98}).run(spark, catalog)
        assert not report.ok and report.status == "rejected"
        (failure,) = report.failures
        assert (failure.target, failure.failing, failure.rows) == ("big", 48, 50)
        assert len(failure.sample) == 5 and all(row["amount"] < 98 for row in failure.sample)
        assert catalog.list_all_tables({}).tables == ["$".join(RUNS)]
        (record,) = records(catalog)
        assert record["status"] == "rejected" and "48 of 50 rows" in record["error"]
        with pytest.raises(errors.TableSchemaValidationError, match="48 of 50 rows"):
            report.check()

    def test_without_managed_versions_it_is_refused_unless_the_file_says_so(
        self, spark: SparkSession, tmp_path: Path, raw: Path
    ) -> None:
        catalog = connect(str(tmp_path / "plain"))
        catalog.create_namespace({"id": ["db"]})
        with pytest.raises(errors.UnsupportedOperationError):
            load(TWO, {"raw": str(raw)}).run(spark, catalog)
        assert catalog.list_all_tables({}).tables == ["$".join(RUNS)]
        loose = TWO.replace('name = "shop"', 'name = "shop"\natomic = false')
        load(loose, {"raw": str(raw)}).run(spark, catalog).check()
        assert len(ids(catalog, "db", "big")) == 50
        assert [row["status"] for row in records(catalog)] == ["failed", "published"]


class TestAgain:
    """What goes wrong after the rows are published; files straight to a table are enough for it."""

    def text(self, raw: Path) -> str:
        target = 'from = "a"\nmode = "append"\nindices = [{ column = "id", type = "BTREE" }]'
        return one(f'files = "{raw}/*.parquet"', target)

    def test_a_record_that_cannot_be_written_is_a_warning(
        self,
        spark: SparkSession,
        catalog: DirectoryNamespace,
        raw: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        def refuse(self: Records, report: RunReport) -> None:
            raise errors.PermissionDeniedError("no rights here")

        pipeline = load(self.text(raw))
        with monkeypatch.context() as patched:
            patched.setattr(Records, "write", refuse)
            report = pipeline.run(spark, catalog, "monday").check()
        assert "no rights here" in report.warnings[0]
        # Found by its table, without a record.
        again = pipeline.run(spark, catalog, "monday").check()
        assert again.status == "published" and again.targets[0].repeated
        assert catalog.open_table(["db", "t"]).count_rows() == 101
        assert [row["status"] for row in records(catalog)] == ["published"]

    def test_an_index_that_fails_is_told_and_made_by_the_next_try(
        self,
        spark: SparkSession,
        catalog: DirectoryNamespace,
        raw: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        from lance_catalog.spark.jobs import indexing

        def fail(*_: Any, **__: Any) -> Any:
            raise errors.ServiceUnavailableError("the store did not answer")

        def interrupt(*_: Any, **__: Any) -> Any:
            raise KeyboardInterrupt

        pipeline = load(self.text(raw))
        with monkeypatch.context() as patched:
            patched.setattr(indexing, "index", fail)
            report = pipeline.run(spark, catalog, "monday")
            assert report.status == "incomplete" and not report.ok
            assert "published, but index BTREE" in str(report.error)
            patched.setattr(indexing, "index", interrupt)
            with pytest.raises(KeyboardInterrupt):
                pipeline.run(spark, catalog, "monday")
        # Whatever ends a run: what is published by then is on record as such.
        told = [(row["status"], len(row["targets"])) for row in records(catalog)]
        assert told == [("incomplete", 1), ("incomplete", 1)]
        done = pipeline.run(spark, catalog, "monday").check()
        assert done.targets[0].repeated and done.targets[0].indices == ["id_idx"]
        assert catalog.open_table(["db", "t"]).count_rows() == 101

    def test_a_commit_whose_answer_is_lost(
        self,
        spark: SparkSession,
        catalog: DirectoryNamespace,
        raw: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Nobody may say that nothing was published; the same job id finds out."""
        module = importlib.import_module("lance_catalog.spark.ingest")
        real = module.ingest

        def lose(*args: Any, **more: Any) -> Any:
            real(*args, **more)
            raise errors.CommitOutcomeUnknownError("no answer")

        pipeline = load(self.text(raw))
        with monkeypatch.context() as patched:
            patched.setattr(module, "ingest", lose)
            with pytest.raises(errors.CommitOutcomeUnknownError):
                pipeline.run(spark, catalog, "monday")
        assert [row["status"] for row in records(catalog)] == ["unknown"]
        assert pipeline.run(spark, catalog, "monday").check().targets[0].repeated
        assert catalog.open_table(["db", "t"]).count_rows() == 101


class TestTargets:
    def test_files_go_straight_to_their_table(
        self,
        spark: SparkSession,
        catalog: DirectoryNamespace,
        raw: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        # The package offers the function under the name of its module.
        module = importlib.import_module("lance_catalog.spark.ingest")
        calls: list[Any] = []
        real = module.ingest

        def ingest(*args: Any, **more: Any) -> Any:
            calls.append(args[2])
            return real(*args, **more)

        monkeypatch.setattr(module, "ingest", ingest)
        events(raw / "two.parquet", 100, 10)
        text = one(f'files = "{raw}/*.parquet"\ncolumns = ["id"]')
        report = load(text).run(spark, catalog, "a").check()
        assert calls == ["db.t"] and report.targets[0].rows == 112
        assert catalog.open_table(["db", "t"]).schema.names == ["id"]
        assert [event.kind for event in report.steps] == ["publish"]
        assert load(text).run(spark, catalog, "a").status == "repeated"

    def test_merge_makes_the_table_first_and_updates_it_then(
        self, spark: SparkSession, catalog: DirectoryNamespace, tmp_path: Path
    ) -> None:
        def text(values: str) -> str:
            step = f'[steps.b]\nsql = "select * from values {values} as t(id, amount)"\ninputs = []'
            target = 'from = "b"\nmode = "merge"\nkeys = ["id"]'
            return one('format = "rate"', target, step)

        load(text("(1, 1.0), (2, 2.0)")).run(spark, catalog).check()
        load(text("(2, 9.0), (3, 3.0)")).run(spark, catalog).check()
        rows = catalog.open_table(["db", "t"]).to_table().to_pylist()
        assert sorted((row["id"], row["amount"]) for row in rows) == [(1, 1.0), (2, 9.0), (3, 3.0)]
        fresh = text("(1, 1.0), (1, 2.0)").replace("db.t", "db.u")
        with pytest.raises(errors.InvalidInputError, match="each key once"):
            load(fresh).run(spark, catalog)


class TestMistakes:
    def test_what_only_spark_can_find_has_its_line(
        self, spark: SparkSession, catalog: DirectoryNamespace, raw: Path
    ) -> None:
        text = TWO.replace("amount < 50", "amuont < 50")
        with pytest.raises(InvalidPipelineError) as caught:
            load(text, {"raw": str(raw)}).run(spark, catalog)
        (problem,) = caught.value.problems
        assert (problem.line, problem.key) == (14, "steps.small.sql")
        assert "amuont" in problem.message
        with pytest.raises(InvalidPipelineError, match=r"line 7, sources\.events\.files"):
            load(TWO, {"raw": str(raw / "absent")}).run(spark, catalog)
        wrong = TWO.replace('not_null = ["id"]', 'not_null = ["idd"]')
        with pytest.raises(InvalidPipelineError, match=r"targets\.big\.expectations.*'idd'"):
            load(wrong, {"raw": str(raw)}).run(spark, catalog)
        function = '[steps.b]\ninputs = ["a"]\nfunction = "m:f"'
        absent = one(f'files = "{raw}/*.parquet"', 'from = "b"', function)
        with pytest.raises(InvalidPipelineError, match=r"line 7, steps\.b\.function: module 'm'"):
            load(absent).run(spark, catalog)
        assert [row["status"] for row in records(catalog)] == ["failed"] * 4
        assert catalog.list_all_tables({}).tables == ["$".join(RUNS)]

    def test_a_table_that_is_not_there_or_in_the_trash(
        self, spark: SparkSession, catalog: DirectoryNamespace, raw: Path
    ) -> None:
        with pytest.raises(errors.TableNotFoundError, match=r"line 4, sources\.a\.table: "):
            load(one('table = "db.absent"')).run(spark, catalog)
        load(one(f'files = "{raw}/*.parquet"')).run(spark, catalog).check()
        catalog.drop_table({"id": ["db", "t"]})
        append = one(f'files = "{raw}/*.parquet"', 'from = "a"\nmode = "append"')
        with pytest.raises(errors.TableNotFoundError):
            load(append).run(spark, catalog)
        assert catalog.table_status(["db", "t"]).drop_id is not None


class TestCommand:
    def test_run_shows_progress_and_ends_in_a_table(
        self, spark: SparkSession, catalog: DirectoryNamespace, raw: Path, tmp_path: Path
    ) -> None:
        file = tmp_path / "shop.toml"
        file.write_text(TWO)
        cli = Cli(tmp_path / "catalog", "compat")
        given = ("pipeline", "run", str(file), "--set", f"raw={raw}", "--job-id", "monday")
        ran = cli.ok(*given)
        assert "db.big" in ran.out and "db.small" in ran.out and "rows" in ran.out
        assert "publish" in ran.err or "append db.big" in ran.err
        assert "step clean" in ran.err and "published 2 tables" in ran.err
        assert "job id monday" in ran.err
        again = cli.json(*given)
        assert again["status"] == "repeated"
        assert [target["version"] for target in again["targets"]] == [1, 1]
        rejected = cli.run("-o", "json", *given[:-1], "tuesday", "--set", "least=98")
        assert rejected.code == 1
        assert rejected.json["failures"][0]["failing"] == 48
        assert len(rejected.json["failures"][0]["sample"]) == 5
        assert all(json.loads(line) for line in rejected.err.splitlines())
        assert len(ids(catalog, "db", "big")) == 50


SECRET = "hunter2-of-the-shop"
HIDDEN = """\
[variables]
token = "?"
[sources.a]
format = "csv"
path = "/nowhere/${token}/a.csv"
options = { password = "${token}" }
[steps.b]
sql = "select *, '${token}' as t from a"
[targets.t]
table = "db.t"
from = "b"
"""


class TestSecrets:
    def test_none_in_errors_and_records(
        self,
        spark: SparkSession,
        catalog: DirectoryNamespace,
        tmp_path: Path,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        """Spark says which path it did not find, with the token in it."""
        file = tmp_path / "hidden.toml"
        file.write_text(HIDDEN)
        with pytest.raises(InvalidPipelineError) as caught:
            load(file, {"token": SECRET}).run(spark, catalog)
        assert "********" in str(caught.value)
        shown = "".join(traceback.format_exception(caught.value))
        cli = Cli(tmp_path / "catalog", "compat")
        for more in ((), ("--debug",)):
            ran = cli.run("pipeline", "run", str(file), "--set", f"token={SECRET}", *more)
            assert ran.code == 2 and "********" in ran.err
            shown += ran.out + ran.err
        kept = catalog.open_table(RUNS).to_table().to_pylist()
        assert len(kept) == 3 and "********" in kept[0]["error"]
        # Spark's own loggers print queries that fail, unless they are kept from it.
        wrong = one(
            'format = "rate"',
            'from = "b"',
            f"[steps.b]\nsql = \"select '{SECRET}' + x\"\ninputs = []",
        )
        with pytest.raises(InvalidPipelineError):
            load(wrong.replace("[sources.a]", f'[variables]\ntoken = "{SECRET}"\n[sources.a]')).run(
                spark, catalog
            )
        said = capfd.readouterr()
        assert SECRET not in shown + repr(kept) + said.out + said.err

    def test_none_in_samples(self, spark: SparkSession, catalog: DirectoryNamespace) -> None:
        step = f"[steps.b]\nsql = \"select 1 as id, '{SECRET}' as t\"\ninputs = []"
        target = f'from = "b"\nexpectations = {{ conditions = ["t <> \'{SECRET}\'"] }}'
        more = f'[steps.x]\nfunction = "m:f"\ninputs = ["b"]\nparams = {{ token = "{SECRET}" }}'
        report = load(one('format = "rate"', target, f"{step}\n{more}")).run(spark, catalog)
        assert report.status == "rejected" and report.failures[0].sample[0]["t"] == "********"
        assert SECRET not in json.dumps(report.as_dict()) + repr(records(catalog))
