"""A turn among the writers of one machine: a hint that saves refused commits, never a guard.

Taken only while others are seen to write, so a lone writer never waits for one. Whoever does not
get its turn in time goes ahead without: correctness is the landing's alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import tempfile
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


class Turn:
    """The turns of one process on one root. Used by one thread at a time."""

    def __init__(self, store: Store) -> None:
        self._name = hashlib.sha256(store.uri.encode()).hexdigest()[:32]
        self._file: int | None = None
        self._met = float("-inf")
        self.held = False

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
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            try:
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                # Not in step with the others who wait, or all would look at the same moment.
                time.sleep(random.uniform(0.0002, 0.002))
                continue
            self.held = True
            return

    def _open(self) -> int:
        if self._file is None:
            folder = os.path.join(tempfile.gettempdir(), f"lance-catalog-turns-{os.getuid()}")
            os.makedirs(folder, mode=0o700, exist_ok=True)
            self._file = os.open(os.path.join(folder, self._name), os.O_CREAT | os.O_RDWR, 0o600)
        return self._file

    def end(self) -> None:
        """Give the turn back."""
        if self.held and self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)
            self.held = False

    def __del__(self) -> None:
        if self._file is not None:
            os.close(self._file)
