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
from typing import Any, Final, TypeVar

import lance

from lance_catalog.config import DEFAULT_RETENTION_MS
from lance_catalog.errors import ConcurrentModificationError, InternalError, storage_errors
from lance_catalog.failpoints import hit
from lance_catalog.manifest import fairness, upkeep
from lance_catalog.manifest.batcher import Batcher, Ticket, fold
from lance_catalog.manifest.change import Change
from lance_catalog.manifest.indexed import IndexedView, PointView
from lance_catalog.manifest.reading import advance
from lance_catalog.manifest.schema import DIRECTORY, check_schema
from lance_catalog.manifest.snapshot import Snapshot
from lance_catalog.manifest.versions import NONE, Latest, VersionFinder
from lance_catalog.manifest.writing import Attempt, Landed
from lance_catalog.storage.capabilities import require_put_if_absent
from lance_catalog.storage.port import Store

__all__ = ["ManifestLog", "open_log"]

log = logging.getLogger(__name__)

#: From this many rows on, a first lookup goes through the index; a few later ones too.
_LARGE: Final = 20_000
_GLANCES: Final = 16

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
        self._dataset: Any = None
        self._glances = 0
        #: Conflicts seen by commits of this process: race tests must see some.
        self.conflicts = 0

    def snapshot(self) -> Snapshot:
        """Return the latest snapshot. One look at the store; reads what changed, if anything."""
        with self._lock:
            known = self._latest
        with storage_errors("reading the catalog"):
            latest = self._finder.find(known)
            if latest.version == 0 and self.store.head(DIRECTORY) is not None:
                raise InternalError(
                    f"{self.uri} is a file, not a catalog's manifest. Point root elsewhere, or "
                    "move it away."
                )
        with self._lock:
            if latest == self._latest:
                return self._snapshot
            if latest.version < self._latest.version and known is not self._latest:
                return self._snapshot  # Another thread has seen a newer one meanwhile.
            self._advance(latest)
            return self._snapshot

    def _advance(self, latest: Latest) -> None:
        if latest.version == 0:
            self._snapshot, self._latest, self._dataset = Snapshot.empty(), latest, None
            return
        replaced = latest.version <= self._latest.version
        old = Snapshot.empty() if replaced else self._snapshot
        with storage_errors("reading the catalog"):
            dataset = self._open(latest.version)
            self._snapshot = advance(old, dataset, self.uri)
        self._dataset, self._latest = dataset, latest

    def _open(self, version: int) -> Any:
        options = dict(self.store.lance_options) or None
        return lance.dataset(self.uri, version=version, storage_options=options)

    def glance(self) -> PointView:
        """Return a view for looking up one object: without loading a large catalog just for it.

        A process that goes on looking things up gets the snapshot after a few of them.
        """
        with self._lock:
            loaded = self._snapshot.version > 0 or self._glances >= _GLANCES
        if loaded:
            return self.snapshot()
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

    def dataset(self) -> Any:
        """Return Lance's handle at the latest version, or None when there is no manifest yet."""
        self.snapshot()
        with self._lock:
            return self._dataset

    def commit(
        self, plan: Plan[T], *, timeout: float = 30.0, max_conflicts: int | None = None
    ) -> T:
        """Land what ``plan`` makes of the current snapshot, as the very next version.

        ``plan`` may run several times and must not have effects of its own. Raises what it
        raises; 14 when other writers kept winning until the time was up, with nothing written.
        """
        return self._batcher.run(Ticket(plan, time.monotonic() + timeout, max_conflicts))  # type: ignore[no-any-return]

    def _land(self, batch: list[Ticket]) -> None:
        """Commit a batch; when it returns, every ticket of it is done."""
        pause = 0.001
        turn = fairness.Turn(self.store)
        try:
            while batch:
                view = self.snapshot()
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
                batch = _patient(batch)
                turn.wait()
                # Decorrelated jitter: writers that met once do not meet in step again.
                pause = min(0.1, random.uniform(0.001, pause * 3))
                if batch and not turn.held:
                    time.sleep(pause)
        finally:
            turn.end()

    def _attempt(self, view: Snapshot, change: Change) -> bool:
        require_put_if_absent(self.store)
        with self._lock:
            dataset = self._dataset if self._latest.version == view.version else None
            naming = self._latest.naming
        if view.version and dataset is None:
            return False
        attempt = Attempt(self.store, self.uri, dataset, view, naming)
        with storage_errors("writing the catalog"):
            landed = attempt.run(change)
        if landed is None:
            return False
        self._adopt(view, landed)
        hit("manifest.acknowledged")
        return True

    def _upkeep(self) -> None:
        """Look after indices and old versions; the batch is acknowledged already."""
        with self._lock:
            dataset, naming = self._dataset, self._latest.naming
        if dataset is not None:
            self.care.after_commit(dataset, naming)

    def _adopt(self, view: Snapshot, landed: Landed) -> None:
        """Take over our own commit without reading it back, if nothing else moved meanwhile."""
        with self._lock:
            if self._latest.version != view.version:
                return
            if landed.snapshot is not None:
                self._snapshot = landed.snapshot
            else:
                self._snapshot = advance(self._snapshot, landed.dataset, self.uri)
            self._dataset = landed.dataset
            self._latest = Latest(landed.dataset.version, landed.naming, landed.e_tag)


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
        ticket.finish(None, error)
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
