"""Which jobs are writing to a table: how files that a killed worker left are known for what they
are.

Lance gives data files names of its own, and a worker that is killed tells nobody which it had
begun. So a job leaves a record beside the table before it writes and takes it away after it is
done; while it runs it renews it. Where a record was not renewed for long, its job is dead, and the
files that its tasks told of are nobody's. Of others that came since it began and that no version
names it is not known whose they are: a writer that knows nothing of records may be at work. These
are nobody's only after as long as Lance itself would wait.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from lance_catalog.directory.job_ids import FOLDER
from lance_catalog.errors import ConcurrentModificationError, LanceNamespaceError, storage_errors
from lance_catalog.manifest import gated
from lance_catalog.storage.manifests import newest_versions
from lance_catalog.storage.port import ObjectInfo, Store
from lance_catalog.versions.contents import contents_of

__all__ = [
    "RENEWED_EVERY",
    "Running",
    "alive",
    "begin",
    "left_behind",
    "records",
    "remove",
    "resume",
    "strays",
]

#: Seconds; a check takes an hour without a sign for death.
RENEWED_EVERY: Final = 300.0
_PARALLEL: Final = 16


@dataclass
class Running:
    """The record of a job that writes to a table; renewed on a thread of its own."""

    store: Store
    place: str
    path: str
    _stopped: threading.Event = field(default_factory=threading.Event)

    @property
    def tasks(self) -> str:
        """Where the tasks of the job leave what they have to tell."""
        return f"{self.place}/{FOLDER}/tasks/{self.path.rsplit('/', 1)[-1].removesuffix('.json')}"

    def _renew(self) -> None:
        while not self._stopped.wait(RENEWED_EVERY):
            # Missed once it is renewed the next time; gone, the commit will find out.
            with contextlib.suppress(OSError, LanceNamespaceError):
                self.touch()

    def touch(self) -> None:
        """Renew the record, if it is there."""
        body = self.store.get(self.path)
        if body is not None:
            self.store.put(self.path, body)

    def start(self) -> None:
        """Renew the record from now on."""
        threading.Thread(target=self._renew, name="lance-catalog job", daemon=True).start()

    def require(self, files: Sequence[str] = ()) -> None:
        """Raise 14 when a repair took the job for dead: its files may be gone with the record.

        Of a job that took its time the files are looked for too, whoever may have removed them: a
        version without its data would be worse.
        """
        with storage_errors(f"looking for the record of the job at {self.place}"):
            body = self.store.get(self.path)
            if body is None:
                raise ConcurrentModificationError(
                    f"a repair took this job for dead, because its record {self.path} was not "
                    "renewed for longer than the grace period, and removed what it had written. "
                    "Run it again."
                )
            if time.time() * 1000 - _started_ms(body, 0) > RENEWED_EVERY * 1000:
                with ThreadPoolExecutor(_PARALLEL) as pool:
                    infos = list(pool.map(self.store.head, files))
                gone = [path for path, info in zip(files, infos, strict=True) if info is None]
                if gone:
                    raise ConcurrentModificationError(
                        f"{len(gone)} files that this job wrote are gone, as {gone[0]}: a repair "
                        "or a cleanup that takes unfinished files has removed them. Run it again."
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
        running = Running(store, place, path)
        store.put(path, json.dumps({"job": job_id}).encode())
        info = store.head(path)
        # The store's clock, by which its files are dated.
        started = 0 if info is None else info.modified_ms
        store.put(path, json.dumps({"job": job_id, "started_ms": started}).encode())
    running.start()
    return running


def resume(store: Store, place: str, path: str) -> Running:
    """Return the record of a job that another process began; nobody renews it here."""
    return Running(store, place, path)


@contextlib.contextmanager
def alive(running: Running) -> Iterator[None]:
    """Renew a record that another process began while a task of the job runs; 14 without one."""
    running.require()
    with storage_errors(f"renewing the record of the job at {running.place}"):
        info = running.store.head(running.path)
        # Many short tasks are a long job, too.
        if info is not None and time.time() * 1000 - info.modified_ms > RENEWED_EVERY * 1000:
            running.touch()
    running.start()
    try:
        yield
    finally:
        running.stop()


def records(store: Store, place: str) -> list[ObjectInfo]:
    """Return the records of jobs at a place."""
    return store.list_level(f"{place}/{FOLDER}/running").objects


def left_behind(
    store: Store,
    place: str,
    older_than_ms: int,
    unknown_before_ms: int,
    needed: Iterable[str] = (),
) -> list[str]:
    """Return the records of dead jobs at a table's place and the files that they left.

    Nothing while one of its jobs lives. ``needed`` are staged manifests of registered versions.
    The records come first: a job that only slept looks for its own before it commits. They stay
    while there are files of which it is not known yet that nobody is at them.
    """
    found = records(store, place)
    if not found or any(info.modified_ms > older_than_ms for info in found):
        return []
    began = min(_started(store, info) for info in found)
    messages = [info.path for info in store.list_tree(f"{place}/{FOLDER}/tasks")]
    told = _told_of(store, place, messages)
    lost = _unnamed(store, place, began, needed)
    own = [info.path for info in lost if info.path in told]
    others = [info for info in lost if info.path not in told]
    old = [info.path for info in others if info.modified_ms <= unknown_before_ms]
    if len(old) < len(others):
        return [*own, *old]
    return [*(info.path for info in found), *messages, *own, *old]


def remove(store: Store, paths: Sequence[str], place: str, needed: Iterable[str] = ()) -> None:
    """Delete what :func:`left_behind` told, looked at again: a job may only have slept.

    Without its record it does not commit any more; what it had committed before has its names.
    """
    ours = [path for path in paths if path.startswith(f"{place}/{FOLDER}/")]
    store.delete(ours)
    files = [path for path in paths if path not in ours]
    named = _named(store, place, needed) if files else set()
    store.delete([path for path in files if path not in named])


def _told_of(store: Store, place: str, messages: Sequence[str]) -> set[str]:
    """Return the files that tasks have told of."""
    found: set[str] = set()
    for path in messages:
        body = store.get(path) if path.endswith(".json") else None
        try:
            told = json.loads(body or b"{}")
            for fragment in map(json.loads, told.get("fragments", ())):
                found.update(f"{place}/data/{file['path']}" for file in fragment["files"])
            found.update(f"{place}/{name}" for name in told.get("others", ()))
        except (ValueError, KeyError, TypeError, AttributeError):
            continue  # Not written whole: then what it told of waits as what nobody told of.
    return found


def strays(store: Store, place: str, running: Running) -> list[str]:
    """Return files that came since a job began and that no version names, whoever's they are.

    To know whether there are any; never to delete them.
    """
    body = store.get(running.path)
    if body is None:
        return []
    return [info.path for info in _unnamed(store, place, _started_ms(body, 0))]


def _unnamed(store: Store, place: str, began: int, needed: Iterable[str] = ()) -> list[ObjectInfo]:
    candidates = [
        info
        for folder in ("data", "_deletions")
        for info in store.list_tree(f"{place}/{folder}")
        if began <= info.modified_ms
    ]
    named = _named(store, place, needed) if candidates else set()
    return [info for info in candidates if info.path not in named]


def _started(store: Store, info: ObjectInfo) -> int:
    # Without a time it died between its two puts: it had not begun to write.
    return _started_ms(store.get(info.path) or b"", info.modified_ms)


def _started_ms(body: bytes, otherwise: int) -> int:
    try:
        return int(json.loads(body)["started_ms"])
    except (ValueError, KeyError, TypeError):
        return otherwise


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
