"""Streaming queries in a process of their own, that a test kills with all that it started.

``python -m tests.spark.stream_driver <json>``: where to read, where to write. They run until they
are killed, or with ``drain`` until everything is written.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from lance_catalog import DirectoryNamespace
from lance_catalog.spark.session import session
from lance_catalog.spark.streaming import read_stream, write_stream

#: Longer than any start of Spark on a busy machine.
PATIENCE = 600.0
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


class Child:
    """A process that leads a session of its own; the JVM and its workers are in that."""

    def __init__(
        self, module: str, told: dict[str, Any], output: IO[bytes] | None = None, **more: str
    ) -> None:
        base = Path(__file__).parents[2]
        path = os.pathsep.join([str(base / "src"), str(base)])
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, json.dumps(told)],
            # What a store asks for comes as properties, or not at all.
            env={**_without_credentials(), "PYTHONPATH": path, **more},
            cwd=base,
            stdin=subprocess.DEVNULL,
            stdout=output or subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def ended(self) -> int | None:
        return self._process.poll()

    def stopped(self) -> bool:
        """Whether one of its workers stands at a fail point; not, when somebody stopped all."""
        states = dict(self._all())
        return "T" in states.values() and states.get(self._process.pid) != "T"

    def kill(self) -> None:
        """Kill every process of the session, so that none can end anything in order."""
        while members := [pid for pid, state in self._all() if state not in "ZX"]:
            for pid in members:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            time.sleep(0.01)
        self._process.wait()

    def _all(self) -> Iterator[tuple[int, str]]:
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                state, _, _, leader = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            except OSError:
                continue
            if int(leader) == self._process.pid:
                yield int(entry.name), state


def _without_credentials() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}


@contextmanager
def started(
    module: str, told: dict[str, Any], output: IO[bytes] | None = None, **more: str
) -> Iterator[Child]:
    child = Child(module, told, output, **more)
    try:
        yield child
    finally:
        child.kill()


def wait_for(what: str, seen: Callable[[], bool], patience: float = PATIENCE) -> None:
    deadline = time.monotonic() + patience
    while not seen():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.02)


def main() -> None:
    told = json.loads(sys.argv[1])
    spark = session("stream driver", master="local[2]", config=SETTINGS)
    running = []
    for one in told["queries"]:
        catalog = DirectoryNamespace(root=one["root"])
        if "files" in one:
            reader = spark.readStream.schema("id long").option("maxFilesPerTrigger", told["most"])
            df = reader.json(one["files"])
        else:
            df = read_stream(spark, catalog, one["from"])
        into, checkpoint = one["into"], one["checkpoint"]
        writer = write_stream(df, catalog, into, query_id=one["id"], checkpoint=checkpoint)
        running.append((writer.trigger(availableNow=True) if told["drain"] else writer).start())
    for query in running:
        query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
