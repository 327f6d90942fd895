"""From an identifier to a namespace or a table, in every mode (C15, C16, R8, R11)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from lance_catalog.config import Mode
from lance_catalog.directory import listing
from lance_catalog.directory.context import Context
from lance_catalog.errors import (
    InvalidInputError,
    InvalidTableStateError,
    NamespaceNotFoundError,
    TableNotFoundError,
    UnsupportedOperationError,
)
from lance_catalog.identifiers import (
    Identifier,
    encode,
    format_text,
    from_request,
    is_addressable,
    is_internal,
    is_internal_key,
    name_of,
    parent_of,
)
from lance_catalog.lifecycle.locations import SUFFIX, normalise
from lance_catalog.manifest import PointView, Snapshot
from lance_catalog.model import Entry, Kind

__all__ = [
    "FoundTable",
    "find_table",
    "lookup",
    "namespace_entry",
    "namespace_exists",
    "require_namespace",
    "require_table",
    "resolve_table",
    "table_id",
    "tables_in",
    "v1_visible",
]


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table: its id, its place below the root, and its row unless only a directory tells."""

    names: Identifier
    location: str
    entry: Entry | None
    #: The metadata of the manifest it was found in: whoever needs both takes one look for them.
    catalog: Mapping[str, str] = field(default_factory=dict)


def table_id(ctx: Context, value: object, what: str) -> Identifier:
    """Return the identifier of a table request, checked for the depth the mode allows (I03)."""
    names = from_request(value, what)  # type: ignore[arg-type]
    if not names:
        raise InvalidInputError(f"{what}: a table id has at least one name; [] is the root")
    if ctx.mode is Mode.V1 and len(names) > 1:
        raise UnsupportedOperationError(
            f"{what}: '{format_text(names)}' has {len(names)} levels, and V1 (manifest_enabled="
            "false) knows tables at the root only. Set manifest_enabled=true for namespaces."
        )
    return names


def namespace_exists(view: PointView, names: Identifier) -> bool:
    """Whether a namespace is there; the root always is (O03)."""
    if not names:
        return True
    entry = lookup(view, names)
    return entry is not None and entry.is_namespace


def require_namespace(view: PointView, names: Identifier) -> None:
    """Raise 1 unless the namespace exists."""
    for depth in range(1, len(names)):
        # The first ancestor that is missing is what the caller can act on.
        if not namespace_exists(view, names[:depth]) and not namespace_exists(view, names):
            _missing_namespace(view, names[:depth])
    if not namespace_exists(view, names):
        _missing_namespace(view, names)


def _missing_namespace(view: PointView, names: Identifier) -> None:
    text = format_text(names)
    entry = lookup(view, names)
    if entry is not None and entry.is_table:
        raise NamespaceNotFoundError(f"'{text}' is a table, not a namespace")
    raise NamespaceNotFoundError(
        f"namespace '{text}' does not exist; `lance-catalog namespace create {text}` makes it"
    )


def namespace_entry(view: PointView, names: Identifier) -> Entry:
    """Return the row of a namespace; 1 when there is none."""
    require_namespace(view, names)
    entry = lookup(view, names)
    assert entry is not None
    return entry


def lookup(view: PointView, names: Identifier) -> Entry | None:
    """Return the row of an id as users may name it: no alias by ``$``, no bookkeeping (R9)."""
    if not is_addressable(names) or is_internal(names):
        return None
    return view.get(encode(names))


def find_table(ctx: Context, view: PointView, names: Identifier) -> FoundTable | None:
    """Return a table, or None: the manifest first, then at the root the directory (C15)."""
    if ctx.mode is not Mode.V1:
        entry = lookup(view, names)
        if entry is not None:
            if not entry.is_table:
                return None
            return FoundTable(names, _place(entry), entry, view.table_metadata)
        if ctx.mode is Mode.V2 or len(names) > 1 or not v1_visible(ctx, view, names[0]):
            return None
    elif not listing.exists(ctx.store, names[0]):
        return None
    return FoundTable(names, names[0] + SUFFIX, None)


def _place(entry: Entry) -> str:
    place = normalise(entry.location)
    if place is None:
        raise InvalidTableStateError(
            f"the row of '{entry.object_id}' has the location {entry.location!r}, which is no "
            "folder of a table below the root. deregister_table removes the row; "
            "`lance-catalog check` lists such rows."
        )
    return place


def v1_visible(ctx: Context, view: PointView, name: str) -> bool:
    """Whether compatibility mode finds a root table by its directory alone.

    Not when any row owns that directory: under another id (renamed, R8), or hidden in the trash.
    """
    directory = name + SUFFIX
    if not is_addressable((name,)) or view.at_location(directory):
        return False
    return listing.exists(ctx.store, name)


def require_table(ctx: Context, view: PointView, names: Identifier) -> FoundTable:
    """Return a table; 4, or 1 when its namespace is missing (R11)."""
    found = find_table(ctx, view, names)
    if found is not None:
        return found
    if ctx.mode is not Mode.V1:
        require_namespace(view, parent_of(names))
    # "was not found": by these words lancedb knows the error that crossed Rust as a text.
    text = format_text(names)
    if ctx.mode is not Mode.V1 and namespace_exists(view, names):
        raise TableNotFoundError(
            f"table '{text}' was not found: '{text}' is a namespace; "
            f"`lance-catalog table list {text}` shows its tables"
        )
    raise TableNotFoundError(
        f"table '{text}' was not found; "
        f"`lance-catalog table list {format_text(parent_of(names))}` shows the tables there"
    )


def resolve_table(ctx: Context, names: Identifier) -> FoundTable:
    """Return a table as it is at one moment; 4 or 1 when there is none.

    Rows and directories are two looks. A directory seen without a row counts when no row changed
    between the looks; else it may be a table whose row came, or went, just then.
    """
    view = ctx.glance()
    while True:
        found = require_table(ctx, view, names)
        if found.entry is not None or ctx.mode is not Mode.COMPAT:
            return found
        now = ctx.glance()
        if now.version == view.version:
            return found
        view = now


def tables_in(ctx: Context, view: Snapshot, parent: Identifier, after: str | None) -> Iterator[str]:
    """Yield the names of the tables of a namespace in order, past ``after`` (C16)."""
    if ctx.mode is Mode.V1:
        yield from (n for n in listing.list_names(ctx.store) if after is None or n > after)
        return
    rows = view.names(encode(parent), Kind.TABLE.value, after)
    if ctx.mode is Mode.V2 or parent:
        yield from rows
        return
    # Manifest wins: by id (whatever kind of object has the name) and by location.
    directories = [
        name
        for name in listing.list_names(ctx.store)
        if (after is None or name > after)
        and is_addressable((name,))
        and view.get(name) is None
        and not view.at_location(name + SUFFIX)
    ]
    yield from _merged(rows, iter(directories))


def tables_below(
    ctx: Context, view: Snapshot, parent: Identifier, after: str | None
) -> Iterator[str]:
    """Yield the stored ids of all tables below a namespace, at any depth, in order."""
    found = {
        entry.object_id
        for entry in view.descendants(encode(parent))
        if entry.is_table and not is_internal_key(entry.object_id)
    }
    if not parent:
        found.update(tables_in(ctx, view, (), None))
    yield from (key for key in sorted(found) if after is None or key > after)


def _merged(left: Iterator[str], right: Iterator[str]) -> Iterator[str]:
    a, b = next(left, None), next(right, None)
    while a is not None or b is not None:
        if b is None or (a is not None and a <= b):
            assert a is not None
            yield a
            a = next(left, None)
        else:
            yield b
            b = next(right, None)


def is_ordinary(entry: Entry) -> bool:
    """Whether a row is an object users see: not our bookkeeping."""
    return not is_internal_key(entry.object_id)


def last_name(names: Identifier) -> str:
    """Return the name of an identifier that is not the root."""
    return name_of(names)
