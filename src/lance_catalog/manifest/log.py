"""The strict log: read ``__manifest``, and change it one validated version at a time.

A mutation is a function from the snapshot at version N to a :class:`Change`; it lands as N+1 or,
when anything else landed first, is computed again from the newer snapshot. So whatever it checked
(the name is free, the parent is there, the namespace is empty) held at exactly the version it
changed (invariant 1).
"""

from __future__ import annotations

import logging
import random
import threading
import time
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar, cast

import lance
import pyarrow.compute as pc

from lance_catalog.config import DEFAULT_RETENTION_MS
from lance_catalog.errors import ConcurrentModificationError, InternalError, storage_errors
from lance_catalog.failpoints import hit
from lance_catalog.manifest import fairness, upkeep
from lance_catalog.manifest.base import VERSION_TYPE
from lance_catalog.manifest.batcher import Batcher, Ticket, fold
from lance_catalog.manifest.change import Change
from lance_catalog.manifest.heads import Delta, Heads
from lance_catalog.manifest.indexed import IndexedView, PointView
from lance_catalog.manifest.reading import advance, entries_of
from lance_catalog.manifest.schema import COLUMNS, DIRECTORY, check_schema
from lance_catalog.manifest.snapshot import Snapshot
from lance_catalog.manifest.versions import NONE, Latest, VersionFinder
from lance_catalog.manifest.workshop import Workshop
from lance_catalog.manifest.writing import Attempt, Landed
from lance_catalog.model import Entry
from lance_catalog.storage.capabilities import require_put_if_absent
from lance_catalog.storage.manifests import manifest_name
from lance_catalog.storage.port import Store

__all__ = ["ManifestLog", "open_log"]

log = logging.getLogger(__name__)

#: From this many rows on, a first lookup goes through the index; a few later ones too.
_LARGE: Final = 20_000
_GLANCES: Final = 16
#: Seconds for which a look at the latest version is good enough to put the next one on top.
_LOOK_HOLDS: Final = 10.0

T = TypeVar("T")
Plan = Callable[[Snapshot], tuple[Change, T]]


class ManifestLog:
    """The manifest of one root, shared by every namespace object of this process on it."""

    def __init__(self, store: Store, *, keep_ms: int | None = DEFAULT_RETENTION_MS) -> None:
        self.store = store
        self.uri = store.uri_of(DIRECTORY)
        #: What is done after commits; ``keep_ms`` is how long old versions stay whole.
        self.care = upkeep.Upkeep(store, self.uri, keep_ms=keep_ms)
        self._finder = VersionFinder(store, DIRECTORY)
        self._lock = threading.RLock()
        self._batcher = Batcher(self._land, self._upkeep)
        self._snapshot = Snapshot.empty()
        self._latest: Latest = NONE
        #: The highest registered version of tables, where versions are managed.
        self.heads = Heads()
        #: Lance's handle on the catalog: at the latest version, or at one that only commits of
        #: our own lie between, so that its schema is the same.
        self._dataset: Any = None
        self._workshop = Workshop()
        self._stands = NONE
        #: When the last look began: by the wall, which a suspended machine moves too, and by the
        #: clock that never goes back.
        self._looked = self._fresh = 0.0
        self._glances = 0
        self._turn = fairness.Turn(store)
        self._landed = 0
        #: Conflicts seen by commits of this process: race tests must see some.
        self.conflicts = 0

    def snapshot(self, max_age: float = 0.0) -> Snapshot:
        """Return the latest snapshot. One look at the store; reads what changed, if anything.

        A look within the last ``max_age`` seconds will do.
        """
        with self._lock:
            known = self._latest
            if max_age > 0 and known.version and time.monotonic() - self._fresh <= max_age:
                return self._snapshot
        with storage_errors("reading the catalog"):
            looked, fresh = time.time(), time.monotonic()
            latest = self._finder.find(known)
            if latest.version == 0 and self.store.head(DIRECTORY) is not None:
                raise InternalError(
                    f"{self.uri} is a file, not a catalog's manifest. Point root elsewhere, or "
                    "move it away."
                )
        with self._lock:
            self._looked, self._fresh = looked, max(fresh, self._fresh)
            if latest == self._latest:
                return self._snapshot
            if latest.version < self._latest.version and known is not self._latest:
                return self._snapshot  # Another thread has seen a newer one meanwhile.
            self._advance(latest)
            return self._snapshot

    def _advance(self, latest: Latest) -> None:
        if latest.version == 0:
            self._snapshot, self._latest, self._dataset = Snapshot.empty(), latest, None
            self.heads.step(Delta(whole=True))
            return
        replaced = latest.version <= self._latest.version
        old = Snapshot.empty() if replaced else self._snapshot
        before = self._snapshot.table_metadata
        with storage_errors("reading the catalog"):
            dataset = self._open(latest.version)
            self._snapshot, delta = advance(old, dataset, self.uri)
        switched = self._snapshot.table_metadata != before
        self.heads.step(Delta(whole=True) if switched else delta)
        self._dataset, self._latest = dataset, latest

    def _open(self, version: int) -> Any:
        options = dict(self.store.lance_options) or None
        return lance.dataset(self.uri, version=version, storage_options=options)

    def glance(self, max_age: float = 0.0) -> PointView:
        """Return a view for looking up one object: without loading a large catalog just for it.

        A process that goes on looking things up gets the snapshot after a few of them.
        """
        with self._lock:
            loaded = self._snapshot.version > 0 or self._glances >= _GLANCES
        if loaded:
            return self.snapshot(max_age)
        with storage_errors("reading the catalog"):
            latest = self._finder.find(NONE)
            if latest.version == 0:
                return self.snapshot()
            dataset = self._open(latest.version)
            check_schema(dataset.schema, self.uri)
            if dataset.count_rows() < _LARGE or not upkeep.is_indexed(dataset):
                return self.snapshot()
        with self._lock:
            self._glances += 1
        return IndexedView(dataset)

    @property
    def snapshot_version(self) -> int:
        """The version of the snapshot this process has."""
        with self._lock:
            return self._latest.version

    def version_rows(self, view: Snapshot, condition: pc.Expression) -> list[Entry]:
        """Return the rows of table versions that meet a condition, at a snapshot's version.

        Without those that a draft took out; those that it added are in its overlay only.
        """
        if view.version == 0:
            return []
        with storage_errors("reading the catalog"):
            rows = self._opened_at(view.version).scanner(
                columns=list(COLUMNS),
                filter=condition & (pc.field("object_type") == VERSION_TYPE),
                with_row_address=True,
            )
            found = entries_of(rows.to_table())
        return [row for row in found if not any(row.address in gone for gone in view.gone)]

    def dataset(self) -> Any:
        """Return Lance's handle at the latest version, or None when there is no manifest yet."""
        view = self.snapshot()
        return self._opened_at(view.version) if view.version else None

    def opened(self, version: int) -> Any:
        """Return Lance's handle at any version."""
        return self._open(version)

    def _opened_at(self, version: int) -> Any:
        """Return Lance's handle at a version, opened anew unless we have it."""
        with self._lock:
            dataset = self._dataset
        if dataset is None or dataset.version != version:
            with storage_errors("reading the catalog"):
                dataset = self._open(version)
            with self._lock:
                if self._latest.version == version:
                    self._dataset = dataset
        return dataset

    def commit(
        self, plan: Plan[T], *, timeout: float = 30.0, max_conflicts: int | None = None
    ) -> T:
        """Land what ``plan`` makes of the current snapshot, as the very next version.

        ``plan`` may run several times and must not have effects of its own. Raises what it
        raises; 14 when other writers kept winning until the time was up, with nothing written.
        """
        ticket = Ticket(plan, time.monotonic() + timeout, max_conflicts)
        return cast(T, self._batcher.run(ticket))

    def _land(self, batch: list[Ticket]) -> None:
        """Commit a batch; when it returns, every ticket of it is done."""
        with self._turn.taken():
            pause = 0.001
            while batch:
                view = self.snapshot()
                if view.version != self._landed:
                    self._turn.met_another()
                change, members, rest = fold(batch, view)
                if change.table_metadata and view.version == 0:
                    self._attempt(view, Change(initialise=True))
                    continue
                if change.is_empty or self._attempt(view, change):
                    for ticket in members:
                        ticket.done = True
                    batch = rest
                    continue
                self.conflicts += 1
                self._turn.met_another()
                batch = _patient(batch)
                self._turn.wait()
                # Decorrelated jitter: writers that met once do not meet in step again.
                pause = min(0.1, random.uniform(0.001, pause * 3))
                if batch and not self._turn.held:
                    time.sleep(pause)

    def _attempt(self, view: Snapshot, change: Change) -> bool:
        require_put_if_absent(self.store)
        with self._lock:
            latest, dataset = self._latest, self._dataset
        if latest.version != view.version:
            return False
        with storage_errors("writing the catalog"):
            if not self._stand_at(latest):
                return False
            attempt = Attempt(
                self.store,
                self.uri,
                self._workshop,
                lambda exactly: self._opened_at(view.version) if exactly else dataset,
                view,
                latest.naming,
                lambda: abs(time.time() - self._looked) > _LOOK_HOLDS,
            )
            landed = attempt.run(change)
        if landed is None:
            return False
        self._adopt(view, landed, change)
        hit("manifest.acknowledged")
        return True

    def _stand_at(self, latest: Latest) -> bool:
        """Bring the workshop to the latest version; False when that is gone meanwhile."""
        if latest == self._stands:
            return True
        self._stands = NONE
        if latest.version == 0:
            self._workshop.clear()
            return True
        name = manifest_name(latest.version, latest.naming)
        manifest = self.store.get(f"{DIRECTORY}/_versions/{name}")
        if not manifest:
            return False
        self._workshop.load(latest.version, latest.naming, manifest)
        self._stands = latest
        return True

    def _upkeep(self) -> None:
        """Look after indices and old versions; the batch is acknowledged already."""
        with self._lock:
            latest = self._latest
        if latest.version:
            version = latest.version
            opened = partial(self._opened_at, version)
            now = self.care.after_commit(version, opened, latest.naming)
            if version == self._landed:
                # Our own work: no reason to take turns.
                self._landed = now

    def _adopt(self, view: Snapshot, landed: Landed, change: Change) -> None:
        """Take over our own commit without reading it back, if nothing else moved meanwhile."""
        stands = self._workshop.version == landed.latest.version
        self._stands = landed.latest if stands else NONE
        self._landed = landed.latest.version
        with self._lock:
            if self._latest.version != view.version:
                return
            if landed.snapshot is None or self._dataset is None:
                try:
                    dataset = self._open(landed.latest.version)
                    adopted = landed.snapshot or advance(self._snapshot, dataset, self.uri)[0]
                except (OSError, ValueError, RuntimeError) as error:
                    # It has landed, whatever we can read of it now; the next look reads it anew.
                    log.warning("reading back version %s: %s", landed.latest.version, error)
                    return
                self._snapshot, self._dataset = adopted, dataset
            else:
                self._snapshot = landed.snapshot
            self.heads.step(_delta(change))
            self._latest = landed.latest


def _delta(change: Change) -> Delta:
    """Return what one's own commit changed; rows that upkeep moved along did not change."""
    if change.table_metadata:
        return Delta(whole=True)  # Managed versions were switched on or off.
    rows = tuple(entry for entry in change.add if entry.object_type == VERSION_TYPE)
    kept = {entry.object_id for entry in rows}
    gone = tuple(entry.object_id for entry in change.remove if entry.object_id not in kept)
    return Delta(tuple(kept), gone, rows=rows)


def _patient(batch: list[Ticket]) -> list[Ticket]:
    """Return the members that go on after a conflict; the others fail with 14."""
    staying: list[Ticket] = []
    for ticket in batch:
        ticket.conflicts += 1
        if not ticket.gave_up():
            staying.append(ticket)
            continue
        error = ConcurrentModificationError(
            f"other writers changed the catalog {ticket.conflicts} times while this change was "
            "tried; nothing was written. Retry, or raise commit_timeout."
        )
        ticket.finish(error)
    return staying


_logs: weakref.WeakValueDictionary[
    tuple[str, tuple[tuple[str, str], ...], int | None], ManifestLog
] = weakref.WeakValueDictionary()
_logs_lock = threading.Lock()


def open_log(store: Store, *, keep_ms: int | None = DEFAULT_RETENTION_MS) -> ManifestLog:
    """Return the log of a root: one in-memory view per root and process. No I/O."""
    key = (store.uri, tuple(sorted(store.lance_options.items())), keep_ms)
    with _logs_lock:
        found = _logs.get(key)
        if found is None or type(found.store) is not type(store):
            found = ManifestLog(store, keep_ms=keep_ms)
            _logs[key] = found
        return found
