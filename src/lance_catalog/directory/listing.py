"""V1: tables are the directories ``<name>.lance`` that hold a file and carry no marker.

Local disk is always looked at exactly, and so is an object store, a request per table, unless the
root carries the layout flag (R7): then the listing of the root alone tells, by names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lance_catalog.directory.layout import RESERVED
from lance_catalog.directory.layout_flag import FLAG
from lance_catalog.errors import storage_errors
from lance_catalog.lifecycle import markers
from lance_catalog.lifecycle.locations import SUFFIX
from lance_catalog.storage.port import Content, Names, Store

__all__ = [
    "Scan",
    "exists",
    "hidden_names",
    "is_component",
    "list_names",
    "marked_names",
    "occupied",
    "scan",
]

_WHAT: Final = "listing the root"
#: What a table with data holds, and what one that is only declared does.
_LIKELY: Final = ("_versions/latest_version_hint.json", RESERVED)


@dataclass(frozen=True, slots=True)
class Scan:
    """What an exact look at the root shows of its table directories, each part sorted."""

    visible: list[str]
    #: Hidden by the nested marker alone, which only a look into each directory finds.
    nested: list[str]
    #: Whether there is any table directory, hidden ones included.
    any_table: bool
    #: Whether the layout flag is there.
    flagged: bool


def is_component(name: str) -> bool:
    """Whether a name can be a directory at all: lookups of others touch nothing."""
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        return False
    # A lone surrogate has no bytes: no request, no row and no store can carry it.
    return name.isascii() or not any("\ud800" <= char <= "\udfff" for char in name)


def occupied(store: Store, directory: str) -> bool:
    """Whether anything lies below a directory, hidden or not (C02)."""
    with storage_errors(_WHAT):
        return store.any_object(directory)


def exists(store: Store, name: str) -> bool:
    """Whether the directory of a V1 table is there and visible: exact, flag or not."""
    if not is_component(name):
        return False
    directory = name + SUFFIX
    with storage_errors(_WHAT):
        return store.any_object(directory) and not markers.is_hidden(store, name, directory)


def list_names(store: Store) -> list[str]:
    """Return the names of the visible V1 tables, sorted."""
    with storage_errors(_WHAT):
        root = store.list_root()
        if store.remote and FLAG in root.objects:
            # Nothing but names: every marker of ours is there, and a folder holds an object.
            return sorted(_unmarked(root))
        return _look(store, root).visible


def scan(store: Store) -> Scan:
    """Look at every table directory, flag or not: what a migration has to know."""
    with storage_errors(_WHAT):
        return _look(store, store.list_root())


def hidden_names(store: Store) -> list[str]:
    """Return the names of the table directories that either marker hides, sorted: exact."""
    with storage_errors(_WHAT):
        root = store.list_root()
        folders = set(root.folders)
        names = (p[: -len(markers.SUFFIX)] for p in root.objects if p.endswith(markers.SUFFIX))
        marked = [name for name in names if name + SUFFIX in folders]
        return sorted([*marked, *_look(store, root).nested])


def marked_names(store: Store) -> list[str]:
    """Return the names that have a root-level marker, sorted: one listing."""
    with storage_errors(_WHAT):
        found = store.list_root().objects
    names = (path[: -len(markers.SUFFIX)] for path in found if path.endswith(markers.SUFFIX))
    return sorted(name for name in names if is_component(name))


def _look(store: Store, root: Names) -> Scan:
    names = _unmarked(root)
    names.sort()
    found = store.look_into([name + SUFFIX for name in names], markers.NESTED, _LIKELY)
    pairs = list(zip(names, found, strict=True))
    return Scan(
        [name for name, content in pairs if content is Content.FILES],
        [name for name, content in pairs if content is Content.MARKED],
        any(folder.endswith(SUFFIX) for folder in root.folders),
        FLAG in root.objects,
    )


def _unmarked(root: Names) -> list[str]:
    """Return the names of the table directories without a root-level marker."""
    end = -len(markers.SUFFIX)
    hidden = {path[:end] for path in root.objects if path.endswith(markers.SUFFIX)}
    end = -len(SUFFIX)
    names = [folder[:end] for folder in root.folders if folder.endswith(SUFFIX)]
    return [name for name in names if name not in hidden and is_component(name)]
