"""Run a server as a child process: a free port, a deadline on readiness, a sure end."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

LOOPBACK = "127.0.0.1"
START_ATTEMPTS = 3
READY_SECONDS = 30.0
STOP_SECONDS = 10.0
POLL_SECONDS = 0.02
#: What two of each server hold at the most, many times over.
MEMORY_BYTES = 4 << 30


class ServerFailedError(RuntimeError):
    """The server did not start; the message holds the end of its output."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Poll ``condition`` until it holds or the time is up; whether it held."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


class ServerProcess(ABC):
    """Context manager around one server process with a temporary data directory."""

    #: How long it may take until it answers.
    ready_seconds = READY_SECONDS

    def __init__(self) -> None:
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._scratch: Path | None = None

    @abstractmethod
    def _command(self, data: Path) -> tuple[list[str], dict[str, str]]:
        """The command line for ``self.port``, and what it adds to the environment."""

    @abstractmethod
    def _is_ready(self) -> bool:
        """Whether *this* server, known by its own random credentials, answers on the port."""

    @property
    def endpoint(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def pid(self) -> int:
        if self._process is None:
            message = f"{type(self).__name__} is not running"
            raise RuntimeError(message)
        return self._process.pid

    @property
    def scratch(self) -> Path:
        """The directory that goes with the server: its data, its log."""
        if self._scratch is None:
            message = f"{type(self).__name__} is not running"
            raise RuntimeError(message)
        return self._scratch

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def _start(self) -> None:
        for attempt in range(1, START_ATTEMPTS + 1):
            self._scratch = Path(tempfile.mkdtemp(prefix="lance-catalog-server-", dir=_place()))
            # Between our closing the probe socket and the server's bind another process may take
            # the port: the server then exits at once, and another port is tried.
            self.port = free_port()
            self._spawn()
            if wait_until(self._ready_or_dead, self.ready_seconds) and self._alive():
                return
            died = not self._alive()
            tail = (self.scratch / "log").read_text(errors="replace")[-2000:]
            self._stop()
            if not died or attempt == START_ATTEMPTS:
                what = "exited" if died else f"was not ready within {self.ready_seconds:.0f} s"
                message = f"{type(self).__name__} {what}; the end of its output:\n{tail}"
                raise ServerFailedError(message)

    def _spawn(self) -> None:
        data = self.scratch / "data"
        data.mkdir()
        command, extra = self._command(data)
        command = _ending_with_us() + command
        with (self.scratch / "log").open("wb") as log:
            # Its own session, so that the whole process group can be killed, and so that Ctrl-C
            # on the test run does not kill it under the tests' own clean-up.
            self._process = subprocess.Popen(
                command,
                env={**os.environ, **extra},
                cwd=self.scratch,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _ready_or_dead(self) -> bool:
        return not self._alive() or self._is_ready()

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            _end_group(process)
        scratch, self._scratch = self._scratch, None
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)


def _place() -> str | None:
    """Where servers keep what nobody keeps: in memory where there is room, else where files go."""
    memory = Path("/dev/shm")
    if os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > MEMORY_BYTES:
        return str(memory)
    return None


def _ending_with_us() -> list[str]:
    """A prefix that has the kernel kill the server if the test run itself is killed.

    The kernel goes by the thread that started the server, so only the main thread's is safe: a
    server started by a passing thread would die with it.
    """
    setpriv = shutil.which("setpriv")
    if setpriv is None or threading.current_thread() is not threading.main_thread():
        return []
    return [setpriv, "--pdeathsig", "KILL", "--"]


def _end_group(process: subprocess.Popen[bytes]) -> None:
    # The leader is our child and is not reaped before wait() below, so its group id cannot have
    # been given to somebody else unless poll() already saw it end; then only stragglers are left,
    # and a group with members keeps its id.
    # Killed: what it would put in order before it ends is deleted anyway.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(STOP_SECONDS)
