"""V1 → V2: a row for every table that only its directory tells of (C20).

Nothing moves. Idempotent, and resumable after a crash because every batch is one commit and what
is registered is skipped. Afterwards ``dir_listing_enabled=false`` shows the same tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from lance_catalog.config import Mode
from lance_catalog.directory import listing
from lance_catalog.directory.context import Context
from lance_catalog.directory.registration import table_properties
from lance_catalog.errors import InvalidInputError, UnsupportedOperationError
from lance_catalog.failpoints import hit
from lance_catalog.identifiers import check_new_name, encode
from lance_catalog.lifecycle.locations import SUFFIX
from lance_catalog.manifest import Change, Snapshot
from lance_catalog.model import Entry, Kind, dump_metadata

__all__ = ["MigrationReport", "migrate"]

_BATCH: Final = 256


@dataclass(frozen=True, slots=True)
class MigrationReport:
    """What a migration did, or with a dry run would do."""

    registered: list[str] = field(default_factory=list)
    already: list[str] = field(default_factory=list)
    #: (name, why) of directories that cannot be tables of a manifest.
    skipped: list[tuple[str, str]] = field(default_factory=list)


def migrate(
    ctx: Context, *, dry_run: bool = False, progress: Callable[[int, int], None] | None = None
) -> MigrationReport:
    """Register every V1 table of the root; ``progress`` is told (done, of how many)."""
    if ctx.mode is Mode.V1:
        raise UnsupportedOperationError(
            "migrate: there is no manifest in V1 (manifest_enabled=false) to register tables in; "
            "run it with manifest_enabled=true"
        )
    names = listing.list_names(ctx.store)
    report = MigrationReport()
    view = ctx.view()
    todo: list[str] = []
    for name in names:
        why = _refusal(view, name)
        if view.at_location(name + SUFFIX):
            report.already.append(name)
        elif why is not None:
            report.skipped.append((name, why))
        else:
            todo.append(name)
    done = 0
    for start in range(0, len(todo), _BATCH):
        batch = todo[start : start + _BATCH]
        report.registered.extend(batch if dry_run else _register(ctx, batch))
        done += len(batch)
        if progress is not None:
            progress(done, len(todo))
    return report


def _refusal(view: Snapshot, name: str) -> str | None:
    try:
        check_new_name((name,), stored=True)
    except InvalidInputError as error:
        return str(error)
    existing = view.get(encode((name,)))
    if existing is not None and existing.location != name + SUFFIX:
        return f"the name belongs to a {existing.object_type} of the manifest; rename one of them"
    return None


def _register(ctx: Context, names: list[str]) -> list[str]:
    """Add rows for a batch, leaving out what somebody else registered meanwhile."""
    # A V1 table keeps its properties in its own metadata; from now on the row has them (R14).
    properties = {name: dump_metadata(table_properties(ctx, name + SUFFIX)) for name in names}

    def plan(view: Snapshot) -> tuple[Change, list[str]]:
        fresh = [
            name
            for name in names
            if view.get(encode((name,))) is None and not view.at_location(name + SUFFIX)
        ]
        rows = tuple(
            Entry(encode((name,)), Kind.TABLE.value, name + SUFFIX, properties[name])
            for name in fresh
        )
        return Change(add=rows), fresh

    registered = ctx.commit(plan)
    hit("migrate.registered")
    return registered
