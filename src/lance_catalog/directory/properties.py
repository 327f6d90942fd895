"""Changing the properties of a table or namespace that is there (R14)."""

from __future__ import annotations

from collections.abc import Sequence

from lance_catalog.config import parse_bool
from lance_catalog.directory.context import Context
from lance_catalog.directory.first_version import has_versions
from lance_catalog.directory.namespaces import describe, replace_root_properties
from lance_catalog.directory.resolve import FoundTable, namespace_entry, require_table
from lance_catalog.errors import (
    ConcurrentModificationError,
    InvalidTableStateError,
    UnsupportedOperationError,
    storage_errors,
)
from lance_catalog.identifiers import Identifier, format_text
from lance_catalog.manifest import Change, Snapshot, gated
from lance_catalog.model import (
    PROTECTED,
    Entry,
    check_user_properties,
    dump_metadata,
    user_properties,
)

__all__ = ["set_of_namespace", "set_of_table"]


def _checked(set_: dict[str, str], unset: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    given = check_user_properties(set_)
    check_user_properties(dict.fromkeys(unset, ""))
    if PROTECTED in given:
        # Said now: a word nobody understands protects, which may not be what was meant.
        parse_bool(PROTECTED, given[PROTECTED])
    return given, list(unset)


def _changed(
    entry: Entry, given: dict[str, str], unset: list[str]
) -> tuple[Change, dict[str, str]]:
    stored = {k: v for k, v in entry.properties().items() if k not in unset}
    wanted = {**stored, **given}
    row = Entry(entry.object_id, entry.object_type, entry.location, dump_metadata(wanted))
    if row.metadata == entry.metadata:
        return Change(), user_properties(wanted)
    return Change((entry,), (row,), {row.object_id: entry}), user_properties(wanted)


def set_of_namespace(
    ctx: Context, names: Identifier, set_: dict[str, str], unset: Sequence[str]
) -> dict[str, str]:
    """Change properties of a namespace; return them."""
    given, gone = _checked(set_, unset)
    if ctx.log is None:
        raise UnsupportedOperationError(
            "set_namespace_properties: V1 (manifest_enabled=false) has nowhere to keep them"
        )
    if not names:
        kept = {k: v for k, v in describe(ctx, ()).items() if k not in gone}
        return replace_root_properties(ctx, {**kept, **given})
    return ctx.commit(lambda view: _changed(namespace_entry(view, names), given, gone))


def set_of_table(
    ctx: Context, names: Identifier, set_: dict[str, str], unset: Sequence[str]
) -> dict[str, str]:
    """Change properties of a table: of its row, or without one of its own metadata; return them."""
    given, gone = _checked(set_, unset)
    if ctx.log is not None:

        def plan(view: Snapshot) -> tuple[Change, dict[str, str] | FoundTable]:
            found = require_table(ctx, view, names)
            if found.entry is None:
                return Change(), found
            return _changed(found.entry, given, gone)

        answer = ctx.commit(plan)
        if isinstance(answer, dict):
            return answer
    found = require_table(ctx, ctx.view(), names)
    with storage_errors(f"setting properties of '{format_text(names)}'"):
        if not has_versions(ctx.store, found.location):
            raise InvalidTableStateError(
                f"table '{format_text(names)}' is declared but has no data yet, and keeps its "
                "properties in its data; create_table writes it"
            )
        dataset = gated.latest(ctx.store, found.location)
        kept = {k: v for k, v in dict(dataset.metadata).items() if k not in gone}
        wanted = {**kept, **given}
        dataset.update_metadata(wanted, replace=True)
    if require_table(ctx, ctx.exact(), names).location != found.location:
        raise ConcurrentModificationError(f"table '{format_text(names)}' changed meanwhile")
    return user_properties(wanted)
