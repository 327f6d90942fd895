"""What commands answer: plain values. ``output`` decides how they look."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["Details", "Done", "Listing", "Plan", "Report", "Result", "Step", "Value"]


@dataclass(frozen=True, kw_only=True)
class Result:
    """A command's answer. ``note`` is for people and goes to stderr."""

    note: str | None = None
    exit_code: int = 0


@dataclass(frozen=True, kw_only=True)
class Listing(Result):
    """Many things of one kind: rows as JSON has them, and which keys people and scripts see."""

    rows: list[dict[str, Any]]
    columns: tuple[str, ...]
    plain: tuple[str, ...]
    #: What the columns are called; default their keys.
    titles: tuple[str, ...] | None = None
    #: Cut long values in a table meant for eyes; ids are never cut.
    shorten: bool = False


@dataclass(frozen=True, kw_only=True)
class Report(Listing):
    """A listing for people and scripts that is part of something larger, which JSON has whole."""

    fields: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Details(Result):
    """One thing, told by its fields; a field may hold a dict or a list of dicts with a name."""

    fields: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Value(Result):
    """One value."""

    name: str
    value: Any


@dataclass(frozen=True, kw_only=True)
class Done(Result):
    """Something was changed, or needed no change: a sentence for people, fields for programs."""

    message: str
    fields: dict[str, Any]
    #: Which field a script wants on a line of its own.
    plain: str = "id"


@dataclass(frozen=True)
class Step:
    """One thing a plan would do."""

    action: str
    subject: str
    detail: str = ""
    destructive: bool = True


@dataclass(frozen=True, kw_only=True)
class Plan(Result):
    """What a command would do; shown by ``--dry-run`` and before a question."""

    title: str
    steps: list[Step] = field(default_factory=list)
