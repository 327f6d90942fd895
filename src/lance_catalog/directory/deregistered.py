"""Which tables are out of the catalog with their data kept: what register can bring back."""

from __future__ import annotations

from dataclasses import dataclass

from lance_catalog.config import Mode
from lance_catalog.directory import listing
from lance_catalog.directory.context import Context
from lance_catalog.errors import storage_errors
from lance_catalog.identifiers import Identifier, decode, is_internal_key
from lance_catalog.lifecycle import markers, trash
from lance_catalog.lifecycle.locations import SUFFIX, normalise
from lance_catalog.lifecycle.states import HiddenState
from lance_catalog.manifest import Snapshot

__all__ = ["Deregistered", "deregistered"]


@dataclass(frozen=True, slots=True)
class Deregistered:
    """A table out of the catalog: the id it had, its place below the root, and since when."""

    names: Identifier
    location: str
    #: Milliseconds; None where the marker of another implementation does not tell.
    at_ms: int | None


def deregistered(ctx: Context) -> list[Deregistered]:
    """Return every deregistered table the mode can bring back, by id and then by time.

    An id may come twice: its name was free again, and was taken and deregistered again.
    """
    view = ctx.view()
    found = list(_rows(view))
    if ctx.mode is not Mode.V2:
        found += _directories(ctx, view)
    return sorted(found, key=lambda table: (table.names, table.at_ms or 0, table.location))


def _rows(view: Snapshot) -> list[Deregistered]:
    found = []
    for row in trash.rows(view):
        place = normalise(row.entry.location)
        if row.hidden.state is not HiddenState.DEREGISTERED or place is None:
            continue
        # Another implementation registers a place without looking at our trash: then it is back.
        if all(is_internal_key(entry.object_id) for entry in view.at_location(place)):
            names = decode(row.object_id)
            found.append(Deregistered(names, place, row.hidden.deleted_at_ms or None))
    return found


def _directories(ctx: Context, view: Snapshot) -> list[Deregistered]:
    """Return what only a marker hides; a directory that a row names is the row's to tell of."""
    found = []
    for name in listing.hidden_names(ctx.store):
        place = name + SUFFIX
        if view.at_location(place):
            continue
        with storage_errors(f"looking at {place}"):
            hidden = markers.read(ctx.store, name, place)
            # A marker whose directory is gone brings nothing back; check reports it.
            if (
                hidden is not None
                and hidden.state is HiddenState.DEREGISTERED
                and ctx.store.any_object(place)
            ):
                found.append(Deregistered((name,), place, hidden.deleted_at_ms or None))
    return found
