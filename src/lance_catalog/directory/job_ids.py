"""Jobs by their ids: what a transaction says of the job that made it, and where that outlives it.

A job is work that is to be committed once, whoever runs it and however often. Its id is a property
of the transaction that commits it, so commit and id are one step. A transaction goes with its
version; before a cleanup removes versions it writes the ids in them down in the ledger, small files
below ``<table>/_lance_catalog/committed``. Their union counts and nothing is ever taken out of it
but what is too old, so that cleanups need no lock between them.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import lance

from lance_catalog.errors import InvalidInputError, InvalidTableStateError
from lance_catalog.storage.port import Store

__all__ = ["FOLDER", "KEPT_MS", "Done", "Job", "Told", "keep", "known", "told_by"]

#: Everything of ours inside a table's directory; Lance neither reads nor deletes it.
FOLDER: Final = "_lance_catalog"
#: How long the ledger remembers a job after its version is gone; a stream since its last batch.
KEPT_MS: Final = 400 * 24 * 3600 * 1000

_JOB: Final = "lance_catalog.job"
_ROWS: Final = "lance_catalog.job.rows"
_BYTES: Final = "lance_catalog.job.bytes"
_STREAM: Final = "lance_catalog.stream"
_BATCH: Final = "lance_catalog.stream.batch"
_LONGEST: Final = 512


@dataclass(frozen=True, slots=True)
class Done:
    """A job that was committed: as which version, and what it wrote."""

    version: int
    rows: int = 0
    bytes: int = 0
    #: An earlier run, or another one at the same time, had committed it already.
    repeated: bool = True
    #: The transaction's id; unknown of what only the ledger remembers.
    token: str | None = None
    batch: int | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """Work that is to be committed once."""

    id: str
    rows: int = 0
    bytes: int = 0
    #: Of a streaming query: its id, and the number of the batch. Batches come in order.
    stream: str | None = None
    batch: int | None = None

    def __post_init__(self) -> None:
        given = self.stream if self.stream is not None else self.id
        if not isinstance(given, str) or not given or len(given) > _LONGEST or not _plain(given):
            raise InvalidInputError(
                f"a job id is a text of 1 to {_LONGEST} characters without control characters; "
                f"got {given!r}"
            )

    @classmethod
    def of_stream(cls, stream: str, batch: int) -> Job:
        """Return the job that writes one batch of a streaming query."""
        return cls(f"{stream}#{batch}", stream=stream, batch=batch)

    def wrote(self, rows: int, size: int) -> Job:
        """Return the same job with what it wrote."""
        return replace(self, rows=rows, bytes=size)

    def properties(self) -> dict[str, str]:
        """Return what the transaction is to say."""
        told = {_JOB: self.id, _ROWS: str(self.rows), _BYTES: str(self.bytes)}
        if self.stream is not None:
            told |= {_STREAM: self.stream, _BATCH: str(self.batch)}
        return told

    def done(self, told: Mapping[str, str], version: int, token: str | None = None) -> Done | None:
        """Return what a transaction says of this job; None when it is another's.

        A batch of a stream is also done by a later one: 13, for then the caller began anew.
        """
        if self.stream is None:
            if told.get(_JOB) != self.id or _STREAM in told:
                return None
            return Done(version, _number(told, _ROWS), _number(told, _BYTES), token=token)
        if told.get(_STREAM) != self.stream:
            return None
        batch = _number(told, _BATCH)
        assert self.batch is not None
        if batch < self.batch:
            return None
        if batch > self.batch:
            raise InvalidInputError(
                f"the stream '{self.stream}' has committed batch {batch} already, and now comes "
                f"batch {self.batch}: its checkpoint was lost or replaced, or two queries share "
                "the query id. Give the query that starts anew a query_id of its own."
            )
        return Done(version, _number(told, _ROWS), _number(told, _BYTES), token=token, batch=batch)


@dataclass(frozen=True, slots=True)
class Told:
    """What the transaction that made a version says: its id and its properties."""

    token: str
    properties: Mapping[str, str]
    #: The version it brought back, for one that undid those between.
    restored: int | None = None


def told_by(dataset: Any, version: int) -> Told | None:
    """Return what the transaction that made a version says, where it can be read."""
    try:
        transaction = dataset.read_transaction(version)
    except TypeError:
        # pylance 14.0.2 cannot build the Python form of a compaction that rewrote an index; it
        # is nobody's job.
        return None
    if transaction is None:
        return None
    operation = transaction.operation
    restored = operation.version if isinstance(operation, lance.LanceOperation.Restore) else None
    return Told(str(transaction.uuid), dict(transaction.transaction_properties or {}), restored)


def known(store: Store, directory: str, job: Job) -> Done | None:
    """Return what the ledger remembers of a job."""
    entries = _read(store, directory)[0].values()
    found = [job.done(told, version) for version, _, told in entries]
    return next((one for one in found if one is not None), None)


def keep(
    store: Store,
    directory: str,
    leaving: Iterable[tuple[int, int, Mapping[str, str]]],
    now_ms: int,
) -> None:
    """Write down the jobs of versions that go: each (version, its time, what it says)."""
    new = [one for one in leaving if _JOB in one[2]]
    if not new:
        return
    entries, files = _read(store, directory)
    for one in new:
        _add(entries, one)
    left = [list(one) for one in entries.values() if now_ms - one[1] < KEPT_MS]
    body = json.dumps({"version": 1, "jobs": left}).encode()
    store.put(f"{directory}/{FOLDER}/committed/{uuid.uuid4().hex}.json", body)
    # Only now: between the two a reader finds them twice, never not at all.
    store.delete(files)


_Entry = tuple[int, int, Mapping[str, str]]


def _add(entries: dict[str, _Entry], one: _Entry) -> None:
    """Add an entry; of a stream the highest batch alone."""
    told = one[2]
    key = f"stream {told[_STREAM]}" if _STREAM in told else f"job {told[_JOB]}"
    before = entries.get(key)
    if before is None or _STREAM not in told or _number(told, _BATCH) >= _number(before[2], _BATCH):
        entries[key] = one


def _read(store: Store, directory: str) -> tuple[dict[str, _Entry], list[str]]:
    """Return the ledger, and the files it is in."""
    while True:
        paths = [i.path for i in store.list_level(f"{directory}/{FOLDER}/committed").objects]
        bodies = [store.get(path) for path in paths]
        if all(body is not None for body in bodies):
            break  # Else a cleanup has put them together meanwhile.
    entries: dict[str, _Entry] = {}
    for path, body in zip(paths, bodies, strict=True):
        try:
            for version, at_ms, told in json.loads(body or b"")["jobs"]:
                _add(entries, (int(version), int(at_ms), dict(told)))
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidTableStateError(
                f"{path} should list the jobs that were committed, and cannot be read; without it "
                "nobody can tell whether this job was. Restore the file, or remove it if no job "
                "will be run again under its old id."
            ) from error
    return entries, paths


def _number(told: Mapping[str, str], key: str) -> int:
    text = told.get(key, "")
    return int(text) if text.isdecimal() else 0


def _plain(text: str) -> bool:
    return all(character >= " " and character != "\x7f" for character in text)
