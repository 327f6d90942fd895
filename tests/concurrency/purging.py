"""Purge against revive against undrop: what the racers do, and the judge of what came of it.

A table with known rows lies in the trash; some processes purge it, some create it again, some
bring it back. Every answer goes into a history, and so does what a reader finds afterwards: there
must be an order of the calls that explains them all. Nobody drops the table again, so of undrop
and create at most one is done, and a purge only before a create.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import lance

from lance_catalog import DirectoryNamespace
from lance_catalog.config import Mode
from lance_catalog.directory.dropped import TableState
from lance_catalog.errors import CommitOutcomeUnknownError, LanceNamespaceError
from lance_catalog.maintenance.check import check
from lance_catalog.maintenance.repair import apply, plan
from tests.concurrency.guards import meeting, planted
from tests.concurrency.histories import Operation, linearizable
from tests.concurrency.racing import ipc, open_catalog

#: Two of each: what racer 0, 1, ... does.
VERBS = ("purge", "revive", "undrop") * 2
#: How a refusal of each verb may sound; anything else is a finding.
REFUSALS = {"purge": {4, 14, 19}, "revive": {5, 14}, "undrop": {4, 5, 14}, "drop": {4, 14}}
#: A mode, or compatibility mode with a table that only its directory tells of.
KINDS = {"v1": Mode.V1, "v2": Mode.V2, "compat": Mode.COMPAT, "directory": Mode.COMPAT}
ROWS = (1, 2, 3)
#: Nobody's grace: what lies there after a race is nobody's work on its way.
NOW = -3600.0

#: What there is of a table: "dropped", "gone", or its rows.
State = str | tuple[int, ...]
#: The rows that are shown, and what is in the trash: "there", "begun" (to be deleted) or nothing.
Model = tuple[tuple[int, ...] | None, str]
DROPPED: Model = (None, "there")
LIVE: Model = (ROWS, "")


@dataclass(frozen=True)
class Arena:
    """Where a race is held, on what terms, and with which bug planted."""

    root: str
    kind: str
    storage: tuple[tuple[str, str], ...] = ()
    lease_ms: int = 60_000
    quarantine: str = "0.5"
    planted: str | None = None

    def open(self, mode: Mode | None = None) -> DirectoryNamespace:
        more: dict[str, str] = {f"storage.{key}": value for key, value in self.storage}
        more["purge_quarantine"] = self.quarantine
        ns = open_catalog(self.root, mode or KINDS[self.kind], **more)
        ns.context.lease_ms = self.lease_ms
        return ns

    def rows_of(self, ns: DirectoryNamespace, name: str) -> tuple[int, ...]:
        """The rows of a live table, read by Lance alone."""
        found = ns.describe_table({"id": [name]})
        dataset = lance.dataset(found.location, storage_options=dict(self.storage) or None)
        return tuple(sorted(dataset.to_table()["g"].to_pylist()))

    def make(self, ns: DirectoryNamespace, name: str, *, drop: bool = True) -> None:
        maker = self.open(Mode.V1) if self.kind == "directory" else ns
        maker.create_table({"id": [name]}, ipc(ROWS))
        if drop:
            ns.drop_table({"id": [name]}, ttl=0)

    def look(self, ns: DirectoryNamespace, name: str) -> State:
        status = ns.table_status([name])
        if status.state is TableState.EXISTS:
            return self.rows_of(ns, name)
        # One that is being deleted is as good as gone: it cannot come back.
        kept = status.state is TableState.SOFT_DELETED and not status.purging
        return "dropped" if kept else "gone"


@dataclass(frozen=True)
class Call:
    """One call of one racer: done (None), refused with a code, or nobody knows."""

    name: str
    verb: str
    client: int
    began: int
    ended: int | None
    code: int | None = None
    text: str = ""

    @property
    def rows(self) -> tuple[int, ...]:
        return own_rows(self.client)


def own_rows(client: int) -> tuple[int, ...]:
    return tuple(range(client * 100 + 100, client * 100 + 104))


def call(arena: Arena, ns: DirectoryNamespace, verb: str, name: str, client: int) -> Call:
    """Do one operation, and say when it was and what came of it."""
    began = time.monotonic_ns()
    done = Call(name, verb, client, began, None)
    try:
        if verb == "purge":
            ns.purge_table([name])
        elif verb == "undrop":
            ns.undrop_table([name])
        elif verb == "revive":
            ns.create_table({"id": [name]}, ipc(own_rows(client)))
        else:
            ns.drop_table({"id": [name]}, ttl=0)
    except LanceNamespaceError as error:
        text = f"{type(error).__name__}: {error}"
        done = replace(done, code=int(error.code), text=text)
        # A purge that was overtaken has begun the deletion that another ends.
        if isinstance(error, CommitOutcomeUnknownError) or "has taken over" in text:
            return done
    except Exception as error:  # A finding, and no reason to leave the others waiting.
        done = replace(done, code=-1, text=f"{type(error).__name__}: {error}")
    return replace(done, ended=time.monotonic_ns())


def step(state: Model, operation: Operation) -> Iterator[Model]:
    """The states that a call that was done, or may have been, leads to."""
    (shown, trash), verb = state, operation.verb
    if verb == "look":
        if operation.answer == (shown or ("dropped" if trash == "there" else "gone")):
            yield state
    elif verb == "purge":
        if trash in ("there", "begun"):
            yield shown, ""
        # One that did not end has begun perhaps; another ends it, maybe after a new table came.
        if trash == "there" and operation.ended is None:
            yield shown, "begun"
    elif verb == "revive" and shown is None:
        yield operation.answer, "" if trash == "there" else trash
    elif verb == "undrop" and shown is None and trash == "there":
        yield ROWS, ""
    elif verb == "drop" and shown == ROWS:
        yield None, "there"


def explained(calls: Sequence[Call], looks: Sequence[State], start: Model = DROPPED) -> bool:
    """Whether some order of the calls, true to their times, leads to what readers found."""
    counted = [one for one in calls if one.code is None or one.ended is None]
    history = [
        Operation(one.client, one.verb, (one.name,), 0, one.rows, one.began, one.ended)
        for one in counted
    ]
    after = max((one.ended or one.began for one in calls), default=0)
    for number, found in enumerate(looks):
        began = after + 2 * number + 1
        history.append(Operation(-1, "look", (), 0, found, began, began + 1))
    return bool(linearizable(history, start, step))


def violations(
    calls: Sequence[Call], looks: Sequence[dict[str, State]], start: Model = DROPPED
) -> list[str]:
    """What contradicts the claim, per name."""
    wrong = [
        f"{one.name}: {one.verb} answers {one.code} {one.text}"
        for one in calls
        if one.code is not None and one.code not in REFUSALS[one.verb]
    ]
    for name in looks[0]:
        mine = [one for one in calls if one.name == name]
        found = [look[name] for look in looks]
        if not explained(mine, found, start):
            lines = (
                f"{c.verb}/{c.client} {c.began // 1000 % 10**8}-{(c.ended or 0) // 1000 % 10**8}"
                f" {'done' if c.code is None else c.code} {c.text[:60]}"
                for c in sorted(mine, key=lambda one: one.began)
            )
            wrong.append(f"{name}: readers found {found} after " + "; ".join(lines))
    return wrong


# What racers run: each on its share of the names, or all on every name.


def prepare(number: int, barrier: Any, arena: Arena, names: list[str]) -> None:
    ns = arena.open()
    for name in names[number :: len(VERBS)]:
        arena.make(ns, name)


def race(number: int, barrier: Any, arena: Arena, names: list[str]) -> tuple[list[Call], int]:
    """Meet the others at each name, every other time once more right before the claim."""
    ns = arena.open()
    calls = []
    with planted(arena.planted), meeting(barrier) as meet:
        for place, name in enumerate(names):
            barrier.wait()
            with meet() if place % 2 else nullcontext():
                calls.append(call(arena, ns, VERBS[number], name, number))
    log = ns.context.log
    return calls, 0 if log is None else log.conflicts


def look(number: int, barrier: Any, arena: Arena, names: list[str]) -> dict[str, State]:
    ns = arena.open()
    found: dict[str, State] = {}
    for name in names[number :: len(VERBS)]:
        try:
            found[name] = arena.look(ns, name)
        except (LanceNamespaceError, OSError, ValueError) as error:
            found[name] = f"broken: {type(error).__name__}: {error}"[:200]
    return found


def use(number: int, barrier: Any, arena: Arena, names: list[str]) -> list[str]:
    """Every name can be used: a live table takes rows, any other is created; what could not be."""
    ns = arena.open()
    wrong = []
    for name in names[number :: len(VERBS)]:
        try:
            before = arena.look(ns, name)
            if isinstance(before, tuple):
                ns.insert_into_table({"id": [name]}, ipc([0]))
            else:
                patiently(lambda name=name: ns.create_table({"id": [name]}, ipc([0])))  # type: ignore[misc]
            wanted = (0, *(before if isinstance(before, tuple) else ()))
            found = arena.rows_of(ns, name)
            wrong += [] if found == wanted else [f"{name}: {found} instead of {wanted}"]
        except (LanceNamespaceError, OSError, ValueError) as error:
            wrong.append(f"{name} cannot be used: {type(error).__name__} {error}")
    return wrong


def patiently(run: Callable[[], Any], seconds: float = 15.0) -> Any:
    """Try until the lease and the quarantine have passed."""
    end = time.monotonic() + seconds
    while True:
        try:
            return run()
        except LanceNamespaceError as error:
            if int(error.code) not in (5, 14) or time.monotonic() > end:
                raise
        time.sleep(0.005)


def mend(arena: Arena) -> tuple[Counter[str], list[str]]:
    """Repair once; what was mended, and what a check still finds."""
    ns = arena.open()
    if arena.storage:
        # A name that a purge closed is a finding once it need not be closed any more: then mended.
        end = time.monotonic() + float(arena.quarantine)
        while time.monotonic() <= end:
            time.sleep(0.005)
    steps = plan(ns.context, grace_seconds=NOW)
    results = apply(ns.context, steps)
    wrong = [f"repairing {done.subject}: {why}" for done, why in results if why is not None]
    wrong += [str(problem) for problem in check(ns.context, grace_seconds=NOW).problems]
    return Counter(done.kind for done in steps), wrong
