"""Exactly once on a cluster of two workers: whoever is killed, at whatever stage.

A process stops at a fail point; then a Python worker, an executor or the driver is killed, and the
others go on. Spark tries tasks again, and starts copies of slow ones; a driver that died is run
again under its job id. Afterwards the rows are exact, there is one version more, and after a repair
nothing is left behind.
"""

from __future__ import annotations

import itertools
import json
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from lance_catalog import DirectoryNamespace
from tests.servers.process import wait_until
from tests.spark.cluster import PATIENCE, QUICK, Cluster, environment, executor_of, send, state
from tests.spark.driver import Driver
from tests.spark.tables import column, created, mended, opened, strays

pytestmark = pytest.mark.integration

TASKS = ("job.task_begun", "job.task_written", "job.task_told")
COMMIT = ("job.looked", "job.staged", "job.finalized", "job.landed")
STAGES = {
    "append": (*TASKS, "job.tasks_done", *COMMIT),
    "merge": (*TASKS, "job.tasks_done", "job.deletions_written", *COMMIT),
    "publish": (*TASKS, "job.tasks_done", "job.staged", "version.row_written", "job.landed"),
    "ingest": (*TASKS, *COMMIT),
    "stream": (*TASKS, *COMMIT),
    "direct": (*TASKS, *COMMIT),
}
NEW = list(range(100, 120))
BOTH = sorted([*range(110), *NEW])
EXPECTED = {"merge": list(range(120)), "publish": NEW}


@dataclass(frozen=True)
class Case:
    verb: str
    point: str
    #: Who is killed: ``worker``, ``executor``, ``driver``; ``slow``: nobody, a copy is faster.
    victim: str

    def __str__(self) -> str:
        return f"{self.verb}-{self.point.partition('.')[2]}-{self.victim}"


@dataclass
class Arena:
    """The cluster, a driver on it, and catalogs for it to write to."""

    cluster: Cluster
    home: Path
    kills: Counter[str] = field(default_factory=Counter)
    _driver: Driver | None = None
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def driver(self) -> Driver:
        if self._driver is None:
            events = self.home / "events"
            events.mkdir(exist_ok=True)
            config = {
                "spark.cores.max": "2",
                "spark.executor.cores": "1",
                "spark.executor.memory": "512m",
                "spark.executor.extraJavaOptions": QUICK,
                "spark.driver.extraJavaOptions": QUICK,
                "spark.scheduler.minRegisteredResourcesRatio": "1.0",
                "spark.task.maxFailures": "4",
                "spark.speculation": "true",
                "spark.speculation.interval": "100ms",
                "spark.speculation.quantile": "0.5",
                "spark.speculation.multiplier": "1.1",
                # Longer than whoever stops takes to be killed.
                "spark.speculation.minTaskRuntime": "3s",
                "spark.eventLog.enabled": "true",
                "spark.eventLog.dir": str(events),
                "spark.eventLog.rolling.enabled": "false",
                "spark.eventLog.compress": "false",
                "spark.sql.warehouse.dir": str(self.home / "warehouse"),
                "spark.local.dir": str(self.home / "local"),
            }
            given = {"master": self.cluster.master.url, "config": config}
            self._driver = Driver(
                self.home, given, environment(**self.cluster.orders.environment())
            )
        return self._driver

    def close(self) -> None:
        if self._driver is not None:
            self._driver.close()

    def catalog(self, *, managed: bool) -> DirectoryNamespace:
        root = self.home / ("managed" if managed else "plain")
        fresh = not root.exists()
        made = DirectoryNamespace(root=str(root))
        if fresh:
            made.create_namespace({"id": ["db"]})
            if managed:
                made.enable_managed_versions()
        return made

    def prepared(self, verb: str, *, managed: bool) -> Work:
        number = next(self._numbers)
        catalog = self.catalog(managed=managed)
        work = Work(catalog, verb, f"t{number}", f"u{number}", self.home / f"in{number}")
        rows = pa.table({"id": pa.array(range(110), pa.int64())})
        created(catalog, ["db", work.table], rows)
        work.files.mkdir()
        if verb == "ingest":
            table = pa.table({"id": pa.array(NEW, pa.int64())})
            pa.parquet.write_table(table, work.files / "a.parquet", row_group_size=10)
        elif verb == "stream":
            for half in (NEW[:10], NEW[10:]):
                text = "".join(json.dumps({"id": one}) + "\n" for one in half)
                (work.files / f"{half[0]}.json").write_text(text)
        return work

    def disturbed(self, case: Case, *, managed: bool) -> None:
        """Do a piece of work with a kill in it, again where the driver or its commit was hit."""
        work = self.prepared(case.verb, managed=managed)
        try:
            self._disturb(case, work)
        except BaseException:
            # Its next answer would be that of this work.
            self._end_driver()
            raise
        finally:
            self.cluster.orders.withdraw()
        work.verify()

    def _disturb(self, case: Case, work: Work) -> None:
        orders = self.cluster.orders
        orders.give(case.point)
        self.driver.tell(**work.asked)
        stopped = orders.taken(case.point)
        in_task = executor_of(stopped) is not None
        if case.victim == "slow":
            assert in_task
            answer = self.driver.answer()  # While it still sleeps.
        elif case.victim == "driver":
            self._end_driver()
            send(stopped, signal.SIGCONT)
            answer = self.driver.ask(**work.asked)
        else:
            itself = stopped if stopped != self.driver.pid else None
            victim = self._victim(case.victim, stopped if in_task else None, itself)
            assert state(victim) not in ("", "Z")
            send(victim, signal.SIGKILL)
            send(stopped, signal.SIGCONT)
            answer = self.driver.answer()
            assert wait_until(lambda: state(victim) in ("", "Z"), PATIENCE)
            if victim == stopped and not in_task:
                # Spark runs the end of a write once.
                assert failed(answer)
                answer = self.driver.ask(**work.asked)
        self.kills[case.victim] += 1
        assert not failed(answer), answer

    def _victim(self, kind: str, task: int | None, itself: int | None) -> int:
        if kind == "executor":
            found = None if task is None else executor_of(task)
            return found or self.cluster.executors()[0]
        return task or itself or self.cluster.pythons()[0]

    def _end_driver(self) -> None:
        if self._driver is not None:
            self._driver.kill()
            self._driver.close()
        self._driver = None
        # Who is found from now on belongs to the next.
        assert wait_until(lambda: not self.cluster.executors(), PATIENCE)

    def ends(self) -> Counter[tuple[str, bool]]:
        """How tasks ended, by what Spark wrote down, and whether they were copies."""
        found: Counter[tuple[str, bool]] = Counter()
        for path in (self.home / "events").glob("app-*"):
            for line in path.read_text(errors="replace").splitlines():
                if '"SparkListenerTaskEnd"' not in line or not line.endswith("}"):
                    continue
                event = json.loads(line)
                copy = bool(event["Task Info"]["Speculative"])
                found[event["Task End Reason"]["Reason"], copy] += 1
        return found


@dataclass
class Work:
    """One write to a table of its own."""

    catalog: DirectoryNamespace
    verb: str
    table: str
    new: str
    files: Path

    @property
    def asked(self) -> dict[str, Any]:
        return {
            "do": self.verb,
            "root": self.catalog.context.settings.root,
            "job": f"job-{self.table}",
            "table": self.table,
            "new": self.new,
            "files": str(self.files),
            "checkpoint": f"{self.files}-checkpoint",
        }

    def verify(self) -> None:
        name = ["db", self.table]
        assert column(self.catalog, name, "id") == EXPECTED.get(self.verb, BOTH)
        assert opened(self.catalog, name).version == 2
        if self.verb == "ingest":
            # What there was, and what each of two tasks wrote.
            assert len(opened(self.catalog, name).get_fragments()) == 3
        if self.verb == "publish":
            assert column(self.catalog, ["db", self.new], "id") == NEW
            assert opened(self.catalog, ["db", self.new]).version == 1
            mended(self.catalog)
            assert strays(self.catalog, ["db", self.new]) == set()
        mended(self.catalog)
        assert strays(self.catalog, name) == set()


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    home = tmp_path_factory.mktemp("cluster")
    with Cluster(home / "orders") as cluster:
        made = Arena(cluster, home)
        try:
            yield made
        finally:
            made.close()


def failed(answer: Any) -> bool:
    return isinstance(answer, dict) and "error" in answer


#: What `make integration` has time for: each victim, each kind of stage.
SOME = (
    Case("append", "job.task_written", "worker"),
    Case("direct", "job.staged", "worker"),
    Case("append", "job.task_written", "slow"),
    Case("merge", "job.deletions_written", "executor"),
    Case("publish", "job.landed", "driver"),
)
_OFTEN = ("append", "publish")
#: Starting a driver costs more than all the rest.
_SELDOM = ("job.task_told", "job.deletions_written", "job.finalized", "job.landed")
ALL = [
    Case(verb, point, victim)
    for victim in ("worker", "executor", "slow", "driver")
    for verb, points in STAGES.items()
    for point in points
    if victim != "slow" or point in TASKS
    if victim != "driver" or verb in _OFTEN or point in _SELDOM
    if victim != "slow" or verb != "ingest" or point in TASKS
]


def test_every_verb_and_a_kill_of_everybody(arena: Arena) -> None:
    """One test, so that there is one cluster."""
    for number, verb in enumerate(sorted(set(STAGES) - {case.verb for case in SOME})):
        work = arena.prepared(verb, managed=number % 2 == 1)
        answer = arena.driver.ask(**work.asked)
        assert not failed(answer), answer
        work.verify()
    assert arena.driver.ask(**{**work.asked, "do": "read"}) == BOTH
    for number, case in enumerate(SOME):
        arena.disturbed(case, managed=case.verb == "publish" or number % 2 == 1)
    seen = arena.ends()
    print(f"killed {dict(arena.kills)}; tasks ended {dict(seen)}")
    assert arena.kills == {"worker": 2, "executor": 1, "slow": 1, "driver": 1}
    assert seen["ExceptionFailure", False] > 0 and seen["ExecutorLostFailure", False] > 0
    assert seen["Success", True] > 0, "no speculative copy ran to its end"


@pytest.mark.soak
@pytest.mark.parametrize(("number", "case"), list(enumerate(ALL)), ids=lambda one: str(one))
def test_a_kill_at_every_stage(arena: Arena, number: int, case: Case) -> None:
    arena.disturbed(case, managed=case.verb == "publish" or number % 2 == 1)
    print(f"killed {dict(arena.kills)}; tasks ended {dict(arena.ends())}")
