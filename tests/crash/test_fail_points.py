"""A crash, or an error, at every step of every commit protocol.

The points are enumerated from the source, so a new step that no scenario here reaches is red.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest

from lance_catalog import failpoints
from lance_catalog.config import Mode
from lance_catalog.directory import first_version, migration, places, settling, tables
from lance_catalog.failpoints import POINTS
from lance_catalog.lifecycle import markers, purge
from lance_catalog.maintenance.check import check
from lance_catalog.manifest import log as manifest_log
from lance_catalog.manifest import own_version, retention, writing
from tests.concurrency.racing import PATIENCE, ipc
from tests.crash.scenarios import SCENARIOS, Scenario, Seen, code_of, seen
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
            for module in _WITH_POINTS:
                patch.setattr(module, "hit", count)
            scenario.run(ns)
        found[name] = list(counts.items())
    return found


_WITH_POINTS = (
    first_version,
    manifest_log,
    markers,
    migration,
    own_version,
    places,
    purge,
    retention,
    settling,
    tables,
    writing,
)


def test_every_module_with_a_point_is_counted() -> None:
    base = Path(failpoints.__file__).parent
    named = {
        ".".join(("lance_catalog", *path.relative_to(base).with_suffix("").parts))
        for path in base.rglob("*.py")
        if "from lance_catalog.failpoints import hit" in path.read_text()
    }
    assert named == {module.__name__ for module in _WITH_POINTS}


def test_every_point_is_reached(reached: dict[str, list[tuple[str, int]]]) -> None:
    known = {point for points in reached.values() for point, _ in points}
    assert known == POINTS, POINTS - known


@cache
def _outcome(name: str, folder: str) -> tuple[Seen, Seen]:
    """What readers see before and after a scenario that nothing disturbs."""
    scenario = SCENARIOS[name]
    ns = scenario.open(f"{folder}/undisturbed-{name}")
    scenario.prepare(ns)
    before = seen(ns)
    scenario.run(ns)
    return before, seen(ns)


def _cases(
    reached: dict[str, list[tuple[str, int]]], mode: Mode, *, everything: bool
) -> list[Case]:
    """(scenario, point, which time) to crash at; each point of the mode once, or every one."""
    chosen: list[Case] = []
    done: set[tuple[str, int]] = set()
    for name, points in reached.items():
        if SCENARIOS[name].mode is not mode:
            continue
        for point, count in points:
            for time in range(1, count + 1):
                batch = name.endswith("-batch")  # What one version holds for several callers.
                if everything or batch or (point, 0 if time == 1 else time) not in done:
                    done.add((point, 0 if time == 1 else time))
                    chosen.append((name, point, time))
    return chosen


def _crash(root: str, scenario: Scenario, point: str, time: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.crash.scenarios", root, scenario.name],
        env={**os.environ, "LANCE_CATALOG_FAILPOINTS": f"{point}=kill@{time}"},
        cwd=Path(__file__).parents[2],
        timeout=PATIENCE,
        capture_output=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, (scenario.name, point, done.stderr.decode())


def _half_made(scenario: Scenario, before: Seen) -> list[Seen]:
    """A creation by directory that a crash stopped reads as a declared table until a repair."""
    if scenario.mode not in BY_DIRECTORY or ".create" not in scenario.name.replace("-", "."):
        return []
    return [(before[0], tuple(sorted({*before[1], ("t", None)}, key=lambda one: one[0])))]


def _look(scenario: Scenario, root: str, case: Case, outcome: tuple[Seen, Seen]) -> list[str]:
    """After a crash: before or after, others go on, a repair leaves nothing to find."""
    wrong: list[str] = []
    before, after = outcome
    ns = scenario.open(root)
    now = seen(ns)
    if now not in [before, after, *_half_made(scenario, before)]:
        wrong.append(f"{case}: read {now}, neither {before} nor {after}")
    ns.create_table({"id": ["went on"]}, ipc([1]))
    ns.insert_into_table({"id": ["went on"]}, ipc([2]))
    ns.drop_table({"id": ["went on"]})
    if seen(ns) != now:
        wrong.append(f"{case}: others changed it to {seen(ns)} from {now}")
    mend(ns)
    mended = seen(scenario.open(root))
    if mended not in (before, after) or (now == after and mended != after):
        wrong.append(f"{case}: mended to {mended}, from {now}")
    again = code_of(scenario.run, ns)
    if mended == before != after and (again is not None or seen(ns) != after):
        # What a repair keeps as deregistered is not in the way, but the way back is register.
        wrong.append(f"{case}: run again it answered {again} and left {seen(ns)}")
    return wrong


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("size", ["ci", pytest.param("soak", marks=pytest.mark.soak)])
def test_a_crash_at_every_point(
    reached: dict[str, list[tuple[str, int]]], tmp_path: Path, mode: Mode, size: str
) -> None:
    cases = _cases(reached, mode, everything=size == "soak")
    print(f"{mode.value}: {len(cases)} crashes")

    def crashed(case: Case) -> str:
        name, point, time = case
        root = str(tmp_path / f"{name}-{point}-{time}" / "root")
        SCENARIOS[name].prepare(SCENARIOS[name].open(root))
        _crash(root, SCENARIOS[name], point, time)
        return root

    wrong: list[str] = []
    # Starting Python is most of the time; what comes after runs here, one by one.
    with ThreadPoolExecutor(2) as pool:
        for case, root in zip(cases, pool.map(crashed, cases), strict=True):
            wrong += _look(SCENARIOS[case[0]], root, case, _outcome(case[0], str(tmp_path)))
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
    before, after = _outcome(name, str(tmp_path))
    for point, _ in reached[name]:
        root = str(tmp_path / point / "root")
        ns = scenario.open(root)
        scenario.prepare(ns)
        tree = _tree(root)
        monkeypatch.setattr(failpoints, "_plan", {point: ("raise", 1)})
        monkeypatch.setattr(failpoints, "_hits", {})
        code = code_of(scenario.run, ns)
        monkeypatch.setattr(failpoints, "_plan", {})
        now = seen(scenario.open(root))
        if point in BEFORE_THE_COMMIT:
            assert code in (17, 18), (point, code)
            assert now == before, point
            left = _tree(root)
            changed = {path for path in left if left.get(path) != tree.get(path)}
            gone = tree.keys() - left.keys()
            if name.endswith("refused"):
                changed = {path for path in changed if not path.startswith("__manifest")}
                gone = set()
            assert (changed, gone) == (set(), set()), (name, point)
        else:
            assert code in (None, 14, 17, 18), (point, code)
            assert now in (before, after), (point, now)
            assert code is not None or now == after, (point, now)
        mend(ns)
        assert seen(ns) in (before, after), point
        assert check(ns.context, grace_seconds=0).problems == []
