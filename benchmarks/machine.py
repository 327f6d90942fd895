"""Where and with what a run was made: without it a figure means little."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

__all__ = ["BUSY", "about", "is_busy"]

#: A load average above this at the start means that the figures are not to be trusted.
BUSY: Final = 0.5
_PACKAGES: Final = ("lance-catalog", "pylance", "lance-namespace", "pyarrow", "obstore", "numpy")


def is_busy() -> bool:
    """Whether something else keeps the machine busy."""
    return os.getloadavg()[0] > BUSY


def about(folder: Path) -> dict[str, Any]:
    """Return what the JSON says of the machine; ``folder`` is where the catalogs lie."""
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "load": list(os.getloadavg()),
        "busy": is_busy(),
        "cpus": os.cpu_count(),
        "cpu": _cpu(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.platform(),
        "file_system": _file_system(folder),
        "python": platform.python_version(),
        "commit": _commit(),
        "versions": {name: importlib.metadata.version(name) for name in _PACKAGES},
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _file_system(folder: Path) -> str:
    """Return the type of the file system: on tmpfs nothing is a disk."""
    try:
        mounts = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    where = folder.resolve()
    # Later mounts hide earlier ones, and the longest path is the nearest.
    found = [line.split()[1:3] for line in mounts if where.is_relative_to(line.split()[1])]
    return max(found, key=lambda mount: len(mount[0]))[1] if found else "unknown"


def _commit() -> str:
    home = Path(__file__).resolve().parent
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(command, cwd=home, capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"
