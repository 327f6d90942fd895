"""Whether this process has a Spark session already."""

from __future__ import annotations

from pyspark.sql import SparkSession

__all__ = ["active_session"]


def active_session() -> SparkSession | None:
    """Return the session of this process that is running, if there is one."""
    return SparkSession.getActiveSession()
