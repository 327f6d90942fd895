"""A driver in a process of its own, that a fail point or a test kills.

``python -m tests.spark.driver <root> <verb> <job> [master]``: verbs of exactly-once writes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from lance_catalog import DirectoryNamespace
from lance_catalog.spark.publish import publish
from lance_catalog.spark.session import session
from lance_catalog.spark.write import write

T = ["db", "t"]
U = ["db", "u"]


def act(spark: SparkSession, catalog: DirectoryNamespace, verb: str, job: str) -> None:
    df = spark.range(100, 120, 1, 2)
    if verb == "publish":
        publish(catalog, {("db", "t"): df, ("db", "u"): df}, job_id=job)
    elif verb == "merge":
        write(df, catalog, T, "merge", keys=["id"], job_id=job)
    elif verb == "create":
        write(df, catalog, U, "create", job_id=job)
    else:
        write(df, catalog, T, "append", job_id=job)


def run(root: str, verb: str, job: str, master: str = "local[2]", **more: str) -> int:
    """Run one in a process of its own; return how it ended."""
    base = Path(__file__).parents[2]
    path = os.pathsep.join([str(base / "src"), str(base)])
    return subprocess.run(
        [sys.executable, "-m", "tests.spark.driver", root, verb, job, master],
        env={**os.environ, "PYTHONPATH": path, **more},
        cwd=base,
        check=False,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=600,
    ).returncode


def main() -> None:
    _, root, verb, job, master = sys.argv
    config = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }
    spark = session("driver", master=master, config=config)
    act(spark, DirectoryNamespace(root=root), verb, job)
    spark.stop()


if __name__ == "__main__":
    main()
