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
    """The turns of one process on one root. Used by one thread at a time."""

    def __init__(self, store: Store) -> None:
        self._name = hashlib.sha256(store.uri.encode()).hexdigest()[:32]
        self._file: int | None = None
        self._met = float("-inf")

    @property
    def held(self) -> bool:
        return self._file is not None

    def met_another(self) -> None:
        """Note that another writer was there just now."""
        self._met = time.monotonic()

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """Hold the turn for a while, if others write and it can be had."""
        try:
            if time.monotonic() - self._met < _QUIET:
                self.wait()
            yield
        finally:
            self.end()

    def wait(self) -> None:
        """Wait for the turn, a limited time."""
        if self.held or fcntl is None:
            return
        try:
            number = self._open()
        except OSError:
            return
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if not _Waiter(number).arrives_within(_PATIENCE):
                return
        self._file = number

    def _open(self) -> int:
        folder = os.path.join(tempfile.gettempdir(), f"lance-catalog-turns-{os.getuid()}")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        return os.open(os.path.join(folder, self._name), os.O_CREAT | os.O_RDWR, 0o600)

    def end(self) -> None:
        """Give the turn back."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
