"""Sets of version numbers as short texts: ``1-9,11``. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Spans"]


@dataclass(frozen=True, slots=True)
class Spans:
    """Version numbers, as inclusive runs in rising order."""

    runs: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, numbers: Iterable[int]) -> Spans:
        """Put numbers together."""
        runs: list[tuple[int, int]] = []
        for number in sorted(set(numbers)):
            if runs and runs[-1][1] == number - 1:
                runs[-1] = (runs[-1][0], number)
            else:
                runs.append((number, number))
        return cls(tuple(runs))

    @classmethod
    def parse(cls, text: str) -> Spans:
        """Read what :meth:`text` wrote; ValueError for anything else."""
        parts = (part.partition("-") for part in text.split(",") if part)
        return cls(tuple((int(low), int(high or low)) for low, _, high in parts))

    def text(self) -> str:
        """Return it as text."""
        return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in self.runs)

    @property
    def last(self) -> int:
        """The highest number; 0 for none."""
        return self.runs[-1][1] if self.runs else 0

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self.runs, number, key=lambda run: run[0]) - 1
        return at >= 0 and number <= self.runs[at][1]
