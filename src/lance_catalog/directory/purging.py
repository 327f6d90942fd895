"""Purging dropped tables: one, some, or all whose time has come (S04, S05, R4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from lance_catalog.config import Mode
from lance_catalog.directory import dropped, protection, trashing
from lance_catalog.directory.context import Context
from lance_catalog.directory.dropped import DroppedTable, Found
from lance_catalog.directory.marking import require_unregistered
from lance_catalog.directory.redoing import reopen_names
from lance_catalog.directory.registration import own_properties
from lance_catalog.directory.resolve import find_table
from lance_catalog.errors import (
    InvalidInputError,
    InvalidTableStateError,
    LanceNamespaceError,
    TableNotFoundError,
    storage_errors,
    translate,
)
from lance_catalog.identifiers import Identifier, format_text
from lance_catalog.lifecycle import purge
from lance_catalog.lifecycle.deleting import Count, measure
from lance_catalog.storage.capabilities import require_put_if_absent

__all__ = ["PurgeReport", "PurgedTable", "list_purgable", "purge_one", "purge_some", "timestamp"]

#: Told, while a purge runs: which table, objects and bytes deleted of it so far.
Told = Callable[[DroppedTable, int, int], None]


@dataclass(frozen=True, slots=True)
class PurgedTable:
    """A table whose data is gone, or with a dry run would be: how many objects, how many bytes."""

    table: DroppedTable
    objects: int
    bytes: int


@dataclass(slots=True)
class PurgeReport:
    """What a purge of several tables did; one failure stops no other table."""

    purged: list[PurgedTable] = field(default_factory=list)
    failed: list[tuple[DroppedTable, LanceNamespaceError]] = field(default_factory=list)
    dry_run: bool = False


def timestamp(value: int | float | datetime | None, what: str) -> int | None:
    """Return a point in time in milliseconds: of a datetime with a zone, or of milliseconds."""
    if value is None:
        return None
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise InvalidInputError(f"{what}: {value} has no time zone; give one")
        return int(value.timestamp() * 1000)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidInputError(f"{what} is {value!r}; expected a datetime or milliseconds")
    return int(value)


def list_purgable(ctx: Context, deleted_before_ms: int | None) -> list[Found]:
    """Return the dropped tables a purge would take, those left half deleted included.

    Without a time, those whose own time to live has passed; with one, those dropped before it:
    then the caller decides, not the time to live.
    """
    now = ctx.clock()
    ripe = [
        found
        for found in dropped.drops(ctx)
        if found.hidden.is_purging
        or (
            found.hidden.is_expired(now)
            if deleted_before_ms is None
            else found.hidden.deleted_at_ms < deleted_before_ms
        )
    ]
    # V1 tells of them, and leaves the decision to those who read the manifest.
    rows = ctx.whole().exact() if ctx.mode is Mode.V1 and ripe else None
    return [one for one in ripe if rows is None or not rows.at_location(one.location)]


def purge_one(
    ctx: Context,
    names: Identifier,
    drop_id: str | None,
    *,
    force: bool,
    dry_run: bool = False,
    told: Told | None = None,
) -> PurgedTable:
    """Purge the latest drop of an id, or the one that is named; 19 while its time runs."""
    found = _one(ctx, names, drop_id)
    if dry_run:
        return _measured(ctx, found, force=force, ripe=force)
    return _purge(ctx, found, force=force, told=told)


def _one(ctx: Context, names: Identifier, drop_id: str | None) -> Found:
    view = ctx.exact()
    try:
        found = dropped.require(ctx, view, names, drop_id)
        return _one(ctx, names, drop_id) if trashing.settle_first(ctx, found.row) else found
    except TableNotFoundError:
        if find_table(ctx, view, names) is not None:
            text = format_text(names)
            raise InvalidTableStateError(
                f"table '{text}' is live, and only dropped tables are purged: "
                f"`lance-catalog table drop {text}` first"
            ) from None
        raise


def purge_some(
    ctx: Context,
    ids: Sequence[Identifier] | None,
    deleted_before_ms: int | None,
    *,
    force: bool = False,
    dry_run: bool = False,
    told: Told | None = None,
) -> PurgeReport:
    """Purge the tables that are named, or all that :func:`list_purgable` lists."""
    if ids is None:
        if not dry_run:
            reopen_names(ctx)
            trashing.settle_all(ctx)
        chosen = list_purgable(ctx, deleted_before_ms)
    else:
        chosen = [_one(ctx, names, None) for names in ids]
        if deleted_before_ms is not None:
            chosen = [one for one in chosen if one.hidden.deleted_at_ms < deleted_before_ms]
    # A time the caller gave is the caller's policy, and stands in for the time to live.
    decided = force or deleted_before_ms is not None
    report = PurgeReport(dry_run=dry_run)
    for found in chosen:
        try:
            if dry_run:
                report.purged.append(_measured(ctx, found, force=force, ripe=decided))
            else:
                report.purged.append(_purge(ctx, found, force=force, ripe=decided, told=told))
        except TableNotFoundError:
            if ids is not None:
                raise
            # Another sweep was there first.
        except LanceNamespaceError as error:
            report.failed.append((found.told(), error))
        except OSError as error:
            failure = translate(error, f"purging '{format_text(found.names)}'")
            report.failed.append((found.told(), failure))
    return report


def _require_ripe(ctx: Context, found: Found, *, force: bool, ripe: bool) -> None:
    """Raise 19 unless the table may go: its time has passed, and nothing protects it."""
    if found.hidden.is_purging or force:
        return
    text = format_text(found.names)
    guard = own_properties(ctx, found.location) if found.row is None else found.row.entry
    protection.refuse(guard, found.names, "purging")
    if not ripe and not found.hidden.is_expired(ctx.clock()):
        at = found.hidden.expires_at_ms
        when = "never expires" if at is None else f"can be undropped until {_text(at)}"
        raise InvalidTableStateError(
            f"table '{text}' {when}; force purges it now (`lance-catalog trash purge {text} "
            "--force`), and then it cannot come back"
        )


def _text(at_ms: int) -> str:
    try:
        return datetime.fromtimestamp(at_ms / 1000).astimezone().isoformat(timespec="seconds")
    except (OverflowError, OSError, ValueError):
        return f"{at_ms} ms"


def _purge(
    ctx: Context, found: Found, *, force: bool, ripe: bool = False, told: Told | None = None
) -> PurgedTable:
    require_put_if_absent(ctx.store)
    _require_ripe(ctx, found, force=force, ripe=ripe)
    table = found.told()
    progress = None if told is None else (lambda objects, size: told(table, objects, size))
    terms = ctx.terms()
    if found.row is None:
        gone = purge.purge_directory(
            ctx.store,
            found.names[0],
            found.location,
            found.hidden,
            ctx.clock,
            terms=terms,
            progress=progress,
            guard=lambda: require_unregistered(ctx, found.location),
        )
    else:
        row = found.row
        assert ctx.log is not None
        with storage_errors(f"looking at {found.location}"):
            purge.require_own_marker(ctx.store, row)
        claimed = ctx.commit(lambda view: purge.claim_row(view, row, terms))
        gone = purge.purge_row(
            ctx.log, claimed, ctx.clock, lease_ms=ctx.lease_ms, progress=progress
        )
    return PurgedTable(table, gone.objects, gone.bytes)


def _measured(ctx: Context, found: Found, *, force: bool, ripe: bool) -> PurgedTable:
    _require_ripe(ctx, found, force=force, ripe=ripe)
    with storage_errors(f"looking at {found.location}"):
        if found.row is None:
            require_unregistered(ctx, found.location)
        size: Count = measure(ctx.store, found.location)
    return PurgedTable(found.told(), size.objects, size.bytes)
