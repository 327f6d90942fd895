"""Spark's Python side prints every failed query to stderr, with its text. A run tells it itself,
once, with the line of the file and without secrets.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from pyspark.logger import PySparkLogger

__all__ = ["unsaid"]

_LOGGERS: Final = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
#: Of this thread alone: other users of the session want to hear of their mistakes.
_silent: ContextVar[bool] = ContextVar("lance_catalog_pipeline_silent", default=False)


class _Silence(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return not _silent.get()


_FILTER: Final = _Silence()


@contextmanager
def unsaid() -> Iterator[None]:
    """Keep Spark from printing what fails in this block."""
    for name in _LOGGERS:
        # Made by PySpark: it calls them with arguments that other loggers do not take.
        PySparkLogger.getLogger(name).addFilter(_FILTER)
    before = _silent.set(True)
    try:
        yield
    finally:
        _silent.reset(before)
