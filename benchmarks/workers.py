"""Processes that create namespaces at the same moment: started once, used by every run.

Spawned, never forked: Lance is not fork-safe. They import and open their catalog first and then
wait for each other, so that only the creations are on the clock.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
import traceback
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Final, Self

import lance_namespace

from benchmarks.sides import connect

__all__ = ["PREFIX", "Job", "Outcome", "Workers"]

#: Of the names they create.
PREFIX: Final = "by-"
#: Native can be slow under contention, but not for ever.
_PATIENCE: Final = 900.0


@dataclass(frozen=True)
class Job:
    """Creations by one process: ``count`` in each of its threads."""

    side: str
    root: str
    threads: int
    count: int


@dataclass
class Outcome:
    """What one or several processes did. Times are of the machine's monotonic clock."""

    started: float = float("inf")
    ended: float = 0.0
    milliseconds: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def per_second(self) -> float:
        """Successful creations per second, from the barrier to the last end."""
        return len(self.milliseconds) / (self.ended - self.started)

    def add(self, other: Outcome) -> None:
        """Count in what another process or thread did."""
        self.started = min(self.started, other.started)
        self.ended = max(self.ended, other.ended)
        self.milliseconds += other.milliseconds
        self.failures += other.failures


class Workers:
    """A number of processes, one of which can also be used alone."""

    def __init__(self, count: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.count = count
        # Kept: with its last owner here its semaphores would go, before a process has found them.
        self._barrier = context.Barrier(count)
        self._pipes: list[Connection] = []
        self._processes = []
        for number in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_serve, args=(theirs, self._barrier, number), daemon=True
            )
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._processes:
            # They hold nothing, and Lance's threads may take their time to end.
            process.kill()
            process.join()

    def run(self, job: Job, *, alone: bool = False) -> Outcome:
        """Run a job in every process, or in the first one alone."""
        used = self._pipes[:1] if alone else self._pipes
        try:
            for pipe in used:
                pipe.send((job, alone))
            answers = [self._answer(pipe, job) for pipe in used]
        except (EOFError, OSError) as error:
            message = f"a process died of {job}; what it said is above"
            raise RuntimeError(message) from error
        together = Outcome()
        for answer in answers:
            together.add(answer)
        return together

    @staticmethod
    def _answer(pipe: Connection, job: Job) -> Outcome:
        if not pipe.poll(_PATIENCE):
            message = f"a process did not end within {_PATIENCE:.0f} s of {job}"
            raise RuntimeError(message)
        answer = pipe.recv()
        if isinstance(answer, Outcome):
            return answer
        raise RuntimeError(answer)


def _serve(pipe: Connection, barrier: Any, number: int) -> None:
    while True:
        try:
            job, alone = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(_create(job, number, None if alone else barrier))
        except Exception:
            # The others must not wait for one that will not come.
            barrier.abort()
            pipe.send(traceback.format_exc())


def _create(job: Job, number: int, barrier: Any) -> Outcome:
    namespace = connect(job.side, job.root)
    # One untimed read: ours loads its snapshot, native opens the manifest.
    namespace.list_namespaces(lance_namespace.ListNamespacesRequest(id=[], limit=1))
    start = threading.Barrier(job.threads)
    outcomes = [Outcome() for _ in range(job.threads)]

    def work(thread: int) -> None:
        outcome = outcomes[thread]
        start.wait()
        outcome.started = time.perf_counter()
        for at in range(job.count):
            name = f"{PREFIX}{number}-{thread}-{at}"
            request = lance_namespace.CreateNamespaceRequest(id=[name])
            begun = time.perf_counter()
            try:
                namespace.create_namespace(request)
            except Exception as error:  # Whatever it is, it is a failure to count.
                outcome.failures.append(f"{type(error).__name__}: {str(error)[:300]}")
            else:
                outcome.milliseconds.append((time.perf_counter() - begun) * 1000)
        outcome.ended = time.perf_counter()

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(job.threads)]
    if barrier is not None:
        barrier.wait(_PATIENCE)
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    together = Outcome()
    for outcome in outcomes:
        together.add(outcome)
    return together
