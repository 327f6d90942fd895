"""Versions that a writer committed behind the catalog's back: found above the highest, taken in.

Below the highest number ever registered a file without a row is garbage: its version was deleted,
and must not come back.
"""

from __future__ import annotations

from lance_catalog.directory.context import Context
from lance_catalog.directory.managed.target import Target, managed_target
from lance_catalog.directory.resolve import find_table
from lance_catalog.identifiers import Identifier
from lance_catalog.lifecycle.spans import Spans
from lance_catalog.manifest import Change, Snapshot
from lance_catalog.model import Entry
from lance_catalog.storage.manifests import newest_versions
from lance_catalog.versions.files import ManifestFile, manifest_files
from lance_catalog.versions.registry import Registered, floor_of

__all__ = ["above", "adopt", "adopt_written", "as_registered", "from_files"]


def above(target: Target, head: int) -> list[Registered]:
    """Return the versions that lie above the highest registered one, lowest first."""
    if target.ctx.settings.as_of is not None:
        return []  # What lies there now says nothing of then.
    if not target.ctx.store.remote and head and target.file(head) is not None:
        # One look where there is nothing: names are asked for, not listed. Without the highest
        # itself others have cleaned up behind our back, and numbers may be missing.
        found: list[Registered] = []
        while (file := target.file(head + len(found) + 1)) is not None:
            naming, info = file
            number = head + len(found) + 1
            found.append(Registered(number, naming, info.size, info.e_tag, info.modified_ms))
        return found
    folder = f"{target.directory}/_versions"
    if max(newest_versions(target.ctx.store, target.directory), default=0) <= head:
        return []
    files = manifest_files(target.ctx.store, folder)
    return [as_registered(file) for file in files if file.version > head and file.info.size]


def as_registered(file: ManifestFile) -> Registered:
    """Return a manifest file as what its row says of it."""
    info = file.info
    return Registered(file.version, file.naming, info.size, info.e_tag, info.modified_ms)


def from_files(target: Target, kept: Spans | None = None) -> tuple[Entry, ...]:
    """Return rows for the versions that lie in storage: all, or some and what is above them."""
    files = manifest_files(target.ctx.store, f"{target.directory}/_versions")
    floor = max(floor_of(target.entry), 0 if kept is None else kept.last)
    found = {
        file.version: file
        for file in files
        if file.info.size and (file.version > floor or (kept is not None and file.version in kept))
    }
    return tuple(as_registered(file).row(target.key, target.directory) for file in found.values())


def adopt_written(ctx: Context, names: Identifier) -> None:
    """Register what the catalog itself has just written to a table that was there."""
    if ctx.log is None:
        return
    view = ctx.exact()
    found = find_table(ctx, view, names)
    target = None if found is None else managed_target(ctx, view, found)
    if target is not None:
        adopt(target)


def adopt(target: Target) -> int:
    """Register what lies above the highest registered version; return how many that were."""

    def plan(view: Snapshot) -> tuple[Change, int]:
        current = view.get(target.key)
        if current is None or current.location != target.entry.location:
            return Change(), 0
        now = Target(target.ctx, view, current, target.directory)
        found = above(now, now.head())
        rows = tuple(one.row(target.key, target.directory) for one in found)
        return Change(add=rows), len(rows)

    return target.ctx.commit(plan)
