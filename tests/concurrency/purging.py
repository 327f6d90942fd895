"""Purge against revive against undrop: what the racers do.

A table with known rows lies in the trash; some processes purge it, some create it again, some
bring it back. Every answer goes into a history, and so does what a reader finds afterwards: there
must be an order of the calls that explains them all (judging.py).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
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
from tests.concurrency.judging import ROWS, Call, Seen, Side, State, own_rows
from tests.concurrency.racing import ipc, open_catalog

#: Two of each: what racer 0, 1, ... does.
VERBS = ("purge", "revive", "undrop") * 2
#: A mode, or compatibility mode with a table that only its directory tells of.
KINDS = {"v1": Mode.V1, "v2": Mode.V2, "compat": Mode.COMPAT, "directory": Mode.COMPAT}
#: Where every other racer is a V1 client, and who made and dropped the table.
MIXED = {"mixed": Mode.COMPAT, "mixed-directory": Mode.V1}
#: Nobody's grace: what lies there after a race is nobody's work on its way.
NOW = -3600.0


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
        ns = open_catalog(self.root, mode or KINDS.get(self.kind, Mode.COMPAT), **more)
        ns.context.lease_ms = self.lease_ms
        return ns

    def client(self, number: int) -> DirectoryNamespace:
        """What a racer works with."""
        return self.open(Mode.V1 if self.kind in MIXED and number % 2 else None)

    def rows_of(self, ns: DirectoryNamespace, name: str) -> tuple[int, ...]:
        """The rows of a live table, read by Lance alone."""
        found = ns.describe_table({"id": [name]})
        dataset = lance.dataset(found.location, storage_options=dict(self.storage) or None)
        return tuple(sorted(dataset.to_table()["g"].to_pylist()))

    def make(self, ns: DirectoryNamespace, name: str, *, drop: bool = True) -> None:
        ns = ns if self.kind not in MIXED else self.open(MIXED[self.kind])
        maker = self.open(Mode.V1) if self.kind == "directory" else ns
        maker.create_table({"id": [name]}, ipc(ROWS))
        if drop:
            ns.drop_table({"id": [name]}, ttl=0)

    def side(self, ns: DirectoryNamespace) -> Side:
        if self.kind not in MIXED:
            return Side.ALONE
        return Side.BESIDE if ns.mode is Mode.V1 else Side.HERE

    def look(self, ns: DirectoryNamespace, name: str) -> State:
        status = ns.table_status([name])
        if status.state is TableState.EXISTS:
            return self.rows_of(ns, name)
        # One that is being deleted is as good as gone: it cannot come back.
        kept = status.state is TableState.SOFT_DELETED and not status.purging
        return "dropped" if kept else "gone"


def call(arena: Arena, ns: DirectoryNamespace, verb: str, name: str, client: int) -> Call:
    """Do one operation, and say when it was and what came of it."""
    began = time.monotonic_ns()
    done = Call(name, verb, client, began, None, side=arena.side(ns))
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


# What racers run: each on its share of the names, or all on every name.


def prepare(number: int, barrier: Any, arena: Arena, names: list[str]) -> None:
    ns = arena.open()
    for name in names[number :: len(VERBS)]:
        arena.make(ns, name)


def race(number: int, barrier: Any, arena: Arena, names: list[str]) -> tuple[list[Call], int]:
    """Meet the others at each name, every other time once more right before the claim."""
    ns = arena.client(number)
    calls = []
    with planted(arena.planted), meeting(barrier) as meet:
        for place, name in enumerate(names):
            barrier.wait()
            with meet() if place % 2 else nullcontext():
                calls.append(call(arena, ns, VERBS[number], name, number))
    log = ns.context.log
    return calls, 0 if log is None else log.conflicts


def look(
    number: int, barrier: Any, arena: Arena, names: list[str], mended: bool
) -> dict[str, State | Seen]:
    """What there is; once all is mended also for V1 clients, where others are beside them."""
    ns = arena.open()
    other = arena.open(Mode.V1) if mended and arena.kind in MIXED else None
    found: dict[str, State | Seen] = {}
    for name in names[number :: len(VERBS)]:
        try:
            here = arena.look(ns, name)
            found[name] = here if other is None else Seen(here, arena.look(other, name))
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
