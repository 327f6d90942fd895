"""Where a new table goes, and keeping that place to oneself until it is one.

At the root of compatibility mode a directory ``<name>.lance`` is a table as soon as it holds a
file (C15), so a creation first hides it: a root-level marker in the state ``creating``, made by
put-if-absent. Nobody sees the directory, and nobody else writes into it, until the row is there
and the marker goes. A second creation of the name meanwhile takes a hashed directory, and the log
decides between the two rows.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from lance_catalog.config import Mode
from lance_catalog.directory import layout_flag, listing
from lance_catalog.directory.context import Context
from lance_catalog.directory.layout import fresh_directory, relative_location, v1_directory
from lance_catalog.directory.resolve import find_table, require_namespace
from lance_catalog.errors import (
    CommitOutcomeUnknownError,
    ConcurrentModificationError,
    InvalidInputError,
    LanceNamespaceError,
    TableAlreadyExistsError,
    storage_errors,
)
from lance_catalog.failpoints import hit
from lance_catalog.identifiers import Identifier, encode, format_text, parent_of
from lance_catalog.lifecycle import markers, trash
from lance_catalog.lifecycle.locations import overlapping, v1_name
from lance_catalog.lifecycle.states import Hidden, HiddenState, new_drop_id
from lance_catalog.manifest import Snapshot

__all__ = ["claimed_place", "claimed_to_fill", "require_free", "taken"]

log = logging.getLogger(__name__)


def require_free(ctx: Context, view: Snapshot, names: Identifier) -> None:
    """Raise 1 or 5 unless the name can be taken; checked again by the commit that takes it."""
    if ctx.mode is Mode.V1:
        hidden = markers.read(ctx.store, names[0], v1_directory(names[0]))
        if hidden is not None and hidden.state is HiddenState.CREATING:
            raise ConcurrentModificationError(
                f"table '{names[0]}' is being created by another process; look again. If that "
                "process died, `lance-catalog repair` removes what it left."
            )
        if hidden is not None:
            raise TableAlreadyExistsError(_closed(ctx, names[0], hidden))
        if listing.exists(ctx.store, names[0]):
            raise taken(names)
        return
    require_namespace(view, parent_of(names))
    existing = view.get(encode(names))
    if existing is not None:
        kind = "" if existing.is_table else f" as a {existing.object_type}"
        raise TableAlreadyExistsError(
            f"'{format_text(names)}' exists already{kind}; choose another name"
        )
    if find_table(ctx, view, names) is not None:
        raise taken(names)


def _closed(ctx: Context, name: str, hidden: Hidden) -> str:
    """Say why a name is closed in V1, and what opens it."""
    if hidden.state is HiddenState.PURGED:
        at = hidden.deleted_at_ms + ctx.settings.quarantine_ms
        return (
            f"table '{name}' was purged just now by more than one process, and one of them may "
            f"still be deleting: the name opens again in {max(0, at - ctx.clock()) / 1000:.0f} s "
            "(purge_quarantine)"
        )
    if hidden.state is HiddenState.DROPPED:
        return (
            f"table '{name}' was dropped, and its directory is where the new one would be. "
            f"`lance-catalog trash undrop {name}` brings it back, `lance-catalog trash purge "
            f"{name} --force` deletes it, create_table writes a new version of it; "
            "v1_redeclare=purge purges it first"
        )
    if hidden.state is HiddenState.UNREADABLE:
        return (
            f"table '{name}' is hidden by {markers.marker_path(name)}, which cannot be read; "
            "`lance-catalog check` reports it. Nothing is deleted for it: remove the marker by "
            "hand to show the table"
        )
    return (
        f"table '{name}' was deregistered and its data is still there. register_table brings it "
        "back; drop_table drops it"
    )


@contextmanager
def claimed_place(
    ctx: Context, view: Snapshot, names: Identifier, asked: str | None
) -> Iterator[str]:
    """Yield the directory of a new table: by mode (C10, C11), or where the caller wants it.

    Kept to this creation while the block runs, where somebody else could come upon it.
    """
    place = _wanted(ctx, view, names, asked)
    first = layout_flag.begins_root(ctx, place)
    claim = None
    name = v1_name(place)
    if name is not None and ctx.mode is not Mode.V1:
        claim = _claim_v1(ctx, view, name)
        if claim is None and asked is not None:
            raise _in_use(asked)
        place = place if claim is not None else fresh_directory(names)
    try:
        yield place
    except CommitOutcomeUnknownError:
        raise  # It may be registered: repair finds out.
    except BaseException:
        _release(ctx, name, claim)
        raise
    _release(ctx, name, claim)
    if first and v1_name(place) is not None:
        # Not before: of a creation that fails, nothing is left.
        layout_flag.write_after_creation(ctx)


@contextmanager
def claimed_to_fill(ctx: Context, place: str) -> Iterator[None]:
    """Keep the place of a declared table to oneself while its first data is written.

    Its row may be dropped meanwhile, and then the directory would show as a table by itself.
    """
    name = v1_name(place)
    claim = Hidden(new_drop_id(place), HiddenState.CREATING, ctx.clock())
    if name is None or ctx.mode is Mode.V1:
        yield
        return
    with storage_errors(f"reserving {place}"):
        if not ctx.store.put_if_absent(markers.marker_path(name), claim.body()):
            raise ConcurrentModificationError(
                f"table '{name}' is being created, dropped or deregistered by another process; "
                "look again. If that process died, `lance-catalog repair` clears its marker."
            )
        hit("table.claimed")
    try:
        yield
    finally:
        _release(ctx, name, claim)


def _claim_v1(ctx: Context, view: Snapshot, name: str) -> Hidden | None:
    """Take ``<name>.lance`` for a creation, if it belongs to nobody: no row (R8), no marker."""
    directory = v1_directory(name)
    if overlapping(view, directory):
        return None
    claim = Hidden(new_drop_id(name), HiddenState.CREATING, ctx.clock())
    with storage_errors(f"reserving {directory}"):
        if not ctx.store.put_if_absent(markers.marker_path(name), claim.body()):
            return None
        hit("table.claimed")
        if ctx.store.any_object(directory):
            # Written by somebody who looks at directories only, since we looked.
            _release(ctx, name, claim)
            raise taken((name,))
    return claim


def _release(ctx: Context, name: str | None, claim: Hidden | None) -> None:
    """Show the directory. The row is the truth already: failing here is left to repair."""
    if claim is None or name is None:
        return
    try:
        with storage_errors(f"showing '{name}'"), ctx.store.exclusive():
            former = trash.owner_of(ctx.exact(), v1_directory(name))
            hidden = [row.hidden for row in former if not row.hidden.is_purging]
            if not markers.remove_own(ctx.store, name, claim):
                return
            if hidden:
                # Hidden before we were done; its marker waited for ours to go.
                markers.mark(ctx.store, name, v1_directory(name), hidden[0])
    except LanceNamespaceError as error:
        log.warning("'%s' is created, but not yet shown to V1 readers: %s", name, error)
    else:
        hit("table.released")


def _wanted(ctx: Context, view: Snapshot, names: Identifier, asked: str | None) -> str:
    """Return the place by mode, or the one a caller asked for, if it can be."""
    usual = (
        v1_directory(names[0])
        if ctx.mode is Mode.V1 or (ctx.mode is Mode.COMPAT and len(names) == 1)
        else fresh_directory(names)
    )
    wanted = usual if asked is None else relative_location(asked, ctx.store)
    if wanted == usual:
        return usual
    if ctx.mode is Mode.V1:
        raise InvalidInputError(
            f"location '{asked}': in V1 table '{names[0]}' lies at {ctx.store.uri_of(usual)}"
        )
    if overlapping(view, wanted) or listing.occupied(ctx.store, wanted):
        raise _in_use(str(asked))
    return wanted


def _in_use(asked: str) -> InvalidInputError:
    return InvalidInputError(
        f"location '{asked}' is in use; leave it out, or use register_table for a table that "
        "is there already"
    )


def taken(names: Identifier) -> TableAlreadyExistsError:
    """Return the error for a name that has a table already."""
    return TableAlreadyExistsError(
        f"table '{format_text(names)}' exists already; mode exist_ok takes it as it is, "
        "overwrite replaces its data"
    )
