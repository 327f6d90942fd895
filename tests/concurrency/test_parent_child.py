"""Creating a child against dropping its parent: never an orphan, every answer explained.

Two processes, a new parent each round. With restrict exactly one of them succeeds; with cascade
the drop always does, and a child that was created goes with its parent.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lance_catalog.config import Mode
from lance_catalog.maintenance.check import check
from tests.concurrency.racing import (
    Racers,
    attempt,
    ipc,
    manifest_strays,
    open_catalog,
)

#: Rounds over all kinds of child and drop: a tenth of the issue's in `make test`.
ROUNDS = {False: 100, True: 1000}
LEAST_CONFLICTS = 5
#: The longest head start of the other, in reads, by what is created and who we are.
HEAD_STARTS = {
    ("namespace", 0): 160,
    ("namespace", 1): 500,
    ("table", 0): 1,
    ("table", 1): 1000,
}
KINDS = [
    ("namespace", "restrict"),
    ("table", "restrict"),
    ("namespace", "cascade"),
    ("table", "cascade"),
]


def play(
    number: int, barrier: Any, root: str, mode: Mode, rounds: int, seed: int
) -> tuple[list[tuple[int | None, str]], int]:
    """Racer 0 creates the child, racer 1 makes the parent and drops it."""
    ns = open_catalog(root, mode)
    chance = random.Random(seed + number)
    found = []
    for turn in range(rounds):
        child, behavior = KINDS[turn % len(KINDS)]
        parent = f"p{turn:04}"
        if number == 1:
            ns.create_namespace({"id": [parent]})
        # Reads, so that now the one and now the other comes first: writing a table takes longer.
        ahead = chance.randrange(HEAD_STARTS[child, number])
        barrier.wait()
        for _ in range(ahead):
            attempt(ns.namespace_exists, {"id": [parent]})
        if number == 1:
            request = {"id": [parent], "behavior": behavior}
            found.append(attempt(ns.drop_namespace, request))
        elif child == "namespace":
            found.append(attempt(ns.create_namespace, {"id": [parent, "c"]}))
        else:
            found.append(attempt(ns.create_table, {"id": [parent, "c"]}, ipc([turn])))
        barrier.wait()
    assert ns.context.log is not None
    return found, ns.context.log.conflicts


@pytest.mark.parametrize("mode", [Mode.V2, Mode.COMPAT])
def test_never_an_orphan(racers: Racers, tmp_path: Path, full: bool, mode: Mode) -> None:
    root = str(tmp_path / "root")
    rounds = ROUNDS[full] if full or mode is Mode.V2 else ROUNDS[full] // 2
    (creates, met), (drops, met_too) = racers.race(play, root, mode, rounds, 7, count=2)
    ns = open_catalog(root, mode)
    rows = {entry.object_id: entry for entry in ns.snapshot().entries()}
    seen: Counter[tuple[str, str, str]] = Counter()
    for turn, (created, dropped) in enumerate(zip(creates, drops, strict=True)):
        child, behavior = KINDS[turn % len(KINDS)]
        parent = f"p{turn:04}"
        there = parent in rows, f"{parent}$c" in rows
        case = (turn, child, behavior, created, dropped, there)
        if created[0] is None and dropped[0] is None:
            # The child, then the drop of both.
            assert behavior == "cascade", case
            assert there == (False, False), case
            first = "child"
        elif created[0] is None:
            assert (behavior, dropped[0], there) == ("restrict", 3, (True, True)), case
            first = "child"
        else:
            assert (created[0], dropped[0], there) == (1, None, (False, False)), case
            first = "drop"
        seen[child, behavior, first] += 1
    print(f"{mode.value}: {met + met_too} conflicts; {dict(sorted(seen.items()))}")
    # No row without its parent, no directory without its row; what was dropped is in the trash.
    for key in rows:
        if key.startswith("__trash$"):
            continue
        above, _, _ = key.rpartition("$")
        assert not above or above in rows, key
    folders = {entry.name for entry in os.scandir(root)} - {"__manifest", "__claims"}
    assert folders == {entry.location for entry in rows.values() if entry.is_table}
    assert manifest_strays(root) == []
    assert check(ns.context, grace_seconds=-3600).problems == []
    assert met + met_too >= LEAST_CONFLICTS
    for behavior in ("restrict", "cascade"):
        for first in ("child", "drop"):
            assert sum(seen[c, behavior, first] for c in ("namespace", "table")) > 0, seen
