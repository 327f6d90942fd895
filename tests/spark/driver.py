"""A driver in a process of its own, that a fail point or a test kills.

``python -m tests.spark.driver <root> <verb> <job> [master]`` does one write; :class:`Driver` starts
one that is told what to do, one line of JSON after the other.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from lance_catalog import DirectoryNamespace
from lance_catalog.errors import LanceNamespaceError
from lance_catalog.spark.ingest import ingest
from lance_catalog.spark.publish import publish
from lance_catalog.spark.read import read
from lance_catalog.spark.session import session
from lance_catalog.spark.streaming import write_stream
from lance_catalog.spark.write import write

T = ["db", "t"]
U = ["db", "u"]
BASE = Path(__file__).parents[2]
PATIENCE = 300.0

CONFIG = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


def act(
    spark: SparkSession,
    catalog: DirectoryNamespace,
    verb: str,
    job: str,
    *,
    table: str = "t",
    new: str = "u",
    files: str = "",
    checkpoint: str = "",
) -> Any:
    """Write the numbers from 100 to 119 by two tasks."""
    df = spark.range(100, 120, 1, 2)
    name = ("db", table)
    if verb == "publish":
        return publish(catalog, {name: df, ("db", new): df}, job_id=job)
    if verb == "merge":
        return write(df, catalog, name, "merge", keys=["id"], job_id=job)
    if verb == "create":
        return write(df, catalog, ("db", new), "create", job_id=job)
    if verb == "ingest":
        # A row group is a task.
        return ingest(spark, catalog, name, files, mode="append", job_id=job, task_bytes=1)
    if verb == "stream":
        found = spark.readStream.schema("id long").json(files).repartition(2)
        writer = write_stream(found, catalog, name, query_id=job, checkpoint=checkpoint)
        return writer.trigger(availableNow=True).start().awaitTermination()
    if verb == "direct":
        options = {"root": catalog.context.settings.root, "table": f"db.{table}", "job_id": job}
        return df.write.format("lance").options(**options).mode("append").save()
    if verb == "read":
        return sorted(row["id"] for row in read(spark, catalog, name).collect())
    return write(df, catalog, name, "append", job_id=job)


def run(root: str, verb: str, job: str, master: str = "local[2]", **more: str) -> int:
    """Run one in a process of its own; return how it ended."""
    path = os.pathsep.join([str(BASE / "src"), str(BASE)])
    return subprocess.run(
        [sys.executable, "-m", "tests.spark.driver", root, verb, job, master],
        env={**os.environ, "PYTHONPATH": path, **more},
        cwd=BASE,
        check=False,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=600,
    ).returncode


class DriverEndedError(RuntimeError):
    """The driver is no more: killed, or it failed; the text is the end of what it said."""


class Driver:
    """A driver that does what it is told; ``module`` is what its process runs."""

    def __init__(
        self,
        home: Path,
        given: Mapping[str, Any],
        environment: Mapping[str, str],
        module: str = "tests.spark.driver",
    ) -> None:
        self._log = home / "driver.log"
        with self._log.open("ab") as log:
            # A group of its own, Java included: so it is killed as a machine that goes down.
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, json.dumps(dict(given))],
                env={**os.environ, **environment},
                cwd=home,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def tell(self, do: str, **given: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **given}) + "\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        """What it answers, an error as ``{"error": ...}``."""
        assert self._process.stdout is not None
        end = threading.Timer(PATIENCE, self.kill)
        end.start()
        line = self._process.stdout.readline()
        end.cancel()
        if not line:
            said = self._log.read_text(errors="replace")[-3000:]
            raise DriverEndedError(f"the driver ended with {self._process.wait()}:\n{said}")
        return json.loads(line)

    def ask(self, do: str, **given: Any) -> Any:
        self.tell(do, **given)
        return self.answer()

    def kill(self) -> None:
        """All of it, at once."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """Let it end; kill what does not."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(30)
        self.kill()
        self._process.stdout.close()


def told(result: Any) -> Any:
    """A result as JSON knows it."""
    if hasattr(result, "tables"):
        return {"repeated": result.repeated, "rows": result.rows}
    if hasattr(result, "version"):
        return {"repeated": result.repeated, "rows": result.rows, "version": result.version}
    return result


def serve(do: Any) -> None:
    """Answer lines of JSON until the input ends."""
    for line in sys.stdin:
        given = json.loads(line)
        try:
            answer = told(do(given.pop("do"), **given))
        except Exception as error:  # The outermost edge: whoever asked decides.
            code = int(error.code) if isinstance(error, LanceNamespaceError) else -1
            answer = {"error": f"{type(error).__name__}: {error}", "code": code}
        print(json.dumps(answer), flush=True)


def main() -> None:
    if len(sys.argv) == 2:
        given = json.loads(sys.argv[1])
        spark = session("driver", master=given["master"], config={**CONFIG, **given["config"]})
        serve(lambda verb, root, **how: act(spark, DirectoryNamespace(root=root), verb, **how))
    else:
        _, root, verb, job, master = sys.argv
        spark = session("driver", master=master, config=CONFIG)
        act(spark, DirectoryNamespace(root=root), verb, job)
    spark.stop()


if __name__ == "__main__":
    main()
