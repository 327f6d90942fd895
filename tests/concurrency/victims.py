"""A process of its own that is killed or stopped at a named step, while others go on."""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from lance_catalog import failpoints
from lance_catalog.directory import reviving, undropping
from lance_catalog.lifecycle import deleting, markers, purge
from tests.concurrency.guards import planted
from tests.concurrency.judging import Call
from tests.concurrency.processes import CONTEXT
from tests.concurrency.purging import Arena, call
from tests.concurrency.racing import PATIENCE

#: From these on it has won, and the others may come.
WON = frozenset({"purge.claimed", "revive.claimed", "undrop.claimed", "undrop.registered"})


class Victim:
    """One process that runs what it is sent."""

    def __init__(self) -> None:
        self._pipe, theirs = CONTEXT.Pipe()
        self._process = CONTEXT.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        #: Whether it waits for something to do.
        self.idle = True

    def send(self, run: Callable[..., Any], *args: Any) -> None:
        self.idle = False
        self._pipe.send((run, args))

    def answer(self, patience: float = PATIENCE) -> Any:
        """What it returned; None when it was killed."""
        assert self._pipe.poll(patience), "the process did not end"
        try:
            good, answer = self._pipe.recv()
        except EOFError:
            self._process.join(PATIENCE)
            code = self._process.exitcode
            assert code == -signal.SIGKILL, f"ended by itself: {code}"
            return None
        assert good, answer
        self.idle = True
        return answer

    def wait_stopped(self) -> None:
        """Wait until it stopped itself; one that ended instead is a finding."""
        end = time.monotonic() + PATIENCE
        while self._state() != "T":
            assert not self._pipe.poll(), f"it went past the step: {self._pipe.recv()}"
            assert time.monotonic() < end, "it did not stop"
            time.sleep(0.001)

    def _state(self) -> str:
        text = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="utf-8")
        return text.rpartition(")")[2].split()[0]

    def resume(self) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, signal.SIGCONT)

    def end(self) -> None:
        self._process.kill()
        self._process.join()


def _serve(pipe: Connection) -> None:
    while True:
        try:
            run, args = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send((True, run(*args)))
        except BaseException:
            pipe.send((False, traceback.format_exc()))


def act(arena: Arena, verb: str, name: str, plan: str, go: str | None = None) -> Call:
    """Do one operation with a fail point set; make the file ``go`` once the others may come."""
    point = plan.partition("=")[0]
    real = failpoints.hit
    failpoints._plan.clear()
    failpoints._hits.clear()
    failpoints._plan.update(failpoints._parse(plan))

    def hit(step: str) -> None:
        if go is not None and (step in WON or step == point):
            Path(go).touch()
        real(step)

    for module in (markers, purge, deleting, reviving, undropping):
        setattr(module, "hit", hit)  # noqa: B010 (they import it by name)
    with planted(arena.planted):
        return call(arena, arena.open(), verb, name, 9)
