"""batch_commit_tables where versions are managed: declarations, versions, deletions and
deregistrations of several tables as one commit: all of them or none (I33).

Each operation is planned on top of the ones before it, so a table declared by the batch can get
its first version from the same batch.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from lance_catalog.directory.context import Context
from lance_catalog.directory.layout import RESERVED, RESERVED_BODY, fresh_directory
from lance_catalog.directory.managed.commit import Asked, Prepared, plan_rows, prepare, publish
from lance_catalog.directory.managed.deletion import Deletion, plan_deletion, remove_files
from lance_catalog.directory.managed.lineage import Lineage
from lance_catalog.directory.managed.rows import leaving
from lance_catalog.directory.managed.target import Target
from lance_catalog.directory.marking import mark_v1
from lance_catalog.directory.places import require_free
from lance_catalog.directory.resolve import lookup, require_table
from lance_catalog.errors import (
    CommitOutcomeUnknownError,
    ConcurrentModificationError,
    InternalError,
    LanceNamespaceError,
    ServiceUnavailableError,
    TableNotFoundError,
    storage_errors,
)
from lance_catalog.failpoints import hit
from lance_catalog.identifiers import Identifier, check_new_name, encode, format_text
from lance_catalog.lifecycle import trash
from lance_catalog.lifecycle.locations import overlapping
from lance_catalog.lifecycle.states import Hidden, HiddenState, new_drop_id
from lance_catalog.lifecycle.trash import TrashRow
from lance_catalog.manifest import Change, Draft, Snapshot
from lance_catalog.model import Entry, Kind, dump_metadata
from lance_catalog.storage.port import ObjectInfo
from lance_catalog.versions.registry import Registered

__all__ = [
    "UNDECIDED",
    "Declare",
    "Delete",
    "Deregister",
    "Operation",
    "Properties",
    "Version",
    "carry_out",
]


@dataclass
class Declare:
    """A table to be: its name, its place and its properties."""

    names: Identifier
    properties: dict[str, str]
    place: str = ""


@dataclass
class Version:
    """A version of a table that is there, or that the batch declares."""

    names: Identifier
    asked: Asked
    prepared: Prepared | None = None
    made: ObjectInfo | None = None


@dataclass
class Delete:
    """Versions that go."""

    names: Identifier
    ranges: tuple[tuple[int, int], ...]
    ignore_missing: bool = True
    force: bool = False
    gone: list[Registered] = field(default_factory=list)
    lineage: Lineage | None = None


@dataclass
class Deregister:
    """A table that leaves the catalog, its data kept."""

    names: Identifier
    hidden: Hidden | None = None
    row: TrashRow | None = None
    entry: Entry | None = None


@dataclass
class Properties:
    """Properties for a table that is there."""

    names: Identifier
    given: dict[str, str]


Operation = Declare | Version | Delete | Deregister
#: After these nobody knows whether a batch was committed.
UNDECIDED: Final = (CommitOutcomeUnknownError, InternalError, ServiceUnavailableError)


def carry_out(ctx: Context, operations: Sequence[Operation | Properties]) -> None:
    """Carry out a batch; each operation knows afterwards what became of it."""
    reserved: list[str] = []
    try:
        _reserve(ctx, operations, reserved)
        _prepare(ctx, operations)
        hit("version.staged")
        ctx.commit(lambda view: (_plan(ctx, view, operations), None))
    except UNDECIDED:
        raise  # It may have landed: what it points at must stay.
    except LanceNamespaceError:
        ctx.store.delete(f"{place}/{RESERVED}" for place in reserved)
        for place in reserved:
            ctx.store.prune(place)
        raise
    hit("version.row_written")
    _finish(ctx, operations)


def _reserve(
    ctx: Context, operations: Sequence[Operation | Properties], reserved: list[str]
) -> None:
    """Reserve the places of the tables to be; nobody knows them until the commit."""
    view = ctx.exact()
    for one in operations:
        if isinstance(one, Declare):
            check_new_name(one.names, stored=True)
            require_free(ctx, view, one.names)
            if one.place:
                continue  # Whoever asks has made it, and cleans up after itself.
            one.place = fresh_directory(one.names)
            with storage_errors(f"declaring '{format_text(one.names)}'"):
                body = RESERVED_BODY + b" " + uuid.uuid4().hex.encode()
                ctx.store.put_flag(f"{one.place}/{RESERVED}", body)
            reserved.append(one.place)
            hit("table.reserved")


def _prepare(ctx: Context, operations: Sequence[Operation | Properties]) -> None:
    """Look at what is staged, once for all tables; declared ones have their places already."""
    view = ctx.exact()
    places = {one.names: one.place for one in operations if isinstance(one, Declare)}
    wanted = [one for one in operations if isinstance(one, Version)]
    pairs: list[tuple[Target, Asked]] = []
    for one in wanted:
        if one.names in places:
            place = places[one.names]
            entry = Entry(encode(one.names), Kind.TABLE.value, place)
        else:
            found = require_table(ctx, view, one.names)
            if found.entry is None:
                raise TableNotFoundError(
                    f"table '{format_text(one.names)}' is not in the manifest; "
                    "`lance-catalog migrate` registers it"
                )
            place, entry = found.location, found.entry
        pairs.append((Target(ctx, view, entry, place), one.asked))
    for one, prepared in zip(wanted, prepare(pairs), strict=True):
        one.prepared = prepared
    for other in operations:
        if isinstance(other, Delete):
            found = require_table(ctx, view, other.names)
            if found.entry is not None:
                other.lineage = Lineage.of(Target(ctx, view, found.entry, found.location))
        if isinstance(other, Deregister):
            drop_id = new_drop_id(encode(other.names))
            other.hidden = Hidden(drop_id, HiddenState.DEREGISTERED, ctx.clock())


def _plan(ctx: Context, view: Snapshot, operations: Sequence[Operation | Properties]) -> Change:
    draft = Draft(view)
    for one in operations:
        if isinstance(one, Declare):
            draft.apply(_declare(ctx, draft.view, one))
        elif isinstance(one, Version):
            assert one.prepared is not None
            draft.apply(Change(add=plan_rows(ctx, draft.view, [one.prepared])))
        elif isinstance(one, Delete):
            found = _live(draft.view, one.names)
            target = Target(ctx, draft.view, found, found.location or "")
            deletion = Deletion.of(
                target, one.ranges, ignore_missing=one.ignore_missing, force=one.force
            )
            change, one.gone = plan_deletion(ctx, draft.view, deletion)
            draft.apply(change)
        elif isinstance(one, Properties):
            entry = _live(draft.view, one.names)
            stored = dump_metadata({**entry.properties(), **one.given})
            row = Entry(entry.object_id, entry.object_type, entry.location, stored)
            if row.metadata != entry.metadata:
                draft.apply(Change((entry,), (row,), {row.object_id: entry}))
        else:
            draft.apply(_deregister(ctx, draft.view, one))
    return draft.change()


def _live(view: Snapshot, names: Identifier) -> Entry:
    entry = lookup(view, names)
    if entry is None or not entry.is_table:
        raise TableNotFoundError(f"table '{format_text(names)}' was not found")
    return entry


def _declare(ctx: Context, view: Snapshot, one: Declare) -> Change:
    require_free(ctx, view, one.names)
    if overlapping(view, one.place):
        raise ConcurrentModificationError(f"the place {one.place} was taken meanwhile; retry")
    row = Entry(encode(one.names), Kind.TABLE.value, one.place, dump_metadata(one.properties))
    return Change(add=(row,))


def _deregister(ctx: Context, view: Snapshot, one: Deregister) -> Change:
    assert one.hidden is not None
    one.entry = _live(view, one.names)
    versions = leaving(ctx, view, one.entry)
    one.row, gone = trash.take(view, one.entry, one.hidden, versions)
    return Change(gone, (one.row.entry,), {one.row.entry.object_id: one.entry})


def _finish(ctx: Context, operations: Sequence[Operation | Properties]) -> None:
    made = [one for one in operations if isinstance(one, Version)]
    if made:
        prepared = [one.prepared for one in made if one.prepared is not None]
        whole = len(made) == len(operations)
        for one, info in zip(made, publish(prepared, whole=whole), strict=True):
            one.made = info
    for other in operations:
        if isinstance(other, Deregister) and other.row is not None:
            mark_v1(ctx, other.row)
        if isinstance(other, Delete) and other.gone and other.lineage is not None:
            remove_files(other.lineage, other.gone)
