"""One Spark session for all tests of a process: it costs seconds and a gigabyte."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["spark"]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from lance_catalog.spark.session import session

    home = tmp_path_factory.mktemp("spark")
    before = dict(os.environ)
    # Workers import this source tree, also when the package is installed from elsewhere.
    source = Path(__file__).parents[2] / "src"
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(source), str(source.parent), *filter(None, [before.get("PYTHONPATH")])]
    )
    made = session(
        "tests",
        master="local[2]",
        config={
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(home / "warehouse"),
            "spark.local.dir": str(home / "local"),
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": str(_made(home / "events")),
            "spark.eventLog.compress": "false",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_log_settings(home)}",
        },
    )
    made.sparkContext.setLogLevel("ERROR")
    made.conf.set("spark.tests.home", str(home))
    yield made
    made.stop()
    os.environ.clear()
    os.environ.update(before)


def _log_settings(home: Path) -> Path:
    """Spark logs into a file of its own, where a test can look for what must not be there."""
    settings = home / "log4j2.properties"
    settings.write_text(
        "rootLogger.level = warn\n"
        "rootLogger.appenderRef.file.ref = file\n"
        "appender.file.type = File\n"
        "appender.file.name = file\n"
        f"appender.file.fileName = {home / 'spark.log'}\n"
        "appender.file.layout.type = PatternLayout\n"
        "appender.file.layout.pattern = %d %p %c: %m%n%ex\n"
    )
    return settings


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
