"""Where tables lie, compared as places and not as strings (invariant 4). Pure."""

from __future__ import annotations

from typing import Final

from lance_catalog.identifiers import CLAIMS, TRASH
from lance_catalog.manifest.schema import DIRECTORY as MANIFEST
from lance_catalog.manifest.snapshot import Snapshot
from lance_catalog.model import Entry

__all__ = ["SUFFIX", "normalise", "overlapping", "v1_name"]

SUFFIX: Final = ".lance"

# Ours, and the folders of a Lance table: natives can register the root itself as one.
_NEVER: Final = frozenset(
    {MANIFEST, TRASH, CLAIMS, "data", "tree"}
    | {"_versions", "_indices", "_deletions", "_transactions", "_refs"}
)


def normalise(location: str | None) -> str | None:
    """Return a stored location in its plain form, or None when it is not below the root.

    Natives store any string: ``./x`` and ``x/`` are ``x``; empty, ``.``, ``..`` and whatever
    climbs or lies in our own bookkeeping is nothing that may ever be deleted.
    """
    if location is None or location.startswith("/") or "://" in location or "\0" in location:
        return None
    parts = [part for part in location.split("/") if part not in ("", ".")]
    if not parts or ".." in parts or parts[0] in _NEVER:
        return None
    return "/".join(parts)


def v1_name(directory: str | None) -> str | None:
    """Return the table name of a V1 directory ``<name>.lance`` at the root, or None."""
    if directory is None or "/" in directory or not directory.endswith(SUFFIX):
        return None
    return directory.removesuffix(SUFFIX)


def overlapping(view: Snapshot, location: str) -> list[Entry]:
    """Return the rows at a plain location, above it or below it, however they spell it."""
    found = {entry.object_id: entry for entry in view.at_location(location)}
    parts = location.split("/")
    for depth in range(1, len(parts)):
        for entry in view.at_location("/".join(parts[:depth])):
            found[entry.object_id] = entry
    for entry in view.unusual_locations():
        if not entry.is_table:
            continue
        # Natives join an absolute location below the root; what climbs out is no neighbour.
        other = normalise((entry.location or "").lstrip("/"))
        if other is not None and (
            other == location
            or other.startswith(location + "/")
            or location.startswith(other + "/")
        ):
            found[entry.object_id] = entry
    return list(found.values())
