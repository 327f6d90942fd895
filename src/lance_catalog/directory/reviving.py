"""create_table over a dropped table: a new version of the same lineage (S08).

The data files are written first, where nobody sees them. Then the hiding is claimed, so that no
purge and no undrop can come between; then the version lands on top of the dropped ones; then the
table is shown. A creation that dies in between leaves a claim that lapses, and whoever brings the
table back afterwards undoes the version that was never acknowledged.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

import lance
import pyarrow as pa
from lance.fragment import write_fragments

from lance_catalog.config import Mode
from lance_catalog.directory import claiming, dropped, first_version
from lance_catalog.directory.claiming import Held
from lance_catalog.directory.context import Context
from lance_catalog.directory.dropped import Found
from lance_catalog.directory.managed.rows import arriving, leaving
from lance_catalog.directory.marking import unmark_v1
from lance_catalog.directory.resolve import require_namespace
from lance_catalog.directory.undoing import undo_versions
from lance_catalog.errors import (
    CommitOutcomeUnknownError,
    ConcurrentModificationError,
    LanceNamespaceError,
    TableAlreadyExistsError,
    storage_errors,
)
from lance_catalog.failpoints import hit
from lance_catalog.identifiers import encode, format_text, parent_of
from lance_catalog.lifecycle import markers, trash
from lance_catalog.lifecycle.claims import Claim, Verb
from lance_catalog.manifest import Change, Snapshot, gated
from lance_catalog.model import Entry, Kind, dump_metadata, user_properties
from lance_catalog.storage.port import Store

__all__ = ["put_over", "revive", "undo_others"]

#: Writers that still have the table open may put versions between; each costs one try.
_TRIES: Final = 16


def revive(ctx: Context, found: Found, data: pa.Table, given: dict[str, str]) -> int | None:
    """Write a table over a dropped one and show it; return its version.

    None when the drop ended meanwhile, or holds no data: then the caller creates the table anew.
    """
    what = f"creating '{format_text(found.names)}' over the dropped table"
    place = found.location
    try:
        with storage_errors(what):
            if found.row is None:
                ctx.terms().no_row(place, Verb.REVIVE)  # Asked again under the claim.
            if not first_version.has_versions(ctx.store, place):
                return None
            operation = _write(ctx.store, place, data)
    except LanceNamespaceError:
        now = dropped.find(ctx, ctx.exact(), found.names, found.hidden.drop_id)
        if not now or now[0].hidden.is_purging:
            return None  # Its directory went away below the writer.
        raise
    return put_over(ctx, found, operation, given)


def put_over(
    ctx: Context,
    found: Found,
    operation: Any,
    given: dict[str, str],
    properties: Mapping[str, str] | None = None,
) -> int | None:
    """Make what was written at a dropped table's place its next version, and show the table.

    ``properties`` are kept in the transaction. None, and the files removed, when the drop ended
    meanwhile.
    """
    what = f"creating '{format_text(found.names)}' over the dropped table"
    place = found.location
    files = [f"{place}/data/{file.path}" for part in operation.fragments for file in part.files]
    try:
        with storage_errors(what):
            hit("revive.data_written")
            held = claiming.claim(ctx, found, Verb.REVIVE)
    except LanceNamespaceError:
        first_version.discard(ctx.store, place, files)
        raise
    if held is None:
        first_version.discard(ctx.store, place, files)
        return None
    try:
        with storage_errors(what):
            hit("revive.claimed")
            undo_others(held)
            version = _land(ctx.store, place, operation, given, held, properties)
    except CommitOutcomeUnknownError:
        raise  # The claim lapses; whoever comes then undoes what may have landed.
    except LanceNamespaceError as error:
        _withdraw(ctx, found, held, files)
        held.tell(error)
        raise
    try:
        with storage_errors(what):
            hit("revive.landed")
            _show(ctx, found, given, held)
    except CommitOutcomeUnknownError:
        raise
    except LanceNamespaceError:
        _withdraw(ctx, found, held)
        raise
    return version


def _withdraw(ctx: Context, found: Found, held: Held, files: Sequence[str] = ()) -> None:
    """Undo a revival that failed, while it is ours to undo.

    Once the table is shown, others build on it; and whoever took over the claim undoes it itself.
    """
    now = dropped.find(ctx, ctx.exact(), found.names, found.hidden.drop_id)
    if not any(held.counts(one.hidden.claim) for one in now):
        return
    # Without its manifest nobody has the files; what landed is undone by a version on top.
    own = {token.hex for token in _tokens(found.hidden.drop_id, held.claim)}
    if not undo_versions(ctx.store, found.location, own.__contains__):
        first_version.discard(ctx.store, found.location, files)
    held.give_back()


def _write(store: Store, place: str, data: pa.Table) -> Any:
    """Write the data files; return the operation that makes them the table."""
    written: Any = write_fragments(
        data,
        store.uri_of(place),
        mode="overwrite",
        return_transaction=True,
        storage_options=dict(store.lance_options) or None,
    )
    return written.operation


def _stem(drop_id: str) -> str:
    """Return what the ids of all versions begin with that revivals of one drop write."""
    return hashlib.sha256(drop_id.encode()).hexdigest()[:16]


def _tokens(drop_id: str, claim: Claim) -> tuple[uuid.UUID, uuid.UUID]:
    """Return the ids of the two versions a revival writes: known by its claim, whoever asks."""
    stem = _stem(drop_id)
    return uuid.UUID(stem + claim.holder[:16]), uuid.UUID(stem + claim.holder[16:])


def _land(
    store: Store,
    place: str,
    operation: Any,
    given: dict[str, str],
    held: Held,
    told: Mapping[str, str] | None = None,
) -> int:
    """Put the new data, and the properties, on top of whatever is the latest version."""
    data, properties = _tokens(held.found.hidden.drop_id, held.claim)

    def fence(step: str) -> None:
        if step == "staged":
            held.require_in_commit()
        hit(f"revive.version_{step}")

    made = _put(store, place, lambda dataset: operation, data, fence, told)
    if user_properties(dict(made.metadata)) != given:
        # R14: the table's own metadata says the same as its row.
        updates = lance.LanceOperation.UpdateMap(dict(given), replace=True)
        change = lance.LanceOperation.UpdateConfig(table_metadata_updates=updates)
        made = _put(store, place, lambda dataset: change, properties, fence)
    return int(made.version)


def _put(
    store: Store,
    place: str,
    operation: Any,
    token: uuid.UUID,
    fence: Any,
    told: Mapping[str, str] | None = None,
) -> Any:
    for _ in range(_TRIES):
        dataset = gated.latest(store, place)
        made = gated.put_on_top(store, place, dataset, operation(dataset), token, fence, told)
        if made is not None:
            return made
    raise ConcurrentModificationError(
        f"others keep writing to the dropped table at {place}; look again and retry"
    )


def _show(ctx: Context, found: Found, given: dict[str, str], held: Held) -> None:
    """Make the table visible: its row, where there are rows, and then its markers."""
    name = found.names[0]
    row = Entry(encode(found.names), Kind.TABLE.value, found.location, dump_metadata(given))
    if ctx.mode is not Mode.V1:
        ctx.commit(lambda view: _plan(ctx, view, found, row, held))
        hit("revive.registered")
    if found.row is not None:
        unmark_v1(ctx, found.location)
        return
    try:
        markers.show(ctx.store, name, found.location, found.hidden, held.claim, ctx.terms())
    except CommitOutcomeUnknownError:
        raise
    except ConcurrentModificationError:
        if ctx.mode is not Mode.V1:
            # Overtaken: the row must not stand for what another brings back, or deletes.
            ctx.commit(lambda view: (Change(remove=_same(ctx, view, row)), None))
        raise


def _same(ctx: Context, view: Snapshot, row: Entry) -> tuple[Entry, ...]:
    now = view.rows_of(row.object_id)
    own = [e for e in now if (e.location, e.metadata) == (row.location, row.metadata)]
    return (*own, *(leaving(ctx, view, own[0]) if own else ()))


def _plan(
    ctx: Context, view: Snapshot, found: Found, row: Entry, held: Held
) -> tuple[Change, None]:
    require_namespace(view, parent_of(found.names))
    if view.get(row.object_id) is not None:
        raise TableAlreadyExistsError(
            f"'{format_text(found.names)}' was created by somebody else meanwhile"
        )
    if found.row is None:
        if view.at_location(found.location):
            raise ConcurrentModificationError(f"'{found.location}' was taken meanwhile; retry")
        return Change(add=(row, *arriving(ctx, view, row))), None
    current = trash.get(view, found.row.entry.object_id)
    if current is None or not held.counts(current.hidden.claim):
        raise ConcurrentModificationError(
            f"creating '{format_text(found.names)}' took longer than its claim lasts, and another "
            "process took over the dropped table; look again and retry"
        )
    key = current.entry.object_id
    come = (row, *arriving(ctx, view, row, current.hidden.versions))
    return Change(view.rows_of(key), come, {row.object_id: current.entry}), None


def undo_others(held: Held) -> None:
    """Under a claim that was another's before: undo what creations left that never ended.

    A version lands on top in any case, so that one of them that only slept, and is past its last
    look at the claim, finds its place taken.
    """
    if held.inherited:
        stem = _stem(held.found.hidden.drop_id)
        undo_versions(
            held.ctx.store,
            held.found.location,
            lambda token: token.startswith(stem),
            held.require_in_commit,
        )
