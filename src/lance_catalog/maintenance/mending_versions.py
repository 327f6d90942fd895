"""The steps of a repair that concern registered versions. Each looks again before it acts."""

from __future__ import annotations

import contextlib

from lance_catalog.directory.context import Context
from lance_catalog.directory.managed.adoption import adopt as adopt_versions
from lance_catalog.directory.managed.adoption import as_registered
from lance_catalog.directory.managed.cleanup import open_plain
from lance_catalog.directory.managed.deletion import held_versions
from lance_catalog.directory.managed.rows import forgetting
from lance_catalog.directory.managed.switch import all_rows
from lance_catalog.directory.managed.target import Target, managed_target
from lance_catalog.directory.resolve import FoundTable, find_table
from lance_catalog.errors import InvalidTableStateError
from lance_catalog.identifiers import decode, split_key
from lance_catalog.maintenance.findings import Problem
from lance_catalog.manifest import Change, Snapshot
from lance_catalog.model import Entry
from lance_catalog.versions import registry
from lance_catalog.versions.files import manifest_files
from lance_catalog.versions.registry import Registered

__all__ = ["adopt_foreign", "finish_deletion", "finish_version", "forget_lost", "forget_orphans"]


def _found(ctx: Context, problem: Problem, view: Snapshot) -> tuple[FoundTable, Target] | None:
    found = find_table(ctx, view, decode(problem.subject))
    target = None if found is None else managed_target(ctx, view, found)
    return None if found is None or target is None else (found, target)


def forget_orphans(ctx: Context, problem: Problem) -> None:
    """Remove the version rows of what is no managed table.

    Of a table whose versions were managed until a moment ago the last one is put in place first.
    """
    view = ctx.exact()
    found = find_table(ctx, view, decode(problem.subject))
    if found is not None and found.entry is not None:
        with contextlib.suppress(InvalidTableStateError):
            _finish(Target(ctx, view, found.entry, found.location))

    def plan(view: Snapshot) -> tuple[Change, None]:
        if _found(ctx, problem, view) is not None:
            return Change(), None
        rows = [r for r in all_rows(ctx, view) if split_key(r.object_id)[0] == problem.subject]
        return Change(remove=tuple(rows)), None

    ctx.commit(plan)


def finish_version(ctx: Context, problem: Problem) -> None:
    """Put the manifest of the latest version in place."""
    found = _found(ctx, problem, ctx.exact())
    if found is not None:
        _finish(found[1])


def _finish(target: Target) -> None:
    """Put the last version in place, and remove what it was staged as."""
    assert target.ctx.log is not None
    target.ready()
    folder = f"{target.directory}/_versions"
    rows = map(registry.parse, registry.all_rows(target.ctx.log, target.view, target.key))
    staged = {one.staged: one for one in rows if one is not None and one.staged is not None}
    names = (info.path.rsplit("/", 1)[-1] for info in target.ctx.store.list_level(folder).objects)
    done = [name for name in names if name in staged and _is_in_place(target, staged[name])]
    target.ctx.store.delete([f"{folder}/{name}" for name in done])


def _is_in_place(target: Target, one: Registered) -> bool:
    """Whether what lies under the final name is what was staged, and not another's."""
    file, staged = target.file(one.version), one.staged_path(target.directory)
    store = target.ctx.store
    return file is not None and staged is not None and store.get(file[1].path) == store.get(staged)


def forget_lost(ctx: Context, problem: Problem) -> None:
    """Remove the rows of versions that are nowhere, and those that are there twice."""

    def plan(view: Snapshot) -> tuple[Change, None]:
        found = _found(ctx, problem, view)
        if found is None or ctx.log is None:
            return Change(), None
        target = found[1]
        seen: set[int] = set()
        gone: list[Entry] = []
        for row in registry.all_rows(ctx.log, view, target.key):
            one = registry.parse(row)
            if one is None:
                continue
            staged = one.staged_path(target.directory)
            there = target.file(one.version) is not None
            there = there or (staged is not None and ctx.store.head(staged) is not None)
            if one.version in seen or not there:
                gone.append(row)
            else:
                seen.add(one.version)
        return forgetting(view, target.key, gone), None

    ctx.commit(plan)


def adopt_foreign(ctx: Context, problem: Problem) -> None:
    """Register versions that were committed without the catalog."""
    found = _found(ctx, problem, ctx.exact())
    if found is not None:
        adopt_versions(found[1])


def finish_deletion(ctx: Context, problem: Problem) -> None:
    """Delete the manifests of deleted versions; those that a tag relies on are versions again."""
    found = _found(ctx, problem, ctx.exact())
    if found is None:
        return
    table, target = found
    held = held_versions(open_plain(ctx, table))
    folder = f"{target.directory}/_versions"
    listed = manifest_files(ctx.store, folder)
    files = {file.version: file for file in listed if file.info.path in problem.paths}
    back = [as_registered(file) for version, file in files.items() if version in held]

    def plan(view: Snapshot) -> tuple[Change, set[int]]:
        now = _found(ctx, problem, view)
        known = {} if now is None else now[1].registered(*files)
        missing = [] if now is None else [one for one in back if one.version not in known]
        add = tuple(one.row(target.key, target.directory) for one in missing)
        return Change(add=add), set(known)

    known = ctx.commit(plan)
    gone = [v for v in files if v not in held and v not in known]
    ctx.store.delete([files[version].info.path for version in sorted(gone)])
