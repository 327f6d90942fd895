"""Jobs that remove and register: ``cleanup``, ``purge`` and ``migrate``."""

from __future__ import annotations

import io
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lance_catalog import DirectoryNamespace, connect, errors
from lance_catalog.spark import jobs
from lance_catalog.spark.jobs import cleaning, migration
from lance_catalog.spark.jobs.sweep import GONE
from tests.cli.support import digest
from tests.spark.job_tables import Sweeps, asked, fill, made, place, rows_of
from tests.spark.test_jobs import dropping

NO_SPARK: Any = None


@pytest.fixture
def sweeps(monkeypatch: pytest.MonkeyPatch) -> Sweeps:
    return Sweeps(monkeypatch)


def root_of(catalog: DirectoryNamespace) -> Path:
    return Path(catalog.context.store.uri.removeprefix("file://"))


def break_manifests(folder: Path) -> None:
    for file in (folder / "_versions").iterdir():
        file.write_bytes(b"not a manifest")


class TestCleanup:
    @pytest.mark.parametrize("managed", [False, True])
    def test_old_versions_go_by_policy(
        self,
        tmp_path: Path,
        sweeps: Sweeps,
        monkeypatch: pytest.MonkeyPatch,
        managed: bool,
    ) -> None:
        catalog = made(tmp_path, managed=managed)
        fill(catalog, "db", "t", parts=5)
        for name in ("young", "going", "corrupt"):
            fill(catalog, "db", name)
        break_manifests(place(catalog, "db", "corrupt"))
        catalog.create_table_tag({"id": ["db", "t"], "tag": "keep", "version": 2})
        before = digest(root_of(catalog))
        would = asked(jobs.cleanup(NO_SPARK, catalog, "db", keep=2, dry_run=True))
        assert (would["db.t"]["status"], would["db.t"]["versions"]) == ("would clean", 2)
        assert (would["db.t"]["oldest_kept"], would["db.t"]["tagged"]) == (2, 1)
        assert digest(root_of(catalog)) == before
        dropping(cleaning, monkeypatch, "db", "going")
        found = asked(jobs.cleanup(NO_SPARK, catalog, "db", keep=2))
        done = found["db.t"]
        assert (done["status"], done["versions"], done["tagged"]) == ("cleaned", 2, 1)
        assert found["db.young"]["status"] == "nothing old"
        assert found["db.going"]["status"] == GONE
        assert found["db.corrupt"]["status"] == "failed" and found["db.corrupt"]["error"]
        left = catalog.list_table_versions({"id": ["db", "t"]}).versions
        assert sorted(version.version for version in left) == [2, 4, 5]
        assert catalog.open_table(["db", "t"]).count_rows() == 250
        with pytest.raises(errors.InvalidInputError):
            jobs.cleanup(NO_SPARK, catalog, keep=0)

    def test_on_spark(self, spark: SparkSession, tmp_path: Path) -> None:
        catalog = made(tmp_path, managed=True)
        fill(catalog, "db", "t", parts=3)
        done = asked(jobs.cleanup(spark, catalog, keep=1))["db.t"]
        assert (done["status"], done["versions"], done["oldest_kept"]) == ("cleaned", 2, 3)


class TestPurge:
    @pytest.mark.parametrize("managed", [False, True])
    def test_the_expired_trash_goes_and_nothing_else(
        self, spark: SparkSession, tmp_path: Path, managed: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        catalog = made(tmp_path, managed=managed)
        if not managed:
            Sweeps(monkeypatch)
        for name in ("live", "old", "older", "kept", "guarded", "back"):
            fill(catalog, "db", name)
        catalog.set_table_properties(["db", "guarded"], {"lance_catalog.protected": "true"})
        for name in ("old", "older", "guarded", "back"):
            catalog.drop_table({"id": ["db", name]}, ttl=0, force=True)
        catalog.drop_table({"id": ["db", "kept"]}, ttl="7d")
        deadline = time.monotonic() + 60
        while len(catalog.list_purgable_tables()) < 4 and time.monotonic() < deadline:
            pass
        before = digest(root_of(catalog))
        would = asked(jobs.purge(spark, catalog, dry_run=True))
        assert {row["status"] for row in would.values()} == {"would purge"}
        assert sorted(would) == ["db.back", "db.guarded", "db.old", "db.older"]
        assert digest(root_of(catalog)) == before
        real = cleaning.trashing.settle_all

        def settled(ctx: Any) -> Any:
            done = real(ctx)
            monkeypatch.setattr(cleaning, "sweep", swept)
            return done

        reached = cleaning.sweep

        def swept(*given: Any, **more: Any) -> Any:
            catalog.undrop_table(["db", "back"])  # Somebody was faster.
            return reached(*given, **more)

        monkeypatch.setattr(cleaning.trashing, "settle_all", settled)
        found = asked(jobs.purge(spark, catalog))
        assert {name: row["status"] for name, row in found.items()} == {
            "db.old": "purged",
            "db.older": "purged",
            "db.guarded": "failed",
            "db.back": "brought back",
        }
        assert "protected" in found["db.guarded"]["error"]
        assert found["db.old"]["objects"] > 0 and found["db.old"]["bytes"] > 0
        left = {table.id for table in catalog.list_dropped_tables()}
        assert left == {("db", "kept"), ("db", "guarded")}
        for name in ("live", "back"):
            assert catalog.open_table(["db", name]).count_rows() == 50


def stream(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def test_migrate_opens_and_compares_every_table(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = str(tmp_path / "catalog")
    old = connect(root, manifest_enabled=False)
    names = [f"t{number}" for number in range(8)]
    for count, name in enumerate([*names, "corrupt", "going"]):
        old.create_table({"id": [name]}, stream(rows_of(0, 5 + count)))
    break_manifests(tmp_path / "catalog" / "corrupt.lance")
    with pytest.raises(errors.UnsupportedOperationError, match="manifest_enabled=true"):
        jobs.migrate(spark, old)
    before = digest(tmp_path / "catalog")
    would = asked(jobs.migrate(spark, connect(root), dry_run=True))
    assert {row["outcome"] for row in would.values()} == {"would register"}
    assert len(would) == 10 and digest(tmp_path / "catalog") == before
    real = migration.directory_migration.migrate

    def migrate(ctx: Any, *, dry_run: bool) -> Any:
        report = real(ctx, dry_run=dry_run)
        connect(root).drop_table({"id": ["going"]})
        return report

    with monkeypatch.context() as patched:
        patched.setattr(migration.directory_migration, "migrate", migrate)
        found = asked(jobs.migrate(spark, connect(root)))
    # One that cannot be opened is told; the others are verified all the same.
    corrupt = found.pop("corrupt")
    assert (corrupt["status"], corrupt["outcome"]) == ("failed", "failed")
    assert "manifest" in corrupt["error"]
    assert found.pop("going")["status"] == GONE
    assert {row["outcome"] for row in found.values()} == {"registered"}
    assert {name: (row["status"], row["rows"]) for name, row in found.items()} == {
        name: ("ok", 5 + count) for count, name in enumerate(names)
    }
    assert all(row["location"] and row["version"] == 1 for row in found.values())
    only = connect(root, dir_listing_enabled=False)
    assert only.list_all_tables({}).tables == names
    Sweeps(monkeypatch)
    again = asked(jobs.migrate(NO_SPARK, connect(root)))
    assert {again[name]["outcome"] for name in names} == {"already"}
