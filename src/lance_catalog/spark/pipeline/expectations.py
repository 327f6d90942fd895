"""Whether rows are as expected: counted by one pass, with a sample of those that are not."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from lance_catalog.errors import InvalidInputError
from lance_catalog.spark.pipeline.model import Expectations
from lance_catalog.spark.pipeline.report import Failed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["check", "duplicates", "plain"]

#: How many rows that fail are shown.
_SAMPLE: Final = 5
#: How much of a long list is shown of them: a vector tells nobody anything.
_LONGEST: Final = 8


def check(target: str, frame: DataFrame, wanted: Expectations) -> tuple[int, list[Failed]]:
    """Return how many rows there are, and the expectations that they do not meet."""
    tests = list(_tests(frame, wanted))
    counts = [
        F.count(F.when(failing, F.lit(1))).alias(f"c{number}")
        for number, (_, failing, _) in enumerate(tests)
    ]
    counted = frame.agg(F.count(F.lit(1)).alias("rows"), *counts).collect()[0]
    rows = int(counted["rows"])
    failed = list(_bounds(target, wanted, rows))
    for number, (said, failing, most) in enumerate(tests):
        bad = int(counted[f"c{number}"])
        if bad and bad > most * rows:
            allowed = f", at most {most:.4g} of them may" if most else ""
            message = f"{target}: {bad} of {rows} rows fail {said}{allowed}"
            sample = [plain(row.asDict()) for row in frame.where(failing).limit(_SAMPLE).collect()]
            failed.append(Failed(target, said, message, bad, rows, sample))
    for key in wanted.unique:
        failed += duplicates(target, frame, key, rows)
    return rows, failed


def _tests(frame: DataFrame, wanted: Expectations) -> Iterator[tuple[str, Column, float]]:
    """Each expectation of single rows: how it is called, which rows fail, how many may."""
    for column in wanted.not_null:
        _require(frame, column)
        yield f"not_null({column})", F.col(_quoted(column)).isNull(), 0.0
    for one in wanted.conditions:
        # A condition that is neither true nor false, for want of a value, is not met.
        failing = ~F.coalesce(F.expr(one.expect), F.lit(False))
        yield one.name or one.expect, failing, one.max_failing


def _bounds(target: str, wanted: Expectations, rows: int) -> Iterator[Failed]:
    least, most = wanted.rows.min, wanted.rows.max
    if least is not None and rows < least:
        message = f"{target}: {rows} rows, expected at least {least}"
        yield Failed(target, f"rows >= {least}", message, 0, rows)
    if most is not None and rows > most:
        message = f"{target}: {rows} rows, expected at most {most}"
        yield Failed(target, f"rows <= {most}", message, 0, rows)


def duplicates(target: str, frame: DataFrame, key: list[str], rows: int) -> Iterator[Failed]:
    """Tell of a key that comes more than once, if one does; one with a null in it is no key."""
    for column in key:
        _require(frame, column)
    columns = [F.col(_quoted(column)) for column in key]
    present = functools.reduce(operator.and_, [column.isNotNull() for column in columns])
    several = frame.where(present).groupBy(*columns).agg(F.count(F.lit(1)).alias("__rows"))
    several = several.where(F.col("__rows") > 1)
    told = several.agg(F.count(F.lit(1)).alias("keys"), F.sum("__rows").alias("rows")).collect()[0]
    if not told["keys"]:
        return
    said = f"unique({', '.join(key)})"
    sample = [
        plain({**{name: row[name] for name in key}, "rows": row["__rows"]})
        for row in several.orderBy(F.col("__rows").desc()).limit(_SAMPLE).collect()
    ]
    message = f"{target}: {told['keys']} values of {', '.join(key)} occur in {told['rows']} rows"
    yield Failed(target, said, message, int(told["rows"]), rows, sample)


def _require(frame: DataFrame, column: str) -> None:
    if column.lower() not in [name.lower() for name in frame.columns]:
        raise InvalidInputError(
            f"an expectation names column '{column}', and the rows have {', '.join(frame.columns)}"
        )


def _quoted(column: str) -> str:
    return "`" + column.replace("`", "``") + "`"


def plain(value: Any) -> Any:
    """Return a value of Spark's as JSON can hold it, long lists and bytes cut."""
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items()}
    if hasattr(value, "asDict"):
        return plain(value.asDict())
    if isinstance(value, list | tuple):
        shown = [plain(inner) for inner in value[:_LONGEST]]
        more = len(value) - _LONGEST
        return [*shown, f"… {more} more"] if more > 0 else shown
    if isinstance(value, bytes | bytearray):
        return f"{len(value)} bytes"
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    if isinstance(value, Decimal | timedelta):
        return str(value)
    return value
