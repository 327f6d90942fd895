"""Migration: of V1 tables into the manifest (C20), and of a root to listings by name alone (R7).

In V2 and compatibility mode every table that only its directory tells of gets a row, and one that
only its marker hides a row in the trash. In every mode a table that another implementation
deregistered (a nested marker alone) gets its root-level marker, and when all of them have it, the
root gets the layout flag. Nothing moves, nothing is removed. Idempotent, and resumable after a
crash because what is done is skipped. Afterwards ``dir_listing_enabled=false`` shows the same
tables, except those that were skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from lance_catalog.config import Mode
from lance_catalog.directory import layout_flag, listing, trashing
from lance_catalog.directory.context import Context
from lance_catalog.directory.managed.rows import arriving
from lance_catalog.directory.registration import table_properties
from lance_catalog.errors import InternalError, InvalidInputError, storage_errors
from lance_catalog.failpoints import hit
from lance_catalog.identifiers import check_new_name, encode, is_internal_key
from lance_catalog.lifecycle import markers, trash
from lance_catalog.lifecycle.locations import SUFFIX
from lance_catalog.lifecycle.states import is_creating
from lance_catalog.manifest import Change, Snapshot
from lance_catalog.model import Entry, Kind, dump_metadata
from lance_catalog.storage.capabilities import require_put_if_absent

__all__ = ["MigrationReport", "migrate", "refusal"]

_BATCH: Final = 256


@dataclass(slots=True)
class MigrationReport:
    """What a migration did, or with a dry run would do."""

    registered: list[str] = field(default_factory=list)
    already: list[str] = field(default_factory=list)
    #: (name, why) of directories that cannot be tables of a manifest, or not be hidden by name.
    skipped: list[tuple[str, str]] = field(default_factory=list)
    #: (name, why) of tables that cannot be opened; the others are registered all the same.
    failed: list[tuple[str, str]] = field(default_factory=list)
    #: Tables that another implementation deregistered, and that have a root-level marker now.
    hidden: list[str] = field(default_factory=list)
    #: Tables dropped or deregistered by their marker alone, that the manifest's trash has now.
    trashed: list[str] = field(default_factory=list)
    #: Whether this run wrote the layout flag.
    flagged: bool = False


def migrate(
    ctx: Context, *, dry_run: bool = False, progress: Callable[[int, int], None] | None = None
) -> MigrationReport:
    """Bring a root up to date; ``progress`` is told (done, of how many)."""
    found = listing.scan(ctx.store)
    view = ctx.view()
    report = MigrationReport()
    todo: list[str] = [] if ctx.mode is Mode.V1 else _sort_out(view, found.visible, report)
    if not dry_run:
        require_put_if_absent(ctx.store)
    told = progress or (lambda done, total: None)
    total = len(found.nested) + len(todo)
    # Hiding comes first: what is hidden for one reader must not be registered for another.
    ready = True
    for number, name in enumerate(found.nested, 1):
        ready = _hide(ctx, view, name, report, dry_run=dry_run) and ready
        if number % _BATCH == 0 or number == len(found.nested):
            told(number, total)
    done = len(found.nested)
    for start in range(0, len(todo), _BATCH):
        batch = todo[start : start + _BATCH]
        report.registered.extend(batch if dry_run else _register(ctx, batch, report))
        done += len(batch)
        told(done, total)
    if ctx.mode is not Mode.V1:
        report.trashed += _trash(ctx, dry_run=dry_run)
    # The flag last, and never on a root without tables: that may be a mistyped name.
    report.flagged = ready and found.any_table and not found.flagged
    if report.flagged and not dry_run:
        with storage_errors("writing the layout flag"):
            layout_flag.write(ctx.store)
            hit("migrate.flagged")
    return report


def _hide(
    ctx: Context, view: Snapshot, name: str, report: MigrationReport, *, dry_run: bool
) -> bool:
    """Give a table hidden by its nested marker the root-level one; whether names tell of it now."""
    place = name + SUFFIX
    rows = view.at_location(place)
    live = [row for row in rows if not is_internal_key(row.object_id)]
    if live:
        why = (
            f"deregistered by another implementation, but the manifest has it as "
            f"'{live[0].object_id}'; `lance-catalog repair` shows it to everybody, deregister "
            "hides it from everybody"
        )
        report.skipped.append((name, why))
        return False
    if dry_run:
        report.hidden.append(name)
        return True
    former = trash.owner_of(view, place) if rows else []
    with storage_errors(f"marking '{name}'"):
        if markers.lift(ctx.store, name, place, former[0].hidden if former else None):
            report.hidden.append(name)
            return True
        body = ctx.store.get(markers.marker_path(name))
    if body is not None and is_creating(body, name):
        report.skipped.append((name, "another process is creating a table of that name; run again"))
        return False
    return True  # Hidden, registered or dropped by somebody else meanwhile.


def _trash(ctx: Context, *, dry_run: bool) -> list[str]:
    """Give what only a marker hides a row in the trash: V2 alone would not know of it any more."""
    done = [] if dry_run else trashing.settle_all(ctx)
    for name in listing.marked_names(ctx.store):
        view = ctx.exact()
        if view.at_location(name + SUFFIX) or refusal(view, name, hidden=True) is not None:
            continue
        if trashing.bring(ctx, name, dry_run=dry_run):
            done.append(name)
    return sorted(done)


def _sort_out(view: Snapshot, names: list[str], report: MigrationReport) -> list[str]:
    """Return the names to register; of the others the report says why not."""
    todo: list[str] = []
    for name in names:
        why = refusal(view, name)
        if view.at_location(name + SUFFIX):
            report.already.append(name)
        elif why is not None:
            report.skipped.append((name, why))
        else:
            todo.append(name)
    return todo


def refusal(view: Snapshot, name: str, *, hidden: bool = False) -> str | None:
    """Return why a directory cannot become a table of the manifest and what to do, or None.

    ``hidden``: it is to become one of the trash, where its name need not be free.
    """
    try:
        check_new_name((name,), stored=True)
    except InvalidInputError as error:
        why = str(error).removesuffix("; choose another name")
        return (
            f"a manifest cannot hold this name ({why}): copy the table under another name, or "
            "use V1 (--mode v1)"
        )
    existing = None if hidden else view.get(encode((name,)))
    if existing is not None and existing.location != name + SUFFIX:
        return f"the name belongs to a {existing.object_type} of the manifest; rename one of them"
    return None


def _register(ctx: Context, names: list[str], report: MigrationReport) -> list[str]:
    """Add rows for a batch, leaving out what somebody else registered meanwhile."""
    # A V1 table keeps its properties in its own metadata; from now on the row has them (R14).
    properties: dict[str, str | None] = {}
    for name in names:
        try:
            properties[name] = dump_metadata(table_properties(ctx, name + SUFFIX))
        except InternalError as error:
            report.failed.append((name, str(error)))  # Damaged: no reason to stop at it.

    def plan(view: Snapshot) -> tuple[Change, list[str]]:
        fresh = [
            name
            for name in properties
            if view.get(encode((name,))) is None and not view.at_location(name + SUFFIX)
        ]
        rows = tuple(
            Entry(encode((name,)), Kind.TABLE.value, name + SUFFIX, properties[name])
            for name in fresh
        )
        come = [row for table in rows for row in (table, *arriving(ctx, view, table))]
        return Change(add=tuple(come)), fresh

    registered = ctx.commit(plan)
    hit("migrate.registered")
    return registered
