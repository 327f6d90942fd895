"""Processes that append rows to managed tables, say so in a log, and may be killed at any moment.

A line before each append, one after it. What was acknowledged must be there once, what was only
tried may be; nothing else.
"""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lance

from lance_catalog import DirectoryNamespace
from lance_catalog.config import Mode
from lance_catalog.manifest import fairness
from tests.concurrency.batches import until
from tests.concurrency.managed import location, read, table, write
from tests.concurrency.managed_bugs import planted
from tests.concurrency.racing import open_catalog, rows_at
from tests.concurrency.victims import Victim

#: Rows of one process lie in a range of their own.
RANGE = 1 << 20


@dataclass(frozen=True)
class Job:
    """What one process does: append to some tables until there is a file ``stop``."""

    root: str
    mode: Mode
    number: int
    folder: str
    tables: tuple[str, ...]
    #: ``managed`` through the catalog, ``foreign`` without it.
    kind: str = "managed"
    bug: str | None = None
    seed: int = 0
    #: Appends after which it has enough.
    limit: int = 1 << 19
    #: Whether it takes turns with others, as in use; one that does not can keep them out for long.
    turns: bool = False

    @property
    def log(self) -> str:
        return f"{self.folder}/log{self.number}"

    @property
    def stop(self) -> str:
        return f"{self.folder}/stop"


def append_until_stopped(job: Job) -> None:
    """The process itself."""
    # Writers that take turns hardly ever meet; these are here to meet.
    quiet = 1.0 if job.turns else 0.0
    setattr(fairness, "_QUIET", quiet)  # noqa: B010 (it is final to everyone else)
    chance = random.Random(job.seed * 1000 + job.number)
    row = job.number * RANGE
    with planted(job.bug), open(job.log, "a", encoding="utf-8", buffering=1) as log:
        writer = Writer(open_catalog(job.root, job.mode), job.kind, chance)
        log.write("ready\n")
        until(lambda: os.path.exists(f"{job.folder}/go"), "nobody said go")
        while not os.path.exists(job.stop) and row < job.number * RANGE + job.limit:
            # Half of it on one table: there they meet.
            name = job.tables[0] if chance.random() < 0.4 else chance.choice(job.tables)
            row += 1
            log.write(f"try {row} {name}\n")
            try:
                writer.append(name, row)
            except Exception as error:  # Of Lance's and of ours: it was not acknowledged.
                log.write(f"failed {row} {type(error).__name__}: {str(error)[:160]!r}\n")
            else:
                log.write(f"done {row} {writer.refused}\n")


@dataclass
class Writer:
    """Appends one row at a time: by a new handle, or by one it has kept, which others outran."""

    ns: DirectoryNamespace
    kind: str
    chance: random.Random
    refused: int = 0
    _kept: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        commit: Callable[..., Any] = self.ns.create_table_version

        def counting(request: Any) -> Any:
            try:
                return commit(request)
            except BaseException:
                self.refused += 1
                raise

        self.ns.create_table_version = counting  # type: ignore[method-assign]

    def append(self, name: str, row: int) -> None:
        kept = self._kept.pop(name, None)
        if kept is not None and self.chance.random() < 0.6:
            kept.insert(table([row]))
        elif self.kind == "managed":
            kept = write(self.ns, [name], [row])
        else:
            kept = lance.write_dataset(table([row]), location(self.ns, [name]), mode="append")
        self._kept[name] = kept


@dataclass
class Said:
    """What the logs of some processes say."""

    #: Table and whether it was acknowledged, by row.
    tried: dict[int, str] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)
    failed: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    #: Processes that were killed in the middle of an append.
    in_flight: int = 0

    @classmethod
    def of(cls, logs: Iterable[str]) -> Said:
        said = cls()
        for path in logs:
            flying = refused = 0
            for line in Path(path).read_text(encoding="utf-8").split("\n")[:-1]:
                word, _, rest = line.partition(" ")
                number, _, more = rest.partition(" ")
                if word == "try":
                    said.tried[int(number)], flying = more, 1
                elif word == "done":
                    said.done.add(int(number))
                    flying, refused = 0, int(more)
                elif word == "failed":
                    said.failed[more.partition(":")[0]] += 1
                    flying = 0
            said.refused += refused
            said.in_flight += flying
        return said

    def violations(self, ns: DirectoryNamespace, tables: Sequence[str]) -> list[str]:
        """Where the tables contradict it; the row 0 was there before."""
        wrong: list[str] = []
        everywhere: Counter[int] = Counter()
        for name in tables:
            rows = read(ns, [name])
            if (alone := rows_at(location(ns, [name]))) != rows:
                wrong.append(f"{name}: {len(rows)} rows, without the catalog {len(alone)}")
            everywhere.update(row for row in rows if row)
        wrong += [f"row {row} is there {n} times" for row, n in everywhere.items() if n > 1]
        wrong += [
            f"row {row} of {self.tried[row]} was acknowledged and is lost"
            for row in sorted(self.done - everywhere.keys())
        ]
        wrong += [f"row {row} was never written" for row in everywhere.keys() - self.tried.keys()]
        return wrong


@dataclass
class Crew:
    """Several such processes; whoever is killed is replaced.

    ``idle`` are taken before others are started, and who is done comes back to them.
    """

    idle: list[Victim]
    jobs: Callable[[int], Job]
    _started: int = 0
    members: dict[int, Victim] = field(default_factory=dict)
    everyone: list[Job] = field(default_factory=list)

    def hire(self, count: int = 1) -> None:
        for _ in range(count):
            job = self.jobs(self._started)
            victim = self.idle.pop() if self.idle else Victim()
            victim.send(append_until_stopped, job)
            self.members[self._started] = victim
            self.everyone.append(job)
            self._started += 1

    def begin(self, count: int) -> None:
        """Hire some, and let them go when all of them are there."""
        self.hire(count)
        until(lambda: all(self.lines(number) for number in self.members), "not everybody came")
        Path(self.everyone[0].folder, "go").touch()

    def ready(self) -> list[int]:
        """Those that have done something."""
        return [n for n in self.members if self.lines(n) > 2]

    def lines(self, number: int) -> int:
        path = Path(self.everyone[number].log)
        return path.read_text(encoding="utf-8").count("\n") if path.exists() else 0

    def kill(self, number: int) -> None:
        victim = self.members.pop(number)
        assert victim._process.pid is not None
        os.kill(victim._process.pid, signal.SIGKILL)
        assert victim.answer() is None

    def said(self) -> Said:
        return Said.of(job.log for job in self.everyone if os.path.exists(job.log))

    def stop(self) -> Said:
        """Let them finish what they do; what all of them said."""
        Path(self.everyone[0].stop).touch()
        for victim in self.members.values():
            victim.answer()
        self.end()
        return self.said()

    def end(self) -> None:
        for victim in self.members.values():
            if victim.idle:
                self.idle.append(victim)
            else:
                victim.end()
        self.members.clear()
