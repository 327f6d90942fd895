"""Processes append to managed tables and die: every acknowledged row is there exactly once."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from lance_catalog.config import Mode
from tests.concurrency.appending import Crew, Job, Said, append_until_stopped
from tests.concurrency.batches import until
from tests.concurrency.managed import disagreements, managed_catalog, staged_files
from tests.concurrency.racing import PATIENCE, Racers, open_catalog
from tests.concurrency.victims import Victim
from tests.crash.test_kill import mend

TABLES = ("a", "b", "c", "d")


class Size(NamedTuple):
    processes: int
    kills: int
    #: Seconds; None: until so many appends were acknowledged.
    seconds: float | None
    appends: int
    #: Fewer kills in the middle of an append, or fewer refused commits, would prove little.
    in_flight: int
    refused: int


SIZES = {False: Size(3, 3, None, 60, 1, 1), True: Size(8, 40, 60.0, 400, 20, 100)}


def run(crew: Crew, size: Size, chance: random.Random) -> Said:
    """Kill now and then, replace who was killed, and stop in the end."""
    crew.begin(size.processes)
    began = time.monotonic()
    for number in range(size.kills):
        until(lambda: len(crew.ready()) > 0, "nobody works")
        victim = chance.choice(crew.ready())
        lines = crew.lines(victim)
        until(lambda: crew.lines(victim) > lines, "no progress")  # noqa: B023 (called at once)
        # In the middle of something, most likely: an append takes a few milliseconds.
        pause = 0.0 if size.seconds is None else size.seconds * (number + 1) / size.kills
        crew.members[victim]._process.join(
            max(chance.uniform(0, 0.01), began + pause - time.monotonic())
        )
        crew.kill(victim)
        crew.hire()
    while time.monotonic() < began + (size.seconds or 0.0) or len(crew.said().done) < size.appends:
        assert time.monotonic() < began + PATIENCE, "no progress"
        next(iter(crew.members.values()))._process.join(0.05)
    return crew.stop()


@pytest.mark.parametrize("mode", [Mode.V2, pytest.param(Mode.COMPAT, marks=pytest.mark.soak)])
def test_appends_and_kills(idle: list[Victim], tmp_path: Path, full: bool, mode: Mode) -> None:
    size, root = SIZES[full], str(tmp_path / "root")
    seed = random.randrange(1 << 20) if full else 5
    managed_catalog(root, mode, TABLES)
    crew = Crew(idle, lambda n: Job(root, mode, n + 1, str(tmp_path), TABLES, seed=seed))
    began = time.monotonic()
    try:
        said = run(crew, size, random.Random(seed))
    finally:
        crew.end()
    print(
        f"seed {seed}, {mode.value}: {len(said.done)} acknowledged, {size.kills} kills of which "
        f"{said.in_flight} in an append, {said.refused} refused, failed {dict(said.failed)}, "
        f"{time.monotonic() - began:.1f} s"
    )
    ns = open_catalog(root, mode)
    wrong = said.violations(ns, TABLES)
    assert not wrong, "\n".join(wrong[:20])
    left = len(staged_files(root))
    print(f"{left} staged files, mended {dict(mend(ns))}")
    assert (disagreements(root, ns), staged_files(root)) == ([], [])
    assert said.violations(ns, TABLES) == []
    assert said.in_flight >= size.in_flight
    assert said.refused >= size.refused


def append_some(number: int, barrier: Any, root: str, folder: str, bug: str) -> None:
    barrier.wait(PATIENCE)
    append_until_stopped(Job(root, Mode.V2, number + 1, folder, TABLES[:1], bug=bug, limit=20))


def test_a_planted_bug_is_noticed(racers: Racers, tmp_path: Path) -> None:
    """Nobody decides which manifest is the next version: what was acknowledged is lost."""
    root = str(tmp_path / "root")
    managed_catalog(root, Mode.V2, TABLES[:1])
    (tmp_path / "go").touch()
    racers.race(append_some, root, str(tmp_path), "overwriting", count=2)
    said = Said.of(map(str, tmp_path.glob("log*")))
    try:
        wrong = said.violations(open_catalog(root, Mode.V2), TABLES[:1])
    except (OSError, ValueError) as error:
        wrong = [f"it broke a reader: {error}"]
    print(wrong[:3])
    assert wrong
