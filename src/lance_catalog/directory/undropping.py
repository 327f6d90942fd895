"""Bringing dropped tables back (S07): one commit, or in V1 the end of its marker under a claim."""

from __future__ import annotations

from dataclasses import dataclass

from lance_catalog.config import Mode
from lance_catalog.directory import claiming, dropped, reviving, trashing
from lance_catalog.directory.context import Context
from lance_catalog.directory.dropped import Found
from lance_catalog.directory.managed.rows import arriving
from lance_catalog.directory.marking import unmark_v1
from lance_catalog.directory.resolve import find_table, namespace_exists
from lance_catalog.errors import (
    CommitOutcomeUnknownError,
    ConcurrentModificationError,
    InvalidTableStateError,
    LanceNamespaceError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedOperationError,
    storage_errors,
)
from lance_catalog.failpoints import hit
from lance_catalog.identifiers import (
    Identifier,
    check_new_name,
    encode,
    format_text,
    is_internal_key,
    parent_of,
)
from lance_catalog.lifecycle import claim_files, markers, trash
from lance_catalog.lifecycle.claims import Claim, Verb, obstacle
from lance_catalog.lifecycle.locations import normalise, overlapping
from lance_catalog.manifest import Change, Snapshot
from lance_catalog.model import Entry, Kind, dump_metadata
from lance_catalog.storage.capabilities import require_put_if_absent

__all__ = ["Undropped", "undrop"]


@dataclass(frozen=True, slots=True)
class Undropped:
    """A table brought back: its id now, its place, and the drop that was undone."""

    id: Identifier
    location: str
    drop_id: str


def undrop(
    ctx: Context, names: Identifier, as_names: Identifier | None, drop_id: str | None
) -> Undropped:
    """Bring back the latest drop of an id, or the one that is named, under its id or another."""
    target = names if as_names is None else as_names
    if ctx.mode is Mode.V1 and target != names:
        raise UnsupportedOperationError(
            "undrop_table: in V1 (manifest_enabled=false) a table's name is its directory, so it "
            "comes back under its own name only. Set manifest_enabled=true for another."
        )
    check_new_name(target, stored=ctx.mode is not Mode.V1)
    require_put_if_absent(ctx.store)
    while True:
        found = dropped.require(ctx, ctx.exact(), names, drop_id)
        if trashing.settle_first(ctx, found.row):
            continue
        _require_open(ctx, found)
        if found.row is None:
            _undrop_directory(ctx, found, target)
            break
        if found.hidden.claim is None:
            if _undrop_row(ctx, found, target, None):
                break
        elif _undrop_left(ctx, found, target):
            break
    return Undropped(target, found.location, found.hidden.drop_id)


def _require_open(ctx: Context, found: Found) -> None:
    """Raise unless nobody else is ending the hiding: 4 when it is being deleted, else 14."""
    terms = ctx.terms()
    why = obstacle(found.hidden.claim, Verb.UNDROP, terms.now_ms, terms.lease_ms)
    if why is None:
        return
    text = f"table '{format_text(found.names)}' cannot be undropped: {why}"
    if found.hidden.is_purging:
        raise TableNotFoundError(text)
    raise ConcurrentModificationError(f"{text}; look again and retry")


def _require_target(ctx: Context, view: Snapshot, target: Identifier) -> None:
    parent = parent_of(target)
    if ctx.mode is not Mode.V1 and not namespace_exists(view, parent):
        text = format_text(parent)
        raise NamespaceNotFoundError(
            f"namespace '{text}' does not exist any more: `lance-catalog namespace create {text}` "
            "makes it, or undrop the table under another id (--as)"
        )
    taken = find_table(ctx, view, target) is not None
    if taken or (ctx.mode is not Mode.V1 and view.get(encode(target)) is not None):
        raise TableAlreadyExistsError(
            f"'{format_text(target)}' exists already; undrop the table under another id (--as), "
            "or drop or rename what is there"
        )


def _undrop_row(ctx: Context, found: Found, target: Identifier, seen: Claim | None) -> bool:
    """Make the trash row a live one; False when the drop changed hands since it was looked at."""
    assert found.row is not None
    key = found.row.entry.object_id

    def plan(view: Snapshot) -> tuple[Change, bool]:
        current = trash.get(view, key)
        if current is None or current.hidden.claim != seen:
            return Change(), False
        _require_target(ctx, view, target)
        place = normalise(current.entry.location)
        others = [] if place is None else overlapping(view, place)
        live = [entry for entry in others if not is_internal_key(entry.object_id)]
        if live:
            raise InvalidTableStateError(
                f"'{live[0].object_id}' was registered by another implementation at the same "
                f"place ({place}): the table is back under that id already"
            )
        row = trash.brought_back(current, encode(target), {})
        come = (row, *arriving(ctx, view, row, current.hidden.versions))
        return Change(view.rows_of(key), come, {row.object_id: current.entry}), True

    if not ctx.commit(plan):
        return False
    hit("undrop.registered")
    unmark_v1(ctx, found.location)
    return True


def _undrop_left(ctx: Context, found: Found, target: Identifier) -> bool:
    """Undrop what a claim was left on: take it, undo what was never acknowledged, then go on.

    Without the claim a creation that only slept could end in between, and lose what it wrote.
    """
    held = claiming.claim(ctx, found, Verb.UNDROP)
    if held is None:
        return False
    try:
        hit("undrop.claimed")
        reviving.undo_others(held)
        return _undrop_row(ctx, found, target, held.claim)
    except CommitOutcomeUnknownError:
        raise
    except (LanceNamespaceError, OSError) as error:
        held.tell(error)
        held.give_back()
        raise


def _undrop_directory(ctx: Context, found: Found, target: Identifier) -> None:
    """Bring back a table that only its marker hides."""
    name = found.names[0]
    _require_target(ctx, ctx.exact(), target)
    if target != found.names:
        _register_marked(ctx, found, target)
        return
    held = claiming.claim(ctx, found, Verb.UNDROP)
    if held is None:
        raise ConcurrentModificationError(f"table '{name}' was changed meanwhile; look again")
    with storage_errors(f"undropping '{name}'"):
        hit("undrop.claimed")
        try:
            reviving.undo_others(held)
        except LanceNamespaceError as error:
            held.tell(error)
            raise
        markers.show(ctx.store, name, found.location, found.hidden, held.claim, ctx.terms())


def _register_marked(ctx: Context, found: Found, target: Identifier) -> None:
    """Compatibility mode: give a table that a marker hides a row under another id."""
    from lance_catalog.directory.registration import table_properties

    metadata = dump_metadata(table_properties(ctx, found.location))
    row = Entry(encode(target), Kind.TABLE.value, found.location, metadata)

    def plan(view: Snapshot) -> tuple[Change, None]:
        _require_target(ctx, view, target)
        if overlapping(view, found.location):
            raise ConcurrentModificationError(f"'{found.location}' was taken meanwhile; retry")
        return Change(add=(row, *arriving(ctx, view, row))), None

    name = found.names[0]
    with storage_errors(f"undropping '{name}'"):
        held = markers.claim(
            ctx.store, name, found.location, found.hidden, Verb.UNDROP, ctx.terms()
        )
        try:
            hit("undrop.claimed")
            ctx.commit(plan)
        except CommitOutcomeUnknownError:
            raise
        except (LanceNamespaceError, OSError):
            claim_files.give_back(ctx.store, name, found.hidden.drop_id, held)
            raise
        hit("undrop.registered")
        markers.show(ctx.store, name, found.location, found.hidden, held, ctx.terms())
