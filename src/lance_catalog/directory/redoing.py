"""A creation where a dropped table is: write over it, or in V1 clear what is in the way."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from lance_catalog.config import Mode
from lance_catalog.directory import dropped, protection, reviving, trashing
from lance_catalog.directory.context import Context
from lance_catalog.directory.layout import v1_directory
from lance_catalog.directory.listing import is_component, marked_names
from lance_catalog.directory.marking import require_unregistered
from lance_catalog.directory.registration import own_properties
from lance_catalog.directory.resolve import require_namespace
from lance_catalog.errors import storage_errors
from lance_catalog.identifiers import Identifier, parent_of
from lance_catalog.lifecycle import markers, purge
from lance_catalog.lifecycle.states import Hidden, HiddenState

__all__ = ["create_over_dropped", "make_way", "reopen_names"]

#: A drop that ends while we write over it (undropped and dropped again) is one round.
_ROUNDS: Final = 8


def create_over_dropped(
    ctx: Context, names: Identifier, data: pa.Table, given: dict[str, str]
) -> tuple[str, int] | None:
    """Write over the latest drop of an id; return its place and version, None if there is none."""
    if ctx.mode is not Mode.V2 and len(names) == 1:
        v1_directory(names[0])  # A name that no store could take is 13, before it is asked.
    for _ in range(_ROUNDS):
        view = ctx.exact()
        found = dropped.find(ctx, view, names)
        # In V1 whatever is being deleted is in the way; elsewhere another directory is not.
        if not found or found[0].hidden.is_purging:
            break
        if trashing.settle_first(ctx, found[0].row):
            continue
        if ctx.mode is not Mode.V1:
            require_namespace(view, parent_of(names))
        version = reviving.revive(ctx, found[0], data, given)
        if version is not None:
            return found[0].location, version
        if ctx.mode is not Mode.V1 or dropped.find(
            ctx, ctx.exact(), names, found[0].hidden.drop_id
        ):
            break
    if ctx.mode is Mode.V1:
        # Dropped before it had data: there is nothing to keep.
        make_way(ctx, names[0], delete=True)
    return None


def make_way(ctx: Context, name: str, *, delete: bool) -> None:
    """Clear what a V1 name may be cleared of: an ended or lapsed deletion, a marker of nothing.

    ``delete`` deletes a dropped table as well.
    """
    if not is_component(name):
        return
    place = v1_directory(name)
    with storage_errors(f"looking at '{name}'"):
        hidden = markers.read_with_claim(ctx.store, name, place)
        if hidden is None:
            return
        if hidden.state is HiddenState.PURGED:
            _reopen(ctx, name, hidden)
            return
        if hidden.state is not HiddenState.DROPPED:
            return
        nothing = not ctx.store.any_object(place)
    if delete and not nothing and not hidden.is_purging:
        protection.refuse(own_properties(ctx, place), (name,), "purging")
    if delete or nothing or hidden.is_purging:
        _purge(ctx, name, place, hidden)


def _reopen(ctx: Context, name: str, hidden: Hidden) -> None:
    """Open the name of a purged table again, when it was closed for long enough."""
    # A clock that jumped back must not close the name for ever.
    if abs(ctx.clock() - hidden.deleted_at_ms) >= ctx.settings.quarantine_ms:
        with ctx.store.exclusive():
            markers.remove_own(ctx.store, name, hidden)


def reopen_names(ctx: Context) -> None:
    """Open every name that a purge closed, when it is time: for sweeps."""
    if ctx.mode is Mode.V2 or not ctx.store.remote:
        return
    for name in marked_names(ctx.store):
        with storage_errors(f"looking at '{name}'"):
            body = ctx.store.get(markers.marker_path(name))
            hidden = None if body is None else Hidden.from_body(body, name)
            if hidden is not None and hidden.state is HiddenState.PURGED:
                _reopen(ctx, name, hidden)


def _purge(ctx: Context, name: str, place: str, hidden: Hidden) -> None:
    purge.purge_directory(
        ctx.store,
        name,
        place,
        hidden,
        ctx.clock,
        terms=ctx.terms(),
        guard=lambda: require_unregistered(ctx, place),
    )
