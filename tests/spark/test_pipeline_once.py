"""Pipelines that die and run again, and pipelines that publish to the same tables at once."""

from __future__ import annotations

import signal
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

from lance_catalog import DirectoryNamespace, errors
from lance_catalog.directory.managed import batch
from lance_catalog.spark.pipeline import load
from tests.spark import pipeline_driver
from tests.spark.tables import column, mended, strays

BIG, SMALL = ["db", "big"], ["db", "small"]
RUNS = ["lance_catalog_runs", "pipeline_runs"]


def made(folder: Path) -> DirectoryNamespace:
    catalog = DirectoryNamespace(root=str(folder / "root"))
    catalog.create_namespace({"id": ["db"]})
    catalog.enable_managed_versions()
    return catalog


def records(catalog: DirectoryNamespace) -> list[tuple[str, str]]:
    try:
        found = catalog.open_table(RUNS).to_table(columns=["job_id", "status"]).to_pylist()
    except errors.LanceNamespaceError:
        return []
    return [(row["job_id"], row["status"]) for row in found]


SOAK = pytest.mark.soak
#: The kind of pipeline, where it dies, and whether its tables have the rows by then.
KILLS = [
    pytest.param("two", "job.staged", False, marks=SOAK),
    pytest.param("two", "record", True, marks=SOAK),
    pytest.param("two", "source.events.end", False, marks=SOAK),
    pytest.param("two", "step.clean.begin", False, marks=SOAK),
    pytest.param("two", "step.clean.end", False, marks=SOAK),
    pytest.param("two", "check.big.end", False, marks=SOAK),
    pytest.param("two", "publish.shop.begin", False, marks=SOAK),
    pytest.param("two", "job.task_written", False, marks=SOAK),
    pytest.param("two", "version.row_written", True, marks=SOAK),
    pytest.param("two", "job.landed", True, marks=SOAK),
    pytest.param("two", "publish.shop.end", True, marks=SOAK),
    pytest.param("two", "index.id_idx.begin", True, marks=SOAK),
    pytest.param("two", "index.id_idx.end", True, marks=SOAK),
    pytest.param("one", "publish.files.begin", False, marks=SOAK),
    pytest.param("one", "job.task_written", False, marks=SOAK),
    pytest.param("one", "table.version_finalized", False, marks=SOAK),
    pytest.param("one", "table.registered", True, marks=SOAK),
    pytest.param("one", "record", True, marks=SOAK),
]


@pytest.mark.parametrize(("kind", "stage", "published"), KILLS)
def test_a_run_that_dies_and_runs_again(
    spark: SparkSession, tmp_path: Path, kind: str, stage: str, published: bool
) -> None:
    catalog = made(tmp_path)
    raw = tmp_path / "raw"
    raw.mkdir()
    ids, amounts = list(range(100)), [float(n) for n in range(100)]
    pa.parquet.write_table(pa.table({"id": ids, "amount": amounts}), raw / "one.parquet")
    point = {"LANCE_CATALOG_FAILPOINTS": f"{stage}=kill"} if _is_point(stage) else {}
    root = str(tmp_path / "root")
    ended = pipeline_driver.run(root, str(raw), kind, "job", "" if point else stage, **point)
    if stage == "job.task_written":
        assert ended not in (0, -signal.SIGKILL)  # A worker was killed, and local[2] tries once.
        assert records(catalog) == [("job", "failed")]
    else:
        assert ended == -signal.SIGKILL
        assert records(catalog) == []
    there = catalog.list_tables({"id": ["db"]}).tables
    assert bool(there) is published
    if kind == "two":
        assert len(there) in (0, 2)

    pipeline = pipeline_driver.pipeline(kind, str(raw))
    again = pipeline.run(spark, catalog, "job").check()
    assert again.status == "published"
    assert all(target.repeated for target in again.targets) is published
    assert again.targets[0].indices == ["id_idx"]
    assert pipeline.run(spark, catalog, "job").status == "repeated"
    assert column(catalog, BIG, "id") == (ids if kind == "one" else ids[50:])
    if kind == "two":
        assert column(catalog, SMALL, "id") == ids[:50]
    (index,) = catalog.open_table(BIG).describe_indices()
    assert index.num_rows_indexed == (100 if kind == "one" else 50)
    good = [one for one in records(catalog) if one[1] == "published"]
    assert good == [("job", "published")]
    mended(catalog)
    for table in (BIG, SMALL)[: 2 if kind == "two" else 1]:
        assert strays(catalog, table) == set()


def _is_point(stage: str) -> bool:
    from lance_catalog.failpoints import POINTS

    return stage in POINTS


BOTH = """\
[pipeline]
name = "both"
[variables]
run = "?"
[steps.rows]
sql = "select id, :run as run from range(0, 30, 1, 2)"
inputs = []
[targets.a]
table = "db.a"
from = "rows"
mode = "append"
[targets.b]
table = "db.b"
from = "rows"
mode = "append"
"""


class Race:
    """Two publications meet before each of their commits; conflicts are counted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.conflicts = 0
        self.meeting: threading.Barrier | None = None
        self._met = threading.local()
        self._lock = threading.Lock()
        self._real = batch.carry_out
        monkeypatch.setattr(batch, "carry_out", self._carry_out)

    def begin(self) -> None:
        self.meeting = threading.Barrier(2)

    def _carry_out(self, ctx: Any, operations: Any) -> None:
        meeting = self.meeting
        if meeting is not None and getattr(self._met, "last", None) is not meeting:
            self._met.last = meeting
            meeting.wait(timeout=300)
        try:
            self._real(ctx, operations)
        except (errors.ConcurrentModificationError, errors.TableAlreadyExistsError):
            with self._lock:
                self.conflicts += 1
            raise


class Reader(threading.Thread):
    """Reads both tables of one moment, again and again: each run is in both whole, or in none."""

    def __init__(self, root: str) -> None:
        super().__init__(daemon=True)
        self._root = root
        self._ended = threading.Event()
        self.looks = 0
        self.seen: set[int] = set()
        self.wrong: list[Any] = []

    def run(self) -> None:
        catalog = DirectoryNamespace(root=self._root)
        while not self._ended.is_set():
            try:
                self._look(catalog)
            except BaseException as error:
                self.wrong.append(error)
                return

    def _look(self, catalog: DirectoryNamespace) -> None:
        moment = DirectoryNamespace(root=self._root, as_of=catalog.snapshot().version)
        there = moment.list_tables({"id": ["db"]}).tables
        counts = [
            Counter(moment.open_table(["db", name]).to_table(columns=["run"])["run"].to_pylist())
            for name in there
        ]
        self.looks += 1
        if not counts:
            return
        if len(counts) != 2 or counts[0] != counts[1] or set(counts[0].values()) - {30}:
            self.wrong.append(counts)
        self.seen.add(len(counts[0]))

    def end(self) -> None:
        self._ended.set()
        self.join(timeout=300)


@pytest.mark.parametrize("rounds", [2, pytest.param(15, marks=SOAK)])
def test_two_pipelines_publish_to_the_same_tables_at_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rounds: int
) -> None:
    """The first round makes the tables: there too both runs are published."""
    catalog = made(tmp_path)
    root = str(tmp_path / "root")
    race, reader = Race(monkeypatch), Reader(root)
    reader.start()
    expected: list[str] = []

    def run(name: str) -> Any:
        rival = DirectoryNamespace(root=root)
        return load(BOTH, {"run": name}).run(spark, rival, name).check()

    try:
        with ThreadPoolExecutor(2) as pool:
            for number in range(rounds):
                race.begin()
                names = [f"{number}-{one}" for one in "xy"]
                expected += names
                reports = list(pool.map(run, names))
                assert [report.status for report in reports] == ["published"] * 2
    finally:
        reader.end()
    assert reader.wrong == []
    # In every round both were ready to commit before either did.
    assert race.conflicts >= rounds
    assert reader.looks > 0
    print(f"{race.conflicts} conflicts, {reader.looks} looks, states {sorted(reader.seen)}")
    for table in (["db", "a"], ["db", "b"]):
        rows = catalog.open_table(table).to_table(columns=["run", "id"]).to_pylist()
        found = sorted((row["run"], row["id"]) for row in rows)
        assert found == sorted((name, n) for name in expected for n in range(30))
        assert strays(catalog, table) == set()
    assert sorted(records(catalog)) == sorted((name, "published") for name in expected)
    mended(catalog)
