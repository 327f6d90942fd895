"""What a run did: told while it runs, and at its end."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lance_catalog.errors import InvalidInputError, TableSchemaValidationError

__all__ = ["Event", "Failed", "RunReport", "StepReport", "TargetReport"]


@dataclass(frozen=True, slots=True)
class Event:
    """Something a run began or finished."""

    #: ``source``, ``step``, ``check``, ``publish``, ``index`` or ``record``.
    kind: str
    name: str
    text: str
    #: None while it runs.
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class StepReport:
    """A source, a step, a check or an index of a run. Spark works when rows are asked for, so a
    step that is not cached costs next to nothing here and its time is in the publish.
    """

    kind: str
    name: str
    seconds: float
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """An expectation that does not hold."""

    target: str
    expectation: str
    message: str
    failing: int
    rows: int
    #: Some of the rows that fail, as JSON can hold them.
    sample: list[dict[str, Any]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class TargetReport:
    """A table of a run."""

    name: str
    table: str
    mode: str
    version: int | None
    rows: int
    bytes: int
    seconds: float
    #: An earlier run with this job id had published it already.
    repeated: bool = False
    indices: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(slots=True)
class RunReport:
    """A run: ``published``, ``repeated`` (an earlier run had done all of it), ``incomplete`` (its
    rows are published, an index is missing), ``rejected`` by an expectation, ``failed``, or
    ``unknown`` when the store did not tell whether the commit landed.
    """

    pipeline: str
    job_id: str
    digest: str
    started: datetime
    who: str
    status: str = "running"
    ended: datetime | None = None
    targets: list[TargetReport] = field(default_factory=list)
    steps: list[StepReport] = field(default_factory=list)
    failures: list[Failed] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    error: str | None = None

    @property
    def ok(self) -> bool:
        """Whether everything is published."""
        return self.status in ("published", "repeated")

    @property
    def seconds(self) -> float:
        """How long it took."""
        return (self.ended - self.started).total_seconds() if self.ended is not None else 0.0

    def check(self) -> RunReport:
        """Return the report of a good run; raise what went wrong otherwise."""
        if self.failures:
            raise TableSchemaValidationError(
                f"pipeline '{self.pipeline}' published nothing: "
                + "; ".join(failure.message for failure in self.failures)
            )
        if not self.ok:
            raise InvalidInputError(f"pipeline '{self.pipeline}' {self.status}: {self.error}")
        return self

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "pipeline": self.pipeline,
            "job_id": self.job_id,
            "status": self.status,
            "digest": self.digest,
            "who": self.who,
            "started": self.started.isoformat(),
            "ended": None if self.ended is None else self.ended.isoformat(),
            "seconds": self.seconds,
            "targets": [target.as_dict() for target in self.targets],
            "steps": [{n: getattr(step, n) for n in step.__slots__} for step in self.steps],
            "failures": [failure.as_dict() for failure in self.failures],
            "warnings": self.warnings,
            "error": self.error,
        }
