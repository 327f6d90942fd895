"""Deleting managed versions: rows first, in one commit, then manifests; never data (I36, R10)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import lance

from lance_catalog.directory.context import Context
from lance_catalog.directory.managed.adoption import adopt
from lance_catalog.directory.managed.lineage import Lineage
from lance_catalog.directory.managed.target import Target
from lance_catalog.errors import InvalidTableStateError, TableNotFoundError, storage_errors
from lance_catalog.failpoints import hit
from lance_catalog.manifest import Change, Snapshot
from lance_catalog.model import Entry, dump_metadata
from lance_catalog.versions import registry
from lance_catalog.versions.deletion import NO_END, check_range, first_missing
from lance_catalog.versions.files import manifest_files, missing
from lance_catalog.versions.registry import FLOOR, Registered

__all__ = ["Deletion", "delete", "held_versions", "plan_deletion", "remove_files", "sweep"]


@dataclass(frozen=True, slots=True)
class Deletion:
    """Which versions of a table go."""

    target: Target
    ranges: tuple[tuple[int, int], ...]
    ignore_missing: bool = True
    force: bool = False

    @classmethod
    def of(
        cls,
        target: Target,
        ranges: Iterable[tuple[int, int]],
        *,
        ignore_missing: bool,
        force: bool,
    ) -> Deletion:
        """Check the ranges; 13 for one that is none."""
        spans = tuple(check_range(start, end) for start, end in ranges)
        return cls(target, spans, ignore_missing, force)


def delete(ctx: Context, wanted: Deletion) -> int:
    """Delete versions; return how many were registered."""

    def plan(view: Snapshot) -> tuple[Change, list[Registered]]:
        return plan_deletion(ctx, view, wanted)

    with storage_errors(f"deleting versions of '{wanted.target.key}'"):
        if (0, NO_END) in wanted.ranges:
            adopt(wanted.target)  # Everything is everything.
        lineage = Lineage.of(wanted.target)
    gone = ctx.commit(plan)
    hit("version.rows_deleted")
    remove_files(lineage, gone)
    return len(gone)


def plan_deletion(
    ctx: Context, view: Snapshot, wanted: Deletion
) -> tuple[Change, list[Registered]]:
    """Return the change that forgets versions, and which they are; raises as R10 says."""
    key = wanted.target.key
    entry = view.get(key)
    if entry is None or entry.location != wanted.target.entry.location:
        raise TableNotFoundError(f"table '{key}' was dropped or renamed meanwhile")
    assert ctx.log is not None
    rows = registry.all_rows(ctx.log, view, key)
    known = {one.version: one for one in map(registry.parse, rows) if one is not None}
    present = sorted(known)
    if (0, NO_END) in wanted.ranges:
        if present and not wanted.force:
            raise InvalidTableStateError(
                f"deleting every version would leave the table '{key}' unreadable. Drop the "
                "table instead, or force it (context 'lance_catalog.force'='true')."
            )
        return _forget_all(entry, list(known.values()), rows)
    for start, end in wanted.ranges:
        if present and start <= present[-1] and (end == NO_END or end > present[-1]):
            raise InvalidTableStateError(
                f"the range [{start}, {end}) contains version {present[-1]}, the latest of "
                f"'{key}', which stays. End the range at {present[-1]}."
            )
        gap = None if wanted.ignore_missing else first_missing(present, start, end)
        if gap is not None:
            raise missing(ctx.store, wanted.target.directory, gap)
    chosen = [
        one
        for one in known.values()
        if any(start <= one.version < end for start, end in wanted.ranges)
    ]
    return Change(remove=tuple(one.entry for one in chosen if one.entry is not None)), chosen


def _forget_all(
    entry: Entry, known: list[Registered], rows: Sequence[Entry]
) -> tuple[Change, list[Registered]]:
    """Forget every version, but not how far they went: no number is ever registered twice."""
    highest = max((one.version for one in known), default=0)
    stored = entry.properties()
    floor = max(highest, registry.floor_of(entry))
    row = Entry(
        entry.object_id,
        entry.object_type,
        entry.location,
        dump_metadata({**stored, FLOOR: str(floor)}),
    )
    return Change((entry, *rows), (row,), {row.object_id: entry}), known


def remove_files(lineage: Lineage, gone: Iterable[Registered]) -> None:
    """Remove the manifests of versions that are not registered any more, oldest first."""
    target = lineage.target
    ordered = sorted(gone, key=lambda one: one.version)
    paths = [one.final_path(target.directory) for one in ordered]
    staged = [one.staged_path(target.directory) for one in ordered]
    with storage_errors(f"deleting manifests of '{target.key}'"), lineage.held() as same:
        if same:
            # A commit that came since may be left halfway, and the newest file tells where to look
            # for it: not before it is in place.
            with contextlib.suppress(TableNotFoundError):
                target.now().ready()
            target.ctx.store.delete([*paths, *(path for path in staged if path is not None)])
    hit("version.files_deleted")


def sweep(target: Target) -> None:
    """Remove the manifests of versions that were deleted, but a crash came between.

    Where the catalog manages versions nobody sees them; where it does not, they are versions. What
    a tag or a branch relies on stays.
    """
    assert target.ctx.log is not None
    head = target.head()
    rows = map(registry.parse, registry.all_rows(target.ctx.log, target.view, target.key))
    known = {one.version for one in rows if one is not None}
    files = manifest_files(target.ctx.store, f"{target.directory}/_versions")
    dead = [file for file in files if file.version <= head and file.version not in known]
    if dead:
        options = dict(target.ctx.store.lance_options) or None
        dataset = lance.dataset(target.ctx.store.uri_of(target.directory), storage_options=options)
        held = held_versions(dataset)
        target.ctx.store.delete([f.info.path for f in dead if f.version not in held])


def held_versions(dataset: Any) -> set[int]:
    """Return the versions that a tag or a branch of the table relies on."""
    tags, branches = dataset.tags.list().values(), dataset.branches.list().values()
    # Those of a branch's own versions have numbers of their own.
    tagged = {int(tag["version"]) for tag in tags if tag.get("branch") is None}
    parents = {int(b["parent_version"]) for b in branches if b.get("parent_branch") is None}
    return tagged | parents
