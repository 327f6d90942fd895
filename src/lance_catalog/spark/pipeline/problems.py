"""What is wrong with a pipeline file: where, which key, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lance_catalog.errors import InvalidInputError
from lance_catalog.spark.pipeline.lines import Path

__all__ = ["InvalidPipelineError", "Problem", "key_text", "nearest"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake."""

    #: 0 when it is not about a line of the file.
    line: int
    key: str
    message: str

    def __str__(self) -> str:
        where = f"line {self.line}" if self.line else "the run"
        return f"{where}, {self.key}: {self.message}" if self.key else f"{where}: {self.message}"


class InvalidPipelineError(InvalidInputError):
    """A pipeline that cannot run (13); ``problems`` has every mistake that was found."""

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        self.source = source
        self.problems = list(problems)
        first = "; ".join(str(problem) for problem in self.problems[:3])
        more = len(self.problems) - 3
        super().__init__(f"{source}: {first}" + (f"; and {more} more" if more > 0 else ""))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.source, self.problems)


def key_text(path: Path) -> str:
    """Return a key as people write it: ``targets.clean.keys[1]``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the end of a message: the name that was meant, or those there are."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f"did you mean '{close[0]}'?"
    return f"known are {', '.join(names)}" if names else "there are none"
