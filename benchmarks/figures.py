"""What a measurement comes to: one figure, the bound it is held against, and percentiles."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["Bound", "Figure", "better", "percentile", "summary"]


@dataclass(frozen=True)
class Bound:
    """A target: at most or at least a number."""

    sense: Literal["<=", ">="]
    limit: float
    note: str = ""

    def met(self, value: float) -> bool:
        """Whether a measured value keeps the bound. What could not be measured never does."""
        if math.isnan(value):
            return False
        return value <= self.limit if self.sense == "<=" else value >= self.limit

    def __str__(self) -> str:
        sign = "≤" if self.sense == "<=" else "≥"
        return f"{sign} {self.limit:g}" + (f" ({self.note})" if self.note else "")


@dataclass(frozen=True)
class Figure:
    """One line of the report.

    ``value`` is what the target is about: a ratio, a growth, or plainly ``ours``. ``native`` is
    the better of native's settings; ``details`` has each of them.
    """

    part: str
    name: str
    rows: int | None
    unit: str
    ours: float
    native: float | None
    value: float
    #: What ``value`` is: "ours/native", "ours", "growth" or "last/first".
    measure: str
    note: str = ""
    details: dict[str, Any] = field(default_factory=dict)


def better(values: Iterable[float], *, higher: bool = False) -> float:
    """Return native's best: nobody should win by comparing with the wrong setting."""
    found = [value for value in values if not math.isnan(value)]
    if not found:
        return math.nan
    return max(found) if higher else min(found)


def percentile(values: Sequence[float], share: float) -> float:
    """Return a percentile by linear interpolation; 0.5 is the median. NaN without values."""
    if not values:
        return math.nan
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    low = math.floor(at)
    high = math.ceil(at)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def summary(values: Sequence[float]) -> dict[str, float]:
    """Return the percentiles that go into the JSON."""
    return {
        "count": len(values),
        "p50": percentile(values, 0.5),
        "p90": percentile(values, 0.9),
        "p99": percentile(values, 0.99),
        "max": percentile(values, 1.0),
    }
