"""Namespaces: logical, rows of the manifest and nothing on disk (I01, I02, I10-I14)."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from lance_catalog.config import Mode
from lance_catalog.directory import protection
from lance_catalog.directory.context import Context
from lance_catalog.directory.managed.rows import leaving
from lance_catalog.directory.paging import page
from lance_catalog.directory.resolve import (
    find_table,
    namespace_entry,
    namespace_exists,
    require_namespace,
)
from lance_catalog.errors import (
    InvalidInputError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    UnsupportedOperationError,
)
from lance_catalog.identifiers import (
    Identifier,
    check_new_name,
    decode,
    encode,
    format_text,
    is_internal_key,
    parent_of,
    split_key,
)
from lance_catalog.lifecycle import trash
from lance_catalog.lifecycle.purge import check_deletable
from lance_catalog.lifecycle.states import Hidden
from lance_catalog.lifecycle.trash import TrashRow
from lance_catalog.manifest import Change, PointView, Snapshot
from lance_catalog.model import (
    CREATED_AT,
    Entry,
    Kind,
    check_user_properties,
    dump_metadata,
    parse_metadata,
    user_properties,
)

__all__ = [
    "create",
    "describe",
    "drop",
    "list_children",
    "normal_mode",
    "replace_root_properties",
    "require",
]

ROOT_PROPERTIES: Final = "lance_catalog.root_properties"


def normal_mode(value: str | None, allowed: tuple[str, ...], what: str) -> str:
    """Return a mode in snake_case; PascalCase and any case are accepted, others are 13."""
    if value is None:
        return allowed[0]
    plain = value.replace("_", "").lower()
    for mode in allowed:
        if plain == mode.replace("_", ""):
            return mode
    raise InvalidInputError(f"{what} '{value}' is not one of {', '.join(allowed)}")


def _require_manifest(ctx: Context, names: Identifier, what: str) -> None:
    if ctx.mode is Mode.V1:
        raise UnsupportedOperationError(
            f"{what}: V1 (manifest_enabled=false) has no namespaces below the root, so "
            f"'{format_text(names)}' cannot be one. Set manifest_enabled=true."
        )


def create(
    ctx: Context, names: Identifier, mode: str | None, properties: dict[str, str] | None
) -> dict[str, str]:
    """Create a namespace; return its properties."""
    chosen = normal_mode(mode, ("create", "exist_ok", "overwrite"), "mode")
    given = check_user_properties(properties)
    _require_manifest(ctx, names, "create_namespace")
    if not names:
        return _create_root(ctx, chosen, given)
    created_at = datetime.fromtimestamp(ctx.clock() / 1000, UTC).isoformat(timespec="milliseconds")
    row = Entry(
        encode(names), Kind.NAMESPACE.value, None, dump_metadata({**given, CREATED_AT: created_at})
    )
    check_new_name(names, stored=True)

    def plan(view: Snapshot) -> tuple[Change, dict[str, str]]:
        require_namespace(view, parent_of(names))
        existing = view.get(row.object_id)
        if existing is None:
            _refuse_v1_name(ctx, view, names)
            return Change(add=(row,)), given
        if not existing.is_namespace:
            raise NamespaceAlreadyExistsError(
                f"'{format_text(names)}' is the name of a {existing.object_type}; names are "
                "unique among siblings of any kind. Choose another."
            )
        if chosen == "exist_ok":
            return Change(), user_properties(existing.properties())
        if chosen == "create":
            raise NamespaceAlreadyExistsError(
                f"namespace '{format_text(names)}' exists already; mode exist_ok takes it as it is"
            )
        _require_empty(view, names)
        replaced = {row.object_id: existing}
        return Change(view.rows_of(row.object_id), (row,), replaced), given

    return ctx.commit(plan)


def _refuse_v1_name(ctx: Context, view: Snapshot, names: Identifier) -> None:
    """In compatibility mode a directory at the root is a sibling too (O01)."""
    if ctx.mode is Mode.COMPAT and len(names) == 1 and find_table(ctx, view, names) is not None:
        raise NamespaceAlreadyExistsError(
            f"'{names[0]}' is the name of a table (found by its directory); choose another name"
        )


def _create_root(ctx: Context, mode: str, properties: dict[str, str]) -> dict[str, str]:
    """The root is always there: overwrite replaces its properties (I02)."""
    if mode == "create":
        raise NamespaceAlreadyExistsError(
            "the root namespace always exists; mode overwrite sets its properties"
        )
    if mode == "exist_ok":
        return describe(ctx, ())
    return replace_root_properties(ctx, properties)


def replace_root_properties(ctx: Context, properties: dict[str, str]) -> dict[str, str]:
    """Set the properties of the root namespace, all of them."""

    def plan(view: Snapshot) -> tuple[Change, None]:
        body = json.dumps(properties, ensure_ascii=False, sort_keys=True)
        return Change(table_metadata={ROOT_PROPERTIES: body if properties else None}), None

    ctx.commit(plan)
    return properties


def list_children(
    ctx: Context, names: Identifier, token: str | None, limit: int | None
) -> tuple[list[str], str | None]:
    """Return a page of the namespaces exactly one level below (I11)."""
    if ctx.mode is Mode.V1:
        if names:
            _require_manifest(ctx, names, "list_namespaces")
        return [], None
    view = ctx.view()
    require_namespace(view, names)
    found = (
        split_key(entry.object_id)[1]
        for entry in view.children(encode(names), token or None)
        if entry.is_namespace and not is_internal_key(entry.object_id)
    )
    return page(found, limit)


def describe(ctx: Context, names: Identifier) -> dict[str, str]:
    """Return the properties of a namespace (I12, R15)."""
    if not names:
        stored = ctx.glance().table_metadata.get(ROOT_PROPERTIES)
        return parse_metadata(stored, "the root namespace")
    _require_manifest(ctx, names, "describe_namespace")
    return user_properties(namespace_entry(ctx.glance(), names).properties())


def require(ctx: Context, names: Identifier, view: PointView | None = None) -> None:
    """Raise 1 unless the namespace exists (I14), now or in a view."""
    if names:
        _require_manifest(ctx, names, "namespace_exists")
        require_namespace(ctx.glance() if view is None else view, names)


def _require_empty(view: Snapshot, names: Identifier) -> None:
    count = sum(1 for _ in view.descendants(encode(names)))
    if count:
        raise NamespaceNotEmptyError(
            f"namespace '{format_text(names)}' is not empty: {count} objects below it. "
            "Drop them first, or drop it with behavior cascade."
        )


def drop(
    ctx: Context,
    names: Identifier,
    mode: str | None,
    behavior: str | None,
    hiding: Callable[[str], Hidden],
    *,
    force: bool = False,
) -> list[TrashRow] | None:
    """Drop a namespace; return the tables it took along, now hidden, or None when it was absent.

    Cascade is one commit: either everything below goes, or nothing (I13). ``hiding`` makes the
    drop of each table; ``force`` drops what is protected.
    """
    chosen = normal_mode(mode, ("fail", "skip"), "mode")
    how = normal_mode(behavior, ("restrict", "cascade"), "behavior")
    if not names:
        raise InvalidInputError("the root namespace cannot be dropped")
    _require_manifest(ctx, names, "drop_namespace")

    def plan(view: Snapshot) -> tuple[Change, list[TrashRow] | None]:
        if not namespace_exists(view, names):
            if chosen == "skip":
                return Change(), None
            require_namespace(view, names)
            raise NamespaceNotFoundError(f"namespace '{format_text(names)}' does not exist")
        remove = list(view.rows_of(encode(names)))
        if not force:
            protection.refuse(remove[0], names, "dropping", "namespace")
        if how == "restrict":
            _require_empty(view, names)
            return Change(remove=tuple(remove)), []
        taken: list[TrashRow] = []
        replaces: dict[str, Entry] = {}
        for entry in view.descendants(encode(names)):
            if not force:
                noun = "table" if entry.is_table else "namespace"
                protection.refuse(entry, decode(entry.object_id), "dropping", noun)
            if not entry.is_table:
                remove += view.rows_of(entry.object_id)
            else:
                check_deletable(view, entry, f"dropping '{entry.object_id}'")
                # Each its own drop: each is purged, or undropped, on its own.
                versions = leaving(ctx, view, entry)
                row, gone = trash.take(view, entry, hiding(entry.object_id), versions)
                remove += gone
                taken.append(row)
                replaces[row.entry.object_id] = entry
        added = tuple(row.entry for row in taken)
        return Change(tuple(remove), added, replaces), taken

    return ctx.commit(plan)
