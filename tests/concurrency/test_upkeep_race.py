"""Upkeep beside eight writers of ours and a native one: nothing lost, no id twice, nothing left.

Retention is short and runs from two sides: on demand in a loop, and by the writers' own commits.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import lance
import lance.namespace
import lance_namespace as ln

from lance_catalog.config import Mode
from lance_catalog.errors import ConcurrentModificationError
from lance_catalog.maintenance.check import check
from lance_catalog.manifest import fairness
from lance_catalog.manifest.log import ManifestLog
from tests.concurrency.racing import Racers, flat, open_catalog

#: Operations of each writer at least, and of native at most in `make test`; for how many seconds
#: they go on, so that versions expire while they write.
OPERATIONS = 15
NATIVE = 40
SECONDS = {False: 4.0, True: 60.0}
#: How long versions stay: longer than any commit takes, far shorter than the race.
KEEP_MS = 1_500
LEAST_CONFLICTS = 20
LEAST_REMOVED = 20


def write(
    number: int, barrier: Any, root: str, operations: int, seconds: float
) -> tuple[list[str], int]:
    """One writer: creates names of its own and drops every third; what is there at its end."""
    ns = open_catalog(root, Mode.V2)
    log: Any = ns.context.log
    log.care.keep_ms = KEEP_MS
    there: list[str] = []
    barrier.wait()
    end = time.monotonic() + seconds
    step = 0
    # For a minute without turns, eight writers starve the slowest of them: 14, after 30 s.
    quiet, turns = fairness._QUIET, 1.0 if seconds == SECONDS[True] else 0.0
    setattr(fairness, "_QUIET", turns)  # noqa: B010 (it is final to everyone else)
    try:
        while step < operations or time.monotonic() < end:
            name = f"w{number}_{step:05}"
            ns.create_namespace({"id": [name]})
            there.append(name)
            if step % 3 == 2:
                ns.drop_namespace({"id": [there.pop(0)]})
            step += 1
    finally:
        setattr(fairness, "_QUIET", quiet)  # noqa: B010
    return there, log.conflicts


class Beside(threading.Thread):
    """Something that goes on beside the race, until it is told to stop."""

    def __init__(self, step: Any) -> None:
        super().__init__(daemon=True)
        self._step, self._over = step, threading.Event()
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            while not self._over.is_set():
                self._step()
        except BaseException as error:
            self.error = error

    def over(self) -> None:
        self._over.set()

    def stop(self) -> None:
        self.over()
        self.join()
        if self.error is not None:
            raise self.error


def test_upkeep_beside_writers(racers: Racers, tmp_path: Path, full: bool) -> None:
    root = str(tmp_path / "root")
    ns = open_catalog(root, Mode.V2)
    ns.create_namespace({"id": ["first"]})
    native = lance.namespace.DirectoryNamespace(root=root, dir_listing_enabled="false")
    by_native: list[str] = []
    removed: Counter[str] = Counter()

    def look_after() -> None:
        try:
            done = ns.upkeep(keep=KEEP_MS / 1000)
        except ConcurrentModificationError:
            removed["gave up"] += 1
            return
        removed["versions"] += done.versions_removed
        removed["merges"] += done.fragments_after < done.fragments_before
        removed["runs"] += 1

    def write_natively() -> None:
        if not full and len(by_native) >= NATIVE:
            beside[1].over()
            return
        name = f"native_{len(by_native):05}"
        try:
            native.create_namespace(ln.CreateNamespaceRequest(id=[name]))
        except ln.ConcurrentModificationError:
            return  # Its twenty retries were not enough: nothing happened.
        by_native.append(name)

    beside = [Beside(look_after), Beside(write_natively)]
    try:
        answers = racers.race(write, root, OPERATIONS, SECONDS[full])
    finally:
        for thread in beside:
            thread.stop()
    conflicts = sum(count for _, count in answers)
    written = [*flat(there for there, _ in answers), *by_native, "first"]
    ours = open_catalog(root, Mode.V2)
    ours.context.log = ManifestLog(ours.context.store)
    placeholders = sum(
        path.stat().st_size == 0 for path in (tmp_path / "root/__manifest/_versions").iterdir()
    )
    print(
        f"{conflicts} conflicts; native wrote {len(by_native)}; upkeep {dict(removed)}; "
        f"{placeholders} versions removed in all"
    )
    for _ in range(2):
        seen = ours.list_namespaces({"id": []}).namespaces
        assert seen == sorted(written)
        told = native.list_namespaces(ln.ListNamespacesRequest(id=[])).namespaces
        assert sorted(told) == sorted(written)
        rows = lance.dataset(f"{root}/__manifest").to_table(["object_id"])["object_id"]
        assert max(Counter(rows.to_pylist()).values()) == 1
        assert check(ours.context, grace_seconds=-3600).problems == []
        # And once more with nothing left but what is needed.
        ours.context.clock = lambda: time.time_ns() // 1_000_000 + 3_600_000
        ours.upkeep(keep=0)
    assert conflicts >= LEAST_CONFLICTS
    assert placeholders >= LEAST_REMOVED
    assert len(by_native) >= 1
    assert removed["runs"] >= 1
