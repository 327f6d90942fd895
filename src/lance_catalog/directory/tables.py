"""Declaring and creating tables, in every mode (I20, I26, C10, C11, C17)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import lance
import pyarrow as pa

from lance_catalog.config import Mode
from lance_catalog.directory import first_version, listing
from lance_catalog.directory.context import Context
from lance_catalog.directory.layout import (
    RESERVED,
    RESERVED_BODY,
    fresh_directory,
    relative_location,
    v1_directory,
)
from lance_catalog.directory.namespaces import normal_mode
from lance_catalog.directory.resolve import FoundTable, find_table, require_namespace
from lance_catalog.errors import (
    CommitOutcomeUnknownError,
    ConcurrentModificationError,
    InvalidInputError,
    LanceNamespaceError,
    TableAlreadyExistsError,
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
from lance_catalog.lifecycle import markers
from lance_catalog.lifecycle.locations import overlapping, v1_name
from lance_catalog.lifecycle.states import Hidden, HiddenState
from lance_catalog.manifest import Change, Snapshot
from lance_catalog.model import Entry, Kind, check_user_properties, dump_metadata, user_properties
from lance_catalog.storage.capabilities import require_put_if_absent

__all__ = ["Created", "create", "declare"]


@dataclass(frozen=True, slots=True)
class Created:
    """What a declaration or creation made, or found with exist_ok."""

    location: str
    properties: dict[str, str]
    version: int | None = None


def declare(
    ctx: Context, names: Identifier, location: str | None, properties: dict[str, str] | None
) -> Created:
    """Reserve a name and a place without data (I20)."""
    given = check_user_properties(properties)
    check_new_name(names, stored=ctx.mode is not Mode.V1)
    require_put_if_absent(ctx.store)
    view = ctx.view()
    _require_free(ctx, view, names)
    place = _choose_place(ctx, view, names, location)
    if ctx.mode is Mode.V1 and given:
        raise UnsupportedOperationError(
            "declare_table: V1 keeps properties in the table's own metadata, and a declared table "
            "has none yet. Give them to create_table, or set manifest_enabled=true."
        )
    path = f"{place}/{RESERVED}"
    with storage_errors(f"declaring '{format_text(names)}'"):
        # Unique: an object store tells its own retry from a rival by the bytes.
        made = ctx.store.put_if_absent(path, RESERVED_BODY + b" " + uuid.uuid4().hex.encode())
    if not made:
        raise TableAlreadyExistsError(
            f"table '{format_text(names)}' was declared by somebody else just now"
        )
    try:
        hit("table.reserved")
    except OSError:
        ctx.store.delete([path])
        ctx.store.prune(place)
        raise
    if ctx.mode is Mode.V1:
        return Created(place, {})
    row = Entry(encode(names), Kind.TABLE.value, place, dump_metadata(given))
    _register(ctx, names, row, _Written((path,)))
    return Created(place, given)


def create(
    ctx: Context,
    names: Identifier,
    mode: str | None,
    properties: dict[str, str] | None,
    data: pa.Table,
) -> Created:
    """Create a table with data (I26); modes create, exist_ok and overwrite."""
    chosen = normal_mode(mode, ("create", "exist_ok", "overwrite"), "mode")
    given = check_user_properties(properties)
    if not names:
        raise InvalidInputError("create_table: a table id has at least one name")
    require_put_if_absent(ctx.store)
    view = ctx.view()
    found = find_table(ctx, view, names)
    if found is not None:
        return _create_over(ctx, found, chosen, properties, data)
    check_new_name(names, stored=ctx.mode is not Mode.V1)
    _require_free(ctx, view, names)
    place = _choose_place(ctx, view, names, None)
    written = first_version.write_first_version(ctx.store, place, data, given)
    if written is None:
        raise _taken(names)
    row = Entry(encode(names), Kind.TABLE.value, place, dump_metadata(given))
    if ctx.mode is Mode.V1:
        _confirm(ctx, names, place, _Written.of(written))
    else:
        _register(ctx, names, row, _Written.of(written))
    return Created(place, given, written.version)


def _create_over(
    ctx: Context,
    found: FoundTable,
    mode: str,
    properties: dict[str, str] | None,
    data: pa.Table,
) -> Created:
    """Create where something is: fill a declared table, take it as it is, or overwrite it."""
    given = check_user_properties(properties)
    place = found.location
    with storage_errors(f"looking at '{format_text(found.names)}'"):
        declared = not first_version.has_versions(ctx.store, place)
    if declared:
        written = first_version.write_first_version(ctx.store, place, data, given)
        if written is not None:
            _confirm_over(ctx, found, _Written.of(written), given)
            return Created(place, _set_properties(ctx, found, given), written.version)
    if mode == "create":
        raise _taken(found.names)
    with storage_errors(f"writing '{format_text(found.names)}'"):
        if mode == "exist_ok":
            options = dict(ctx.store.lance_options) or None
            dataset = lance.dataset(ctx.store.uri_of(place), storage_options=options)
            return Created(place, _properties_of(found, dataset), dataset.version)
        written = first_version.overwrite(ctx.store, place, data, given)
    if found.entry is not None:
        _require_still(ctx, found, _Written.of(written))
    _set_properties(ctx, found, given, replace=True)
    return Created(place, given, written.version)


def _properties_of(found: FoundTable, dataset: Any) -> dict[str, str]:
    if found.entry is not None:
        return user_properties(found.entry.properties())
    return user_properties(dict(dataset.metadata))


def _set_properties(
    ctx: Context, found: FoundTable, given: dict[str, str], *, replace: bool = False
) -> dict[str, str]:
    """Bring the row's properties up to what a creation over it gave; return them."""
    if found.entry is None:
        return given
    kept = user_properties(found.entry.properties())
    if not given and not replace:
        return kept
    wanted = given if replace else {**kept, **given}

    def plan(view: Snapshot) -> tuple[Change, dict[str, str]]:
        current = view.get(encode(found.names))
        if current is None or current.location != (found.entry and found.entry.location):
            raise ConcurrentModificationError(
                f"table '{format_text(found.names)}' was dropped or renamed meanwhile"
            )
        stored = {k: v for k, v in current.properties().items() if k not in kept}
        row = Entry(
            current.object_id,
            current.object_type,
            current.location,
            dump_metadata({**stored, **wanted}),
        )
        if row.metadata == current.metadata:
            return Change(), wanted
        return Change(view.rows_of(row.object_id), (row,), {row.object_id: current}), wanted

    return ctx.commit(plan)


def _require_free(ctx: Context, view: Snapshot, names: Identifier) -> None:
    """Raise 1 or 5 unless the name can be taken; checked again by the commit that takes it."""
    if ctx.mode is Mode.V1:
        if markers.is_hidden(ctx.store, names[0], v1_directory(names[0])):
            raise TableAlreadyExistsError(
                f"table '{names[0]}' was deregistered or dropped and its data is still there. "
                "register_table brings it back; drop_table or `lance-catalog repair` removes it."
            )
        if listing.exists(ctx.store, names[0]):
            raise _taken(names)
        return
    require_namespace(view, parent_of(names))
    existing = view.get(encode(names))
    if existing is not None:
        kind = "" if existing.is_table else f" as a {existing.object_type}"
        raise TableAlreadyExistsError(
            f"'{format_text(names)}' exists already{kind}; choose another name"
        )
    if find_table(ctx, view, names) is not None:
        raise _taken(names)


def _choose_place(ctx: Context, view: Snapshot, names: Identifier, asked: str | None) -> str:
    """Return the directory of a new table: by mode (C10, C11), or where the caller wants it."""
    if ctx.mode is Mode.V1 or (
        ctx.mode is Mode.COMPAT and len(names) == 1 and _v1_place_free(ctx, view, names[0])
    ):
        place = v1_directory(names[0])
    else:
        place = fresh_directory(names)
    if asked is None:
        return place
    wanted = relative_location(asked, ctx.store)
    if wanted == place:
        return place
    if ctx.mode is Mode.V1:
        raise InvalidInputError(
            f"location '{asked}': in V1 table '{names[0]}' lies at {ctx.store.uri_of(place)}"
        )
    if overlapping(view, wanted) or listing.occupied(ctx.store, wanted):
        raise InvalidInputError(
            f"location '{asked}' is in use; leave it out, or use register_table for a table that "
            "is there already"
        )
    return wanted


def _v1_place_free(ctx: Context, view: Snapshot, name: str) -> bool:
    """Whether ``<name>.lance`` belongs to nobody: no row (R8), no marker, no file."""
    directory = v1_directory(name)
    if overlapping(view, directory):
        return False
    with storage_errors("looking at the root"):
        return ctx.store.head(markers.marker_path(name)) is None and not ctx.store.any_object(
            directory
        )


@dataclass(frozen=True, slots=True)
class _Written:
    """What a creation put on disk: files of its own, and manifests whose names others use too."""

    files: tuple[str, ...]
    manifests: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, made: first_version.FirstVersion) -> _Written:
        return cls(made.files, made.manifests)


def _register(ctx: Context, names: Identifier, row: Entry, written: _Written) -> None:
    """Commit the row of a new table; a loser removes what it wrote, and only that."""

    def plan(view: Snapshot) -> tuple[Change, None]:
        require_namespace(view, parent_of(names))
        existing = view.get(row.object_id)
        if existing is not None:
            if _is_declared_here(ctx, existing, row, written):
                return Change(), None
            raise _taken(names)
        others = overlapping(view, row.location or "")
        if others:
            raise ConcurrentModificationError(
                f"'{others[0].object_id}' took the place {row.location} meanwhile; retry"
            )
        return Change(add=(row,)), None

    try:
        ctx.commit(plan)
    except CommitOutcomeUnknownError:
        raise  # It may be registered: what it points at must stay.
    except LanceNamespaceError:
        _withdraw(ctx, row.location or "", written)
        raise
    hit("table.registered")
    _confirm(ctx, names, row.location or "", written, row)


def _is_declared_here(ctx: Context, existing: Entry, row: Entry, written: _Written) -> bool:
    """Whether somebody declared the same table at the same place while we wrote its data.

    The first version is still ours (the gate let nobody else), so declare, then create: both hold.
    """
    if not existing.is_table or existing.location != row.location or not written.manifests:
        return False
    return first_version.still_there(ctx.store, written.manifests)


def _withdraw(ctx: Context, place: str, written: _Written) -> None:
    """Remove what a loser wrote; a reservation stays when a live row relies on it."""
    if ctx.mode is not Mode.V1 and not written.manifests:
        rows = ctx.view().at_location(place)
        if any(not is_internal_key(row.object_id) for row in rows):
            return
    with storage_errors("removing the files of a refused creation"):
        first_version.discard(ctx.store, place, written.files, written.manifests)
        ctx.store.prune(place)


def _confirm_over(
    ctx: Context, found: FoundTable, written: _Written, given: dict[str, str]
) -> None:
    """Make sure that a declared table is still the one that was filled."""
    if found.entry is not None:
        _require_still(ctx, found, written)
    elif ctx.mode is Mode.V1:
        _confirm(ctx, found.names, found.location, written)
    else:
        # Creating a root table registers it (C17), also where only a directory told of it.
        row = Entry(encode(found.names), Kind.TABLE.value, found.location, dump_metadata(given))
        _register(ctx, found.names, row, written)


def _require_still(ctx: Context, found: FoundTable, written: _Written) -> None:
    """Raise 14, and take back what was written, unless the row still has its name and place.

    A drop changes the row before it touches the data, so a row that is there has its data.
    """
    current = ctx.view().get(encode(found.names))
    assert found.entry is not None
    if current is not None and current.is_table and current.location == found.entry.location:
        return
    _withdraw(ctx, found.location, written)
    raise ConcurrentModificationError(
        f"table '{format_text(found.names)}' was dropped or renamed while it was written; "
        "look again and retry"
    )


def _confirm(
    ctx: Context,
    names: Identifier,
    place: str,
    written: _Written,
    row: Entry | None = None,
) -> None:
    """Make sure that a drop by directory did not pass us by, before acknowledging.

    A dropper writes its marker, then looks for rows; we wrote the row, now look for markers. At
    least one sees the other (and the dropper that saw nothing has deleted before unmarking).
    """
    name = v1_name(place)
    if name is None:
        return
    with storage_errors(f"confirming '{format_text(names)}'"):
        body = ctx.store.get(markers.marker_path(name))
        marked = body is not None
        if body is not None and ctx.mode is Mode.V1:
            # Deregistered as soon as it was there: created, then hidden, and so it stays.
            marked = Hidden.from_body(body, name).state is HiddenState.PURGING
        # Transaction files are Lance's own business: it may keep them inline.
        kept = (path for path in written.files if "/_transactions/" not in path)
        lost = any(ctx.store.head(path) is None for path in kept)
        lost = lost or not first_version.still_there(ctx.store, written.manifests)
        # Whoever is at the same place now, with data of its own, relies on the row.
        taken = lost and first_version.has_versions(ctx.store, place)
    if not marked and not lost:
        return
    if row is not None and not taken:

        def undo(view: Snapshot) -> tuple[Change, None]:
            mine = [e for e in view.rows_of(row.object_id) if e.location == row.location]
            return Change(remove=tuple(mine)), None

        ctx.commit(undo)
    _withdraw(ctx, place, written)
    raise ConcurrentModificationError(
        f"table '{format_text(names)}' was dropped by somebody else while it was created; "
        "nothing is left of it. Retry."
    )


def _taken(names: Identifier) -> TableAlreadyExistsError:
    return TableAlreadyExistsError(
        f"table '{format_text(names)}' exists already; mode exist_ok takes it as it is, "
        "overwrite replaces its data"
    )
