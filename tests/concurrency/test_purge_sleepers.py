"""A process is stopped (SIGSTOP) in the middle, others take over, and then it goes on.

It sleeps for longer than its lease, and longer than the quarantine: the name was created again,
and acknowledged, before it wakes up. Nothing of the new table may be touched, and nothing of what
the sleeper began may be left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lance_catalog import DirectoryNamespace
from lance_catalog.directory import reviving
from lance_catalog.errors import ConcurrentModificationError
from tests.concurrency.guards import planted
from tests.concurrency.judging import ROWS, Call, Seen, State, violations
from tests.concurrency.purging import KINDS, Arena, call, mend, patiently
from tests.concurrency.racing import ipc
from tests.concurrency.test_purge_race import Bucket, bucket
from tests.concurrency.victims import Victim, act

__all__ = ["bucket"]

NAME = "t"
#: What overtakes, and whose rows its creations write: the sleeper is client 9.
OTHER = 7
LEASE_MS = 60


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.integration)])
def arena(request: pytest.FixtureRequest, tmp_path: Path) -> Arena:
    """Where: a folder, or a bucket of the S3 server."""
    if request.param == "local":
        return Arena(str(tmp_path / "root"), "v1", lease_ms=LEASE_MS, quarantine="0.2")
    place: Bucket = request.getfixturevalue("bucket")
    return Arena(place[0], "v1", place[1], lease_ms=LEASE_MS, quarantine="0.2")


@pytest.fixture(scope="module")
def spare() -> Iterator[list[Victim]]:
    """Processes that wait for their next sleep: starting one takes longer than a test."""
    made: list[Victim] = []
    yield made
    for one in made:
        one.end()


@pytest.fixture
def sleeper(spare: list[Victim]) -> Iterator[Victim]:
    made = spare.pop() if spare else Victim()
    yield made
    if made.idle:
        spare.append(made)
    else:
        made.end()


class Scene:
    """One sleeper, and the others; what each of them was answered."""

    def __init__(self, arena: Arena, sleeper: Victim) -> None:
        self.arena, self.sleeper = replace(arena, planted=None), sleeper
        self.ns: DirectoryNamespace = self.arena.open()
        self.arena.make(self.ns, NAME)
        self.calls: list[Call] = []
        self.looks: list[dict[str, State | Seen]] = []
        self._planted = arena.planted

    def fall_asleep(self, verb: str, plan: str) -> None:
        sleeping = replace(self.arena, planted=self._planted)
        self.sleeper.send(act, sleeping, verb, NAME, plan)
        self.sleeper.wait_stopped()

    def do(self, verb: str, *, wait: bool = True) -> Call:
        """Do something beside the sleeper; with ``wait`` until the answer is not 14."""

        def once() -> Call:
            made = call(self.arena, self.ns, verb, NAME, OTHER)
            self.calls.append(made)
            if wait and made.code in (5, 14):
                raise ConcurrentModificationError(made.text)
            return made

        made: Call = patiently(once)
        return made

    def look(self) -> State:
        try:
            found = self.arena.look(self.ns, NAME)
        except Exception as error:
            found = f"broken: {type(error).__name__}"
        self.looks.append({NAME: found})
        return found

    def wake_up(self) -> Call | None:
        """Continue the sleeper and wait for its answer (None: it was killed)."""
        self.sleeper.resume()
        answer: Call | None = self.sleeper.answer()
        if answer is not None:
            self.calls.append(answer)
        return answer

    def wrong(self) -> list[str]:
        """What the answers and the looks contradict, and what is left over after a repair."""
        self.look()
        mended, left = mend(self.arena)
        self.look()
        print(f"{self.arena.kind}: {[(c.verb, c.client, c.code) for c in self.calls]}; {mended}")
        return violations(self.calls, self.looks) + left


def sleep_through_a_purge(arena: Arena, sleeper: Victim, plan: str) -> list[str]:
    """A purger sleeps, another finishes, the name is created again; then it wakes up."""
    scene = Scene(arena, sleeper)
    scene.fall_asleep("purge", plan)
    scene.do("undrop", wait=False)
    assert scene.do("purge").code is None
    assert scene.do("revive").code is None
    scene.look()
    woken = scene.wake_up()
    assert woken is not None
    found = [] if woken.code == 14 else [f"the sleeper was answered {woken}"]
    found += scene.wrong()
    if not found:
        # In use as any other table.
        scene.ns.insert_into_table({"id": [NAME]}, ipc([0]))
    return found


LOCAL_STEPS = ("purge.claimed", "purge.before_move", "purge.batch", "purge.deleted")
#: The second batch is of the data files: version files went before.
S3_STEPS = ("purge.claimed", "purge.batch", "purge.batch@2", "purge.deleted")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", range(4), ids=lambda number: f"step{number}")
def test_a_purger_that_slept_touches_nothing_of_the_new_table(
    arena: Arena, sleeper: Victim, kind: str, step: int
) -> None:
    point, _, count = (S3_STEPS if arena.storage else LOCAL_STEPS)[step].partition("@")
    plan = f"{point}=stop@{count or 1}"
    assert sleep_through_a_purge(replace(arena, kind=kind), sleeper, plan) == []


@pytest.mark.parametrize("kind", ["v1", "compat", "directory"])
def test_without_the_fence_it_deletes_the_new_table(
    arena: Arena, sleeper: Victim, kind: str
) -> None:
    """The planted bug: deletions that do not ask whose claim counts."""
    if arena.storage and kind != "v1":
        kind = "v1"  # Elsewhere a name that is closed gets another directory.
    planted_arena = replace(arena, kind=kind, planted="fence off")
    step = "purge.batch" if arena.storage else "purge.before_move"
    found = sleep_through_a_purge(planted_arena, sleeper, f"{step}=stop")
    print(found[:2])
    assert any("readers found" in line for line in found)


@pytest.mark.parametrize("kind", KINDS)
def test_with_the_claim_ignored_an_undrop_brings_back_what_is_deleted(
    arena: Arena, sleeper: Victim, kind: str
) -> None:
    """The planted bug: an undrop that does not see that the deletion has begun."""
    scene = Scene(replace(arena, kind=kind), sleeper)
    scene.fall_asleep("purge", "purge.batch=stop@2")
    with planted("claim ignored"):
        scene.do("undrop", wait=False)
    scene.look()
    scene.wake_up()
    found = scene.wrong()
    print(found[:2])
    assert found


REVIVING = ("claimed", "version_staged", "version_finalized", "landed")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", REVIVING)
@pytest.mark.parametrize("overtaker", ["undrop", "purge", "revive"])
def test_a_creation_that_slept_is_overtaken(
    arena: Arena, sleeper: Victim, kind: str, step: str, overtaker: str
) -> None:
    scene = Scene(replace(arena, kind=kind), sleeper)
    scene.fall_asleep("revive", f"revive.{step}=stop")
    assert scene.do(overtaker).code is None
    if overtaker == "purge":
        assert scene.do("revive").code is None
    before = scene.look()
    assert before == (ROWS if overtaker == "undrop" else Call(NAME, "", OTHER, 0, 0).rows)
    woken = scene.wake_up()
    assert woken is not None
    assert woken.code in (5, 14)
    assert scene.wrong() == []
    assert scene.look() == before


def land_after_an_undrop(arena: Arena, sleeper: Victim) -> list[str]:
    """A creation sleeps past its last look at its claim, and dies as soon as its version landed."""
    scene = Scene(arena, sleeper)
    scene.fall_asleep("revive", "revive.version_staged=stop,revive.version_finalized=kill")
    assert scene.do("undrop").code is None
    scene.wake_up()
    return scene.wrong()


@pytest.mark.parametrize("kind", KINDS)
def test_a_creation_past_its_last_look_does_not_land(
    arena: Arena, sleeper: Victim, kind: str
) -> None:
    assert land_after_an_undrop(replace(arena, kind=kind), sleeper) == []


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_version_on_top_it_does(
    arena: Arena, sleeper: Victim, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted bug: who takes over only undoes what it finds."""
    monkeypatch.setattr(reviving, "undo_others", lambda held: None)
    found = land_after_an_undrop(replace(arena, kind=kind), sleeper)
    print(found[:2])
    assert any("readers found" in line for line in found)


@pytest.mark.parametrize("kind", ["v1", "directory"])
def test_an_undrop_that_slept_is_overtaken_by_a_purge(
    arena: Arena, sleeper: Victim, kind: str
) -> None:
    scene = Scene(replace(arena, kind=kind), sleeper)
    scene.fall_asleep("undrop", "undrop.claimed=stop")
    assert scene.do("purge").code is None
    assert scene.do("revive").code is None
    woken = scene.wake_up()
    assert woken is not None
    assert woken.code == 14
    assert scene.wrong() == []
