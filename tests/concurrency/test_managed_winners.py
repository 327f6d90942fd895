"""Racers ask for the same version of a managed table: one winner each round, its rows and no other.

Each stages an append to what is the latest, all meet, all ask. The planted bugs must be noticed by
the same look.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lance_catalog.config import Mode
from tests.concurrency.managed import disagreements, managed_catalog, read, stage
from tests.concurrency.managed_bugs import BUGS, planted
from tests.concurrency.racing import PATIENCE, Racers, attempt, flat, open_catalog

ROUNDS = {False: 8, True: 200}
#: Refused: the version exists (12), or another is the next (14).
LOSERS = {12, 14}

Answers = list[tuple[int, int, int | None, str]]


def ask(
    number: int, barrier: Any, root: str, mode: Mode, rounds: int, bug: str | None
) -> tuple[Answers, int]:
    """One racer: (round, row, code, text) of what it asked for, and conflicts of the log."""
    ns = open_catalog(root, mode)
    found: Answers = []
    with planted(bug):
        for turn in range(rounds):
            row = 1 + turn * 100 + number
            barrier.wait(PATIENCE)
            asked = stage(ns, ["t"], [row])
            barrier.wait(PATIENCE)
            found.append((turn, row, *attempt(ns.create_table_version, asked)))
    log = ns.context.log
    return found, 0 if log is None else log.conflicts


def violations(root: str, mode: Mode, answers: Answers) -> list[str]:
    ns = open_catalog(root, mode)
    wrong = [
        f"round {turn}: row {row} was refused with {code}: {text}"
        for turn, row, code, text in answers
        if code is not None and code not in LOSERS
    ]
    won = [(turn, row) for turn, row, code, _ in answers if code is None]
    winners = Counter(turn for turn, _ in won)
    turns = {turn for turn, *_ in answers}
    wrong += [f"round {turn} has {winners[turn]} winners" for turn in turns if winners[turn] != 1]
    rows = read(ns, ["t"])
    if rows != sorted([0, *(row for _, row in won)]):
        wrong.append(f"{rows}, acknowledged {sorted(row for _, row in won)}")
    return wrong + disagreements(root, ns)


@pytest.mark.parametrize("mode", [Mode.V2, Mode.COMPAT])
def test_one_winner_each(racers: Racers, tmp_path: Path, full: bool, mode: Mode) -> None:
    root = str(tmp_path / "root")
    managed_catalog(root, mode, ["t"])
    answers = racers.race(ask, root, mode, ROUNDS[full], None)
    outcomes = flat(found for found, _ in answers)
    conflicts = sum(count for _, count in answers)
    print(f"{dict(Counter(code for _, _, code, _ in outcomes))}; {conflicts} conflicts")
    wrong = violations(root, mode, outcomes)
    assert not wrong, "\n".join(wrong[:20])
    assert sum(code is not None for _, _, code, _ in outcomes) >= ROUNDS[full] * 4


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_noticed(racers: Racers, tmp_path: Path, bug: str) -> None:
    root = str(tmp_path / "root")
    managed_catalog(root, Mode.V2, ["t"])
    try:
        answers = racers.race(ask, root, Mode.V2, 4, bug, count=2)
        wrong = violations(root, Mode.V2, flat(found for found, _ in answers))
    except (AssertionError, OSError, ValueError) as error:
        wrong = [f"it broke a racer, or a reader: {error}"]
    print(f"{bug}: {wrong[:2]}"[:400])
    assert wrong
