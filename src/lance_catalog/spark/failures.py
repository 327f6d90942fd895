"""What Spark says of a failed job, as the error of ours that a task raised."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from pyspark.errors import PySparkException

from lance_catalog import errors
from lance_catalog.errors import InternalError, LanceNamespaceError

__all__ = ["from_spark", "spark_errors"]

_FROM_SPARK: Final[tuple[type[Exception], ...]] = (PySparkException,)
with suppress(ModuleNotFoundError):  # Not there where Spark is only a Connect client.
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    _FROM_SPARK = (PySparkException, Py4JError)  # type: ignore[misc]

# What Spark says of a failed task begins with its own words; ours are somewhere in the middle.
_OURS: Final = re.compile(r"\blance_(?:namespace|catalog)\.errors\.(\w+): (.+)")


@contextmanager
def spark_errors(what: str) -> Iterator[None]:
    """Turn a failed job of Spark's into the error of ours that a task raised."""
    try:
        yield
    except _FROM_SPARK as error:
        raise from_spark(error, what) from error


def from_spark(error: BaseException, what: str) -> LanceNamespaceError:
    """Return the error of ours that made a job fail; 18 where it was none of ours."""
    text = str(error)
    found = _OURS.findall(text)
    if found:
        name, message = found[-1]
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, LanceNamespaceError):
            made: LanceNamespaceError = kind(message.strip())
            return made
    return InternalError(f"{what}: the Spark job failed: {text.strip()[:1000]}")
