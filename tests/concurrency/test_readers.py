"""S10: who holds a table open goes on reading through drop, undrop and drop, until the purge.

Readers in processes of their own scan in a loop, some by one handle that they keep, some opening
the place again each time. They note in which phase of the table's life each scan was.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import pytest

from tests.concurrency.batches import until
from tests.concurrency.purging import KINDS, Arena
from tests.concurrency.racing import PATIENCE, ipc
from tests.concurrency.test_purge_race import Bucket, bucket
from tests.concurrency.victims import Victim

__all__ = ["bucket"]

NAME = "t"
ROWS = list(range(2000))
READERS = 2
#: Scans of each reader in each phase before the next one begins.
SCANS = {False: 5, True: 200}
BEFORE = ("live", "dropping", "dropped", "undropping", "back", "dropping again", "dropped again")


def scan(number: int, location: str, options: dict[str, str], folder: str) -> Any:
    """Read until the end; scans by phase, and what went wrong: (phase, text)."""
    counts: Counter[str] = Counter()
    wrong: list[tuple[str, str]] = []
    held = lance.dataset(location, storage_options=options or None)
    end = time.monotonic() + PATIENCE
    while (phase := _phase(folder)) != "over" and time.monotonic() < end:
        try:
            dataset = held if number % 2 else lance.dataset(location, storage_options=options)
            rows = sorted(dataset.to_table()["g"].to_pylist())
        except (OSError, ValueError, RuntimeError) as error:
            # By the phase it ended in: a purge that began meanwhile may take the files away.
            wrong.append((_phase(folder), f"{type(error).__name__}: {error}"[:200]))
            _put(folder, f"failed{number}", "noted")
            continue
        if rows != ROWS:
            wrong.append((_phase(folder), f"{len(rows)} rows"))
        counts[phase] += 1
        _put(folder, f"count{number}", f"{phase} {counts[phase]}")
    return dict(counts), wrong


def _phase(folder: str) -> str:
    return Path(folder, "phase").read_text(encoding="utf-8")


def _put(folder: str, name: str, text: str) -> None:
    Path(folder, f"{name}.new").write_text(text, encoding="utf-8")
    os.replace(f"{folder}/{name}.new", f"{folder}/{name}")


@pytest.fixture(scope="module")
def readers() -> Iterator[list[Victim]]:
    made = [Victim() for _ in range(READERS)]
    yield made
    for reader in made:
        reader.end()


def live(
    arena: Arena, readers: list[Victim], folder: Path, scans: int, *, early: bool = False
) -> tuple[Counter[str], list[tuple[str, str]]]:
    """Lead a table through its life; ``early`` plants a bug: the first drop deletes."""
    ns = arena.open()
    arena.make(ns, NAME, drop=False)
    ns.insert_into_table({"id": [NAME], "mode": "overwrite"}, ipc(ROWS))
    location = str(ns.describe_table({"id": [NAME]}).location)
    _put(str(folder), "phase", "live")

    def in_phase(phase: str, run: Callable[[], Any] | None = None) -> None:
        _put(str(folder), "phase", phase)
        if run is not None:
            run()
        else:
            until(lambda: all(_has(folder, n, phase, scans) for n in range(READERS)), phase)

    def drop() -> None:
        ns.drop_table({"id": [NAME]}, ttl=0, purge=early)

    for number, reader in enumerate(readers):
        reader.send(scan, number, location, dict(arena.storage), str(folder))
    in_phase("live")
    in_phase("dropping", drop)
    if not early:
        in_phase("dropped")
        in_phase("undropping", lambda: ns.undrop_table([NAME]))
        in_phase("back")
        in_phase("dropping again", drop)
        in_phase("dropped again")
        in_phase("purging", lambda: ns.purge_table([NAME]))
    else:
        until(lambda: any(folder.glob("failed?")), "no reader noticed")
    in_phase("over", lambda: None)
    answers = [reader.answer() for reader in readers]
    counts: Counter[str] = Counter()
    for one, _ in answers:
        counts.update(one)
    return counts, [line for _, wrong in answers for line in wrong]


def _has(folder: Path, number: int, phase: str, scans: int) -> bool:
    try:
        said, _, count = (folder / f"count{number}").read_text("utf-8").rpartition(" ")
    except FileNotFoundError:
        return False
    return said == phase and int(count) >= scans


def hold(arena: Arena, readers: list[Victim], folder: Path, full: bool) -> None:
    began = time.monotonic()
    counts, wrong = live(arena, readers, folder, SCANS[full])
    seconds = time.monotonic() - began
    print(f"{arena.kind}: {dict(counts)} scans, {len(wrong)} failed in the end, {seconds:.1f} s")
    assert [line for line in wrong if line[0] in BEFORE] == []
    for phase in ("live", "dropped", "back", "dropped again"):
        assert counts[phase] >= READERS * SCANS[full]


@pytest.mark.parametrize("kind", KINDS)
def test_readers_go_on_until_the_purge(
    readers: list[Victim], tmp_path: Path, full: bool, kind: str
) -> None:
    hold(Arena(str(tmp_path / "root"), kind), readers, tmp_path, full)


@pytest.mark.integration
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_on_an_s3_server(
    readers: list[Victim], bucket: Bucket, tmp_path: Path, full: bool, kind: str
) -> None:
    hold(Arena(bucket[0], kind, bucket[1]), readers, tmp_path, full)


@pytest.mark.parametrize("kind", KINDS)
def test_a_drop_that_deletes_is_noticed(readers: list[Victim], tmp_path: Path, kind: str) -> None:
    """The planted bug: a drop that does not keep the data."""
    arena = Arena(str(tmp_path / "root"), kind)
    _, wrong = live(arena, readers, tmp_path, SCANS[False], early=True)
    print(wrong[:2])
    assert [line for line in wrong if line[0] in BEFORE]
