"""What a table remembers of jobs, so that a run finds an earlier one without reading its history.

Two kinds of small files below ``<table>/_lance_catalog``:

- ``jobs/<hash of the id>.json``, put if absent before the first commit that is tried under an id:
  it names the version that was the latest then. Whatever was committed under the id came later, and
  an id without such a file was never committed.
- ``committed/``, written by cleanups before they remove versions: the jobs in them, the restores
  among them, and which versions these were. Their union counts, and nothing is taken out of it but
  what is too old, so that cleanups need no lock between them.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from lance_catalog.directory.job_ids import FOLDER, Job, Told
from lance_catalog.errors import InvalidTableStateError
from lance_catalog.storage.port import Store

__all__ = ["KEPT_MS", "Ledger", "announce", "announced", "keep", "ledger_of", "unannounce"]

#: How long a table remembers a job after its version is gone; a stream since its last batch.
KEPT_MS: Final = 400 * 24 * 3600 * 1000


def _announcement(directory: str, key: str) -> str:
    # An id may hold anything; and on S3 names that begin differently are spread.
    name = hashlib.sha256(key.encode()).hexdigest()[:40]
    return f"{directory}/{FOLDER}/jobs/{name}.json"


def announce(store: Store, directory: str, job: Job, version: int, now_ms: int) -> int:
    """Say that a job is going to commit, at a version that is there; return where to look from.

    Of several runs the first is believed: none of them has committed before it.
    """
    path = _announcement(directory, job.key)
    # A stream comes back with every batch, others seldom.
    known = _read_announcement(store, path, job) if job.stream is not None else None
    while known is None:
        if store.put_if_absent(path, _body(job, version, now_ms)):
            return version
        known = _read_announcement(store, path, job)
    base, at_ms = known
    if now_ms - at_ms > KEPT_MS // 4:
        store.put(path, _body(job, base, now_ms))  # Else a cleanup would take it for forgotten.
    return base


def announced(store: Store, directory: str, job: Job) -> int | None:
    """Return the version after which a job may have been committed; None: it never was."""
    known = _read_announcement(store, _announcement(directory, job.key), job)
    return None if known is None else known[0]


def _body(job: Job, base: int, now_ms: int) -> bytes:
    # Unique, so that a lost answer of the store can be told from another's file.
    by = uuid.uuid4().hex
    told = {"version": 1, "job": job.key, "base": base, "at_ms": now_ms, "by": by}
    return json.dumps(told).encode()


def _read_announcement(store: Store, path: str, job: Job) -> tuple[int, int] | None:
    body = store.get(path)
    if body is None:
        return None
    try:
        told = json.loads(body)
        return int(told["base"]), int(told["at_ms"])
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidTableStateError(
            f"{path} should say since when job '{job.id}' tries to commit, and cannot be read. "
            "Remove it if the job has not committed; else run no job under this id."
        ) from error


def unannounce(store: Store, directory: str, job: Job) -> None:
    """Forget a job where there is no table that could have it."""
    store.delete([_announcement(directory, job.key)])


@dataclass
class Ledger:
    """What is known of versions that a cleanup removed."""

    #: By version: its time, and what its transaction said; of a stream the highest batch alone.
    told: dict[int, tuple[int, Told]] = field(default_factory=dict)
    #: Which versions went, as ranges with their ends.
    gone: list[tuple[int, int]] = field(default_factory=list)

    def covers(self, version: int) -> bool:
        """Whether a cleanup of ours removed a version, and so wrote down what it said."""
        return any(first <= version <= last for first, last in self.gone)

    def at(self, version: int) -> Told | None:
        """Return what a version said that is gone."""
        found = self.told.get(version)
        return None if found is None else found[1]

    def below(self, version: int) -> int:
        """Return the next version down that may say anything, of one that says nothing."""
        first = next(first for first, last in self.gone if first <= version <= last)
        return max((v for v in self.told if first <= v < version), default=first - 1)

    def add(self, version: int, at_ms: int, told: Told) -> None:
        if told.key is None and told.restored is None:
            return
        self.told[version] = (at_ms, told)
        same = [v for v, (_, t) in self.told.items() if told.key is not None and t.key == told.key]
        if told.key is not None and told.key.startswith("stream ") and len(same) > 1:
            best = max(same, key=lambda v: (self.told[v][1].batch, v))
            for other in same:
                if other != best:
                    del self.told[other]

    def lose(self, versions: Iterable[int]) -> None:
        """Note that versions go."""
        found = sorted([*self.gone, *((version, version) for version in versions)])
        self.gone = []
        for first, last in found:
            if self.gone and first <= self.gone[-1][1] + 1:
                self.gone[-1] = (self.gone[-1][0], max(last, self.gone[-1][1]))
            else:
                self.gone.append((first, last))

    def to_json(self, now_ms: int) -> bytes:
        """Return the file, without jobs that are too old."""
        jobs = [
            [version, at_ms, told.token, told.restored, dict(told.properties)]
            for version, (at_ms, told) in sorted(self.told.items())
            if now_ms - at_ms < KEPT_MS
        ]
        return json.dumps({"version": 1, "jobs": jobs, "gone": self.gone}).encode()

    def read(self, body: bytes) -> None:
        """Add what a file says."""
        told: Mapping[str, Any] = json.loads(body)
        for version, at_ms, token, restored, properties in told["jobs"]:
            back = None if restored is None else int(restored)
            self.add(int(version), int(at_ms), Told(str(token), dict(properties), back))
        self.gone += [(int(first), int(last)) for first, last in told["gone"]]
        self.lose(())


def ledger_of(store: Store, directory: str) -> Ledger:
    """Return what cleanups wrote down at a table."""
    return _read(store, directory)[0]


def keep(
    store: Store, directory: str, leaving: Mapping[int, tuple[int, Told | None]], now_ms: int
) -> None:
    """Write down what versions said that go: each its time, and what its transaction says."""
    ledger, files = _read(store, directory)
    own = []
    for version, (at_ms, told) in leaving.items():
        if told is not None and not told.is_own:
            ledger.add(version, at_ms, told)
        elif told is not None and told.key is not None:
            own.append(_announcement(directory, told.key))
    ledger.lose(leaving)
    store.put(f"{directory}/{FOLDER}/committed/{uuid.uuid4().hex}.json", ledger.to_json(now_ms))
    # Only now: between the two a reader finds them twice, never not at all.
    store.delete(files)
    announcements = store.list_level(f"{directory}/{FOLDER}/jobs").objects
    old = [info.path for info in announcements if now_ms - info.modified_ms > KEPT_MS]
    store.delete([*old, *own])


def _read(store: Store, directory: str) -> tuple[Ledger, list[str]]:
    """Return the ledger, and the files it is in."""
    while True:
        paths = [i.path for i in store.list_level(f"{directory}/{FOLDER}/committed").objects]
        bodies = [store.get(path) for path in paths]
        if all(body is not None for body in bodies):
            break  # Else a cleanup has put them together meanwhile.
    ledger = Ledger()
    for path, body in zip(paths, bodies, strict=True):
        try:
            ledger.read(body or b"")
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidTableStateError(
                f"{path} should list the jobs that were committed, and cannot be read; without it "
                "nobody can tell whether this job was. Restore the file, or remove it if no job "
                "will be run again under its old id."
            ) from error
    return ledger, paths
