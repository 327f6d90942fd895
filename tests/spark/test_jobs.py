"""Catalog jobs on real Spark: what they find, what they change, and tables that fail alone."""

from __future__ import annotations

import io
import time
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lance_catalog import DirectoryNamespace, connect, errors
from lance_catalog.spark import jobs
from lance_catalog.spark.catalogs import resolve
from lance_catalog.spark.jobs import sweep
from tests.cli.support import digest

DIMENSION = 16


def rows_of(start: int, count: int) -> pa.Table:
    values = [float((start + i) * (j + 1) % 17) for i in range(count) for j in range(DIMENSION)]
    return pa.table(
        {
            "id": pa.array(range(start, start + count), pa.int64()),
            "kind": pa.array([f"k{i % 5}" for i in range(count)]),
            "text": pa.array([f"word{i % 7} number{start + i}" for i in range(count)]),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(values, pa.float32()), DIMENSION),
        }
    )


def fill(catalog: DirectoryNamespace, *names: str, parts: int = 1, rows: int = 50) -> None:
    for number in range(parts):
        lance.write_dataset(
            rows_of(number * rows, rows),
            namespace_client=catalog,
            table_id=list(names),
            mode="append" if number else "create",
        )


def asked(frame: Any) -> dict[str, dict[str, Any]]:
    return {row["table"]: row.asDict(recursive=True) for row in frame.collect()}


def break_data(catalog: DirectoryNamespace, *names: str) -> None:
    """Overwrite what a table's data files hold: the metadata stays as it is."""
    for file in Path(catalog.open_table(list(names)).uri.removeprefix("file://")).glob("data/*"):
        file.write_bytes(b"\0" * file.stat().st_size)


@pytest.fixture(params=["unmanaged", "managed"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> DirectoryNamespace:
    made = connect(str(tmp_path / "catalog"))
    made.create_namespace({"id": ["db"]})
    if request.param == "managed":
        made.enable_managed_versions()
    return made


@pytest.fixture
def plain(tmp_path: Path) -> DirectoryNamespace:
    made = connect(str(tmp_path / "catalog"))
    made.create_namespace({"id": ["db"]})
    return made


class TestInventory:
    def test_every_table_has_a_row(self, spark: SparkSession, catalog: DirectoryNamespace) -> None:
        fill(catalog, "db", "big", parts=3)
        fill(catalog, "top")
        catalog.open_table(["db", "big"]).create_scalar_index("id", "BTREE")
        catalog.open_table(["db", "big"]).delete("id < 10")
        catalog.declare_table({"id": ["db", "promised"]})
        frame = jobs.inventory(spark, catalog)
        found = asked(frame)
        assert sorted(found) == ["db.big", "db.promised", "top"]
        big = found["db.big"]
        expected = {"rows": 140, "versions": 5, "fragments": 3, "indices": 1, "deleted_rows": 10}
        assert {key: big[key] for key in expected} == expected
        assert big["id"] == ["db", "big"] and big["status"] == "ok" and big["error"] is None
        assert big["bytes"] > 0 and big["version"] == 5 and big["columns"] == 4
        assert 0 <= big["age_seconds"] < 600
        assert (found["db.promised"]["status"], found["db.promised"]["rows"]) == ("declared", 0)
        assert list(asked(jobs.inventory(spark, catalog, "top"))) == ["top"]
        assert list(asked(jobs.inventory(spark, catalog, ["db"]))) == ["db.big", "db.promised"]

    def test_an_empty_catalog_and_what_is_not_there(
        self, spark: SparkSession, plain: DirectoryNamespace
    ) -> None:
        assert jobs.inventory(spark, plain).collect() == []
        with pytest.raises(errors.TableNotFoundError):
            jobs.inventory(spark, plain, "db.nothing")

    def test_one_broken_table_is_told_and_the_others_counted(
        self, spark: SparkSession, plain: DirectoryNamespace
    ) -> None:
        for name in ("a", "b", "c"):
            fill(plain, "db", name)
        place = Path(plain.describe_table({"id": ["db", "b"]}).location.removeprefix("file://"))
        for manifest in (place / "_versions").iterdir():
            manifest.write_bytes(b"not a manifest")
        found = asked(jobs.inventory(spark, plain))
        assert [found[f"db.{name}"]["status"] for name in "abc"] == ["ok", "failed", "ok"]
        assert "db.b" in found["db.b"]["error"]

    def test_progress_ends_with_everything(
        self, spark: SparkSession, plain: DirectoryNamespace
    ) -> None:
        fill(plain, "db", "a")
        fill(plain, "db", "b")
        told: list[tuple[int, int | None]] = []
        jobs.inventory(spark, plain, progress=lambda done, total: told.append((done, total)))
        assert told[0] == (0, 2) and told[-1] == (2, 2)


def _fails_twice(catalog: Any, item: sweep.Item) -> list[dict[str, Any]]:
    marks = Path(item.payload)
    marks.mkdir(exist_ok=True)
    tries = len(list(marks.iterdir()))
    if tries < 2:
        (marks / str(tries)).touch()
        raise errors.ConcurrentModificationError("another writer was first")
    return [{"count": tries}]


class TestSweep:
    def test_conflicts_are_tried_again(self, tmp_path: Path, plain: DirectoryNamespace) -> None:
        task = sweep._Task(resolve(plain), _fails_twice, ("count", "status", "attempts"), 2, 3)
        rows = list(task.rows([sweep.Item(("t",), str(tmp_path / "marks"))]))
        assert rows == [(2, "ok", 3)]
        impatient = sweep._Task(resolve(plain), _fails_twice, ("status", "attempts"), 2, 1)
        assert list(impatient.rows([sweep.Item(("t",), str(tmp_path / "m2"))])) == [("failed", 2)]

    def test_tables_are_dealt_to_few_tasks(
        self, spark: SparkSession, plain: DirectoryNamespace
    ) -> None:
        for number in range(9):
            fill(plain, "db", f"t{number}", rows=2)
        before = spark.sparkContext.statusTracker().getJobIdsForGroup(None)
        jobs.inventory(spark, plain, tasks=3)
        tracker = spark.sparkContext.statusTracker()
        new = set(tracker.getJobIdsForGroup(None)) - set(before)
        stages = [s for job in new for s in tracker.getJobInfo(job).stageIds]
        assert sum(tracker.getStageInfo(stage).numTasks for stage in stages) == 3

    def test_secrets_do_not_show(self, spark: SparkSession, tmp_path: Path) -> None:
        ref = resolve(connect(str(tmp_path / "c"), **{"storage.aws_secret_access_key": "hunter22"}))
        task = sweep._Task(ref, _fails_twice, (), 1, 0)
        schema = sweep.schema_of("count int")
        source = sweep._source("lance_catalog_job_shown", schema, task, [[sweep.Item(("t",))]])
        spark.dataSource.register(source)
        frame = spark.read.format("lance_catalog_job_shown").load()
        plan = frame._jdf.queryExecution().toString()
        assert "hunter22" not in plan + repr(task) + repr(frame)


class TestCompact:
    def test_fragments_are_merged_and_rows_stay(
        self, spark: SparkSession, catalog: DirectoryNamespace
    ) -> None:
        fill(catalog, "db", "t", parts=6)
        fill(catalog, "db", "whole")
        catalog.open_table(["db", "t"]).create_scalar_index("id", "BTREE")
        catalog.open_table(["db", "t"]).delete("id = 7")
        found = asked(jobs.compact(spark, catalog, "db", target_rows=120))
        assert found["db.whole"]["status"] == "nothing"
        done = found["db.t"]
        assert (done["status"], done["fragments_before"]) == ("compacted", 6)
        table = catalog.open_table(["db", "t"])
        assert done["fragments_after"] == len(table.get_fragments()) < 6
        assert done["version"] == table.version
        assert done["tasks"] >= 2
        ids = table.to_table(columns=["id"])["id"].to_pylist()
        assert sorted(ids) == [n for n in range(300) if n != 7]
        assert table.to_table(filter="id = 250").num_rows == 1
        # A catalog that manages versions knows of it.
        latest = catalog.list_table_versions({"id": ["db", "t"], "descending": True}).versions[0]
        assert latest.version == table.version
        assert asked(jobs.compact(spark, catalog, "db.t", target_rows=120))["db.t"]["tasks"] == 0

    def test_a_delete_meanwhile_is_not_undone(
        self, spark: SparkSession, catalog: DirectoryNamespace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Somebody deletes between rewrite and commit: planned again, the rows stay gone."""
        from lance_catalog.spark.jobs import compaction as module

        fill(catalog, "db", "t", parts=4)
        real, seen = module.sweep, []

        def swept(*args: Any, **more: Any) -> Any:
            rows = real(*args, **more)
            if not seen:
                catalog.open_table(["db", "t"]).delete("id >= 100 and id < 110")
            seen.append(len(rows))
            return rows

        monkeypatch.setattr(module, "sweep", swept)
        done = asked(jobs.compact(spark, catalog, "db.t"))["db.t"]
        assert (done["status"], done["attempts"]) == ("compacted", 2)
        table = catalog.open_table(["db", "t"])
        assert table.count_rows() == 190 and table.count_rows("id = 105") == 0
        assert len(table.get_fragments()) == 1

    def test_an_append_meanwhile_is_kept(
        self, spark: SparkSession, catalog: DirectoryNamespace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from lance_catalog.spark.jobs import compaction as module

        fill(catalog, "db", "t", parts=4)
        real = module.sweep

        def swept(*args: Any, **more: Any) -> Any:
            rows = real(*args, **more)
            lance.write_dataset(
                rows_of(200, 50), namespace_client=catalog, table_id=["db", "t"], mode="append"
            )
            return rows

        monkeypatch.setattr(module, "sweep", swept)
        assert asked(jobs.compact(spark, catalog, "db.t"))["db.t"]["status"] == "compacted"
        ids = catalog.open_table(["db", "t"]).to_table(columns=["id"])["id"].to_pylist()
        assert sorted(ids) == list(range(250))

    def test_a_table_that_fails_stops_no_other(
        self, spark: SparkSession, plain: DirectoryNamespace
    ) -> None:
        fill(plain, "db", "bad", parts=3)
        fill(plain, "db", "good", parts=3)
        break_data(plain, "db", "bad")
        version = plain.open_table(["db", "bad"]).version
        found = asked(jobs.compact(spark, plain, "db", retries=0))
        assert (found["db.bad"]["status"], found["db.good"]["status"]) == ("failed", "compacted")
        assert found["db.bad"]["error"]
        assert plain.open_table(["db", "bad"]).version == version


class TestIndex:
    @pytest.mark.parametrize(
        ("column", "kind", "options"),
        [
            ("id", "btree", {}),
            ("kind", "BITMAP", {}),
            ("text", "FTS", {}),
            ("vector", "IVF_PQ", {"num_partitions": 2, "num_sub_vectors": 2}),
            ("vector", "IVF_HNSW_SQ", {"num_partitions": 1, "metric": "cosine"}),
        ],
    )
    def test_segments_become_one_index(
        self,
        spark: SparkSession,
        catalog: DirectoryNamespace,
        column: str,
        kind: str,
        options: dict[str, Any],
    ) -> None:
        fill(catalog, "db", "t", parts=4, rows=300)
        frame = jobs.index(spark, catalog, "db.t", column, kind, options=options, tasks=2)
        done = asked(frame)["db.t"]
        assert (done["status"], done["segments"], done["rows"]) == ("built", 2, 1200)
        assert (done["tasks"], done["fragments"], done["index"]) == (2, 4, f"{column}_idx")
        table = catalog.open_table(["db", "t"])
        assert done["version"] == table.version
        if column == "id":
            assert "ScalarIndexQuery" in table.scanner(filter="id = 700").explain_plan(True)
            assert table.to_table(filter="id = 700")["id"].to_pylist() == [700]
        if column == "text":
            found = table.to_table(full_text_query="number700")
            assert 700 in found["id"].to_pylist()
        if column == "vector":
            query = rows_of(700, 1)["vector"][0].values
            near = {"column": "vector", "q": query, "k": 10, "nprobes": 2}
            assert table.to_table(nearest=near, columns=["id"]).num_rows == 10

    def test_new_fragments_are_added_and_a_second_run_finds_nothing(
        self, spark: SparkSession, catalog: DirectoryNamespace
    ) -> None:
        fill(catalog, "db", "t", parts=2)
        jobs.index(spark, catalog, "db.t", "id")
        lance.write_dataset(
            rows_of(100, 50), namespace_client=catalog, table_id=["db", "t"], mode="append"
        )
        more = asked(jobs.index(spark, catalog, "db.t", "id"))["db.t"]
        assert (more["status"], more["rows"], more["segments"]) == ("built", 150, 2)
        again = asked(jobs.index(spark, catalog, "db.t", "id"))["db.t"]
        assert (again["status"], again["version"]) == ("complete", more["version"])
        anew = asked(jobs.index(spark, catalog, "db.t", "id", replace=True))["db.t"]
        assert (anew["status"], anew["rows"], anew["segments"]) == ("built", 150, 1)

    def test_mistakes(self, spark: SparkSession, plain: DirectoryNamespace) -> None:
        fill(plain, "db", "t")
        before = digest(Path(plain.context.store.uri.removeprefix("file://")))
        with pytest.raises(errors.TableColumnNotFoundError, match="it has id, kind"):
            jobs.index(spark, plain, "db.t", "idd")
        with pytest.raises(errors.InvalidInputError, match="did you mean BTREE"):
            jobs.index(spark, plain, "db.t", "id", "BTREEE")
        with pytest.raises(errors.InvalidInputError, match="no option of an index of type BTREE"):
            jobs.index(spark, plain, "db.t", "id", options={"num_partitions": 3})
        with pytest.raises(errors.InvalidInputError, match="is for vectors"):
            jobs.index(spark, plain, "db.t", "id", "IVF_PQ")
        with pytest.raises(errors.TableNotFoundError):
            jobs.index(spark, plain, "db.u", "id")
        assert digest(Path(plain.context.store.uri.removeprefix("file://"))) == before
        jobs.index(spark, plain, "db.t", "id", name="i")
        with pytest.raises(errors.TableIndexAlreadyExistsError, match="replace it"):
            jobs.index(spark, plain, "db.t", "id", "BITMAP", name="i")


class TestVerify:
    def test_every_fragment_has_a_checksum_that_stays(
        self, spark: SparkSession, catalog: DirectoryNamespace
    ) -> None:
        fill(catalog, "db", "t", parts=3)
        catalog.open_table(["db", "t"]).delete("id < 5")
        catalog.declare_table({"id": ["db", "promised"]})
        first = [row.asDict() for row in jobs.verify(spark, catalog).collect()]
        found = [row for row in first if row["table"] == "db.t"]
        assert [row["fragment"] for row in found] == [0, 1, 2]
        assert [row["rows"] for row in found] == [45, 50, 50]
        assert [row["deleted_rows"] for row in found] == [5, 0, 0]
        assert {row["status"] for row in found} == {"ok"}
        assert len({row["checksum"] for row in found}) == 3
        assert [row["status"] for row in first if row["table"] == "db.promised"] == ["declared"]
        second = jobs.verify(spark, catalog, tasks=1).collect()
        assert [row["checksum"] for row in second] == [row["checksum"] for row in first]

    def test_damage_is_found_and_named(
        self, spark: SparkSession, plain: DirectoryNamespace
    ) -> None:
        fill(plain, "db", "bad", parts=2)
        fill(plain, "db", "good")
        break_data(plain, "db", "bad")
        found = [row.asDict() for row in jobs.verify(spark, plain, retries=0).collect()]
        bad = [row for row in found if row["table"] == "db.bad"]
        assert [(row["fragment"], row["status"]) for row in bad] == [(0, "failed"), (1, "failed")]
        assert all("fragment" in row["error"] for row in bad)
        assert [row["status"] for row in found if row["table"] == "db.good"] == ["ok"]


class TestCleaning:
    def test_old_versions_go_by_policy(
        self, spark: SparkSession, catalog: DirectoryNamespace
    ) -> None:
        fill(catalog, "db", "t", parts=5)
        fill(catalog, "db", "young")
        catalog.create_table_tag({"id": ["db", "t"], "tag": "keep", "version": 2})
        found = asked(jobs.cleanup(spark, catalog, "db", keep=2))
        done = found["db.t"]
        assert (done["status"], done["versions"], done["tagged"]) == ("cleaned", 2, 1)
        assert found["db.young"]["status"] == "nothing old"
        left = catalog.list_table_versions({"id": ["db", "t"]}).versions
        assert sorted(version.version for version in left) == [2, 4, 5]
        assert catalog.open_table(["db", "t"]).count_rows() == 250
        with pytest.raises(errors.InvalidInputError):
            jobs.cleanup(spark, catalog, keep=0)

    def test_the_expired_trash_goes_and_nothing_else(
        self, spark: SparkSession, catalog: DirectoryNamespace
    ) -> None:
        for name in ("live", "old", "older", "kept", "guarded"):
            fill(catalog, "db", name)
        catalog.set_table_properties(["db", "guarded"], {"lance_catalog.protected": "true"})
        for name in ("old", "older", "guarded"):
            catalog.drop_table({"id": ["db", name]}, ttl=0, force=True)
        catalog.drop_table({"id": ["db", "kept"]}, ttl="7d")
        deadline = time.monotonic() + 60
        while len(catalog.list_purgable_tables()) < 3 and time.monotonic() < deadline:
            pass
        found = asked(jobs.purge(spark, catalog))
        assert {name: row["status"] for name, row in found.items()} == {
            "db.old": "purged",
            "db.older": "purged",
            "db.guarded": "failed",
        }
        assert "protected" in found["db.guarded"]["error"]
        assert found["db.old"]["objects"] > 0 and found["db.old"]["bytes"] > 0
        left = {table.id for table in catalog.list_dropped_tables()}
        assert left == {("db", "kept"), ("db", "guarded")}
        assert catalog.open_table(["db", "live"]).count_rows() == 50


class TestMigrate:
    def test_every_table_is_registered_and_verified(
        self, spark: SparkSession, tmp_path: Path
    ) -> None:
        root = str(tmp_path / "catalog")
        old = connect(root, manifest_enabled=False)
        for name in ("a", "b"):
            sink = io.BytesIO()
            table = rows_of(0, 5)
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
            old.create_table({"id": [name]}, sink.getvalue())
        with pytest.raises(errors.UnsupportedOperationError, match="manifest_enabled=true"):
            jobs.migrate(spark, old)
        found = asked(jobs.migrate(spark, connect(root)))
        assert {
            name: (row["outcome"], row["status"], row["rows"]) for name, row in found.items()
        } == {
            "a": ("registered", "ok", 5),
            "b": ("registered", "ok", 5),
        }
        only = connect(root, dir_listing_enabled=False)
        assert only.list_all_tables({}).tables == ["a", "b"]
        # One that cannot be opened is told; the others are verified all the same.
        break_manifest = Path(only.open_table(["a"]).uri.removeprefix("file://")) / "_versions"
        for file in break_manifest.iterdir():
            file.write_bytes(b"not a manifest")
        again = asked(jobs.migrate(spark, connect(root)))
        assert (again["a"]["status"], again["b"]["status"]) == ("failed", "ok")
        assert again["b"]["outcome"] == "already"
