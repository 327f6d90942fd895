"""Filters built from values: ``col("age") > 3`` as text of Lance's SQL.

A value can only ever become a literal and a name only ever a quoted identifier, whatever they
hold: nothing is pasted in as it comes (invariant 5).
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lance_catalog.errors import InvalidInputError

__all__ = ["Predicate", "col", "filter_text"]


@dataclass(frozen=True, eq=False)
class Predicate:
    """A condition, combined by ``&``, ``|`` and ``~``; ``str()`` is the text that Lance runs."""

    sql: str

    def __and__(self, other: Predicate) -> Predicate:
        return Predicate(f"({self.sql} AND {_condition(other).sql})")

    def __or__(self, other: Predicate) -> Predicate:
        return Predicate(f"({self.sql} OR {_condition(other).sql})")

    def __invert__(self) -> Predicate:
        return Predicate(f"(NOT {self.sql})")

    def __bool__(self) -> bool:
        # `a and b` would silently drop one of them, and `3 < x < 5` the lower bound.
        raise TypeError("combine conditions by & | ~, not by and, or, not; each in parentheses")

    def __str__(self) -> str:
        return self.sql


@dataclass(frozen=True, eq=False)
class Column:
    """A column, or a field of a struct by dotted name: compared with values it is a condition."""

    name: str

    def __eq__(self, other: object) -> Predicate:  # type: ignore[override]
        return self.is_null() if other is None else self._compare("=", other)

    def __ne__(self, other: object) -> Predicate:  # type: ignore[override]
        return ~self.is_null() if other is None else self._compare("<>", other)

    def __lt__(self, other: object) -> Predicate:
        return self._compare("<", other)

    def __le__(self, other: object) -> Predicate:
        return self._compare("<=", other)

    def __gt__(self, other: object) -> Predicate:
        return self._compare(">", other)

    def __ge__(self, other: object) -> Predicate:
        return self._compare(">=", other)

    __hash__ = None  # type: ignore[assignment]

    def isin(self, values: Iterable[Any]) -> Predicate:
        """Whether the value is one of some."""
        texts = [_literal(value) for value in values]
        if not texts:
            return Predicate("(1 = 0)")
        return Predicate(f"({_quoted(self.name)} IN ({', '.join(texts)}))")

    def between(self, low: Any, high: Any) -> Predicate:
        """Whether the value lies between two, both included."""
        return self._compare(">=", low) & self._compare("<=", high)

    def is_null(self) -> Predicate:
        """Whether there is no value."""
        return Predicate(f"({_quoted(self.name)} IS NULL)")

    def startswith(self, text: str) -> Predicate:
        """Whether a text begins with another."""
        return Predicate(f"starts_with({_quoted(self.name)}, {_literal(text)})")

    def contains(self, text: str) -> Predicate:
        """Whether a text holds another."""
        return Predicate(f"contains({_quoted(self.name)}, {_literal(text)})")

    def _compare(self, sign: str, other: object) -> Predicate:
        right = _quoted(other.name) if isinstance(other, Column) else _literal(other)
        return Predicate(f"({_quoted(self.name)} {sign} {right})")


def col(name: str) -> Column:
    """Return a column to compare: ``(col("age") >= 18) & (col("name") == "Ann")``."""
    return Column(name)


def filter_text(given: str | Predicate | None) -> str | None:
    """Return the text of a filter: given as such, or built here."""
    if given is None or isinstance(given, str):
        return given
    return _condition(given).sql


def _condition(given: object) -> Predicate:
    if not isinstance(given, Predicate):
        raise InvalidInputError(
            f"a filter is text of Lance's SQL, or built as col('age') > 3; "
            f"got {type(given).__name__}"
        )
    return given


def _quoted(name: str) -> str:
    if not isinstance(name, str) or any(char in name for char in "`\0"):
        # Lance's parser knows no way to write a backtick inside backticks.
        raise InvalidInputError(f"column name {name!r} cannot be written in a filter of Lance's")
    parts = name.split(".")
    if not all(parts):
        raise InvalidInputError(f"column name {name!r} has an empty part")
    return ".".join(f"`{part}`" for part in parts)


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, decimal.Decimal) and value.is_finite():
        return _decimal(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, (bytes, bytearray)):
        return f"X'{bytes(value).hex()}'"
    if isinstance(value, dt.datetime):
        return _timestamp(value)
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    raise InvalidInputError(
        f"a filter cannot hold {value!r} ({type(value).__name__}); give a number, text, bytes, "
        "a date or a time, and write is_null() for None"
    )


def _text(value: str) -> str:
    if "\0" in value:
        raise InvalidInputError("a text in a filter holds the character U+0000")
    return "'" + value.replace("'", "''") + "'"


def _float(value: float) -> str:
    if not math.isfinite(value):
        raise InvalidInputError(f"a filter cannot hold the number {value}")
    # An exponent makes it a float whatever its size.
    return f"{value!r}" if "e" in repr(value) else f"{value!r}e0"


def _decimal(value: decimal.Decimal) -> str:
    text = f"{value:f}"
    digits = text.lstrip("-").replace(".", "")
    scale = len(text.partition(".")[2])
    if len(digits) > 38:
        raise InvalidInputError(f"a filter cannot hold {value}: more than 38 digits")
    # A bare 1.5 is a float to Lance, which it does not compare with decimals.
    return f"CAST('{text}' AS DECIMAL({max(len(digits), 1)}, {scale}))"


def _timestamp(value: dt.datetime) -> str:
    if value.tzinfo is None:
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    # Lance reads a bare time in the zone of the column, whatever offset is written with it.
    utc = value.astimezone(dt.UTC).replace(tzinfo=None)
    return f"""arrow_cast('{utc.isoformat()}', 'Timestamp(Microsecond, Some("+00:00"))')"""
