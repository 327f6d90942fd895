"""The memory of a worker between tasks: what is free is given back to the system.

Workers live on for the next task. glibc keeps what was freed in many places at once, and so a
worker that did several kinds of work would hold the sum of what each of them left.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress

import pyarrow as pa

__all__ = ["give_back"]


def give_back() -> None:
    """Give back the memory that nothing in this process uses; some milliseconds."""
    pa.default_memory_pool().release_unused()
    # Other C libraries have no such function, and keep less.
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
