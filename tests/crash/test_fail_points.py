"""A crash, or an error, at every step of every commit protocol.

The points are enumerated from the source, so a new step that no scenario here reaches is red.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from lance_catalog import failpoints
from lance_catalog.config import Mode
from lance_catalog.directory import (
    first_version,
    job_creation,
    job_search,
    jobs,
    migration,
    places,
    reviving,
    settling,
    tables,
    trashing,
    undropping,
)
from lance_catalog.directory.managed import batch, cleanup, commit, deletion, switch, target
from lance_catalog.failpoints import POINTS
from lance_catalog.lifecycle import deleting, markers, purge, removal
from lance_catalog.maintenance.check import check
from lance_catalog.manifest import log as manifest_log
from lance_catalog.manifest import own_version, retention, writing
from tests.concurrency.racing import ipc
from tests.crash.nursery import Nursery
from tests.crash.scenarios import SCENARIOS, Scenario, Seen, code_of, later, seen
from tests.crash.test_kill import mend

#: A failure up to here leaves the catalog, and the disk, as they were (invariant 2).
BEFORE_THE_COMMIT = frozenset(
    {
        "manifest.data_written",
        "manifest.staged",
        "table.reserved",
        "table.data_written",
        "table.version_staged",
    }
)
#: Whose last commit is worth a crash of its own in `make test`.
TELLING = ("drop namespace", "undrop", "undrop directory as another", "purge", "revive")
#: In these the first file of a directory makes a table of it (C02), which reads as declared.
BY_DIRECTORY = (Mode.V1, Mode.COMPAT)

Case = tuple[str, str, int]


@pytest.fixture(scope="module")
def reached(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[str, int]]]:
    """(point, how many times) of each scenario, found by running it once."""
    found: dict[str, list[tuple[str, int]]] = {}
    for name, scenario in SCENARIOS.items():
        root = str(tmp_path_factory.mktemp("reach") / "root")
        ns = scenario.open(root)
        scenario.prepare(ns)
        counts: dict[str, int] = {}

        def count(point: str, counts: dict[str, int] = counts) -> None:
            counts[point] = counts.get(point, 0) + 1

        with pytest.MonkeyPatch.context() as patch:
            for module in WITH_POINTS:
                patch.setattr(module, "hit", count)
            scenario.run(ns)
        found[name] = list(counts.items())
    return found


WITH_POINTS = (
    job_creation,
    job_search,
    jobs,
    batch,
    cleanup,
    commit,
    deleting,
    deletion,
    first_version,
    manifest_log,
    markers,
    migration,
    own_version,
    places,
    purge,
    removal,
    retention,
    reviving,
    settling,
    switch,
    tables,
    target,
    trashing,
    undropping,
    writing,
)


def test_every_module_with_a_point_is_counted() -> None:
    base = Path(failpoints.__file__).parent
    named = {
        ".".join(("lance_catalog", *path.relative_to(base).with_suffix("").parts))
        for path in base.rglob("*.py")
        if "from lance_catalog.failpoints import hit" in path.read_text()
    }
    assert named == {module.__name__ for module in WITH_POINTS}


def test_every_point_is_reached(reached: dict[str, list[tuple[str, int]]]) -> None:
    known = {point for points in reached.values() for point, _ in points}
    # Those of managed versions have scenarios of their own: test_managed_points.
    wanted = {point for point in POINTS if not point.startswith(("version.", "job."))}
    assert known == wanted, wanted - known


@dataclass(frozen=True)
class Outcome:
    """What readers see of a scenario that nothing disturbs, and what a crash may leave besides."""

    before: Seen
    after: Seen
    between: tuple[Seen, ...] = ()


@cache
def _outcome(name: str, folder: str) -> Outcome:
    scenario = SCENARIOS[name]
    root = f"{folder}/undisturbed-{name}"
    scenario.prepare(scenario.open(root))
    before = seen(scenario, root)
    between: tuple[Seen, ...] = ()
    if scenario.between is not None:
        with later(scenario, root) as copy:
            scenario.between(copy)
            between = (seen(scenario, f"{root}-later"),)
    scenario.run(scenario.open(root))
    return Outcome(before, seen(scenario, root), between)


def _cases(
    reached: dict[str, list[tuple[str, int]]], mode: Mode, *, everything: bool
) -> list[Case]:
    """(scenario, point, which time) to crash at: every one, or few of each mode.

    Few: each point once, and once where it is passed again. Besides, what one version holds for
    several callers, and the commit itself of what begins or ends a drop.
    """
    chosen: list[Case] = []
    done: set[tuple[str, int]] = set()
    for name, points in reached.items():
        scenario = SCENARIOS[name]
        if scenario.mode is not mode:
            continue
        for point, count in points:
            for time in range(1, count + 1):
                telling = name.endswith("-batch") or (
                    name.partition("-")[2] in TELLING
                    and point == "manifest.finalized"
                    and time == count
                )
                if everything or telling or (time < 3 and (point, time) not in done):
                    done.add((point, time))
                    chosen.append((name, point, time))
    return chosen


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    made = Nursery("tests.crash.scenarios")
    yield made
    made.close()


def _crash(nursery: Nursery, root: str, scenario: Scenario, point: str, time: int) -> None:
    done = nursery.run(f"{point}=kill@{time}", root, scenario.name)
    assert done.code == -signal.SIGKILL, (scenario.name, point, done)


def _half_made(scenario: Scenario, before: Seen) -> list[Seen]:
    """A creation by directory that a crash stopped reads as a declared table until a repair."""
    if scenario.mode not in BY_DIRECTORY or "-create" not in scenario.name:
        return []
    tables = sorted({*before.tables, ("t", None, ())}, key=lambda one: one[0])
    return [before._replace(tables=tuple(tables))]


def _look(scenario: Scenario, root: str, case: Case, outcome: Outcome) -> list[str]:
    """After a crash: before or after, others go on, a repair leaves nothing to find."""
    wrong: list[str] = []
    before, after = outcome.before, outcome.after
    now = seen(scenario, root)
    known = [before, after, *outcome.between]
    half = [one for state in (before, *outcome.between) for one in _half_made(scenario, state)]
    if now not in [*known, *half]:
        wrong.append(f"{case}: read {now}, neither {before} nor {after}")
    wrong += _run_again(scenario, root, case, now, outcome)
    ns = scenario.open(root)
    ns.create_table({"id": ["went on"]}, ipc([1]))
    ns.insert_into_table({"id": ["went on"]}, ipc([2]))
    ns.drop_table({"id": ["went on"]}, purge=True)
    if seen(scenario, root) != now:
        wrong.append(f"{case}: others changed it to {seen(scenario, root)} from {now}")
    mend(ns)
    mended = seen(scenario, root)
    if mended not in (before, after, *outcome.between) or (now == after and mended != after):
        wrong.append(f"{case}: mended to {mended}, from {now}")
    again = code_of(scenario.run, ns)
    if mended != after and (again is not None or seen(scenario, root) != after):
        # What a repair keeps as deregistered is not in the way, but the way back is register.
        wrong.append(f"{case}: run again it answered {again} and left {seen(scenario, root)}")
    return wrong


def _run_again(scenario: Scenario, root: str, case: Case, now: Seen, outcome: Outcome) -> list[str]:
    """Undo needs no repair: once the lease has passed, the operation can just be run again."""
    if not scenario.again:
        return []
    with later(scenario, root) as ns:
        code = code_of(scenario.run, ns)
        found = seen(scenario, f"{root}-later")
    # Done already, or being deleted: then there is nothing to drop, undrop or purge any more.
    done = now == outcome.after and code in (1, 4, 5, 19)
    if (code is None or done) and found == outcome.after:
        return []
    return [f"{case}: run again without a repair it answered {code} and left {found}"]


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("size", ["ci", pytest.param("soak", marks=pytest.mark.soak)])
def test_a_crash_at_every_point(
    nursery: Nursery,
    reached: dict[str, list[tuple[str, int]]],
    tmp_path: Path,
    mode: Mode,
    size: str,
) -> None:
    cases = _cases(reached, mode, everything=size == "soak")
    print(f"{mode.value}: {len(cases)} crashes")

    wrong: list[str] = []
    for name, point, time in cases:
        scenario, root = SCENARIOS[name], str(tmp_path / f"{name}-{point}-{time}" / "root")
        scenario.prepare(scenario.open(root))
        _crash(nursery, root, scenario, point, time)
        wrong += _look(scenario, root, (name, point, time), _outcome(name, str(tmp_path)))
        shutil.rmtree(root)
    assert not wrong, "\n".join(wrong)


def _tree(root: str) -> dict[str, bytes]:
    """Every file and folder."""
    found: dict[str, bytes] = {}
    for folder, _, files in os.walk(root):
        if folder != root and os.path.basename(folder) != "__claims":
            found[os.path.relpath(folder, root)] = b""
        for name in files:
            path = os.path.join(folder, name)
            found[os.path.relpath(path, root)] = Path(path).read_bytes()
    return found


@pytest.mark.parametrize("name", list(SCENARIOS))
def test_an_error_at_every_point(
    reached: dict[str, list[tuple[str, int]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    scenario = SCENARIOS[name]
    outcome = _outcome(name, str(tmp_path))
    before, after = outcome.before, outcome.after
    for point, _ in reached[name]:
        root = str(tmp_path / point / "root")
        ns = scenario.open(root)
        scenario.prepare(ns)
        tree = _tree(root)
        monkeypatch.setattr(failpoints, "_plan", {point: ("raise", 1)})
        monkeypatch.setattr(failpoints, "_hits", {})
        code = code_of(scenario.run, ns)
        monkeypatch.setattr(failpoints, "_plan", {})
        now = seen(scenario, root)
        if point in BEFORE_THE_COMMIT:
            assert code in (17, 18), (point, code)
            assert now in (before, *outcome.between), point
            left = _tree(root) if now == before else tree  # What made way is gone.
            changed = {path for path in left if left.get(path) != tree.get(path)}
            gone = tree.keys() - left.keys()
            if "revive" in name:
                # What landed on the dropped table is undone by a version on top of it.
                changed = {path for path in changed if not path.startswith("t.lance/")}
            if name.endswith("migrate hidden"):
                # Hidden for all readers already; a migration that is run again goes on from there.
                changed -= {"hid.deleted"}
            if "-migrate" in name:
                # Step by step: what was hidden before stays done.
                changed = {path for path in changed if not path.endswith(".deleted")}
            if name.endswith("refused"):
                changed = {path for path in changed if not path.startswith("__manifest")}
                gone = set()
            assert (changed, gone) == (set(), set()), (name, point)
        else:
            assert code in (None, 14, 17, 18), (point, code)
            assert now in (before, after, *outcome.between), (point, now)
            assert code is not None or now == after, (point, now)
        mend(ns)
        assert seen(scenario, root) in (before, after, *outcome.between), point
        assert check(ns.context, grace_seconds=-3600).problems == []
