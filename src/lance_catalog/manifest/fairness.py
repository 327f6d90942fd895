"""A turn among the writers of one machine: a hint that saves refused commits, never a guard.

Taken after the first conflict only, so a lone writer never pays for it. Whoever does not get its
turn in time goes ahead without: correctness is the gate's alone.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from typing import Final

from lance_catalog.storage.port import Store

try:
    import fcntl
except ImportError:  # Windows: no turn, only backoff.
    fcntl = None  # type: ignore[assignment]

__all__ = ["Turn"]

_PATIENCE: Final = 2.0


class Turn:
    """One commit's turn on one root."""

    def __init__(self, store: Store) -> None:
        self._name = hashlib.sha256(store.uri.encode()).hexdigest()[:32]
        self._file: int | None = None
        self.held = False

    def wait(self) -> None:
        """Wait for the turn, a limited time; a writer that stopped while holding it is passed."""
        if self.held or fcntl is None:
            return
        try:
            folder = os.path.join(tempfile.gettempdir(), f"lance-catalog-turns-{os.getuid()}")
            os.makedirs(folder, mode=0o700, exist_ok=True)
            self._file = os.open(os.path.join(folder, self._name), os.O_CREAT | os.O_RDWR, 0o600)
        except OSError:
            return
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                time.sleep(0.001)
                continue
            self.held = True
            return

    def end(self) -> None:
        """Give the turn back."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
            self.held = False
