"""``compact``: rows stay, indices follow, and nothing is left of what was not committed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lance_catalog import DirectoryNamespace, connect
from lance_catalog.maintenance.check import check
from lance_catalog.spark import jobs
from lance_catalog.spark.jobs import rewritten
from lance_catalog.spark.jobs.sweep import GONE
from tests.cli.support import digest
from tests.spark.job_tables import DIMENSION, Sweeps, asked, data_files, fill, made, place, rows_of
from tests.spark.tables import mended, strays

T = ["db", "t"]
NO_SPARK: Any = None


@pytest.fixture(params=["unmanaged", "managed"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> DirectoryNamespace:
    return made(tmp_path, managed=request.param == "managed")


@pytest.fixture
def sweeps(monkeypatch: pytest.MonkeyPatch) -> Sweeps:
    return Sweeps(monkeypatch)


def ids(catalog: DirectoryNamespace) -> list[int]:
    return sorted(catalog.open_table(T).to_table(columns=["id"])["id"].to_pylist())


def indices(catalog: DirectoryNamespace) -> set[str]:
    return {path.name for path in (place(catalog, *T) / "_indices").glob("*")}


def clean(catalog: DirectoryNamespace) -> None:
    """No file is left that no version names, and a check finds nothing."""
    assert strays(catalog, T) == set()
    assert check(catalog.context, grace_seconds=-3600).problems == []


def test_many_tables_on_spark(spark: SparkSession, catalog: DirectoryNamespace) -> None:
    fill(catalog, *T, parts=6)
    fill(catalog, "db", "whole")
    fill(catalog, "db", "bad", parts=3)
    catalog.open_table(T).create_scalar_index("id", "BTREE")
    catalog.open_table(T).delete("id = 7")
    for file in data_files(catalog, "db", "bad"):
        file.write_bytes(b"\0" * file.stat().st_size)
    bad = catalog.open_table(["db", "bad"]).version
    found = asked(jobs.compact(spark, catalog, "db", target_rows=120, retries=0))
    assert found["db.whole"]["status"] == "nothing"
    # One that fails stops no other.
    assert found["db.bad"]["status"] == "failed" and found["db.bad"]["error"]
    assert catalog.open_table(["db", "bad"]).version == bad
    done = found["db.t"]
    assert (done["status"], done["fragments_before"], done["attempts"]) == ("compacted", 6, 1)
    table = catalog.open_table(T)
    assert done["fragments_after"] == len(table.get_fragments()) < 6
    assert done["version"] == table.version and done["tasks"] >= 2
    assert ids(catalog) == [n for n in range(300) if n != 7]
    assert table.to_table(filter="id = 250").num_rows == 1
    # A catalog that manages versions knows of it.
    latest = catalog.list_table_versions({"id": T, "descending": True}).versions[0]
    assert latest.version == table.version
    clean(catalog)


def test_a_dry_run_tells_and_writes_nothing(catalog: DirectoryNamespace, sweeps: Sweeps) -> None:
    fill(catalog, *T, parts=3)
    fill(catalog, "db", "whole")
    root = Path(catalog.context.store.uri.removeprefix("file://"))
    before = digest(root)
    found = asked(jobs.compact(NO_SPARK, catalog, dry_run=True))
    assert {name: row["status"] for name, row in found.items()} == {
        "db.t": "would compact",
        "db.whole": "nothing",
    }
    assert (found["db.t"]["fragments_before"], found["db.t"]["tasks"]) == (3, 1)
    assert digest(root) == before and sweeps.count == 0
    asked(jobs.compact(NO_SPARK, catalog))
    assert asked(jobs.compact(NO_SPARK, catalog, "db.t"))["db.t"]["tasks"] == 0


def test_a_delete_and_an_append_meanwhile(catalog: DirectoryNamespace, sweeps: Sweeps) -> None:
    """Somebody deletes between rewrite and commit: planned again. An append is no conflict."""
    fill(catalog, *T, parts=4)
    catalog.open_table(T).create_scalar_index("id", "BTREE")
    built = indices(catalog)

    def then(number: int) -> None:
        if number == 1:
            assert len(strays(catalog, T)) > 0  # What was rewritten lies there.
            catalog.open_table(T).delete("id >= 100 and id < 110")
        else:
            fill(catalog, *T, start=200)

    sweeps.then = then
    done = asked(jobs.compact(NO_SPARK, catalog, "db.t"))["db.t"]
    assert (done["status"], done["attempts"], sweeps.count) == ("compacted", 2, 2)
    assert ids(catalog) == [n for n in range(250) if not 100 <= n < 110]
    assert len(catalog.open_table(T).get_fragments()) == 2
    # The lost try left neither rows nor indices.
    clean(catalog)
    assert len(indices(catalog) - built) == 1


def test_a_conflict_that_lance_finds(
    catalog: DirectoryNamespace, sweeps: Sweeps, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look and the commit there is a moment: Lance says so, and the files go."""
    fill(catalog, *T, parts=4)
    real = rewritten.Compaction.commit
    calls: list[int] = []

    class Late:
        @staticmethod
        def commit(dataset: Any, results: Any) -> Any:
            calls.append(1)
            if len(calls) == 1:
                catalog.open_table(T).delete("id = 3")
            return real(dataset, results)

    monkeypatch.setattr(rewritten, "Compaction", Late)
    done = asked(jobs.compact(NO_SPARK, catalog, "db.t"))["db.t"]
    assert (done["status"], done["attempts"], len(calls)) == ("compacted", 2, 2)
    assert ids(catalog) == [n for n in range(200) if n != 3]
    clean(catalog)
    assert asked(jobs.compact(NO_SPARK, catalog, "db.t", retries=0))["db.t"]["tasks"] == 0


@pytest.mark.parametrize("landed", [True, False])
def test_an_answer_that_is_lost(
    catalog: DirectoryNamespace,
    sweeps: Sweeps,
    monkeypatch: pytest.MonkeyPatch,
    landed: bool,
) -> None:
    """Files stay as long as a version may name them; a repair knows of them."""
    fill(catalog, *T, parts=4)
    real = rewritten.Compaction.commit

    class Lost:
        @staticmethod
        def commit(dataset: Any, results: Any) -> Any:
            if landed:
                real(dataset, results)
            raise OSError("Commit result for version 5 is unknown: check before retrying")

    monkeypatch.setattr(rewritten, "Compaction", Lost)
    done = asked(jobs.compact(NO_SPARK, catalog, "db.t"))["db.t"]
    assert done["status"] == ("compacted" if landed else "failed")
    assert ids(catalog) == list(range(200))
    assert bool(strays(catalog, T)) is not landed
    mended(catalog)
    clean(catalog)
    assert ids(catalog) == list(range(200))


def test_a_job_that_dies_is_known_to_a_check(catalog: DirectoryNamespace, sweeps: Sweeps) -> None:
    fill(catalog, *T, parts=4)

    def then(number: int) -> None:
        raise KeyboardInterrupt

    sweeps.then = then
    with pytest.raises(KeyboardInterrupt):
        jobs.compact(NO_SPARK, catalog, "db.t")
    assert len(strays(catalog, T)) > 0
    mended(catalog)
    clean(catalog)
    assert ids(catalog) == list(range(200))


@pytest.mark.parametrize("kind", ["unmanaged", "managed", "v1"])
def test_a_table_that_is_made_anew_stays_as_it_is(
    tmp_path: Path, sweeps: Sweeps, kind: str
) -> None:
    """Its fragments have the numbers of those that were rewritten, and not their rows."""
    if kind == "v1":
        catalog = connect(str(tmp_path / "catalog"), manifest_enabled=False)
        names = ["t"]
    else:
        catalog, names = made(tmp_path, managed=kind == "managed"), T
    fill(catalog, *names, parts=4)

    def then(number: int) -> None:
        if number == 1:
            catalog.drop_table({"id": names}, purge=True)
            fill(catalog, *names, parts=1, rows=10)
            for start in range(1000, 1050, 10):
                fill(catalog, *names, rows=10, start=start)

    sweeps.then = then
    done = asked(jobs.compact(NO_SPARK, catalog, retries=0))[".".join(names)]
    assert done["status"] == "failed" and "made anew" in done["error"]
    table = catalog.open_table(names)
    assert (table.count_rows(), table.version) == (60, 6)
    assert len(table.get_fragments()) == 6
    assert strays(catalog, names) == set()


def test_a_table_that_is_dropped(catalog: DirectoryNamespace, sweeps: Sweeps) -> None:
    fill(catalog, *T, parts=4)
    fill(catalog, "db", "u", parts=4)
    folder = place(catalog, *T)

    def then(number: int) -> None:
        catalog.drop_table({"id": T})

    sweeps.then = then
    found = asked(jobs.compact(NO_SPARK, catalog))
    assert (found["db.t"]["status"], found["db.u"]["status"]) == (GONE, "compacted")
    assert found["db.t"]["error"] is None
    assert len(list(folder.glob("data/*"))) == 4
    catalog.undrop_table(T)
    assert ids(catalog) == list(range(200))
    clean(catalog)


def test_which_indices_follow_the_rows(tmp_path: Path, sweeps: Sweeps) -> None:
    """As docs/spark/jobs.md says: all but ZONEMAP and BLOOMFILTER."""
    catalog = made(tmp_path)
    fill(catalog, *T, parts=4, rows=300)
    built = {
        "btree": ("id", "BTREE"),
        "bitmap": ("kind", "BITMAP"),
        "text": ("text", "FTS"),
        "vector": ("vector", "IVF_PQ"),
        "graph": ("vector", "IVF_HNSW_SQ"),
        "zone": ("id", "ZONEMAP"),
        "bloom": ("kind", "BLOOMFILTER"),
    }
    for name, (column, kind) in built.items():
        options = {"num_partitions": 2} if kind.startswith("IVF") else None
        done = jobs.index(NO_SPARK, catalog, "db.t", column, kind, name=name, options=options)
        assert asked(done)["db.t"]["rows"] == 1200, name
    assert asked(jobs.compact(NO_SPARK, catalog, "db.t"))["db.t"]["status"] == "compacted"
    table = catalog.open_table(T)
    numbers = {one.fragment_id for one in table.get_fragments()}
    covered = {
        one.name: {number for part in one.segments for number in part.fragment_ids}
        for one in table.describe_indices()
    }
    for name in ("btree", "bitmap", "text", "vector", "graph"):
        assert covered[name] == numbers, name
    for name in ("zone", "bloom"):
        assert covered.get(name, set()).isdisjoint(numbers), name
        column, kind = built[name]
        again = asked(jobs.index(NO_SPARK, catalog, "db.t", column, kind, name=name))["db.t"]
        assert (again["status"], again["rows"]) == ("built", 1200)
    query = rows_of(700, 1)["vector"][0].values
    assert len(query) == DIMENSION
    near = {"column": "vector", "q": query, "k": 5, "nprobes": 2}
    assert "ANN" in table.scanner(nearest=near).explain_plan(True)
    found = table.to_table(nearest={**near, "refine_factor": 20}, columns=["vector"])["vector"]
    assert query.to_pylist() in found.to_pylist()
    assert 700 in table.to_table(full_text_query="number700")["id"].to_pylist()
    assert table.to_table(filter="id = 700")["id"].to_pylist() == [700]
