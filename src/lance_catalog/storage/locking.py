"""The lock of a root on local disk: of the folder itself, with no file to leave or to lose."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from lance_catalog.errors import ServiceUnavailableError

__all__ = ["locked"]

#: How long to wait for the lock, and how often to look. Holders take milliseconds.
_SECONDS: Final = 30.0
_LOOK: Final = 0.0005


@contextmanager
def locked(path: str) -> Iterator[None]:
    """Hold the lock of a folder, made if need be, while the block runs."""
    os.makedirs(path, exist_ok=True)
    number = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _lock(number, path)
        yield
    finally:
        os.close(number)


def _lock(number: int, path: str) -> None:
    """Lock, and give up on a holder that does not move: death frees a lock, a stop does not."""
    deadline = time.monotonic() + _SECONDS
    while True:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise ServiceUnavailableError(
                    f"another process has held the lock of {path} for {_SECONDS:.0f} s; it may be "
                    "stopped or hang. Retry later."
                ) from None
        time.sleep(_LOOK)
