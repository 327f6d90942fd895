"""Which jobs are writing to a table: how files that a killed worker left are known for what they
are.

Lance gives data files names of its own, and a worker that is killed tells nobody which it had
begun. So a job leaves a record beside the table before it writes and takes it away after it is
done; while it runs it renews it. Where a record was not renewed for long, its job is dead, and what
was written since it began and no version names is nobody's.
"""

from __future__ import annotations

import contextlib
import json
import threading
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from lance_catalog.directory.job_ids import FOLDER
from lance_catalog.errors import ConcurrentModificationError, LanceNamespaceError, storage_errors
from lance_catalog.manifest import gated
from lance_catalog.storage.manifests import newest_versions
from lance_catalog.storage.port import ObjectInfo, Store
from lance_catalog.versions.contents import contents_of

__all__ = ["RENEWED_EVERY", "Running", "begin", "left_behind", "records", "resume", "strays"]

#: Seconds; a check takes an hour without a sign for death.
RENEWED_EVERY: Final = 300.0


@dataclass
class Running:
    """The record of a job that writes to a table; renewed on a thread of its own."""

    store: Store
    place: str
    path: str
    body: dict[str, Any]
    _stopped: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    @property
    def tasks(self) -> str:
        """Where the tasks of the job leave what they have to tell."""
        return f"{self.place}/{FOLDER}/tasks/{self.path.rsplit('/', 1)[-1].removesuffix('.json')}"

    def _renew(self) -> None:
        while not self._stopped.wait(RENEWED_EVERY):
            # Missed once it is renewed the next time; gone, the commit will find out.
            with contextlib.suppress(OSError, LanceNamespaceError):
                if self.store.head(self.path) is not None:
                    self._put()

    def _put(self) -> None:
        self.store.put(self.path, json.dumps(self.body).encode())

    def require(self) -> None:
        """Raise 14 when a repair took the job for dead: its files may be gone with the record."""
        with storage_errors(f"looking for the record of the job at {self.place}"):
            gone = self.store.head(self.path) is None
        if gone:
            raise ConcurrentModificationError(
                f"a repair took this job for dead, because its record {self.path} was not renewed "
                "for longer than the grace period, and removed what it had written. Run it again."
            )

    def stop(self) -> None:
        """Renew no more; the record stays for `lance-catalog check`."""
        self._stopped.set()

    def end(self) -> None:
        """Take the record away: the job left nothing behind."""
        self.stop()
        with storage_errors(f"ending the record of the job at {self.place}"):
            self.store.delete_tree(self.tasks)
            self.store.prune(self.tasks.rpartition("/")[0])
            self.store.delete([self.path])
            self.store.prune(self.path.rpartition("/")[0])


def begin(store: Store, place: str, job_id: str) -> Running:
    """Leave the record of a job that begins to write at a place."""
    path = f"{place}/{FOLDER}/running/{uuid.uuid4().hex}.json"
    with storage_errors(f"leaving the record of a job at {place}"):
        running = Running(store, place, path, {"job": job_id})
        running._put()
        info = store.head(path)
        # The store's clock, by which its files are dated.
        running.body["started_ms"] = 0 if info is None else info.modified_ms
        running._put()
    thread = threading.Thread(target=running._renew, name="lance-catalog job", daemon=True)
    running._thread = thread
    thread.start()
    return running


def resume(store: Store, place: str, path: str) -> Running:
    """Return the record of a job that another process began; nobody renews it here."""
    return Running(store, place, path, {})


def records(store: Store, place: str) -> list[ObjectInfo]:
    """Return the records of jobs at a place."""
    return store.list_level(f"{place}/{FOLDER}/running").objects


def left_behind(
    store: Store, place: str, older_than_ms: int, needed: Iterable[str] = ()
) -> list[str]:
    """Return the records of dead jobs at a table's place and the files that they left.

    Nothing while one of its jobs lives. ``needed`` are staged manifests of registered versions.
    The records come first: a job that only slept looks for its own before it commits.
    """
    found = records(store, place)
    if not found or any(info.modified_ms > older_than_ms for info in found):
        return []
    began = min(_started(store, info) for info in found)
    told = [info.path for info in store.list_tree(f"{place}/{FOLDER}/tasks")]
    lost = _unnamed(store, place, began, older_than_ms, needed)
    return [*(info.path for info in found), *told, *lost]


def strays(store: Store, place: str, running: Running) -> list[str]:
    """Return files that came since a job began and that no version names, whoever's they are."""
    info = store.head(running.path)
    return [] if info is None else _unnamed(store, place, _started(store, info))


def _unnamed(
    store: Store,
    place: str,
    began: int,
    older_than_ms: int | None = None,
    needed: Iterable[str] = (),
) -> list[str]:
    candidates = [
        info.path
        for folder in ("data", "_deletions")
        for info in store.list_tree(f"{place}/{folder}")
        if began <= info.modified_ms
        and (older_than_ms is None or info.modified_ms <= older_than_ms)
    ]
    named = _named(store, place, needed) if candidates else set()
    return [path for path in candidates if path not in named]


def _started(store: Store, info: ObjectInfo) -> int:
    try:
        return int(json.loads(store.get(info.path) or b"{}")["started_ms"])
    except (ValueError, KeyError, TypeError):
        return info.modified_ms  # Died between its two puts: it had not begun to write.


def _named(store: Store, place: str, needed: Iterable[str]) -> set[str]:
    """Return the files that any version names, those of staged manifests that count included."""
    named: set[str] = set()
    if newest_versions(store, place):
        told = gated.latest(store, place).tracked_files().read_all()
        named.update(f"{place}/{path}" for path in told["path"].to_pylist())
    for staged in needed:
        body = store.get(staged) if staged.startswith(f"{place}/_versions/") else None
        if body:
            named.update(f"{place}/{path}" for path in contents_of(body, 1).files)
    return named
