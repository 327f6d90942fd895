"""Declaring and creating tables, in every mode (I20, I26, C10, C11, C17)."""

from __future__ import annotations

import uuid
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Final

import lance
import pyarrow as pa

from lance_catalog.config import Mode
from lance_catalog.directory import first_version, redoing
from lance_catalog.directory.context import Context
from lance_catalog.directory.layout import (
    RESERVED,
    RESERVED_BODY,
)
from lance_catalog.directory.managed.adoption import adopt_written
from lance_catalog.directory.managed.target import put_in_place
from lance_catalog.directory.namespaces import normal_mode
from lance_catalog.directory.places import claimed_place, claimed_to_fill, require_free, taken
from lance_catalog.directory.resolve import FoundTable, find_table
from lance_catalog.directory.settling import (
    Written,
    confirm,
    confirm_over,
    require_still,
    settle,
)
from lance_catalog.errors import (
    ConcurrentModificationError,
    InvalidInputError,
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
)
from lance_catalog.manifest import Change, Snapshot
from lance_catalog.model import Entry, Kind, check_user_properties, dump_metadata, user_properties
from lance_catalog.storage.capabilities import require_put_if_absent

__all__ = ["Created", "create", "declare"]

#: So often may the table come and go while a creation takes what is there.
_TRIES: Final = 4


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
    if ctx.mode is Mode.V1 and given:
        raise UnsupportedOperationError(
            "declare_table: V1 keeps properties in the table's own metadata, and a declared table "
            "has none yet. Give them to create_table, or set manifest_enabled=true."
        )
    view = ctx.view()
    if ctx.mode is Mode.V1:
        redoing.make_way(ctx, names[0], delete=ctx.settings.redeclare_purges)
    require_free(ctx, view, names)
    with claimed_place(ctx, view, names, location) as place:
        path = f"{place}/{RESERVED}"
        with storage_errors(f"declaring '{format_text(names)}'"):
            # Unique: an object store tells its own retry from a rival by the bytes.
            made = ctx.store.put_flag(path, RESERVED_BODY + b" " + uuid.uuid4().hex.encode())
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
        settle(ctx, names, row, Written((path,)))
        return Created(place, given)


def create(
    ctx: Context,
    names: Identifier,
    mode: str | None,
    properties: dict[str, str] | None,
    data: pa.Table,
    *,
    fresh: bool = False,
) -> Created:
    """Create a table with data (I26); modes create, exist_ok and overwrite.

    Over a dropped name it writes a new version of the dropped table (S08), unless ``fresh``.
    """
    chosen = normal_mode(mode, ("create", "exist_ok", "overwrite"), "mode")
    for _ in range(_TRIES):
        try:
            return _create(ctx, names, chosen, properties, data, fresh=fresh)
        except TableAlreadyExistsError:
            # Another creator was first: for these modes that is no failure, but a table to take.
            if chosen == "create":
                raise
    return _create(ctx, names, chosen, properties, data, fresh=fresh)


def _create(
    ctx: Context,
    names: Identifier,
    chosen: str,
    properties: dict[str, str] | None,
    data: pa.Table,
    *,
    fresh: bool,
) -> Created:
    given = check_user_properties(properties)
    if not names:
        raise InvalidInputError("create_table: a table id has at least one name")
    require_put_if_absent(ctx.store)
    view = ctx.view()
    found = find_table(ctx, view, names)
    if found is not None:
        return _create_over(ctx, found, chosen, properties, data)
    check_new_name(names, stored=ctx.mode is not Mode.V1)
    if not fresh:
        revived = redoing.create_over_dropped(ctx, names, data, given)
        if revived is not None:
            return Created(revived[0], given, revived[1])
    require_free(ctx, view, names)
    with claimed_place(ctx, view, names, None) as place:
        written = first_version.write_first_version(ctx.store, place, data, given)
        if written is None:
            raise taken(names)
        row = Entry(encode(names), Kind.TABLE.value, place, dump_metadata(given))
        if ctx.mode is Mode.V1:
            confirm(ctx, names, place, Written.of(written))
        else:
            settle(ctx, names, row, Written.of(written))
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
        put_in_place(ctx, found)
        declared = not first_version.has_versions(ctx.store, place)
    if declared:
        # Without a row the directory is what makes the table, so it stays in sight.
        with claimed_to_fill(ctx, place) if found.entry is not None else nullcontext():
            written = first_version.write_first_version(ctx.store, place, data, given)
            if written is not None:
                confirm_over(ctx, found, Written.of(written), given)
                adopt_written(ctx, found.names)
                return Created(place, _set_properties(ctx, found, given), written.version)
    if mode == "create":
        raise taken(found.names)
    with storage_errors(f"writing '{format_text(found.names)}'"):
        if mode == "exist_ok":
            options = dict(ctx.store.lance_options) or None
            dataset = lance.dataset(ctx.store.uri_of(place), storage_options=options)
            return Created(place, _properties_of(found, dataset), dataset.version)
        written = first_version.overwrite(ctx.store, place, data, given)
    if found.entry is not None:
        require_still(ctx, found, Written.of(written))
    adopt_written(ctx, found.names)
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
