"""The V1 markers of tables that have a row: the log decides, the markers tell V1 readers (R3, R7).

Hiding: the row first, then both markers. Showing: the row first, then the markers go, the nested
one first. A crash between leaves the row as the truth for us, and `repair` mends the markers.
"""

from __future__ import annotations

import logging

from lance_catalog.config import Mode
from lance_catalog.directory.context import Context
from lance_catalog.errors import ConcurrentModificationError, LanceNamespaceError, storage_errors
from lance_catalog.lifecycle import markers, trash
from lance_catalog.lifecycle.claims import Verb
from lance_catalog.lifecycle.locations import v1_name
from lance_catalog.lifecycle.states import Hidden, HiddenState, is_creating
from lance_catalog.lifecycle.trash import TrashRow

__all__ = ["mark_v1", "require_unregistered", "unmark_v1", "yield_to_rows"]

log = logging.getLogger(__name__)


def mark_v1(ctx: Context, row: TrashRow) -> None:
    """Hide a V1-named directory from those who look at directories only.

    The row is the truth already, so failing is no failure of the operation: `repair` marks it.
    """
    location = row.entry.location or ""
    name = v1_name(location)
    if name is None:
        return
    try:
        with storage_errors(f"marking {location}"):
            with ctx.store.exclusive():
                present = ctx.store.get(markers.marker_path(name))
                if present is not None and is_creating(present, name):
                    return  # Hidden by it until it is done; then it leaves our marker.
                # Over any other marker: the log has gone on to this hiding.
                markers.mark(ctx.store, name, location, row.hidden)
            if trash.get(ctx.exact(), row.entry.object_id) is None:
                # Brought back before the marker was there to be removed: it is ours to remove.
                with ctx.store.exclusive():
                    markers.unhide(ctx.store, name, location, row.hidden)
    except LanceNamespaceError as error:
        log.warning("'%s' is hidden here, but not yet for V1 readers: %s", name, error)


def unmark_v1(ctx: Context, place: str, *, dropped: bool = True) -> None:
    """Show a table that has a row again to those who look at directories only.

    Without ``dropped`` the marker of a drop stays: somebody dropped it by its directory meanwhile.
    """
    name = v1_name(place)
    if name is None:
        return
    with storage_errors(f"unmarking {place}"):
        hidden = markers.read(ctx.store, name, place)
        kept = (HiddenState.CREATING,) if dropped else (HiddenState.CREATING, HiddenState.DROPPED)
        if hidden is not None and hidden.state not in kept:
            try:
                markers.reveal(ctx.store, name, place, hidden, ctx.terms())
            except ConcurrentModificationError as error:
                log.warning("'%s' is registered, another removes its marker: %s", name, error)


def require_unregistered(ctx: Context, directory: str) -> None:
    """Raise when a row came to a directory that only its marker told of: 14, in V1 19."""
    ctx.terms().no_row(directory, Verb.PURGE)


def yield_to_rows(ctx: Context, name: str, directory: str, hidden: Hidden) -> None:
    """Step back when somebody registered the directory while we marked it.

    The other half of what creating, registering and renaming confirm: they write their row and
    look for our marker.
    """
    if ctx.mode is Mode.V1 or not ctx.exact().at_location(directory):
        return
    with storage_errors(f"unmarking '{name}'"):
        markers.reveal(ctx.store, name, directory, hidden, ctx.terms())
    raise ConcurrentModificationError(
        f"table '{name}' was registered by somebody else meanwhile; look again and retry"
    )
