"""A run of a pipeline in a process of its own, that dies at a stage.

``python -m tests.spark.pipeline_driver <root> <raw> <kind> <job> <stage>``. A stage is an event of
the run (``step.clean.end``), or ``record``: just before its record is written. Fail points of the
commit come by the environment.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from lance_catalog import DirectoryNamespace
from lance_catalog.spark.pipeline import Event, Pipeline, load
from lance_catalog.spark.pipeline.records import Records
from lance_catalog.spark.session import session

TWO = """\
[pipeline]
name = "shop"
[variables]
raw = "?"
[sources.events]
files = "${raw}/*.parquet"
[steps.clean]
sql = "select * from events where id is not null"
cache = true
[targets.big]
table = "db.big"
from = "big"
mode = "append"
indices = [{ column = "id", type = "BTREE" }]
[targets.big.expectations]
not_null = ["id"]
unique = ["id"]
[targets.small]
table = "db.small"
from = "small"
mode = "append"
[steps.big]
sql = "select * from clean where amount >= 50"
[steps.small]
sql = "select * from clean where amount < 50"
"""
#: Files that go straight to a table.
ONE = """\
[pipeline]
name = "files"
[variables]
raw = "?"
[sources.events]
files = "${raw}/*.parquet"
[targets.big]
table = "db.big"
from = "events"
mode = "append"
indices = [{ column = "id", type = "BTREE" }]
"""


def pipeline(kind: str, raw: str) -> Pipeline:
    return load(TWO if kind == "two" else ONE, {"raw": raw})


def run(root: str, raw: str, kind: str, job: str, stage: str = "", **more: str) -> int:
    """Run one in a process of its own; return how it ended."""
    base = Path(__file__).parents[2]
    path = os.pathsep.join([str(base / "src"), str(base)])
    return subprocess.run(
        [sys.executable, "-m", "tests.spark.pipeline_driver", root, raw, kind, job, stage],
        env={**os.environ, "PYTHONPATH": path, **more},
        cwd=base,
        check=False,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=600,
    ).returncode


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    _, root, raw, kind, job, stage = sys.argv
    config = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }
    spark = session("pipeline", master="local[2]", config=config)
    if stage == "record":
        Records.write = die  # type: ignore[method-assign]

    def told(event: Event) -> None:
        if stage == f"{event.kind}.{event.name}.{'begin' if event.seconds is None else 'end'}":
            die()

    pipeline(kind, raw).run(spark, DirectoryNamespace(root=root), job, progress=told)
    spark.stop()


if __name__ == "__main__":
    main()
