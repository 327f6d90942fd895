"""The one place that deletes table data, and only of hidden tables below the root (invariant 4).

A purge claims first. In the manifest the claim is part of the trash row, so the log decides; in V1
it is a claim file beside the marker. From then on nobody brings the table back; another purge may
take over when this one gives no sign of life, and each step looks whether the claim still counts.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

from lance_catalog.errors import (
    ConcurrentModificationError,
    InvalidTableStateError,
    LanceNamespaceError,
    TableNotFoundError,
    storage_errors,
)
from lance_catalog.failpoints import hit
from lance_catalog.lifecycle import claim_files, markers, trash
from lance_catalog.lifecycle.claim_files import Terms
from lance_catalog.lifecycle.claims import Claim, Verb, new_claim, obstacle
from lance_catalog.lifecycle.locations import normalise, overlapping, v1_name
from lance_catalog.lifecycle.removal import Place, delete_data, tidy
from lance_catalog.lifecycle.states import Hidden, HiddenState
from lance_catalog.lifecycle.trash import TrashRow
from lance_catalog.manifest import Change, ManifestLog, Snapshot
from lance_catalog.model import Entry
from lance_catalog.storage.port import Progress, Store

__all__ = [
    "Purged",
    "check_deletable",
    "claim_row",
    "purge_directory",
    "purge_row",
    "require_own_marker",
]


@dataclass(frozen=True, slots=True)
class Purged:
    """What a purge removed."""

    location: str
    objects: int
    bytes: int


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


def claim_row(view: Snapshot, row: TrashRow, terms: Terms) -> tuple[Change, TrashRow]:
    """Return the change that claims a hidden table for its purge: for a strict commit."""
    current = trash.get(view, row.entry.object_id)
    if current is None:
        raise TableNotFoundError(f"'{row.object_id}' is not in the trash any more")
    what = f"purging '{row.object_id}'"
    why = obstacle(
        current.hidden.claim, Verb.PURGE, terms.now_ms, terms.lease_ms, force=terms.force
    )
    if why is not None:
        raise ConcurrentModificationError(f"{what}: {why}; look again")
    check_deletable(view, current.entry, what)
    claimed = trash.reclaimed(current, new_claim(Verb.PURGE, terms.now_ms, current.hidden.claim))
    remove = view.rows_of(row.entry.object_id)
    return Change(remove, (claimed.entry,), {claimed.entry.object_id: remove[0]}), claimed


def purge_row(
    log: ManifestLog,
    row: TrashRow,
    clock: Callable[[], int],
    *,
    lease_ms: int,
    progress: Progress | None = None,
) -> Purged:
    """Delete the data of a hidden table claimed for it, then its row, then its V1 marker."""
    store, claim = log.store, row.hidden.claim
    assert claim is not None
    drop_id, key, what = row.hidden.drop_id, row.entry.object_id, f"purging '{row.object_id}'"
    held = claim

    def fence() -> None:
        nonlocal held
        _own(log.snapshot(), key, held)
        if clock() - held.at_ms >= lease_ms // 2:
            held = held.renewed(clock())
            log.commit(lambda view: _renew(view, key, held))

    def revoke(view: Snapshot) -> tuple[Change, None]:
        current = _own(view, key, held)
        freed = trash.reclaimed(current, None)
        return Change(view.rows_of(key), (freed.entry,), {key: current.entry}), None

    hit("purge.claimed")
    fence()
    location = check_deletable(log.snapshot(), row.entry, what)
    name = v1_name(location)
    # Creations that are refused look, under the lock, whose files they remove.
    lock = store.exclusive if name is not None else nullcontext

    def begin() -> None:
        if name is not None:
            # Hidden first from those who look at directories, had a crash left it to be seen.
            fence()
            store.put_if_absent(markers.marker_path(name), row.hidden.body())
        try:
            require_own_marker(store, row)
        except LanceNamespaceError:
            if held.number == 0:
                log.commit(revoke)
            raise

    count = delete_data(
        store,
        Place(location, drop_id, held.number > 0, lock, begin),
        fence,
        lambda: log.commit(revoke),
        progress,
        what,
    )
    hit("purge.deleted")
    fence()
    closed = store.remote and held.number > 0 and name is not None
    with storage_errors(what):
        if closed and name is not None:
            # Somebody was overtaken and may sleep with a request in hand: the name stays closed.
            store.put(markers.marker_path(name), _closed(row.hidden, clock()).body())

    def forget(now: Snapshot) -> tuple[Change, None]:
        # Whoever took over may be deleting still, and closes the name when it ends.
        _own(now, key, held)
        return Change(remove=now.rows_of(key)), None

    log.commit(forget)
    hit("purge.finished")
    with storage_errors(what):
        if name is not None and not closed:
            with lock():
                markers.remove_own(store, name, row.hidden)
        tidy(store, drop_id)
    return Purged(location, count.objects, count.bytes)


def require_own_marker(store: Store, row: TrashRow) -> None:
    """Raise 19 when somebody who does not read the manifest hid the place for their own reasons."""
    place = row.entry.location or ""
    name = v1_name(place)
    if name is None:
        return
    body = store.get(markers.marker_path(name))
    present = row.hidden if body is None else Hidden.from_body(body, name)
    if present.state in (HiddenState.DROPPED, HiddenState.CREATING, HiddenState.PURGED):
        return
    if present.drop_id != row.hidden.drop_id:
        raise InvalidTableStateError(
            f"purging '{row.object_id}': {markers.marker_path(name)} says {present.state.value}, "
            "written by somebody who does not read the manifest, so nothing is deleted. "
            f"`lance-catalog trash undrop {row.object_id}` brings the table back for everybody; "
            "drop it again if it should go."
        )


def _own(view: Snapshot, key: str, held: Claim) -> TrashRow:
    """Return a hidden table whose claim is still ours; 14 when another process has it."""
    current = trash.get(view, key)
    if current is None or current.hidden.claim is None:
        raise _overtaken(key)
    if current.hidden.claim.holder != held.holder:
        raise _overtaken(key)
    return current


def _renew(view: Snapshot, key: str, claim: Claim) -> tuple[Change, None]:
    current = _own(view, key, claim)
    fresh = trash.reclaimed(current, claim)
    return Change(view.rows_of(key), (fresh.entry,), {key: current.entry}), None


def purge_directory(
    store: Store,
    name: str,
    directory: str,
    hidden: Hidden,
    clock: Callable[[], int],
    *,
    terms: Terms,
    progress: Progress | None = None,
    guard: Callable[[], None] = lambda: None,
) -> Purged:
    """Delete the data of a hidden V1 table and its markers.

    ``guard`` raises when the place became another's, by a row: asked under the claim.
    """
    what = f"purging '{name}'"
    drop_id = hidden.drop_id
    with storage_errors(what):
        held = markers.claim(store, name, directory, hidden, Verb.PURGE, terms)

    def fence() -> None:
        nonlocal held
        if not claim_files.holds(store, name, drop_id, held):
            raise _overtaken(name)
        if clock() - held.at_ms >= terms.lease_ms // 2:
            held = claim_files.renew(store, name, drop_id, held, clock())

    def begin() -> None:
        # Whoever was overtaken by us may still have ended the hiding, and the place be used again.
        now = markers.read(store, name, directory)
        if now is None or (now.drop_id, now.state) != (drop_id, hidden.state):
            raise _overtaken(name)
        try:
            guard()
        except LanceNamespaceError:
            claim_files.give_back(store, name, drop_id, held)
            raise

    hit("purge.claimed")
    count = delete_data(
        store,
        Place(directory, drop_id, held.number > 0, store.exclusive, begin),
        fence,
        lambda: claim_files.give_back(store, name, drop_id, held),
        progress,
        what,
    )
    hit("purge.deleted")
    with storage_errors(what):
        fence()
        with store.exclusive():
            if not store.remote:
                if not markers.remove_own(store, name, hidden):
                    raise _overtaken(name)
            else:
                # Closed, then a look who claimed before: whoever claims after finds it closed.
                closed = _closed(hidden, clock())
                store.put(markers.marker_path(name), closed.body())
                if held.number == 0 and claim_files.holds(store, name, drop_id, held):
                    markers.remove_own(store, name, closed)
        hit("purge.finished")
        tidy(store, drop_id)
        claim_files.clear(store, name, drop_id)
    return Purged(directory, count.objects, count.bytes)


def _closed(hidden: Hidden, now_ms: int) -> Hidden:
    """Return what keeps a name closed: not the drop itself, which the overtaken may still end."""
    return Hidden(f"{hidden.drop_id}-closed", HiddenState.PURGED, now_ms)


def _overtaken(what: str) -> ConcurrentModificationError:
    return ConcurrentModificationError(
        f"purging '{what}': another process has taken over, or finished it; look again"
    )
