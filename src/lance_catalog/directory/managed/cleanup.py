"""Old versions go, with the data that only they use; the registry goes first (retention, I36).

Lance deletes the files, because Lance knows which data file is still used. It is told exactly
which versions, and only after their rows are gone: so nobody is sent to a version that is being
deleted. What Lance kept all the same (tagged meanwhile) is registered again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, Final

import lance

from lance_catalog.config import parse_duration_ms
from lance_catalog.directory import job_ids, job_ledger
from lance_catalog.directory.context import Context
from lance_catalog.directory.describing import is_declared
from lance_catalog.directory.managed.deletion import held_versions
from lance_catalog.directory.managed.lineage import Lineage
from lance_catalog.directory.managed.target import Target, managed_target
from lance_catalog.directory.resolve import FoundTable, find_table, require_table, tables_in
from lance_catalog.errors import (
    InvalidInputError,
    LanceNamespaceError,
    TableNotFoundError,
    storage_errors,
    translate,
)
from lance_catalog.failpoints import hit
from lance_catalog.identifiers import Identifier, decode, format_text, is_internal_key
from lance_catalog.manifest import Change, Snapshot
from lance_catalog.versions import registry
from lance_catalog.versions.files import manifest_files
from lance_catalog.versions.registry import Registered

__all__ = ["CleanedTable", "Rule", "VersionCleanup", "cleanup", "open_plain"]

#: What Lance itself takes when nothing is said.
DEFAULT_AGE: Final = "14d"
#: How many versions are deleted at a time: on a disk others may wait for it.
_CHUNK: Final = 64
Told = Callable[[Identifier, int, int], None]


@dataclass(frozen=True, slots=True)
class CleanedTable:
    """What a cleanup removed of a table, or with a dry run would."""

    id: Identifier
    versions: int
    #: The oldest version that is left; None for a table without data.
    oldest_kept: int | None
    #: Freed; None in a dry run, for only the deletion itself finds out.
    bytes: int | None
    #: Versions that would have gone, but a tag or a branch holds them.
    tagged: int = 0


@dataclass(slots=True)
class VersionCleanup:
    """What a cleanup did; one table's failure stops no other."""

    tables: list[CleanedTable] = field(default_factory=list)
    failed: list[tuple[Identifier, LanceNamespaceError]] = field(default_factory=list)
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """Which versions are old: beyond the newest ``keep``, and older than an age; never the latest.

    With both, a version goes when both say so.
    """

    older_than_ms: int | None
    keep: int

    @classmethod
    def of(cls, older_than: str | float | None, keep: int | None) -> Rule:
        """Read what a caller said; by default what is older than 14 days."""
        if keep is not None and (isinstance(keep, bool) or not isinstance(keep, int) or keep < 1):
            raise InvalidInputError(f"keep is {keep!r}; expected how many versions stay, from 1 on")
        if older_than is None and keep is None:
            older_than = DEFAULT_AGE
        age = None if older_than is None else parse_duration_ms("older_than", older_than)
        if older_than is not None and age is None:
            raise InvalidInputError("older_than is 'never', and then nothing is to be cleaned up")
        return cls(age, keep or 1)

    def chosen(self, times: dict[int, int], now_ms: int) -> list[int]:
        """Return the versions that are old, of some with their times."""
        old = sorted(times)[: -self.keep]
        if self.older_than_ms is None:
            return old
        before = now_ms - self.older_than_ms
        return [version for version in old if times[version] < before]


def cleanup(
    ctx: Context,
    id: Identifier | None,
    rule: Rule,
    *,
    dry_run: bool = False,
    told: Told | None = None,
) -> VersionCleanup:
    """Remove the old versions of a table, or of all."""
    report = VersionCleanup(dry_run=dry_run)
    names = [id] if id is not None else list(_all_tables(ctx, ctx.exact()))
    for number, one in enumerate(names, 1):
        try:
            report.tables.append(_clean(ctx, one, rule, dry_run=dry_run))
        except TableNotFoundError:
            if id is not None:
                raise
            # Dropped since the list was made.
        except LanceNamespaceError as error:
            if id is not None:
                raise
            report.failed.append((one, error))
        except OSError as error:
            report.failed.append((one, translate(error, f"cleaning up '{format_text(one)}'")))
        if told is not None:
            told(one, number, len(names))
    return report


def _all_tables(ctx: Context, view: Snapshot) -> Iterator[Identifier]:
    """Yield every table, those that only a directory tells of as well."""
    found: set[Identifier] = {(name,) for name in tables_in(ctx, view, (), None)}
    found |= {
        decode(entry.object_id)
        for entry in view.entries()
        if entry.is_table and not is_internal_key(entry.object_id)
    }
    yield from sorted(found)


def _clean(ctx: Context, names: Identifier, rule: Rule, *, dry_run: bool) -> CleanedTable:
    view = ctx.exact()
    found = require_table(ctx, view, names)
    target = managed_target(ctx, view, found)
    if is_declared(ctx, found.location):
        return CleanedTable(names, 0, None, 0)
    with storage_errors(f"cleaning up '{format_text(names)}'"):
        lineage = None if target is None else Lineage.of(target)
        files = _files(ctx, found)
        known = files if target is None else _registered(target)
        dataset = open_plain(ctx, found)
        held = held_versions(dataset)
        # Rows of versions that Lance's own cleanup removed before go as well, whatever their age.
        lost = {version for version in known if version not in files and version < max(files)}
        old = [version for version in rule.chosen(known, ctx.clock()) if version not in lost]
        chosen = [version for version in old if version not in held]
        gone = sorted({*chosen, *lost})
        left = min(version for version in files if version not in chosen)
        if dry_run or not gone:
            nothing = None if dry_run else 0
            return CleanedTable(names, len(gone), left, nothing, len(old) - len(chosen))
        # Before anything goes: a job must not find itself forgotten (see directory/job_ledger.py).
        _keep_jobs(ctx, found, dataset, {version: files[version] for version in chosen})
        rows = [] if target is None else _forget(target, gone)
        hit("version.cleanup_forgotten")
        freed = _delete(dataset, chosen, lineage)
        hit("version.cleanup_deleted")
        kept = {version for version in _files(ctx, found) if version in chosen}
        if target is not None and kept:
            _remember(target, [row for row in rows if row.version in kept])
        return CleanedTable(names, len(gone) - len(kept), left, freed, len(old) - len(chosen))


def _keep_jobs(ctx: Context, found: FoundTable, dataset: Any, going: dict[int, int]) -> None:
    """Write down which jobs made the versions that go."""
    told = {version: (at_ms, job_ids.told_by(dataset, version)) for version, at_ms in going.items()}
    job_ledger.keep(ctx.store, found.location, told, ctx.clock())
    hit("version.jobs_kept")


def _delete(dataset: Any, chosen: Sequence[int], lineage: Lineage | None) -> int:
    """Let Lance delete versions; return how many bytes that freed."""
    freed = 0
    for start in range(0, len(chosen), _CHUNK):
        part = list(chosen[start : start + _CHUNK])
        with nullcontext(True) if lineage is None else lineage.held() as same:
            if not same:
                break  # Dropped meanwhile, or another table by now.
            stats = dataset.cleanup_old_versions(versions=part, error_if_tagged_old_versions=False)
            freed += int(stats.bytes_removed)
    return freed


def open_plain(ctx: Context, found: FoundTable) -> Any:
    """Open a table by its place alone."""
    uri = ctx.store.uri_of(found.location)
    return lance.dataset(uri, storage_options=dict(ctx.store.lance_options) or None)


def _files(ctx: Context, found: FoundTable) -> dict[int, int]:
    """Return the versions that lie in storage, with their times."""
    files = manifest_files(ctx.store, f"{found.location}/_versions")
    return {file.version: file.info.modified_ms for file in files if file.info.size}


def _registered(target: Target) -> dict[int, int]:
    assert target.ctx.log is not None
    rows = registry.all_rows(target.ctx.log, target.view, target.key)
    return {one.version: one.timestamp_ms for one in map(registry.parse, rows) if one is not None}


def _forget(target: Target, numbers: Sequence[int]) -> list[Registered]:
    """Take the rows of versions out of the registry; never that of the latest."""

    def plan(view: Snapshot) -> tuple[Change, list[Registered]]:
        current = view.get(target.key)
        if current is None or current.location != target.entry.location:
            raise TableNotFoundError(f"table '{target.key}' was dropped or renamed meanwhile")
        now = Target(target.ctx, view, current, target.directory)
        head = now.head()
        rows = [one for one in now.registered(*numbers).values() if one.version < head]
        return Change(remove=tuple(one.entry for one in rows if one.entry is not None)), rows

    return target.ctx.commit(plan)


def _remember(target: Target, rows: Sequence[Registered]) -> None:
    """Register versions again that are still there."""

    def plan(view: Snapshot) -> tuple[Change, None]:
        found = find_table(target.ctx, view, decode(target.key))
        if found is None or found.location != target.directory:
            return Change(), None
        now = Target(target.ctx, view, target.entry, target.directory)
        known = now.registered(*(one.version for one in rows))
        back = (one for one in rows if one.version not in known)
        return Change(add=tuple(one.row(target.key, target.directory) for one in back)), None

    target.ctx.commit(plan)
