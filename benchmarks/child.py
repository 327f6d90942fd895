"""A measurement in a fresh process: what it imports and holds is its own. Nothing else here.

``run("benchmarks.cold", side="ours")`` starts ``python -m benchmarks.cold`` with the arguments as
JSON and returns the JSON it prints last.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["answer", "forget_peak", "memory", "run"]

_MIB = 1024.0
_HOME = Path(__file__).resolve().parents[1]


def run(module: str, **arguments: Any) -> Any:
    """Run a module of this package in a new interpreter and return what it measured."""
    command = [sys.executable, "-m", module, json.dumps(arguments)]
    done = subprocess.run(command, cwd=_HOME, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        message = f"{module} ended with {done.returncode}:\n{done.stderr[-2000:]}"
        raise RuntimeError(message)
    return json.loads(done.stdout.splitlines()[-1])


def answer(measured: Callable[..., dict[str, Any]]) -> None:
    """Be such a process: call the function with the arguments and print its result."""
    print(json.dumps(measured(**json.loads(sys.argv[1]))))


def memory() -> tuple[float, float]:
    """Return resident memory of this process, now and at its peak, in MiB."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        import resource

        # No /proc: the peak, which macOS counts in bytes, has to do for both.
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _MIB
        peak = peak / _MIB if sys.platform == "darwin" else peak
        return peak, peak
    found = dict(re.findall(r"^(VmRSS|VmHWM):\s+(\d+) kB", status, flags=re.MULTILINE))
    return int(found["VmRSS"]) / _MIB, int(found["VmHWM"]) / _MIB


def forget_peak() -> None:
    """Let the peak start from what is resident now: importing has a peak of its own."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return
