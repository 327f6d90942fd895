"""What a write answers."""

from __future__ import annotations

from dataclasses import dataclass, field

from lance_catalog.directory.jobs import Done, Job
from lance_catalog.identifiers import Identifier, format_text

__all__ = ["PublishResult", "WriteResult", "result_of"]


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What became of a write to one table."""

    table: Identifier
    #: The version that has the rows; None when nothing was written (mode ``ignore``).
    version: int | None
    rows: int
    bytes: int
    job_id: str
    #: An earlier run under this job id, or another at the same time, had committed already.
    repeated: bool = False

    def __str__(self) -> str:
        name = format_text(self.table)
        if self.version is None:
            return f"{name}: nothing written, it exists"
        how = "was written before" if self.repeated else "written"
        return f"{name}: {self.rows} rows {how} as version {self.version}"


@dataclass(frozen=True, slots=True)
class PublishResult:
    """What became of a publish: one result per table, in the order given."""

    job_id: str
    #: All tables by one commit of the catalog.
    atomic: bool
    tables: tuple[WriteResult, ...] = field(default_factory=tuple)

    @property
    def repeated(self) -> bool:
        """Whether an earlier run had published all of it."""
        return bool(self.tables) and all(one.repeated for one in self.tables)

    @property
    def rows(self) -> int:
        return sum(one.rows for one in self.tables)


def result_of(names: Identifier, job: Job, done: Done) -> WriteResult:
    """Return the answer for a commit."""
    return WriteResult(names, done.version, done.rows, done.bytes, job.id, done.repeated)
