"""kill -9 at every named step of purge, create over a dropped table, undrop and drop, in a race.

One process wins the claim and dies at a step; six others want the table meanwhile and keep trying
(the lease is short). What was acknowledged holds, the others get on, and no name stays closed.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lance_catalog import failpoints
from tests.concurrency.judging import DROPPED, LIVE, Call, violations
from tests.concurrency.purging import KINDS, MIXED, VERBS, Arena, call, mend, use
from tests.concurrency.racing import PATIENCE, Racers, flat
from tests.concurrency.test_purge_race import Bucket, bucket, merged
from tests.concurrency.victims import Victim, act

__all__ = ["bucket"]

LEASE_MS = 150
#: How often the whole list is gone through in `make soak`; `make test` takes every step once, each
#: with one of the kinds, and `make integration` a quarter of that.
TIMES, PART_S3 = 10, 4

PURGE = ("claimed", "before_move", "moved_aside", "batch", "deleted", "finished")
REVIVE = ("data_written", "claimed", "version_staged", "version_finalized", "landed")
MARKERS = ("marker.nested_removed", "marker.root_removed")
DROPS = ("marker.root_written", "marker.nested_written")


def steps(kind: str, *, remote: bool = False) -> list[tuple[str, str]]:
    """Every (verb, step) that a kind of table goes through."""
    kind = {"mixed": "compat", "mixed-directory": "directory"}.get(kind, kind)
    found = [("purge", f"purge.{step}") for step in PURGE]
    if remote:
        found = [one for one in found if one[1] not in ("purge.before_move", "purge.moved_aside")]
    found += [("revive", f"revive.{step}") for step in REVIVE]
    if kind != "v1":
        found.append(("revive", "revive.registered"))
    found.append(("undrop", "undrop.registered" if kind in ("v2", "compat") else "undrop.claimed"))
    if kind == "compat":
        found.append(("undrop", "undrop.claimed"))
    if kind != "v2":
        found += [(verb, step) for verb in ("undrop", "revive") for step in MARKERS]
        found += [("drop", step) for step in DROPS]
    return found


def chosen(kind: str, full: bool, *, remote: bool = False) -> list[tuple[str, str]]:
    """The steps of a run: many times all of them, or those whose turn is with this kind."""
    if full:
        return steps(kind, remote=remote) * TIMES
    found = []
    for place, one in enumerate(sorted({one for k in KINDS for one in steps(k, remote=remote)})):
        having = [k for k in KINDS if one in steps(k, remote=remote)]
        if having[place % len(having)] == kind:
            found.append(one)
    return found[:: PART_S3 if remote else 1]


def test_every_step_is_in_the_list() -> None:
    wanted = {
        point
        for point in failpoints.POINTS
        if point.startswith(("purge.", "revive.", "undrop.", "marker."))
    }
    assert {step for kind in KINDS for _, step in steps(kind)} == wanted - {"marker.lifted"}
    some = {one for kind in KINDS for one in chosen(kind, False)}
    assert some == {one for kind in KINDS for one in steps(kind)}


def contend(number: int, barrier: Any, arena: Arena, name: str, go: str) -> list[Call]:
    """Come when the victim has won, and try until the answer is final."""
    ns = arena.client(number)
    end = time.monotonic() + PATIENCE / 4
    while not Path(go).exists():
        assert time.monotonic() < end, "the victim never came to its step"
        time.sleep(0.001)
    calls = []
    while True:
        calls.append(call(arena, ns, VERBS[number], name, number))
        if calls[-1].code != 14:
            return calls
        assert time.monotonic() < end, f"no progress: {calls[-1]}"
        time.sleep(0.005)


def run(racers: Racers, arena: Arena, folder: Path, todo: list[tuple[str, str]]) -> Counter[str]:
    """Kill once at each step; raises what is wrong."""
    wrong: list[str] = []
    done: Counter[str] = Counter()
    ns = arena.open()
    following = Victim()
    for place, (verb, step) in enumerate(todo):
        # Its imports run beside this round.
        victim, following = following, Victim()
        name, go = f"t{place:04}", str(folder / f"go{place}")
        arena.make(ns, name, drop=verb != "drop")
        began = time.monotonic_ns()
        victim.send(act, arena, verb, name, f"{step}=kill", go)
        calls: list[Call] = flat(racers.race(contend, arena, name, go, count=len(VERBS)))
        answer = victim.answer()
        victim.end()
        assert answer is None, f"{verb} went past {step}: {answer}"
        calls.append(Call(name, verb, 9, began, None, side=arena.side(ns)))
        found = [merged(racers, arena, [name])]
        mended, left = mend(arena)
        found.append(merged(racers, arena, [name], mended=True))
        problems = violations(calls, found, LIVE if verb == "drop" else DROPPED)
        problems += [f"after repair: {line}" for line in left]
        problems += flat(racers.race(use, arena, [name], count=len(VERBS)))
        problems += [f"after use: {line}" for line in mend(arena)[1]]
        wrong += [f"{verb} killed at {step}: {line}" for line in problems]
        done.update(one.verb for one in calls if one.ended and one.code is None)
        done.update(f"mended {kind}" for kind in mended.elements())
        done["answers"] += sum(one.ended is not None and one.code != 14 for one in calls)
        done["conflicts"] += sum(one.code == 14 for one in calls)
    following.end()
    assert not wrong, "\n".join(wrong[:20])
    return done


def check(racers: Racers, arena: Arena, folder: Path, todo: list[tuple[str, str]]) -> None:
    began = time.monotonic()
    done = run(racers, arena, folder, todo)
    seconds = time.monotonic() - began
    print(f"{arena.kind}: {len(todo)} kills, {dict(done)}, {seconds:.1f} s")
    # How many met the claim before its lease ran out is the machine's affair: on a slow store none.
    assert done["answers"] == len(todo) * len(VERBS)


@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_every_step(racers: Racers, tmp_path: Path, full: bool, kind: str) -> None:
    arena = Arena(str(tmp_path / "root"), kind, lease_ms=LEASE_MS)
    check(racers, arena, tmp_path, chosen(kind, full))


@pytest.mark.soak
@pytest.mark.parametrize("kind", MIXED)
def test_killed_at_every_step_beside_v1(racers: Racers, tmp_path: Path, kind: str) -> None:
    arena = Arena(str(tmp_path / "root"), kind, lease_ms=LEASE_MS)
    check(racers, arena, tmp_path, chosen(kind, True))


@pytest.mark.integration
@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_every_step_on_s3(
    racers: Racers, bucket: Bucket, tmp_path: Path, full: bool, kind: str
) -> None:
    arena = Arena(bucket[0], kind, bucket[1], lease_ms=4 * LEASE_MS)
    check(racers, arena, tmp_path, chosen(kind, full, remote=True))
