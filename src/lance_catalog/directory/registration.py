"""Taking tables out of the catalog and back in, and renaming them (I23, I24, I26, R3, R8)."""

from __future__ import annotations

import lance

from lance_catalog.config import Mode
from lance_catalog.directory.context import Context
from lance_catalog.directory.first_version import has_versions
from lance_catalog.directory.layout import RESERVED, relative_location, v1_directory
from lance_catalog.directory.managed import rows as versions
from lance_catalog.directory.marking import mark_v1, unmark_v1, yield_to_rows
from lance_catalog.directory.namespaces import normal_mode
from lance_catalog.directory.resolve import (
    FoundTable,
    find_table,
    lookup,
    namespace_exists,
    require_namespace,
    require_table,
    v1_visible,
)
from lance_catalog.errors import (
    ConcurrentModificationError,
    InternalError,
    InvalidInputError,
    InvalidTableStateError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedOperationError,
    storage_errors,
)
from lance_catalog.identifiers import (
    Identifier,
    check_new_name,
    encode,
    format_text,
    is_internal_key,
    parent_of,
)
from lance_catalog.lifecycle import markers, trash
from lance_catalog.lifecycle.claims import Verb
from lance_catalog.lifecycle.locations import overlapping, v1_name
from lance_catalog.lifecycle.states import Hidden, HiddenState, new_drop_id
from lance_catalog.manifest import Change, Snapshot
from lance_catalog.model import (
    Entry,
    Kind,
    check_user_properties,
    dump_metadata,
    user_properties,
)
from lance_catalog.storage.capabilities import require_put_if_absent

__all__ = ["deregister", "own_properties", "register", "rename", "table_properties"]


def deregister(ctx: Context, names: Identifier) -> tuple[str, dict[str, str]]:
    """Hide a table for as long as it takes, data untouched; return its place and properties."""
    hidden = Hidden(new_drop_id(encode(names)), HiddenState.DEREGISTERED, ctx.clock())
    require_put_if_absent(ctx.store)
    if ctx.mode is Mode.V1:
        return _deregister_directory(ctx, require_table(ctx, ctx.view(), names), hidden)

    def plan(view: Snapshot) -> tuple[Change, tuple[FoundTable, trash.TrashRow | None]]:
        # A row whose location is broken can leave the catalog like any other: the data stays.
        entry = lookup(view, names)
        if entry is None or not entry.is_table:
            return Change(), (require_table(ctx, view, names), None)
        row, gone = trash.take(view, entry, hidden, versions.leaving(ctx, view, entry))
        found = FoundTable(names, entry.location or "", entry)
        return Change(gone, (row.entry,), {row.entry.object_id: entry}), (found, row)

    found, row = ctx.commit(plan)
    if found.entry is None or row is None:
        return _deregister_directory(ctx, found, hidden)
    mark_v1(ctx, row)
    return found.location, _readable(found.entry)


def _readable(entry: Entry) -> dict[str, str]:
    """Return a row's properties; what cannot be read is not ours to interpret, and is kept."""
    try:
        return user_properties(entry.properties())
    except InvalidTableStateError:
        return {}


def _deregister_directory(
    ctx: Context, found: FoundTable, hidden: Hidden
) -> tuple[str, dict[str, str]]:
    """V1: the root-level marker is the commit point (R7)."""
    name = v1_name(found.location)
    assert name is not None
    properties = own_properties(ctx, found.location)
    with storage_errors(f"deregistering '{name}'"):
        if not markers.hide(ctx.store, name, found.location, hidden):
            raise TableNotFoundError(f"table '{name}' was deregistered by somebody else just now")
    yield_to_rows(ctx, name, found.location, hidden)
    return found.location, properties


def _confirm(ctx: Context, row: Entry) -> None:
    """Make sure, after giving a directory a row, that nobody hid or dropped it by its directory."""
    place = row.location or ""
    name = v1_name(place)
    if name is None:
        return
    with storage_errors(f"confirming '{row.object_id}'"):
        hidden = markers.read(ctx.store, name, place)
        if hidden is None and ctx.store.any_object(place):
            return

    def undo(view: Snapshot) -> tuple[Change, bool]:
        mine = [e for e in view.rows_of(row.object_id) if e.location == place]
        gone = (*mine, *(versions.leaving(ctx, view, mine[0]) if mine else ()))
        return Change(remove=gone), bool(mine)

    if not ctx.commit(undo):
        return  # Somebody found the row and acted on it: it was registered, then that.
    raise ConcurrentModificationError(
        f"the table at '{place}' was dropped or deregistered by somebody else meanwhile; "
        "nothing was changed. Look again and retry."
    )


def own_properties(ctx: Context, place: str) -> dict[str, str]:
    """Return a V1 table's properties; of one that is broken, or just being deleted, none.

    What then marks it looks whether there is a table at all.
    """
    try:
        return table_properties(ctx, place)
    except InternalError:
        return {}


def table_properties(ctx: Context, place: str) -> dict[str, str]:
    """Return the properties in a table's own metadata: where V1 keeps them."""
    with storage_errors(f"reading the properties at {place}"):
        if not has_versions(ctx.store, place):
            return {}
        options = dict(ctx.store.lance_options) or None
        dataset = lance.dataset(ctx.store.uri_of(place), storage_options=options)
        return user_properties(dict(dataset.metadata))


def register(
    ctx: Context,
    names: Identifier,
    location: str,
    mode: str | None,
    properties: dict[str, str] | None,
) -> tuple[str, dict[str, str]]:
    """Bring a table that lies below the root into the catalog; return its place, properties."""
    chosen = normal_mode(mode, ("create", "overwrite"), "mode")
    given = check_user_properties(properties)
    check_new_name(names, stored=ctx.mode is not Mode.V1)
    place = relative_location(location, ctx.store)
    require_put_if_absent(ctx.store)
    if ctx.mode is Mode.V1:
        return place, _register_directory(ctx, names[0], place, given)

    def plan(view: Snapshot) -> tuple[Change, tuple[dict[str, str], bool]]:
        require_namespace(view, parent_of(names))
        existing = view.get(encode(names))
        if existing is not None and (chosen == "create" or not existing.is_table):
            raise TableAlreadyExistsError(
                f"'{format_text(names)}' exists already; mode overwrite replaces a table's entry"
            )
        former = _former(view, place, existing)
        _require_table_at(ctx, view, names, place, former)
        stored = dict(given)
        if former is None and v1_name(place) is not None:
            # A V1 table keeps its properties in its own metadata (R14).
            stored = {**table_properties(ctx, place), **given}
        remove: list[Entry] = [] if former is None else [former.entry]
        row = Entry(encode(names), Kind.TABLE.value, place, dump_metadata(stored))
        replaces: dict[str, Entry] = {}
        if former is not None:
            row = trash.brought_back(former, encode(names), given)
            replaces[row.object_id] = former.entry
        add = [row]
        if existing is not None:
            registered = versions.leaving(ctx, view, existing)
            remove += [*view.rows_of(existing.object_id), *registered]
            if existing.location != place:
                # The replaced entry's data stays reachable: deregistered, not forgotten.
                drop_id = new_drop_id(existing.object_id)
                old = Hidden(drop_id, HiddenState.DEREGISTERED, ctx.clock())
                aside = trash.hide(existing, trash.remembering(old, registered))
                add.append(aside)
                replaces[aside.object_id] = existing
        known = None if former is None else former.hidden.versions
        if existing is not None and existing.location == place:
            known = trash.remembering(Hidden("", HiddenState.DEREGISTERED, 0), registered).versions
        add += versions.arriving(ctx, view, row, known)
        return Change(tuple(remove), tuple(add), replaces), (_readable(row), former is None)

    answer, by_directory = ctx.commit(plan)
    unmark_v1(ctx, place, dropped=not by_directory)
    if by_directory:
        # A table with a row in the trash is the log's business alone.
        _confirm(ctx, Entry(encode(names), Kind.TABLE.value, place))
    return place, answer


def _former(view: Snapshot, place: str, existing: Entry | None) -> trash.TrashRow | None:
    """Return the hidden table at a place; 13 when a live one, or a dropped one, has it."""
    for entry in overlapping(view, place):
        if existing is not None and entry.object_id == existing.object_id:
            continue
        former = trash.get(view, entry.object_id) if is_internal_key(entry.object_id) else None
        if former is None:
            raise InvalidInputError(
                f"location '{place}' belongs to '{entry.object_id}'; a place has one table"
            )
        if former.hidden.state is HiddenState.DROPPED:
            raise InvalidInputError(
                f"location '{place}' belongs to '{former.object_id}', which was dropped. "
                f"`lance-catalog trash undrop` brings it back (drop id {former.hidden.drop_id})."
            )
        if entry.location == place:
            return former
    return None


def _require_table_at(
    ctx: Context, view: Snapshot, names: Identifier, place: str, former: trash.TrashRow | None
) -> None:
    """Raise 5 or 13 unless a Lance table lies at a place and no directory-table is in the way."""
    if ctx.mode is Mode.COMPAT:
        name = v1_name(place)
        own = len(names) == 1 and place == v1_directory(names[0])
        if len(names) == 1 and not own and v1_visible(ctx, view, names[0]):
            raise TableAlreadyExistsError(f"table '{names[0]}' exists already, by its directory")
        if name is not None and not own and former is None and v1_visible(ctx, view, name):
            raise InvalidInputError(
                f"location '{place}' is table '{name}' already; rename_table gives it another name"
            )
    with storage_errors(f"looking at {place}"):
        name = v1_name(place)
        hidden = None if name is None else markers.read(ctx.store, name, place)
        if hidden is not None and hidden.state is HiddenState.CREATING:
            raise ConcurrentModificationError(f"table '{name}' is being created; look again")
        if former is None and hidden is not None and hidden.state is not HiddenState.DEREGISTERED:
            raise InvalidInputError(
                f"location '{place}': table '{name}' was dropped; "
                f"`lance-catalog trash undrop {name}` brings it back"
            )
        found = has_versions(ctx.store, place) or (
            # Declared, then deregistered: by a row in the trash, or by its marker alone.
            (former is not None or hidden is not None)
            and ctx.store.head(f"{place}/{RESERVED}") is not None
        )
    if not found:
        raise InvalidInputError(
            f"location '{place}' holds no Lance table (no _versions there); "
            "declare_table or create_table makes one"
        )


def _register_directory(
    ctx: Context, name: str, place: str, properties: dict[str, str]
) -> dict[str, str]:
    """V1: register is the way back from deregister; the place follows from the name."""
    directory = v1_directory(name)
    if place != directory:
        raise InvalidInputError(
            f"location '{place}': in V1 table '{name}' lies at '{directory}'; "
            "manifest_enabled=true allows other places"
        )
    with storage_errors(f"registering '{name}'"):
        if not ctx.store.any_object(directory):
            raise InvalidInputError(f"location '{place}' holds no Lance table")
        hidden = markers.read(ctx.store, name, directory)
        if hidden is None:
            raise TableAlreadyExistsError(f"table '{name}' exists already")
        if hidden.state is HiddenState.CREATING:
            raise ConcurrentModificationError(f"table '{name}' is being created; look again")
        if hidden.state is not HiddenState.DEREGISTERED:
            raise InvalidInputError(
                f"table '{name}' was dropped; `lance-catalog trash undrop {name}` brings it back"
            )
        if properties and has_versions(ctx.store, directory):
            # Asked again under the claim; but what is refused must not leave its properties.
            ctx.terms().no_row(directory, Verb.REGISTER)
            options = dict(ctx.store.lance_options) or None
            lance.dataset(ctx.store.uri_of(directory), storage_options=options).update_metadata(
                dict(properties)
            )
        markers.reveal(ctx.store, name, directory, hidden, ctx.terms())
    return table_properties(ctx, directory)


def rename(ctx: Context, names: Identifier, new_name: str, new_parent: Identifier | None) -> None:
    """Give a table another id, in one row commit; its data does not move (R8)."""
    if ctx.mode is Mode.V1:
        raise UnsupportedOperationError(
            "rename_table: in V1 (manifest_enabled=false) a table's name is its directory, and "
            "moving that under an open writer loses rows. Set manifest_enabled=true: a rename is "
            "then one commit."
        )
    target = (parent_of(names) if new_parent is None else new_parent) + (new_name,)
    check_new_name(target, stored=True)

    def plan(view: Snapshot) -> tuple[Change, Entry | None]:
        found = require_table(ctx, view, names)
        require_namespace(view, parent_of(target))
        if namespace_exists(view, target) or find_table(ctx, view, target) is not None:
            raise TableAlreadyExistsError(f"'{format_text(target)}' exists already")
        if view.get(encode(target)) is not None:
            raise TableAlreadyExistsError(f"'{format_text(target)}' exists already")
        if found.entry is None:
            if overlapping(view, found.location):
                raise ConcurrentModificationError(f"'{found.location}' was taken meanwhile; retry")
            # Until now its properties were in its own metadata only (R14).
            properties = dump_metadata(table_properties(ctx, found.location))
            row = Entry(encode(target), Kind.TABLE.value, found.location, properties)
            return Change(add=(row, *versions.arriving(ctx, view, row))), row
        old = found.entry
        row = Entry(encode(target), old.object_type, old.location, old.metadata)
        gone, come = versions.renamed(ctx, view, old, row.object_id)
        remove = (*view.rows_of(old.object_id), *gone)
        return Change(remove, (row, *come), {row.object_id: old}), None

    added = ctx.commit(plan)
    if added is not None:
        _confirm(ctx, added)
