"""The manifest as it was: which versions are still there, which one a moment means, and reading it.

Versions of the manifest stay whole for ``manifest_retention``; of older ones only empty files are
left, which keep the names taken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from lance_catalog.errors import (
    InternalError,
    InvalidInputError,
    TableNotFoundError,
    TableVersionNotFoundError,
    UnsupportedOperationError,
    storage_errors,
)
from lance_catalog.manifest.author import WHO
from lance_catalog.manifest.change import Change
from lance_catalog.manifest.heads import Delta
from lance_catalog.manifest.indexed import PointView
from lance_catalog.manifest.log import ManifestLog
from lance_catalog.manifest.reading import advance
from lance_catalog.manifest.schema import DIRECTORY
from lance_catalog.manifest.snapshot import Snapshot
from lance_catalog.storage.manifests import newest_versions
from lance_catalog.storage.port import Store

__all__ = ["PastLog", "Point", "point_of", "points", "read_at", "resolve_point", "step_to"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Point:
    """One version of the manifest: its number, when it came, and by whom if that is known."""

    version: int
    timestamp_ms: int
    who: str | None = None


def points(log: ManifestLog) -> list[int]:
    """Return the versions that can still be read, oldest first."""
    with storage_errors("looking for old versions of the catalog"):
        return sorted(newest_versions(log.store, DIRECTORY, everything=True))


def point_of(log: ManifestLog, version: int) -> Point:
    """Return when a version came, and by whom."""
    with storage_errors(f"reading version {version} of the catalog"):
        dataset = log.opened(version)
        transaction = dataset.read_transaction(version)
        who = None if transaction is None else (transaction.transaction_properties or {}).get(WHO)
        return Point(version, _milliseconds(dataset.get_version()["timestamp"]), who)


def _milliseconds(moment: datetime) -> int:
    # Lance gives local time without a zone.
    return int(moment.timestamp() * 1000)


def resolve_point(log: ManifestLog, asked: int | str | datetime) -> int:
    """Return the version that a number or a moment means; 11 when it is not there any more.

    A moment means the latest version that was there by then.
    """
    there = points(log)
    if not there:
        raise TableVersionNotFoundError("the catalog has no manifest yet, so it has no past")
    wanted = _parse(asked)
    if isinstance(wanted, int):
        if wanted in there:
            return wanted
        raise _gone(log, f"version {wanted}", there)
    low, high = 0, len(there)
    while low < high:
        middle = (low + high) // 2
        if point_of(log, there[middle]).timestamp_ms <= wanted.timestamp() * 1000:
            low = middle + 1
        else:
            high = middle
    if low == 0:
        raise _gone(log, f"the catalog of {wanted.isoformat()}", there)
    return there[low - 1]


def _parse(asked: int | str | datetime) -> int | datetime:
    if isinstance(asked, bool):
        raise InvalidInputError(f"'as_of' is {asked!r}; expected a version or a time")
    if isinstance(asked, int):
        return asked
    if isinstance(asked, str):
        if asked.isdecimal():
            return int(asked)
        try:
            asked = datetime.fromisoformat(asked)
        except ValueError as error:
            raise InvalidInputError(
                f"'as_of' is {asked!r}; expected a version of the manifest, or a time as "
                "2026-11-15T12:00:00+00:00"
            ) from error
    if not isinstance(asked, datetime):
        raise InvalidInputError(f"'as_of' is {asked!r}; expected a version or a time")
    # Without a zone it is the clock on the wall here.
    return asked.astimezone(UTC)


def _gone(log: ManifestLog, what: str, there: list[int]) -> TableVersionNotFoundError:
    oldest, newest = point_of(log, there[0]), point_of(log, there[-1])
    return TableVersionNotFoundError(
        f"{what} cannot be read: the oldest point available is version {oldest.version} "
        f"({_text(oldest)}), the newest version {newest.version} ({_text(newest)}). "
        "manifest_retention says how long old versions stay."
    )


def _text(point: Point) -> str:
    return datetime.fromtimestamp(point.timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")


def read_at(log: ManifestLog, version: int, before: Snapshot | None = None) -> Snapshot:
    """Return the catalog at a version; 11 when retention has begun to remove its files."""
    return step_to(log, version, before)[0]


def step_to(
    log: ManifestLog, version: int, before: Snapshot | None = None
) -> tuple[Snapshot, Delta]:
    """As :func:`read_at`, with what changed since an earlier one."""
    try:
        with storage_errors(f"reading version {version} of the catalog"):
            return advance(before or Snapshot.empty(), log.opened(version), log.uri)
    except (InternalError, TableNotFoundError, TableVersionNotFoundError) as error:
        there = [other for other in points(log) if other > version]
        if not there:
            raise
        raise _gone(log, f"version {version}", there) from error


class PastLog(ManifestLog):
    """The log at one of its versions: everything can be read, nothing changed."""

    def __init__(self, store: Store, asked: int | str | datetime) -> None:
        super().__init__(store, keep_ms=None)
        self._asked = asked
        self._pinned: Snapshot | None = None

    def snapshot(self, max_age: float = 0.0) -> Snapshot:
        with self._lock:
            if self._pinned is None:
                version = resolve_point(self, self._asked)
                self._pinned = read_at(self, version)
            return self._pinned

    def glance(self, max_age: float = 0.0) -> PointView:
        return self.snapshot()

    @property
    def snapshot_version(self) -> int:
        return self.snapshot().version

    def commit(
        self,
        plan: Callable[[Snapshot], tuple[Change, T]],
        *,
        timeout: float = 30.0,
        max_conflicts: int | None = None,
    ) -> T:
        raise UnsupportedOperationError(
            f"this catalog is opened as of {self._asked}, which is the past and cannot be "
            "changed; connect without as_of"
        )

    def dataset(self) -> Any:
        return self.opened(self.snapshot().version)
