"""A turn among the writers of one machine: a hint that saves refused commits, never a guard.

Taken only while others are seen to write, so a lone writer never waits for one. Whoever does not
get its turn in time goes ahead without: correctness is the landing's alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Final

from lance_catalog.storage.port import Store

try:
    import fcntl
except ImportError:  # Windows: no turn, only backoff.
    fcntl = None  # type: ignore[assignment]

__all__ = ["Turn"]

#: Seconds to wait for a turn; a writer that stopped while holding it is passed.
_PATIENCE: Final = 2.0
#: Seconds without another writer's version after which we stop taking turns.
_QUIET: Final = 1.0
#: Seconds a turn lasts at most, and how long it is kept for a next commit.
_SLICE: Final = 0.04
_IDLE: Final = 0.002
#: Seconds we leave to those who wait, before we ask again.
_YIELD: Final = 0.001
#: Seconds without turns after one that did not come.
_DISTRUST: Final = 10.0


class _Waiter:
    """Waits for a lock on a thread of its own, because waiting for one cannot be given a time.

    Polling instead cost more than the commits themselves: 16 processes that look every
    millisecond keep two cores busy.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._guard = threading.Lock()
        self._arrived = threading.Event()
        self._abandoned = False
        threading.Thread(target=self._wait, name="lance-catalog-turn", daemon=True).start()

    def _wait(self) -> None:
        with contextlib.suppress(OSError):
            fcntl.flock(self._number, fcntl.LOCK_EX)
        with self._guard:
            if self._abandoned:
                os.close(self._number)
            self._arrived.set()

    def arrives_within(self, seconds: float) -> bool:
        """Whether the lock came in time; if not, it is given back as soon as it comes."""
        if self._arrived.wait(seconds):
            return True
        with self._guard:
            self._abandoned = not self._arrived.is_set()
            return not self._abandoned


class Turn:
    """The turns of one process on one root. Commits of one thread at a time use it.

    A turn lasts for a slice of time, not for one commit: what a process writes in a row needs no
    reading of what others wrote, which is most of a contended commit's work. It ends early when
    no further commit comes.
    """

    def __init__(self, store: Store) -> None:
        self._name = hashlib.sha256(store.uri.encode()).hexdigest()[:32]
        self._state = threading.Condition()
        self._file: int | None = None
        self._busy = False
        self._began = self._ended = 0.0
        self._met = self._avoid = float("-inf")
        self._watch: threading.Thread | None = None

    @property
    def held(self) -> bool:
        return self._file is not None

    def met_another(self) -> None:
        """Note that another writer was there just now."""
        self._met = time.monotonic()

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """Hold the turn for a commit, if others write and it can be had."""
        with self._state:
            self._busy = True
        try:
            if not self.held and time.monotonic() - self._met < _QUIET:
                self.wait()
            yield
        finally:
            with self._state:
                self._busy = False
                self._ended = time.monotonic()
                if self._file is not None:
                    self._end_or_watch()

    def wait(self) -> None:
        """Wait for the turn, a limited time; for whoever commits."""
        now = time.monotonic()
        if self.held or fcntl is None or now < self._avoid:
            return
        if now - self._ended < _YIELD:
            # We had it just now. Who waits is woken, but who asks again first would be served.
            time.sleep(_YIELD)
        try:
            number = self._open()
        except OSError:
            return
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if not _Waiter(number).arrives_within(_PATIENCE):
                # Somebody sits on it, stopped perhaps: go without for a while.
                self._avoid = time.monotonic() + _DISTRUST
                return
        with self._state:
            self._file, self._began = number, time.monotonic()

    def _open(self) -> int:
        folder = os.path.join(tempfile.gettempdir(), f"lance-catalog-turns-{os.getuid()}")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        return os.open(os.path.join(folder, self._name), os.O_CREAT | os.O_RDWR, 0o600)

    def _end_or_watch(self) -> None:
        if self._ended - self._began >= _SLICE:
            self._end()
        elif self._watch is None:
            self._watch = threading.Thread(
                target=self._watching, name="lance-catalog-turn", daemon=True
            )
            self._watch.start()
        else:
            self._state.notify()

    def _watching(self) -> None:
        """Give the turn back when its holder has nothing more to write."""
        with self._state:
            while True:
                if self._file is None or self._busy:
                    if not self._state.wait(_QUIET) and self._file is None:
                        self._watch = None
                        return
                    continue
                left = self._ended + _IDLE - time.monotonic()
                if left <= 0:
                    self._end()
                else:
                    self._state.wait(left)

    def _end(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def end(self) -> None:
        """Give the turn back now."""
        with self._state:
            self._end()
