"""Opening a table: on the driver through its catalog, on executors by place and version alone.

The driver decides which version a read is of. A task then needs no look at the catalog, and all
tasks of a DataFrame, today or after the next commit, read the same rows.
"""

from __future__ import annotations

import functools
import json
import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import lance

from lance_catalog.directory.operations.access import lance_errors
from lance_catalog.errors import (
    InvalidInputError,
    LanceNamespaceError,
    TableVersionNotFoundError,
    UnsupportedOperationError,
)
from lance_catalog.spark.options import Location

__all__ = ["PinnedTable", "open_location", "pin", "require_shared", "stamp_of", "storage_of"]


@dataclass(frozen=True)
class PinnedTable:
    """One version of a table, as executors open it. Pickled; shows no credentials."""

    uri: str
    version: int
    #: The table as its reader calls it, for messages.
    text: str
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: What :func:`stamp_of` said of the version when it was pinned.
    stamp: str = ""
    #: One plan's own: a table made anew in the same place has the same uri and versions.
    plan: str = field(default_factory=lambda: uuid.uuid4().hex)

    def open(self) -> Any:
        """Open it; the handle is kept, for the next task of the same plan in this process.

        11 when another table lies there by now: a purge and a creation give its path again.
        """
        storage = json.dumps(dict(self.storage), sort_keys=True)
        with lance_errors(f"opening '{self.text}' at version {self.version}"):
            dataset = _opened(self.uri, self.version, storage, self.plan)
        if self.stamp and stamp_of(dataset) != self.stamp:
            raise TableVersionNotFoundError(
                f"version {self.version} of '{self.text}' is not the one that this DataFrame was "
                "made for: the table was purged and made anew in the same place. Read it again."
            )
        return dataset

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn Lance's errors of a scan into ours; 11 where a file of the version is gone."""
        try:
            with lance_errors(f"reading '{self.text}' at version {self.version}"):
                yield
        except LanceNamespaceError as error:
            if _GONE.search(str(error)) is None:
                raise
            raise TableVersionNotFoundError(
                f"{error}. A file of this version is not found: the version was cleaned up or the "
                "table purged while the DataFrame was in use, or the file is lost, which "
                "`lance-catalog spark verify` tells. Read the table again."
            ) from error


# A handle that a task before this one opened knows of files that are gone since.
_GONE: Final = re.compile(r"not found: [^\n]+/data/[^\n]+", re.IGNORECASE)


@functools.lru_cache(maxsize=8)
def _opened(uri: str, version: int, storage: str, plan: str) -> Any:
    return lance.dataset(uri, version=version, storage_options=json.loads(storage) or None)


def pin(location: Location, dataset: Any) -> PinnedTable:
    """Return the version a handle stands at, as executors open it."""
    where, stamp = storage_of(location), stamp_of(dataset)
    return PinnedTable(dataset.uri, dataset.version, str(location), where, stamp)


def stamp_of(dataset: Any) -> str:
    """Return by what the version a handle stands at is known from any other with its number.

    From what is in memory: when it was made, how many rows and bytes it has.
    """
    told = dataset.get_version()
    moment: datetime = told["timestamp"]
    # Lance tells local time, and machines may have different zones: all of them are some quarters
    # of an hour apart.
    micros = (moment.minute % 15 * 60 + moment.second) * 1_000_000 + moment.microsecond
    counted = told["metadata"]
    return f"{micros}-{counted.get('total_rows', 0)}-{counted.get('total_files_size', 0)}"


def storage_of(location: Location) -> dict[str, str]:
    """Return the options of the store a table lies in, credentials included."""
    if location.catalog is None:
        return dict(location.storage)
    return dict(location.catalog.open().context.store.lance_options)


def require_shared(location: Location) -> None:
    """Refuse (0) a catalog that lives in the memory of one process."""
    place = location.path if location.catalog is None else location.catalog.root
    if (place or "").startswith("memory:"):
        raise UnsupportedOperationError(
            f"'{location}' lies in the memory of this process, where no worker of Spark's can "
            "read it; use a path or an object store"
        )


def open_location(
    location: Location,
    *,
    version: int | None = None,
    tag: str | None = None,
    as_of: str | None = None,
) -> Any:
    """Return Lance's handle on a table at its latest version, or at the one asked for.

    4 for a table that is not there or in the trash, 8 and 11 for a missing tag or version.
    """
    if as_of is not None:
        return _as_of(location, as_of)
    if location.catalog is not None:
        catalog = location.catalog.open()
        return catalog.open_table(list(location.names), version=version, tag=tag)
    with lance_errors(f"opening '{location}'"):
        return lance.dataset(
            location.path,
            version=tag if version is None else version,
            storage_options=dict(location.storage) or None,
        )


def _as_of(location: Location, moment: str) -> Any:
    if location.catalog is not None:
        managed = location.catalog.open().managed(list(location.names)) is not None
        if managed:
            return location.catalog.at(moment).open().snapshot().open_table(list(location.names))
    try:
        then = datetime.fromisoformat(moment)
    except ValueError as error:
        raise InvalidInputError(
            f"'as_of' is '{moment}'; expected a time as 2026-11-15T12:00:00+00:00 (a version of "
            "the catalog says something only where the catalog manages table versions)"
        ) from error
    return _at_time(location, then if then.tzinfo is not None else then.astimezone())


def _at_time(location: Location, then: datetime) -> Any:
    """The version that was the latest at a time, by what Lance wrote into its versions."""
    dataset = open_location(location)
    with lance_errors(f"looking for the versions of '{location}'"):
        found = [(_aware(one["timestamp"]), one["version"]) for one in dataset.versions()]
    at = [number for time, number in found if time <= then]
    if not at:
        raise TableVersionNotFoundError(
            f"table '{location}' has no version of {then.isoformat()} or before; the oldest there "
            f"is was written {min(found)[0].isoformat()}"
        )
    return open_location(location, version=max(at))


def _aware(moment: datetime) -> datetime:
    """Lance tells local time without saying so."""
    return moment.astimezone(UTC)
