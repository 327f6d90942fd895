"""Several managed tables changed by one commit: all or nothing, whoever comes in between.

And readers: what is resolved from one snapshot is of one moment; without one, whoever has seen the
new version of the first table never afterwards sees the old one of another.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from lance_catalog.config import Mode
from tests.concurrency.managed import disagreements, managed_catalog, read
from tests.concurrency.racing import PATIENCE, open_catalog
from tests.concurrency.together import OTHERS, TABLES, Read, Round, read_rounds, write_rounds
from tests.concurrency.victims import Victim
from tests.crash.test_kill import mend

#: Every conflict in every window comes up within 28, every way to change tables within 84.
ROUNDS = {False: 42, True: 1000}
#: How often each reader must have looked, and how many different states it must have seen.
LOOKS, STATES = {False: 8, True: 150}, {False: 5, True: 50}


@pytest.fixture(scope="module")
def crew(idle: list[Victim]) -> Iterator[list[Victim]]:
    made = [idle.pop() if idle else Victim() for _ in range(3)]
    yield made
    idle += [one for one in made if one.idle]
    for one in made:
        one.idle or one.end()


def play(
    crew: list[Victim], root: str, mode: Mode, rounds: int, folder: Path, *, bug: bool = False
) -> tuple[list[Round], list[Read]]:
    """A writer and two readers, in processes of their own."""
    managed_catalog(root, mode, TABLES)
    (folder / "looks0").touch()
    (folder / "looks1").touch()
    crew[1].send(read_rounds, root, mode, str(folder), True)
    crew[2].send(read_rounds, root, mode, str(folder), False)
    crew[0].send(write_rounds, root, mode, rounds, str(folder), bug)
    # A round takes milliseconds, on a busy machine half a second.
    return crew[0].answer(max(PATIENCE, 2.0 * rounds)), [crew[1].answer(), crew[2].answer()]


def unsure(one: Round) -> bool:
    """Whether a writer that ignores the catalog took a name that was registered: nobody can help.

    Then the batch is told to be unknown, never to have failed or to be done.
    """
    return one.code == -1 and one.conflict.startswith("foreign")


def violations(root: str, mode: Mode, outcomes: list[Round]) -> list[str]:
    ns = open_catalog(root, mode)
    rows = {name: Counter(read(ns, [name])) for name in TABLES}
    wrong = []
    for one in outcomes:
        there = [rows[name][one.number] for name in TABLES]
        if one.code is None or not unsure(one):
            wanted = 0 if one.code is not None else 1
            wrong += [] if there == [wanted] * 3 else [f"{one}: in the tables {there} times"]
        elif max(there) > 1:
            wrong.append(f"{one}: in the tables {there} times")
        if one.code is None and one.conflict.startswith("append at version.staged"):
            wrong.append(f"{one}: acknowledged over a conflict")
    others = {row for row in rows["b"] if row >= OTHERS}
    told = {OTHERS + one.number for one in outcomes if one.conflict.split()[0] in _WRITING}
    wrong += [f"row {row} of somebody else is lost" for row in sorted(told - others)]
    return wrong


_WRITING = ("append", "insert", "foreign")


@pytest.mark.parametrize("mode", [Mode.V2, pytest.param(Mode.COMPAT, marks=pytest.mark.soak)])
def test_all_or_nothing(crew: list[Victim], tmp_path: Path, full: bool, mode: Mode) -> None:
    root, began = str(tmp_path / "root"), time.monotonic()
    outcomes, readers = play(crew, root, mode, ROUNDS[full], tmp_path)
    codes = Counter("acknowledged" if one.code is None else one.code for one in outcomes)
    loose = {one.number for one in outcomes if unsure(one)}
    print(
        f"{mode.value}: {len(outcomes)} rounds, {dict(codes)}, {len(loose)} not sure; (looks, "
        f"states) {[one[:2] for one in readers]}, {time.monotonic() - began:.1f} s"
    )
    wrong = violations(root, mode, outcomes) + [line for one in readers for line in one.wrong]
    wrong += [f"saw a part of {p}: {one.notes}" for one in readers if (p := one.partial - loose)]
    assert not wrong, "\n".join(wrong[:20])
    ns = open_catalog(root, mode)
    mend(ns)
    assert violations(root, mode, outcomes) == []
    assert [line for line in disagreements(root, ns) if "has no row" not in line] == []
    assert len(outcomes) - codes["acknowledged"] >= ROUNDS[full] // 5
    for one in readers:
        assert one.looks >= LOOKS[full]
        assert one.states >= STATES[full]


def test_a_batch_of_several_commits_is_noticed(crew: list[Victim], tmp_path: Path) -> None:
    root = str(tmp_path / "root")
    outcomes, readers = play(crew, root, Mode.V2, 7, tmp_path, bug=True)
    partial = violations(root, Mode.V2, outcomes)
    print(partial[:2], readers)
    assert partial
    assert readers[0].partial, "the reader of snapshots noticed nothing"
    assert readers[1].partial, "the other reader noticed nothing"
