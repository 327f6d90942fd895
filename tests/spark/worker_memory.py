"""How much memory Spark's Python workers took at most, as the kernel counts it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Peak", "measured", "resident"]


@dataclass
class Peak:
    """What the workers took while a block ran: bytes of the largest of them."""

    each: dict[int, int] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        return max(self.each.values(), default=0)


@contextmanager
def measured() -> Iterator[Peak]:
    """Tell the peak of each worker, as the kernel counts it from when the block begins.

    Looked at again and again, for Spark ends workers that are idle.
    """
    for pid in _workers():
        with suppress(OSError):
            Path(f"/proc/{pid}/clear_refs").write_text("5")
    found, ended = Peak(), threading.Event()

    def look() -> None:
        for pid in _workers():
            found.each[pid] = max(found.each.get(pid, 0), _told(pid, "VmHWM") or 0)

    def watch() -> None:
        while not ended.wait(0.25):
            look()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield found
    finally:
        ended.set()
        watcher.join()
    look()


def resident() -> list[int]:
    """Return what each worker holds now, sorted."""
    return sorted(size for pid in _workers() if (size := _told(pid, "VmRSS")) is not None)


def _workers() -> list[int]:
    """The workers below this process: children of a daemon of Spark's, forked and busy or idle."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                rest = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(rest[1])
    return [pid for pid in parents if _is_below(pid, parents) and _is_worker(pid, parents)]


def _is_below(pid: int, parents: dict[int, int]) -> bool:
    while pid in parents:
        pid = parents[pid]
        if pid == os.getpid():
            return True
    return False


def _is_worker(pid: int, parents: dict[int, int]) -> bool:
    return all(b"pyspark.daemon" in _command(one) for one in (pid, parents[pid]))


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _told(pid: int, key: str) -> int | None:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    lines = [line for line in text.splitlines() if line.startswith(f"{key}:")]
    return int(lines[0].split()[1]) * 1024 if lines else None
