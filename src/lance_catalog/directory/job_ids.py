"""Jobs by their ids, and what a transaction says of the job that made it.

A job is work that is to be committed once, whoever runs it and however often. Its id is a property
of the transaction that commits it, so commit and id are one step. ``job_ledger.py`` keeps what is
needed to find it again.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import lance

from lance_catalog.errors import InvalidInputError

__all__ = ["FOLDER", "Done", "Job", "Told", "told_by"]

#: Everything of ours inside a table's directory; Lance neither reads nor deletes it.
FOLDER: Final = "_lance_catalog"

_JOB: Final = "lance_catalog.job"
_ROWS: Final = "lance_catalog.job.rows"
_BYTES: Final = "lance_catalog.job.bytes"
_STREAM: Final = "lance_catalog.stream"
_BATCH: Final = "lance_catalog.stream.batch"
_ORIGIN: Final = "lance_catalog.stream.origin"
_OWN: Final = "lance_catalog.job.own"
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
    #: Which checkpoint the query counts its batches in; a new one counts from 0 again.
    origin: str | None = None
    #: The id was made up for this one run, so that nobody else can have used it.
    own: bool = False

    def __post_init__(self) -> None:
        given = self.stream if self.stream is not None else self.id
        if not isinstance(given, str) or not given or len(given) > _LONGEST or not _plain(given):
            raise InvalidInputError(
                f"a job id is a text of 1 to {_LONGEST} characters without control characters; "
                f"got {given!r}"
            )

    @classmethod
    def named(cls, id: str | None) -> Job:
        """Return the job of an id; without one, a job of its own."""
        return cls(uuid.uuid4().hex, own=True) if id is None else cls(id)

    @classmethod
    def of_stream(cls, stream: str, batch: int, origin: str | None = None) -> Job:
        """Return the job that writes one batch of a streaming query."""
        return cls(f"{stream}#{batch}", stream=stream, batch=batch, origin=origin)

    def wrote(self, rows: int, size: int) -> Job:
        """Return the same job with what it wrote."""
        return replace(self, rows=rows, bytes=size)

    def properties(self) -> dict[str, str]:
        """Return what the transaction is to say."""
        told = {_JOB: self.id, _ROWS: str(self.rows), _BYTES: str(self.bytes)}
        if self.stream is not None:
            told |= {_STREAM: self.stream, _BATCH: str(self.batch)}
        if self.origin is not None:
            told[_ORIGIN] = self.origin
        if self.own:
            told[_OWN] = "true"
        return told

    @property
    def key(self) -> str:
        """What is remembered of a table: a job, or all batches of a stream."""
        return f"job {self.id}" if self.stream is None else f"stream {self.stream}"

    def is_after(self, told: Mapping[str, str]) -> bool:
        """Whether a transaction is of an earlier batch: what lies below it is earlier still."""
        return self.stream is not None and told.get(_STREAM) == self.stream

    def done(self, told: Mapping[str, str], version: int, token: str | None = None) -> Done | None:
        """Return what a transaction says of this job; None when it is another's.

        13 where a stream has gone on to a later batch, or counts in another checkpoint: then the
        caller began anew, and its batches are not those that have these numbers here.
        """
        if self.stream is None:
            if told.get(_JOB) != self.id or _STREAM in told:
                return None
            return Done(version, _number(told, _ROWS), _number(told, _BYTES), token=token)
        if told.get(_STREAM) != self.stream:
            return None
        batch = _number(told, _BATCH)
        assert self.batch is not None
        if self.origin is not None and told.get(_ORIGIN, self.origin) != self.origin:
            raise InvalidInputError(
                f"the stream '{self.stream}' has committed batch {batch} from another checkpoint, "
                f"so batch {self.batch} of this one may be other rows: its checkpoint was lost or "
                "replaced, or two queries share the query id. Give the query that starts anew a "
                "query_id of its own."
            )
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

    @property
    def key(self) -> str | None:
        """The job or stream it is of."""
        if _STREAM in self.properties:
            return f"stream {self.properties[_STREAM]}"
        return f"job {self.properties[_JOB]}" if _JOB in self.properties else None

    @property
    def batch(self) -> int:
        return _number(self.properties, _BATCH)

    @property
    def is_own(self) -> bool:
        """Whether the id was made up: nobody comes back under it."""
        return _OWN in self.properties


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


def _number(told: Mapping[str, str], key: str) -> int:
    text = told.get(key, "")
    return int(text) if text.isdecimal() else 0


def _plain(text: str) -> bool:
    return all(character >= " " and character != "\x7f" for character in text)
