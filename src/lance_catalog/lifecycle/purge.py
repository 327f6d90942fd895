"""The one place that deletes table data, and only of hidden tables below the root (invariant 4)."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

from lance_catalog.errors import InvalidTableStateError, TableNotFoundError, storage_errors
from lance_catalog.failpoints import hit
from lance_catalog.identifiers import TRASH
from lance_catalog.lifecycle import markers, trash
from lance_catalog.lifecycle.locations import normalise, overlapping, v1_name
from lance_catalog.lifecycle.states import Hidden, HiddenState
from lance_catalog.lifecycle.trash import TrashRow
from lance_catalog.manifest import Change, ManifestLog, Snapshot
from lance_catalog.model import Entry
from lance_catalog.storage.port import Progress, Store

__all__ = ["Purged", "aside_path", "check_deletable", "purge_directory", "purge_row"]


@dataclass(frozen=True, slots=True)
class Purged:
    """What a purge removed."""

    location: str
    objects: int


def aside_path(drop_id: str) -> str:
    """Return where a directory goes before its files are deleted, on disks that can move it.

    It stays, emptied, until the hiding itself is gone: while it is there, a purge that is run
    again knows that the table's place is not its business any more.
    """
    return f"{TRASH}/{drop_id}/data"


def check_deletable(view: Snapshot, entry: Entry, what: str) -> str:
    """Return the plain location of a row whose data may go; 19 when it is not its own alone."""
    location = normalise(entry.location)
    if location is None:
        raise InvalidTableStateError(
            f"{what}: its location {entry.location!r} is not a folder of its own below the root, "
            "so nothing may be deleted there. deregister_table removes the entry and touches "
            "no data."
        )
    own = {entry.object_id, *(row.entry.object_id for row in trash.superseded(view, entry))}
    others = [row for row in overlapping(view, location) if row.object_id not in own]
    if others:
        raise InvalidTableStateError(
            f"{what}: '{others[0].object_id}' uses the same place ({location}), so its data would "
            "be lost. deregister_table removes the entry and touches no data."
        )
    return location


def purge_row(log: ManifestLog, row: TrashRow, progress: Progress | None = None) -> Purged:
    """Delete the data of a hidden table, then its row, then its V1 marker. Runs again."""
    store = log.store
    drop_id = row.hidden.drop_id
    view = log.snapshot()
    current = view.get(row.entry.object_id)
    if current is None:
        raise TableNotFoundError(f"'{row.object_id}' is not in the trash any more")
    aside = aside_path(drop_id)
    what = f"purging '{row.object_id}'"
    hit("purge.claimed")
    with storage_errors(what):
        location = normalise(current.location) or ""
        if not _is_aside(store, drop_id):
            location = check_deletable(view, current, what)
            # Creations that are refused look, under the lock, whose files they remove.
            with store.exclusive() if v1_name(location) is not None else nullcontext():
                store.move_aside(location, aside)
        hit("purge.moved_aside")
        count = _delete(store, location, aside, progress)
        hit("purge.deleted")

    def forget(now: Snapshot) -> tuple[Change, None]:
        return Change(remove=now.rows_of(row.entry.object_id)), None

    log.commit(forget)
    hit("purge.finished")
    with storage_errors(what):
        name = v1_name(location)
        if name is not None:
            _unmark(store, name, drop_id)
        store.delete_tree(f"{TRASH}/{drop_id}")
        store.prune(TRASH)
    return Purged(location, count)


def purge_directory(
    store: Store,
    name: str,
    directory: str,
    hidden: Hidden,
    *,
    resume: bool = False,
    progress: Progress | None = None,
) -> Purged:
    """Delete the data of a hidden V1 table and its markers. ``resume`` is for repair."""
    what = f"purging '{name}'"
    with storage_errors(what):
        markers.claim(store, name, hidden, "purge", resume=resume)
        hit("purge.claimed")
        aside = aside_path(hidden.drop_id)
        # Check, move and unmark under one lock: whoever slept here finds another drop id, or no
        # marker, and touches nothing.
        with store.exclusive():
            body = store.get(markers.marker_path(name))
            mine = body is not None and Hidden.from_body(body, name).drop_id == hidden.drop_id
            if mine and not _is_aside(store, hidden.drop_id):
                moved = store.move_aside(directory, aside)
                hit("purge.moved_aside")
                if moved is not None:
                    store.delete([markers.marker_path(name)])
        if not mine and not _is_aside(store, hidden.drop_id):
            markers.release(store, name, hidden)
            raise TableNotFoundError(f"'{name}' is not in the trash any more")
        count = _delete(store, directory, aside, progress)
        hit("purge.deleted")
        with store.exclusive():
            _unmark(store, name, hidden.drop_id)
        hit("purge.finished")
        store.delete_tree(f"{TRASH}/{hidden.drop_id}")
        store.prune(TRASH)
        markers.release(store, name, hidden)
    return Purged(directory, count)


def _is_aside(store: Store, drop_id: str) -> bool:
    return "data" in store.list_level(f"{TRASH}/{drop_id}").folders


def _delete(store: Store, location: str, aside: str, progress: Progress | None) -> int:
    if store.remote:
        return store.delete_tree(location, progress)
    return store.delete_tree(aside, progress, keep=True)


def _unmark(store: Store, name: str, drop_id: str) -> None:
    body = store.get(markers.marker_path(name))
    if body is not None and Hidden.from_body(body, name).drop_id == drop_id:
        store.delete([markers.marker_path(name)])


def is_purging(hidden: Hidden) -> bool:
    """Whether a hiding can only end in deletion."""
    return hidden.state is HiddenState.PURGING
