"""Taking the files of one table away: moved aside and deleted on a disk, in batches on a store."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from lance_catalog.errors import LanceNamespaceError, PermissionDeniedError, storage_errors
from lance_catalog.failpoints import hit
from lance_catalog.identifiers import TRASH
from lance_catalog.lifecycle.deleting import Count, delete_below, measure
from lance_catalog.storage.port import Progress, Store

__all__ = ["Place", "aside_path", "delete_data", "tidy"]


def aside_path(drop_id: str) -> str:
    """Return where a directory goes before its files are deleted, on disks that can move it.

    It stays, emptied, until the hiding itself is gone: while it is there, a purge that is run
    again knows that the table's place is not its business any more.
    """
    return f"{TRASH}/{drop_id}/data"


@dataclass(frozen=True, slots=True)
class Place:
    """What to delete, and how: by whom before, under which lock."""

    location: str
    drop_id: str
    #: Whether another purge began before this one: then what it deleted is not known.
    resumed: bool
    lock: Callable[[], AbstractContextManager[None]]
    #: Asked once more right before the first byte goes.
    begin: Callable[[], None] = lambda: None


def delete_data(
    store: Store,
    place: Place,
    fence: Callable[[], None],
    revoke: Callable[[], object],
    progress: Progress | None,
    what: str,
) -> Count:
    """Delete a table's files; without a right to, tell whether it can still come back (R4)."""
    count = Count()
    try:
        with storage_errors(what):
            _delete_files(store, place, fence, count, progress)
    except PermissionDeniedError as error:
        if place.resumed or not _is_whole(store, place, count):
            raise PermissionDeniedError(
                f"{error} Some of its objects are deleted already, so the table cannot be "
                "restored; purge it again with the rights to delete."
            ) from error
        with storage_errors(what):
            _move_back(store, place)
            revoke()
        raise PermissionDeniedError(
            f"{error} Nothing was deleted, and the table can still be restored."
        ) from error
    return count


def _is_whole(store: Store, place: Place, count: Count) -> bool:
    """Whether a refused deletion deleted nothing: a store may have taken a part of a request."""
    if count.objects:
        return False
    try:
        return not store.remote or measure(store, place.location).objects == count.found
    except LanceNamespaceError:
        return False


def _delete_files(
    store: Store,
    place: Place,
    fence: Callable[[], None],
    count: Count,
    progress: Progress | None,
) -> None:
    aside = aside_path(place.drop_id)
    if store.remote:
        place.begin()
        delete_below(store, place.location, fence, count, progress)
        return
    hit("purge.before_move")
    if not _is_aside(store, place.drop_id):
        with place.lock():
            # Looked at under the lock: whoever slept here and was overtaken touches nothing.
            fence()
            if not _is_aside(store, place.drop_id):
                place.begin()
                store.move_aside(place.location, aside)
    hit("purge.moved_aside")

    def told(objects: int, size: int) -> None:
        hit("purge.batch")
        count.objects, count.bytes = objects, size
        if progress is not None:
            progress(objects, size)

    store.delete_tree(aside, told, keep=True)


def _move_back(store: Store, place: Place) -> None:
    if not store.remote and _is_aside(store, place.drop_id):
        with place.lock():
            store.move_aside(aside_path(place.drop_id), place.location)
        tidy(store, place.drop_id)


def _is_aside(store: Store, drop_id: str) -> bool:
    return "data" in store.list_level(f"{TRASH}/{drop_id}").folders


def tidy(store: Store, drop_id: str) -> None:
    """Remove the folder a table was moved to, once its hiding is gone."""
    if store.remote:
        return
    store.delete_tree(f"{TRASH}/{drop_id}")
    store.prune(TRASH)
