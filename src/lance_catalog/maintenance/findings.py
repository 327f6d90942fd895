"""What a check finds."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

__all__ = ["Kind", "Problem", "Report"]


class Kind(StrEnum):
    """The kinds of problem; a finding says in ``detail`` what it is, in ``fix`` what mends it."""

    DUPLICATE_ID = "duplicate-id"
    ORPHAN = "orphan"
    SHARED_LOCATION = "shared-location"
    BAD_LOCATION = "bad-location"
    UNREADABLE_METADATA = "unreadable-metadata"
    ROW_WITHOUT_DATA = "row-without-data"
    BROKEN_TABLE = "broken-table"
    DIRECTORY_WITHOUT_ROW = "directory-without-row"
    UNMIGRATED_TABLE = "unmigrated-table"
    LEFTOVER_DIRECTORY = "leftover-directory"
    STRAY_FILES = "stray-files"
    UNFINISHED_PURGE = "unfinished-purge"
    UNFINISHED_REGISTER = "unfinished-register"
    MISSING_MARKER = "missing-marker"
    UNLISTED_MARKER = "unlisted-marker"
    STALE_MARKER = "stale-marker"
    STALE_CLAIM = "stale-claim"
    UNREADABLE_MARKER = "unreadable-marker"
    ORPHAN_VERSIONS = "orphan-versions"
    UNFINISHED_VERSION = "unfinished-version"
    LOST_VERSIONS = "lost-versions"
    FOREIGN_VERSIONS = "foreign-versions"
    DELETED_VERSIONS = "deleted-versions"


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding: what it concerns (an id or a path), what is wrong, what mends it."""

    kind: Kind
    subject: str
    detail: str
    fix: str
    #: Paths the finding is about, where it is about files.
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """All findings of one check, and how much was looked at."""

    problems: list[Problem] = field(default_factory=list)
    tables: int = 0
    namespaces: int = 0

    @property
    def ok(self) -> bool:
        return not self.problems
