"""Turning managed versions on and off for a whole catalog (I32)."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pyarrow.compute as pc

from lance_catalog.directory.context import Context
from lance_catalog.directory.managed.adoption import above, adopt, from_files
from lance_catalog.directory.managed.deletion import sweep
from lance_catalog.directory.managed.target import Target
from lance_catalog.errors import (
    ConcurrentModificationError,
    InvalidTableStateError,
    UnsupportedOperationError,
    storage_errors,
)
from lance_catalog.failpoints import hit
from lance_catalog.identifiers import is_internal_key
from lance_catalog.lifecycle.locations import normalise
from lance_catalog.manifest import Change, Snapshot
from lance_catalog.manifest.base import VERSION_TYPE
from lance_catalog.model import Entry
from lance_catalog.versions import registry

__all__ = [
    "SwitchReport",
    "VersionStatus",
    "all_rows",
    "disable",
    "enable",
    "managed_tables",
    "status",
    "target_of",
]

_BATCH: Final = 64
Told = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class VersionStatus:
    """Whether the catalog manages versions, and of how many tables how many."""

    managed: bool
    tables: int
    versions: int


@dataclass(frozen=True, slots=True)
class SwitchReport:
    """What turning managed versions on or off did."""

    managed: bool
    tables: int
    versions: int
    changed: bool


def _require_log(ctx: Context, what: str) -> None:
    if ctx.log is None:
        raise UnsupportedOperationError(
            f"{what}: V1 (manifest_enabled=false) has no manifest that could manage versions. "
            "Set manifest_enabled=true."
        )


def managed_tables(view: Snapshot) -> list[Entry]:
    """Return the rows of the tables whose versions can be managed."""
    return [
        entry
        for entry in view.entries()
        if entry.is_table
        and not is_internal_key(entry.object_id)
        and normalise(entry.location) is not None
    ]


def target_of(ctx: Context, view: Snapshot, entry: Entry) -> Target:
    """Return a table as the registry knows it."""
    return Target(ctx, view, entry, normalise(entry.location) or "")


def status(ctx: Context) -> VersionStatus:
    """Tell whether versions are managed; counting costs a look at the registry."""
    _require_log(ctx, "versions status")
    view = ctx.exact()
    managed = registry.is_managed(view.table_metadata)
    return VersionStatus(managed, len(managed_tables(view)), len(all_rows(ctx, view)))


def all_rows(ctx: Context, view: Snapshot) -> list[Entry]:
    """Return every version row of the catalog."""
    assert ctx.log is not None
    return ctx.log.version_rows(view, pc.field("object_type") == VERSION_TYPE)


def enable(ctx: Context, progress: Told | None = None) -> SwitchReport:
    """Register every version there is, then switch managed versions on.

    In this order: whoever commits meanwhile without the catalog is above what was registered, and
    is taken in. Before the first row everybody is told to keep rows right: a table may be dropped
    or renamed between its import and the switch. Interrupted, it can be run again. From the first
    row on, native writers of this catalog fail: they do not know rows of that type.
    """
    _require_log(ctx, "versions enable")
    view = ctx.exact()
    if registry.is_managed(view.table_metadata):
        return SwitchReport(True, len(managed_tables(view)), len(all_rows(ctx, view)), False)
    if not registry.keeps_rows(view.table_metadata):
        # What a switching off left halfway: nobody kept it right since.
        _forget(ctx)
        # Another value each time: what processes know of the time before does not count any more.
        began = uuid.uuid4().hex
        ctx.commit(lambda now: (Change(table_metadata={registry.ROWS: began}), None))
    tables = managed_tables(ctx.exact())
    count = 0
    for start in range(0, len(tables), _BATCH):
        part = [entry.object_id for entry in tables[start : start + _BATCH]]
        count += ctx.commit(lambda now, part=part: _import(ctx, now, part))  # type: ignore[misc]
        hit("version.imported")
        if progress is not None:
            progress(min(start + _BATCH, len(tables)), len(tables))
    ctx.commit(_switch_on)
    hit("version.enabled")
    # Tables that came while the others were imported, and versions of those that were not.
    view = ctx.exact()
    for entry in managed_tables(view):
        target = target_of(ctx, view, entry)
        if above(target, target.head()):
            count += adopt(target)
    return SwitchReport(True, len(managed_tables(view)), count, True)


def _switch_on(view: Snapshot) -> tuple[Change, None]:
    if not registry.keeps_rows(view.table_metadata):
        raise ConcurrentModificationError(
            "managed versions were switched off while they were switched on; look who does what, "
            "and retry"
        )
    return Change(table_metadata={registry.FLAG: "true"}), None


def _import(ctx: Context, view: Snapshot, keys: list[str]) -> tuple[Change, int]:
    """Plan the rows of some tables, leaving out those that are there already."""
    assert ctx.log is not None
    rows: list[Entry] = []
    for key in keys:
        entry = view.get(key)
        if entry is None or not entry.is_table or normalise(entry.location) is None:
            continue
        known = {row.object_id for row in registry.all_rows(ctx.log, view, key)}
        with storage_errors(f"looking for the versions of '{key}'"):
            found = from_files(target_of(ctx, view, entry))
        rows += [row for row in found if row.object_id not in known]
    return Change(add=tuple(rows)), len(rows)


def disable(ctx: Context, progress: Told | None = None) -> SwitchReport:
    """Switch managed versions off, put every manifest in place, and delete all version rows.

    In this order: once the switch is off no managed commit can be validated any more, so nothing
    new needs to be put in place. Afterwards native writers work again.
    """
    _require_log(ctx, "versions disable")
    was = registry.keeps_rows(ctx.exact().table_metadata)
    if was:
        # Before as well: from the switch on, readers go by the files alone.
        _finish_all(ctx)
        off = Change(table_metadata={registry.FLAG: None, registry.ROWS: None})
        ctx.commit(lambda now: (off, None))
        hit("version.disabled")
    tables, count = _forget(ctx, progress)
    hit("version.forgotten")
    return SwitchReport(False, tables, count, was or count > 0)


def _finish_all(ctx: Context, progress: Told | None = None) -> int:
    """Put in place what committers left; return how many tables there are."""
    view = ctx.exact()
    tables = managed_tables(view)
    for number, entry in enumerate(tables, 1):
        target = target_of(ctx, view, entry)
        # Nowhere: of a table that had the name before, when rows were not kept right; or it is
        # lost, and then there is nothing to put in place either.
        missing = contextlib.suppress(InvalidTableStateError)
        with missing, storage_errors(f"finishing the versions of '{entry.object_id}'"):
            target.ready()
            if registry.is_managed(view.table_metadata):
                sweep(target)
        if progress is not None and number % _BATCH == 0:
            progress(number, len(tables))
    return len(tables)


def _forget(ctx: Context, progress: Told | None = None) -> tuple[int, int]:
    """Delete all version rows of a catalog that does not manage versions (any more)."""
    tables = _finish_all(ctx, progress)

    def plan(now: Snapshot) -> tuple[Change, int]:
        if registry.keeps_rows(now.table_metadata):
            raise ConcurrentModificationError(
                "managed versions were switched on meanwhile; look who does what, and retry"
            )
        rows = all_rows(ctx, now)
        # Without the catalog numbers begin anew where no version is left; so does the registry.
        bound = [entry for entry in managed_tables(now) if registry.floor_of(entry)]
        freed = tuple(registry.without_floor(entry) for entry in bound)
        replaces = {new.object_id: old for old, new in zip(bound, freed, strict=True)}
        return Change((*rows, *bound), freed, replaces), len(rows)

    return tables, ctx.commit(plan)
