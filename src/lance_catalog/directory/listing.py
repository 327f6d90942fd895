"""V1: tables are the directories ``<name>.lance`` that hold a file and carry no marker."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Final

from lance_catalog.errors import storage_errors
from lance_catalog.lifecycle import markers
from lance_catalog.lifecycle.locations import SUFFIX, v1_name
from lance_catalog.storage.port import Store

__all__ = ["exists", "is_component", "list_names", "occupied"]

_PARALLEL: Final = 16
_WHAT: Final = "listing the root"


def is_component(name: str) -> bool:
    """Whether a name can be a directory at all: lookups of others touch nothing."""
    if name in ("", ".", "..") or any(char in name for char in "/\0"):
        return False
    # A lone surrogate has no bytes: no request, no row and no store can carry it.
    return not any("\ud800" <= char <= "\udfff" for char in name)


def occupied(store: Store, directory: str) -> bool:
    """Whether anything lies below a directory, hidden or not (C02)."""
    with storage_errors(_WHAT):
        return store.any_object(directory)


def exists(store: Store, name: str) -> bool:
    """Whether the directory of a V1 table is there and visible."""
    if not is_component(name):
        return False
    directory = name + SUFFIX
    with storage_errors(_WHAT):
        return store.any_object(directory) and not markers.is_hidden(store, name, directory)


def list_names(store: Store) -> list[str]:
    """Return the names of the visible V1 tables, sorted: one listing, one probe per table."""
    with storage_errors(_WHAT):
        level = store.list_level()
        hidden = {
            info.path.removesuffix(markers.SUFFIX)
            for info in level.objects
            if info.path.endswith(markers.SUFFIX)
        }
        names = [
            name
            for folder in level.folders
            if (name := v1_name(folder)) is not None and name not in hidden and is_component(name)
        ]

        def visible(name: str) -> bool:
            return _holds_table(store, name + SUFFIX)

        if store.remote and len(names) > 1:
            with ThreadPoolExecutor(_PARALLEL) as pool:
                found = list(pool.map(visible, names))
        else:
            found = [visible(name) for name in names]
    return sorted(name for name, keep in zip(names, found, strict=True) if keep)


def _holds_table(store: Store, directory: str) -> bool:
    """Whether a directory holds a file and no nested marker: usually one look is enough."""
    level = store.list_level(directory)
    names = {info.path.rsplit("/", 1)[-1] for info in level.objects}
    if markers.NESTED in names:
        return False
    return bool(names) or any(store.any_object(f"{directory}/{part}") for part in level.folders)
