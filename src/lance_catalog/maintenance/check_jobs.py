"""The check of jobs that wrote to tables and died: their records, and the files they left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lance_catalog.directory import job_records
from lance_catalog.directory.context import Context
from lance_catalog.lifecycle.locations import normalise, v1_name
from lance_catalog.maintenance import check_versions
from lance_catalog.maintenance.findings import Kind, Problem
from lance_catalog.manifest import Snapshot
from lance_catalog.storage.manifests import newest_versions

__all__ = ["check"]

#: Grace periods that Lance waits before it takes files that no version names for nobody's: seven
#: days of it, for an hour of ours. Their writer may know nothing of records.
_LANCE_WAITS: Final = 168


def check(ctx: Context, view: Snapshot, older_than_ms: int) -> Iterator[Problem]:
    """Yield what dead jobs left in tables, hidden ones included.

    A directory that never became a table is found, whole, by the check of the directories.
    """
    places = {normalise(entry.location) for entry in view.entries() if entry.is_table}
    folders = set(ctx.store.list_level().folders)
    places |= {folder for folder in folders if v1_name(folder) is not None}
    # One that has versions and was never registered: a repair lists it, and all of it at once.
    places |= {
        folder
        for folder in folders - places
        if job_records.records(ctx.store, folder) and newest_versions(ctx.store, folder)
    }
    needed: set[str] | None = None
    now = ctx.clock()
    unknown_ms = now - _LANCE_WAITS * (now - older_than_ms)
    for place in sorted(place for place in places if place is not None):
        if not job_records.records(ctx.store, place):
            continue
        if needed is None:
            needed = check_versions.pending(ctx, view) if ctx.log is not None else set()
        paths = job_records.left_behind(ctx.store, place, older_than_ms, unknown_ms, needed)
        if paths:
            yield Problem(
                Kind.STRAY_FILES,
                place,
                f"{len(paths)} files of a job that did not finish; no version names them",
                "repair deletes them",
                tuple(paths),
            )
