"""kill -9 at random moments: nothing acknowledged is lost, nothing dropped comes back.

Two workers at a time, each on names of its own, share one root; each is killed at a moment of its
own. Afterwards the catalog is compared with the workers' logs, mended, compared again and used.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lance_catalog import DirectoryNamespace
from lance_catalog.config import Mode
from lance_catalog.directory.deregistered import deregistered
from lance_catalog.errors import LanceNamespaceError
from lance_catalog.maintenance.check import check
from lance_catalog.maintenance.repair import apply, plan
from tests.concurrency.processes import CONTEXT
from tests.concurrency.racing import PATIENCE, ipc, open_catalog, rows_at
from tests.crash.worker import Names, State, main, replay, universe

#: Kills per mode: a tenth of the issue's in `make test`, all of them in `make soak`.
KILLS = {"ci": 20, "soak": 200}
#: Kills that must have hit an operation in flight: the others prove little.
LEAST_IN_FLIGHT = {"ci": 8, "soak": 100}
#: The kill comes this long after the worker is ready, at most.
LONGEST = 0.35
TOGETHER = 2
ABSENT = "absent"


@dataclass
class Worker:
    process: Any
    prefix: str
    log: str
    errors: str

    @classmethod
    def start(cls, root: str, mode: Mode, folder: Path, number: int, seed: int) -> Worker:
        log, errors = str(folder / f"log{number}"), str(folder / f"err{number}")
        prefix = f"w{number}"
        told = (errors, root, mode.value, str(seed), prefix, log)
        process = CONTEXT.Process(target=work, args=told, daemon=True)
        process.start()
        return cls(process, prefix, log, errors)

    def kill_after(self, seconds: float) -> None:
        """Wait until it works, let it work a while, kill it."""
        end = time.monotonic() + PATIENCE
        while not (os.path.exists(self.log) and os.path.getsize(self.log)):
            self.process.join(0.005)
            assert self.process.is_alive(), Path(self.errors).read_text()
            assert time.monotonic() < end, "it did not begin"
        self.process.join(seconds)
        self.process.kill()
        self.process.join(PATIENCE)
        assert self.process.exitcode == -signal.SIGKILL, Path(self.errors).read_text()


def work(errors: str, *told: str) -> None:
    """What a worker runs: what it complains goes into a file."""
    with open(errors, "wb") as file:
        os.dup2(file.fileno(), 2)
    main(*told)


def observed(ns: DirectoryNamespace, names: Names) -> list[int] | str | None:
    """What a reader finds: the rows, None for a declared table, or that there is none."""
    try:
        found = ns.describe_table({"id": list(names), "check_declared": True})
    except LanceNamespaceError as error:
        if error.code not in (1, 4):
            raise
        return ABSENT
    return None if found.is_only_declared else rows_at(found.location)


def expected(state: State, names: Names) -> list[int] | str | None:
    if names not in state.tables:
        return ABSENT
    rows = state.tables[names]
    return None if rows is None else sorted(rows)


def compare(ns: DirectoryNamespace, mode: Mode, worker: Worker, *, mended: bool) -> list[str]:
    """Where the catalog contradicts a worker's log."""
    state, flying, _ = replay(worker.log, mode)
    after = state.copy()
    if flying is not None:
        after.apply(flying, None)
    wrong = []
    listed = set(ns.list_all_tables({"id": []}).tables)
    for names in universe(mode, worker.prefix):
        found = observed(ns, names)
        allowed = [expected(state, names), expected(after, names)]
        # Over a dropped table it is hidden until it is whole, unless that one had no data either.
        anew = not (state.trash.get(names) or [None])[-1]
        if flying is not None and flying["verb"] == "create" and tuple(flying["id"]) == names:
            # By C02 the first file makes a table of a directory; it reads as declared until it
            # is whole, and a repair takes it away.
            allowed += [None] if anew and mode is not Mode.V2 and not mended else []
        if found not in allowed:
            wrong.append(f"{names}: found {found}, allowed {allowed}, in flight {flying}")
        if ("$".join(names) in listed) is (found == ABSENT):
            wrong.append(f"{names}: found {found}, but the list has {sorted(listed)}")
    dropped = restorable(ns)
    for names in universe(mode, worker.prefix):
        counts = {len(state.trash.get(names, [])), len(after.trash.get(names, []))}
        if len(dropped.get(names, [])) not in counts:
            wrong.append(f"{names}: {dropped.get(names)} can be undropped, in flight {flying}")
    for space in state.namespaces & after.namespaces:
        ns.namespace_exists({"id": list(space)})
    return wrong


def restorable(ns: DirectoryNamespace) -> dict[Names, list[str]]:
    """The places of what can be undropped, by id, the latest last."""
    found: dict[Names, list[str]] = {}
    for one in ns.list_dropped_tables():
        if not one.purging and one.expires_at_ms != one.deleted_at_ms:
            found.setdefault(tuple(one.id), []).insert(0, one.location)
    return found


def bring_back(ns: DirectoryNamespace, mode: Mode, worker: Worker) -> list[str]:
    """Register what was deregistered, undrop what was dropped: its data was kept."""
    state, flying, _ = replay(worker.log, mode)
    busy = set() if flying is None else {tuple(flying["id"]), tuple(flying.get("to", ()))}
    wrong = []
    for names, (rows, place) in state.hidden.items():
        if names in busy or (len(names) > 1 and names[:-1] in busy):
            continue
        ns.register_table({"id": list(names), "location": place})
        found = observed(ns, names)
        if found != (None if rows is None else sorted(rows)):
            wrong.append(f"{names}: {rows} before it was deregistered, {found} now")
    dropped = restorable(ns)
    for names, drops in state.trash.items():
        if names in busy or (len(names) > 1 and names[:-1] in busy):
            continue
        for rows, place in zip(drops, dropped.get(names, []), strict=True):
            found = None if rows is None else rows_at(f"{_root(ns)}/{place}")
            if found != (None if rows is None else sorted(rows)):
                wrong.append(f"{names}: {rows} before it was dropped, {found} now")
        free = observed(ns, names) == ABSENT and (len(names) == 1 or names[:-1] in state.namespaces)
        if drops and free:
            ns.undrop_table(names)
            found = observed(ns, names)
            if found != (None if drops[-1] is None else sorted(drops[-1])):
                wrong.append(f"{names}: {drops} before it was dropped, {found} undropped")
    return wrong


def mend(ns: DirectoryNamespace) -> Counter[str]:
    """Repair once, and a check finds nothing; what was found before."""
    steps = plan(ns.context, grace_seconds=-3600)
    failed = [(step, why) for step, why in apply(ns.context, steps) if why is not None]
    problems = check(ns.context, grace_seconds=-3600).problems
    assert problems == [], (problems, failed)
    return Counter(step.kind for step in steps)


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("size", ["ci", pytest.param("soak", marks=pytest.mark.soak)])
def test_killed_at_any_moment(tmp_path: Path, mode: Mode, size: str) -> None:
    seed = 20_000 if size == "ci" else random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)
    root = str(tmp_path / "root")
    workers: list[Worker] = []
    verbs: Counter[str] = Counter()
    found: Counter[str] = Counter()
    done = 0
    for start in range(0, KILLS[size], TOGETHER):
        numbers = range(start, start + TOGETHER)
        batch = [Worker.start(root, mode, tmp_path, n, chance.randrange(1 << 30)) for n in numbers]
        for worker in batch:
            worker.kill_after(chance.uniform(0, LONGEST))
        workers += batch
        ns = open_catalog(root, mode)
        assert _all(compare(ns, mode, worker, mended=False) for worker in batch) == []
        for worker in batch:
            _, flying, count = replay(worker.log, mode)
            verbs[flying["verb"] if flying else "nothing"] += 1
            done += count
        if (start // TOGETHER) % 3 == 2:
            found += mend(ns)
    ns = open_catalog(root, mode)
    found += mend(ns)
    assert _all(compare(ns, mode, worker, mended=True) for worker in workers) == []
    print(f"{mode.value}: {done} acknowledged; in flight {dict(verbs)}; mended {dict(found)}")
    assert _all(bring_back(ns, mode, worker) for worker in workers) == []
    go_on(ns, mode, workers)
    assert check(ns.context, grace_seconds=0).problems == []
    assert sum(verbs.values()) - verbs["nothing"] >= LEAST_IN_FLIGHT[size]


def go_on(ns: DirectoryNamespace, mode: Mode, workers: list[Worker]) -> None:
    """Every name that a crash touched can be used again."""
    for worker in workers:
        flying = replay(worker.log, mode)[1]
        if flying is None or flying["verb"].endswith("namespace"):
            continue
        names = list(flying["id"])
        if observed(ns, tuple(names)) == ABSENT and len(names) == 1:
            if tuple(names) in {one.names for one in deregistered(ns.context)}:
                ns.drop_table({"id": names})
            ns.create_table({"id": names}, ipc([1]))
            ns.insert_into_table({"id": names}, ipc([2]))
            assert observed(ns, tuple(names)) == [1, 2]


def _root(ns: DirectoryNamespace) -> str:
    store: Any = ns.context.store
    return str(store.path)


def _all(parts: Any) -> list[str]:
    return [line for part in parts for line in part]
