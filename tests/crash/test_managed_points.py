"""A crash, or an error, at every step of committing, deleting and switching managed versions.

Each time: readers see all of it or nothing, with and without the catalog; a process that slept
meanwhile goes on; a repair leaves nothing to find; and it can be run again.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from lance_catalog import failpoints
from lance_catalog.config import Mode
from lance_catalog.failpoints import POINTS
from tests.concurrency.racing import open_catalog
from tests.crash.managed import SCENARIOS, seen
from tests.crash.managed_looks import copied, examine, outcome_of
from tests.crash.nursery import Nursery
from tests.crash.test_fail_points import WITH_POINTS

MODES = (Mode.V2, Mode.COMPAT)
#: An error up to here leaves what readers see as it was.
BEFORE_THE_COMMIT = frozenset({"version.staged", "manifest.data_written", "manifest.staged"})

#: Scenario, point, which time it is passed.
Case = tuple[str, str, int]
Reached = dict[str, list[tuple[str, int]]]


@pytest.fixture(scope="module")
def reached(tmp_path_factory: pytest.TempPathFactory) -> Reached:
    """(point, how many times) of each scenario, found by running it once."""
    found: Reached = {}
    for name, scenario in SCENARIOS.items():
        ns = open_catalog(str(tmp_path_factory.mktemp("reach") / "root"), Mode.V2)
        scenario.prepare(ns)
        counts: dict[str, int] = {}

        def hit(point: str, counts: dict[str, int] = counts) -> None:
            counts[point] = counts.get(point, 0) + 1

        with pytest.MonkeyPatch.context() as patch:
            for module in WITH_POINTS:
                patch.setattr(module, "hit", hit)
            scenario.run(ns)
        found[name] = list(counts.items())
    return found


def test_every_point_is_reached(reached: Reached) -> None:
    known = {point for points in reached.values() for point, _ in points}
    assert {point for point in POINTS if point.startswith("version.")} <= known


def cases(
    reached: Reached, whole: Mode | None, *, telling: tuple[str, ...] = ()
) -> list[tuple[Case, Mode]]:
    """What to disturb in which mode: everything in one of them, or few by turns.

    Few: each step of versions where it is passed first, and the telling ones in each scenario.
    """
    every = [
        (name, point, time)
        for name, points in reached.items()
        for point, times in points
        for time in range(1, times + 1)
    ]
    if whole is not None:
        return [(case, whole) for case in every]
    first = {point: case for case in reversed(every) if (point := case[1]).startswith("version.")}
    few = [case for case in every if case == first.get(case[1]) or case[1:] in _once(telling)]
    return [(case, MODES[number % 2]) for number, case in enumerate(few)]


def _once(points: tuple[str, ...]) -> list[tuple[str, int]]:
    return [(point, 1) for point in points]


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    made = Nursery("tests.crash.managed")
    yield made
    made.close()


def _crash(nursery: Nursery, root: str, name: str, mode: Mode, point: str, time: int) -> None:
    done = nursery.run(f"{point}=kill@{time}", root, name, mode.value)
    assert done.code == -signal.SIGKILL, (name, point, done)


@pytest.mark.parametrize("whole", [None, *(pytest.param(m, marks=pytest.mark.soak) for m in MODES)])
def test_a_crash_at_every_point(
    nursery: Nursery, reached: Reached, tmp_path: Path, whole: Mode | None
) -> None:
    todo = cases(reached, whole)
    print(f"{len(todo)} crashes")
    wrong: list[str] = []
    for case, mode in todo:
        name, point, time = case
        root = str(tmp_path / f"{name}-{point}-{time}-{mode.value}")
        asleep = open_catalog(root, mode)
        SCENARIOS[name].prepare(asleep)
        _crash(nursery, root, name, mode, point, time)
        try:
            examine(root, asleep, name, mode, outcome_of(name, mode, str(tmp_path)))
        except Exception as error:
            wrong.append(f"{mode.value} {case}: {error}"[:800])
        shutil.rmtree(root)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("whole", [None, *(pytest.param(m, marks=pytest.mark.soak) for m in MODES)])
def test_an_error_at_every_point(
    reached: Reached, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: Mode | None
) -> None:
    wrong: list[str] = []
    for case, mode in cases(reached, whole, telling=("version.row_written",)):
        name, point, time = case
        root = str(tmp_path / f"{name}-{point}-{time}-{mode.value}")
        ns = open_catalog(root, mode)
        SCENARIOS[name].prepare(ns)
        monkeypatch.setattr(failpoints, "_plan", {point: ("raise", time)})
        monkeypatch.setattr(failpoints, "_hits", {})
        failed = None
        try:
            SCENARIOS[name].run(ns)
        except Exception as error:  # Lance makes errors of its own of ours.
            failed = error
        monkeypatch.setattr(failpoints, "_plan", {})
        outcome = outcome_of(name, mode, str(tmp_path))
        try:
            with copied(root, mode) as (_, fresh):
                now = seen(fresh)
            assert failed is not None or now == outcome.after, f"acknowledged: {now}"
            assert now == outcome.before or point not in BEFORE_THE_COMMIT, f"refused: {now}"
            examine(root, ns, name, mode, outcome)
        except Exception as error:
            wrong.append(f"{mode.value} {case} after {failed!r}: {error}"[:800])
        shutil.rmtree(root)
    assert not wrong, "\n".join(wrong)
