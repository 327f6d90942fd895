"""The parts of a run by themselves: sources, steps, expectations and records."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

from lance_catalog import DirectoryNamespace, connect, errors
from lance_catalog.spark.catalogs import resolve
from lance_catalog.spark.pipeline import RunReport, TargetReport
from lance_catalog.spark.pipeline.expectations import _bounds, check, plain
from lance_catalog.spark.pipeline.frames import Frames, own_session
from lance_catalog.spark.pipeline.model import Expectations, Source, Step
from lance_catalog.spark.pipeline.records import NAMESPACE_PROPERTY, Records


@pytest.fixture
def catalog(tmp_path: Path) -> DirectoryNamespace:
    return connect(str(tmp_path / "catalog"))


@pytest.fixture
def frames(spark: SparkSession, catalog: DirectoryNamespace, tmp_path: Path) -> Iterator[Frames]:
    with own_session(spark) as own:
        made = Frames(own, resolve(catalog), tmp_path, {"least": 2, "word": "it's"})
        yield made
        made.close()


def numbers(folder: Path, name: str = "numbers.parquet", count: int = 5) -> str:
    table = pa.table(
        {"n": pa.array(range(count), pa.int64()), "s": [f"s{i}" for i in range(count)]}
    )
    path = folder / name
    if name.endswith(".csv"):
        pa.csv.write_csv(table, path)
    elif name.endswith("l"):
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    else:
        pa.parquet.write_table(table, path)
    return str(path)


def source(**given: Any) -> Source:
    return Source.model_validate(given)


def step(**given: Any) -> Step:
    return Step.model_validate(given)


def values(frame: Any, column: str = "n") -> list[Any]:
    return sorted(row[column] for row in frame.collect())


class TestFrames:
    def test_files_by_their_names_and_any_format(self, frames: Frames, tmp_path: Path) -> None:
        for name in ("numbers.parquet", "numbers.csv", "numbers.jsonl"):
            found = frames.source("a", source(files=numbers(tmp_path, name), columns=["n"]))
            assert found.columns == ["n"] and values(found) == [0, 1, 2, 3, 4]
        (tmp_path / "t.txt").write_text("one;1\ntwo;2\n")
        given = source(
            format="csv",
            path=str(tmp_path / "t.txt"),
            options={"sep": ";", "header": False},
            schema="w string, n int",
        )
        assert values(frames.source("a", given)) == [1, 2]
        raw = source(format="binaryFile", path=str(tmp_path / "t.txt"))
        assert values(frames.source("b", raw), "length") == [12]

    def test_a_table_at_a_version(self, frames: Frames, catalog: DirectoryNamespace) -> None:
        for number in range(2):
            lance.write_dataset(
                pa.table({"n": [number]}),
                namespace_client=catalog,
                table_id=["t"],
                mode="append" if number else "create",
            )
        assert values(frames.source("a", source(table="t"))) == [0, 1]
        assert values(frames.source("b", source(table="t", version=1))) == [0]
        assert values(frames.source("c", source(table="t", filter="n > 0", columns=["n"]))) == [1]

    def test_queries_see_names_and_bound_variables(self, frames: Frames, tmp_path: Path) -> None:
        frames.source("a", source(files=numbers(tmp_path)))
        found = frames.step("b", step(sql="select * from a where n >= :least"), ("a",))
        assert values(found) == [2, 3, 4]
        assert values(frames.step("c", step(sql="select :word as n from b limit 1"), ("b",))) == [
            "it's"
        ]

    def test_functions_beside_the_file_and_on_the_workers(
        self, frames: Frames, tmp_path: Path
    ) -> None:
        (tmp_path / "beside_the_file.py").write_text(
            "from pyspark.sql.functions import udf\n"
            "def twice(n):\n    return n * 2\n"
            "def double(inputs, params):\n"
            "    made = udf(twice, 'long', useArrow=False)\n"
            "    frame = inputs['a']\n"
            "    return frame.withColumn('n', made('n')).limit(params['most'])\n"
            "def nothing(inputs, params):\n    return 3\n"
            "def broken(inputs, params):\n    return {}['key']\n"
        )
        frames.source("a", source(files=numbers(tmp_path)))
        given = step(function="beside_the_file:double", inputs=["a"], params={"most": 9})
        assert values(frames.step("b", given, ("a",))) == [0, 2, 4, 6, 8]
        for text, words in (
            ("beside_the_file:nothing", "returned int"),
            ("beside_the_file:broken", "beside_the_file:broken raised KeyError: 'key'"),
            ("beside_the_file:absent", "has no function 'absent'"),
            ("no_such_module:f", "module 'no_such_module'"),
        ):
            with pytest.raises(errors.InvalidInputError, match=words):
                frames.step("c", step(function=text, inputs=["a"]), ("a",))

    def test_names_meet_no_views_of_the_caller(
        self, spark: SparkSession, frames: Frames, tmp_path: Path
    ) -> None:
        spark.createDataFrame([(7,)], "n int").createOrReplaceTempView("a")
        spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        try:
            frames.source("a", source(files=numbers(tmp_path)))
            assert spark.table("a").collect()[0]["n"] == 7
            with own_session(spark) as inner:
                assert inner.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
        finally:
            spark.conf.unset("spark.sql.session.timeZone")
            spark.catalog.dropTempView("a")

    def test_files_only_ingest_reads(self, frames: Frames) -> None:
        with pytest.raises(errors.InvalidInputError, match="straight to a target"):
            frames.source("a", source(files="x.arrow"))
        with pytest.raises(errors.InvalidInputError, match="give format"):
            frames.source("a", source(files="x"))


class TestExpectations:
    @pytest.fixture
    def rows(self, spark: SparkSession) -> Any:
        data = [(1, "a", 5.0), (2, None, -1.0), (2, "c", None), (4, "d", 2.0), (None, "e", 1.0)]
        return spark.createDataFrame(data, "id int, name string, amount double")

    def failed(self, frame: Any, **wanted: Any) -> dict[str, Any]:
        counted, found = check("t", frame, Expectations.model_validate(wanted))
        assert counted == 5
        return {one.expectation: one for one in found}

    def test_what_holds(self, rows: Any) -> None:
        loose = {"expect": "amount >= 0", "max_failing": 0.4, "name": "positive"}
        wanted = {"rows": {"min": 5, "max": 5}, "unique": ["name"], "conditions": ["true", loose]}
        assert self.failed(rows, **wanted) == {}

    def test_what_does_not(self, rows: Any) -> None:
        found = self.failed(
            rows,
            not_null=["id", "name"],
            unique=[["id"], ["id", "name"]],
            rows={"min": 6},
            conditions=[
                "amount >= 0",
                {"expect": "amount > -9", "max_failing": 0.19, "name": "there"},
            ],
        )
        assert set(found) == {
            "not_null(id)",
            "not_null(name)",
            "unique(id)",
            "rows >= 6",
            "amount >= 0",
            "there",
        }
        one = found["not_null(name)"]
        assert (one.failing, one.rows) == (1, 5)
        assert one.sample == [{"id": 2, "name": None, "amount": -1.0}]
        assert "1 of 5 rows fail not_null(name)" in one.message
        assert found["unique(id)"].failing == 2
        assert found["unique(id)"].sample == [{"id": 2, "rows": 2}]
        # One is negative and one has no value: neither is at least 0.
        assert found["amount >= 0"].failing == 2
        assert "at most 0.19" in found["there"].message
        with pytest.raises(errors.InvalidInputError, match="the rows have id, name, amount"):
            self.failed(rows, not_null=["nmae"])

    def test_bounds(self) -> None:
        bounds = Expectations.model_validate({"rows": {"min": 2, "max": 4}})
        told = [[one.expectation for one in _bounds("t", bounds, count)] for count in range(1, 6)]
        assert told == [["rows >= 2"], [], [], [], ["rows <= 4"]]

    def test_no_rows(self, spark: SparkSession) -> None:
        empty = spark.createDataFrame([], "id int")
        wanted = {"not_null": ["id"], "unique": ["id"], "conditions": ["id > 0"]}
        assert check("t", empty, Expectations.model_validate(wanted)) == (0, [])

    def test_samples_are_json(self) -> None:
        from datetime import date
        from decimal import Decimal

        row = {
            "v": [0.5] * 100,
            "b": b"abc",
            "d": Decimal("1.20"),
            "t": datetime(2026, 1, 2, tzinfo=UTC),
            "e": date(2026, 1, 2),
            "f": float("nan"),
            "s": {"x": [1]},
        }
        shown = json.loads(json.dumps(plain(row), allow_nan=False))
        assert shown["v"] == [*[0.5] * 8, "… 92 more"]
        assert (shown["b"], shown["d"], shown["f"]) == ("3 bytes", "1.20", "nan")


def report(job_id: str, status: str = "published", version: int = 1) -> RunReport:
    return RunReport(
        pipeline="p",
        job_id=job_id,
        digest="d",
        started=datetime.now(UTC),
        who="me",
        status=status,
        targets=[TargetReport("t", "db.t", "append", version, 3, 30, 0.5)],
    )


class TestRecords:
    def test_what_is_written_is_found(self, catalog: DirectoryNamespace) -> None:
        records = Records(catalog, None)
        assert records.find("a") is None
        assert catalog.list_all_tables({}).tables == []
        for one in (report("a", "failed"), report("a"), report("it's", version=4)):
            records.write(one)
        assert catalog.list_all_tables({}).tables == ["lance_catalog_runs$pipeline_runs"]
        found = records.find("it's")
        assert found is not None
        assert (found["pipeline"], found["who"]) == ("p", "me")
        assert found["targets"][0]["version"] == 4
        assert TargetReport(**found["targets"][0]).rows == 3
        assert records.find("b") is None
        # A run that failed is kept, and not taken for one that ended well.
        records.write(report("c", "failed"))
        assert records.find("c") is None
        table = catalog.open_table(list(records.table))
        assert table.count_rows() == 4

    def test_where_they_go(self, tmp_path: Path, catalog: DirectoryNamespace) -> None:
        assert Records(catalog, "ops.runs").table == ("ops", "runs", "pipeline_runs")
        catalog.set_namespace_properties([], {NAMESPACE_PROPERTY: "audit"})
        assert Records(catalog, None).table == ("audit", "pipeline_runs")
        Records(catalog, "ops.runs").write(report("a"))
        assert catalog.open_table(["ops", "runs", "pipeline_runs"]).count_rows() == 1
        old = connect(str(tmp_path / "old"), manifest_enabled=False)
        Records(old, "ops").write(report("a"))
        assert old.list_tables({"id": []}).tables == ["pipeline_runs"]

    @pytest.mark.parametrize("managed", [False, True])
    def test_many_first_runs_at_once(self, catalog: DirectoryNamespace, managed: bool) -> None:
        if managed:
            catalog.enable_managed_versions()
        failures: list[BaseException] = []

        def write(number: int) -> None:
            try:
                Records(catalog, None).write(report(f"job{number}"))
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=write, args=(n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        names = catalog.open_table(["lance_catalog_runs", "pipeline_runs"]).to_table()["job_id"]
        assert sorted(names.to_pylist()) == [f"job{n}" for n in range(6)]
