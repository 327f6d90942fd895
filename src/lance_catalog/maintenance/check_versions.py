"""The check of the registry of table versions against the manifests that lie in storage.

Where the catalog does not manage versions there must be no rows of them: native writers fail.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from lance_catalog.directory.context import Context
from lance_catalog.directory.managed.switch import all_rows, managed_tables, target_of
from lance_catalog.directory.managed.target import Target
from lance_catalog.identifiers import split_key
from lance_catalog.maintenance.findings import Kind, Problem
from lance_catalog.manifest import Snapshot
from lance_catalog.versions import registry
from lance_catalog.versions.files import ManifestFile, manifest_files
from lance_catalog.versions.registry import Registered

__all__ = ["check", "pending"]


def check(ctx: Context, view: Snapshot, older_than_ms: int) -> list[Problem]:
    """Return the problems of registered versions."""
    rows = _by_table(ctx, view)
    managed = registry.is_managed(view.table_metadata)
    tables = {entry.object_id: entry for entry in managed_tables(view)} if managed else {}
    problems = [_orphans(key, rows[key]) for key in sorted(rows) if key not in tables]
    for key, entry in tables.items():
        problems += _table(target_of(ctx, view, entry), rows.get(key, []), older_than_ms)
    return problems


def pending(ctx: Context, view: Snapshot) -> set[str]:
    """Return the staged manifests that registered versions still need: nobody may tidy them up."""
    found: set[str] = set()
    # Also where versions are not managed any more, but the rows are still there.
    rows = _by_table(ctx, view)
    for entry in managed_tables(view):
        known = rows.get(entry.object_id, [])
        if all(one.staged is None for one in known):
            continue
        target = target_of(ctx, view, entry)
        files = _files(target)
        needed = (one.staged_path(target.directory) for one in known if one.version not in files)
        found.update(path for path in needed if path is not None)
    return found


def _by_table(ctx: Context, view: Snapshot) -> dict[str, list[Registered]]:
    found: dict[str, list[Registered]] = defaultdict(list)
    for row in all_rows(ctx, view):
        parsed = registry.parse(row)
        if parsed is not None:
            found[split_key(row.object_id)[0]].append(parsed)
    return found


def _orphans(key: str, rows: Sequence[Registered]) -> Problem:
    return Problem(
        Kind.ORPHAN_VERSIONS,
        key,
        f"{len(rows)} registered versions of '{key}', whose versions are not managed",
        "repair removes the entries; no file is touched",
    )


def _table(target: Target, rows: Sequence[Registered], older_than_ms: int) -> Iterator[Problem]:
    key, known = target.key, {one.version: one for one in rows}
    files = _files(target)
    head = max(known, default=0)
    absent = [one for one in known.values() if one.version not in files]
    absent = [one for one in absent if one.timestamp_ms <= older_than_ms]
    waiting = [one for one in absent if _is_staged(target, one)]
    if waiting:
        yield Problem(
            Kind.UNFINISHED_VERSION,
            key,
            f"version {waiting[-1].version} is registered, but its manifest is not in place yet",
            "repair puts it there, as the next read would",
        )
    lost = [one.version for one in absent if one not in waiting]
    if lost or len(known) < len(rows):
        latest = ", the latest among them: never acknowledged, or deleted" if head in lost else ""
        yield Problem(
            Kind.LOST_VERSIONS,
            key,
            f"{len(lost)} registered versions have no manifest{latest}; "
            f"{len(rows) - len(known)} are registered twice",
            "repair removes the entries",
        )
    floor = max(head, registry.floor_of(target.entry))
    foreign = [version for version in files if version > floor]
    # Listed before a commit on its way was; younger than the grace period it is somebody's work.
    if foreign and all(files[v].info.modified_ms <= older_than_ms for v in foreign):
        yield Problem(
            Kind.FOREIGN_VERSIONS,
            key,
            f"{len(foreign)} versions were committed without the catalog, up to {max(foreign)}",
            "repair registers them, as the next commit would",
        )
    deleted = [files[version] for version in files if version <= floor and version not in known]
    old = [file.info.path for file in deleted if file.info.modified_ms <= older_than_ms]
    if old:
        yield Problem(
            Kind.DELETED_VERSIONS,
            key,
            f"{len(old)} manifests of versions that were deleted; the catalog does not show them",
            "repair deletes them; what a tag or a branch relies on it registers again",
            tuple(old),
        )


def _files(target: Target) -> dict[int, ManifestFile]:
    files = manifest_files(target.ctx.store, f"{target.directory}/_versions")
    return {file.version: file for file in files if file.info.size}


def _is_staged(target: Target, one: Registered) -> bool:
    staged = one.staged_path(target.directory)
    return staged is not None and target.ctx.store.head(staged) is not None
