"""Processes that may be killed, without the second that each of them would take to start.

One process imports everything and uses nothing; it forks a child for each call. Lance is not safe
to fork once it runs, and only imported it does not: its threads begin with the first call.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import NamedTuple

from tests.concurrency.racing import PATIENCE

__all__ = ["Ended", "Nursery"]


class Ended(NamedTuple):
    """How a child ended: its exit code, or minus the signal that killed it; what it complained."""

    code: int
    errors: str


class Nursery:
    """Runs calls of ``main(*arguments)`` of a module, one child at a time."""

    def __init__(self, module: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.nursery", module],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    def run(self, points: str, *arguments: str) -> Ended:
        """Run a call with fail points armed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([points, *arguments]).encode() + b"\n")
        self._process.stdin.flush()
        ready, _, _ = select.select([self._process.stdout], [], [], PATIENCE)
        if not ready:
            # The child too: it holds the pipe that the end waits for.
            os.killpg(self._process.pid, signal.SIGKILL)
        assert ready, f"{arguments} with {points} did not end"
        return Ended(*json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        """Let it go."""
        self._process.communicate()


def _serve(module: str) -> None:
    from lance_catalog import failpoints

    main = importlib.import_module(module).main
    warnings.simplefilter("ignore")  # Of forking: see above.
    for line in sys.stdin:
        points, *arguments = json.loads(line)
        with tempfile.TemporaryFile() as errors:
            child = os.fork()
            if child == 0:
                os.dup2(errors.fileno(), 2)
                code = 1
                try:
                    failpoints._plan = failpoints._parse(points)
                    main(*arguments)
                    code = 0
                except BaseException:
                    traceback.print_exc()
                finally:
                    sys.stderr.flush()
                    os._exit(code)
            _, status = os.waitpid(child, 0)
            errors.seek(0)
            said = errors.read().decode(errors="replace")
        sys.stdout.write(json.dumps([os.waitstatus_to_exitcode(status), said]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve(sys.argv[1])
