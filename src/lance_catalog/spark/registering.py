"""Making a data source known to a session."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

__all__ = ["activate", "register"]

_LOCK: Final = threading.Lock()


def register(spark: SparkSession, source: type[DataSource]) -> None:
    """Register a source; of two threads that do so at once Spark 4.3 would forget one."""
    with _LOCK:
        spark.dataSource.register(source)


def activate(spark: SparkSession) -> None:
    """Make a session that of this thread: in it Spark looks for sources by their names.

    A thread that Python started has none. With Spark Connect the server sees to it.
    """
    inner: Any = spark
    found = getattr(inner, "_jsparkSession", None)
    if found is not None:
        inner._jvm.SparkSession.setActiveSession(found)
