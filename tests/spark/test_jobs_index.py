"""``index``: segments built apart become one index, which searches use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lance_catalog import DirectoryNamespace, connect, errors
from lance_catalog.spark import jobs
from lance_catalog.spark.jobs import indexing
from tests.cli.support import digest
from tests.spark.job_tables import Sweeps, asked, data_files, fill, made, place, rows_of

T = ["db", "t"]
NO_SPARK: Any = None


@pytest.fixture
def sweeps(monkeypatch: pytest.MonkeyPatch) -> Sweeps:
    return Sweeps(monkeypatch)


def near(start: int) -> dict[str, Any]:
    return {"column": "vector", "q": rows_of(start, 1)["vector"][0].values, "k": 10, "nprobes": 2}


def segments(catalog: DirectoryNamespace, *names: str) -> set[str]:
    return {path.name for path in (place(catalog, *names) / "_indices").glob("*")}


def test_values_and_vectors_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    catalog = made(tmp_path, managed=True)
    fill(catalog, *T, parts=4, rows=300)
    table = catalog.open_table(T)
    assert "ANN" not in table.scanner(nearest=near(700)).explain_plan(True)
    for column, kind, options in (
        ("id", "btree", {}),
        ("vector", "IVF_PQ", {"num_partitions": 2, "num_sub_vectors": 2}),
    ):
        frame = jobs.index(spark, catalog, "db.t", column, kind, options=options, tasks=2)
        done = asked(frame)["db.t"]
        assert (done["status"], done["segments"], done["rows"]) == ("built", 2, 1200)
        assert (done["tasks"], done["fragments"], done["index"]) == (2, 4, f"{column}_idx")
        assert done["version"] == catalog.open_table(T).version
    table = catalog.open_table(T)
    assert "ScalarIndexQuery" in table.scanner(filter="id = 700").explain_plan(True)
    assert table.to_table(filter="id = 700")["id"].to_pylist() == [700]
    plan = table.scanner(nearest=near(700)).explain_plan(True)
    assert "ANNSubIndex" in plan and "vector_idx" in plan
    assert table.to_table(nearest=near(700), columns=["id"]).num_rows == 10


@pytest.mark.parametrize(
    ("column", "kind", "options"),
    [
        ("kind", "BITMAP", {}),
        ("text", "FTS", {}),
        ("vector", "IVF_HNSW_SQ", {"num_partitions": 1, "metric": "cosine"}),
    ],
)
def test_other_types(
    tmp_path: Path, sweeps: Sweeps, column: str, kind: str, options: dict[str, Any]
) -> None:
    catalog = made(tmp_path)
    fill(catalog, *T, parts=4, rows=300)
    done = asked(jobs.index(NO_SPARK, catalog, "db.t", column, kind, options=options, tasks=2))
    assert (done["db.t"]["status"], done["db.t"]["segments"]) == ("built", 2)
    table = catalog.open_table(T)
    if column == "text":
        assert 700 in table.to_table(full_text_query="number700")["id"].to_pylist()
    if column == "vector":
        assert "ANN" in table.scanner(nearest=near(700)).explain_plan(True)
    if column == "kind":
        assert "ScalarIndexQuery" in table.scanner(filter="kind = 'k1'").explain_plan(True)


@pytest.mark.parametrize("managed", [False, True])
def test_new_fragments_are_added(tmp_path: Path, sweeps: Sweeps, managed: bool) -> None:
    catalog = made(tmp_path, managed=managed)
    fill(catalog, *T, parts=2)
    jobs.index(NO_SPARK, catalog, "db.t", "id")
    fill(catalog, *T, start=100)
    more = asked(jobs.index(NO_SPARK, catalog, "db.t", "id"))["db.t"]
    assert (more["status"], more["rows"], more["segments"]) == ("built", 150, 2)
    again = asked(jobs.index(NO_SPARK, catalog, "db.t", "id"))["db.t"]
    assert (again["status"], again["version"]) == ("complete", more["version"])
    anew = asked(jobs.index(NO_SPARK, catalog, "db.t", "id", replace=True))["db.t"]
    assert (anew["status"], anew["rows"], anew["segments"]) == ("built", 150, 1)


@pytest.mark.parametrize("managed", [False, True])
def test_a_compaction_meanwhile(tmp_path: Path, sweeps: Sweeps, managed: bool) -> None:
    """The fragments are gone: it begins again, and the segments of the lost try go."""
    catalog = made(tmp_path, managed=managed)
    fill(catalog, *T, parts=4)

    def then(number: int) -> None:
        if number == 1:
            catalog.open_table(T).optimize.compact_files()

    sweeps.then = then
    done = asked(jobs.index(NO_SPARK, catalog, "db.t", "id"))["db.t"]
    assert (done["status"], done["rows"], done["fragments"]) == ("built", 200, 1)
    assert (done["attempts"], sweeps.count) == (2, 2)
    assert len(segments(catalog, *T)) == 1


def test_a_table_that_is_made_anew_gets_no_index_of_the_old_one(
    tmp_path: Path, sweeps: Sweeps
) -> None:
    """In V1 it lies at the same place; its rows are others."""
    catalog = connect(str(tmp_path / "catalog"), manifest_enabled=False)
    fill(catalog, "t", parts=2)

    def then(number: int) -> None:
        catalog.drop_table({"id": ["t"]}, purge=True)
        fill(catalog, "t", rows=10)
        fill(catalog, "t", rows=10, start=1000)

    sweeps.then = then
    done = asked(jobs.index(NO_SPARK, catalog, "t", "id", retries=0))["t"]
    assert done["status"] == "failed" and "made anew" in done["error"]
    table = catalog.open_table(["t"])
    assert table.describe_indices() == [] and segments(catalog, "t") == set()
    assert table.to_table(filter="id = 1003")["id"].to_pylist() == [1003]


def test_a_table_that_is_dropped_or_cannot_be_read(tmp_path: Path, sweeps: Sweeps) -> None:
    catalog = made(tmp_path)
    fill(catalog, *T, parts=2)
    fill(catalog, "db", "u", parts=2)
    data_files(catalog, "db", "u")[0].unlink()
    bad = asked(jobs.index(NO_SPARK, catalog, "db.u", "id", tasks=2))["db.u"]
    assert bad["status"] == "failed" and bad["error"]
    # The segment that was built is gone; what Lance leaves of the other, its own cleanup takes.
    assert len(segments(catalog, "db", "u")) <= 1
    sweeps.then = lambda number: catalog.drop_table({"id": T})  # type: ignore[assignment,return-value]
    gone = asked(jobs.index(NO_SPARK, catalog, "db.t", "id"))["db.t"]
    assert gone["status"] == "failed" and "db.t" in gone["error"]


def test_mistakes(tmp_path: Path, sweeps: Sweeps) -> None:
    catalog = made(tmp_path)
    fill(catalog, *T)
    root = Path(catalog.context.store.uri.removeprefix("file://"))
    before = digest(root)
    with pytest.raises(errors.TableColumnNotFoundError, match="it has id, kind"):
        jobs.index(NO_SPARK, catalog, "db.t", "idd")
    with pytest.raises(errors.InvalidInputError, match="did you mean BTREE"):
        jobs.index(NO_SPARK, catalog, "db.t", "id", "BTREEE")
    with pytest.raises(errors.InvalidInputError, match="no option of an index of type BTREE"):
        jobs.index(NO_SPARK, catalog, "db.t", "id", options={"num_partitions": 3})
    with pytest.raises(errors.InvalidInputError, match="is for vectors"):
        jobs.index(NO_SPARK, catalog, "db.t", "id", "IVF_PQ")
    with pytest.raises(errors.TableNotFoundError):
        jobs.index(NO_SPARK, catalog, "db.u", "id")
    assert digest(root) == before
    jobs.index(NO_SPARK, catalog, "db.t", "id", name="i")
    with pytest.raises(errors.TableIndexAlreadyExistsError, match="replace it"):
        jobs.index(NO_SPARK, catalog, "db.t", "id", "BITMAP", name="i")
    assert indexing._groups([], 3) == []
