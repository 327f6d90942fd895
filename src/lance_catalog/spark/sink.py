"""The driver's side of a write: where it goes, what it is checked against, and the one commit.

A :class:`Sink` is opened before Spark runs anything, so that bad input is refused before it costs;
and the files that the tasks wrote are committed through it once, or removed.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

import lance
import pyarrow as pa

from lance_catalog import errors
from lance_catalog.directory import job_creation, job_records
from lance_catalog.directory.context import Context
from lance_catalog.directory.first_version import has_versions
from lance_catalog.directory.job_creation import Creation
from lance_catalog.directory.job_records import Running
from lance_catalog.directory.jobs import Done, Job, Opened, Planned, commit_job, open_for_job
from lance_catalog.directory.resolve import find_table
from lance_catalog.errors import UnsupportedOperationError, storage_errors
from lance_catalog.identifiers import Identifier, format_text
from lance_catalog.spark.catalogs import CatalogRef
from lance_catalog.spark.columns import require_same_columns
from lance_catalog.spark.fragments import (
    MAX_BYTES,
    MAX_ROWS,
    FragmentTarget,
    Message,
    fragments_of,
)
from lance_catalog.spark.given_properties import give_properties
from lance_catalog.spark.results import WriteResult, result_of

__all__ = ["Sink", "exists", "open_sink", "reopened"]

#: Of a job with thousands of tasks some have failed.
_PARALLEL: Final = 16


@dataclass
class Sink:
    """One write to one table: opened, checked, and to be committed once."""

    ref: CatalogRef
    names: Identifier
    job: Job
    mode: str
    target: FragmentTarget
    running: Running
    properties: Mapping[str, str] = field(default_factory=dict)
    #: For a table to be; else ``base`` is what the write was checked against.
    creation: Creation | None = None
    base: Opened | None = None
    #: Spark may run copies of a task, and kill them.
    speculative: bool = False

    @property
    def ctx(self) -> Context:
        return self.ref.open().context

    def take(self, chosen: Sequence[Message]) -> None:
        """Remove the files of every task but those chosen: repeated and speculative attempts."""
        self._remove(self.messages(but={one.id for one in chosen}))

    def messages(self, but: Container[str] = ()) -> list[Message]:
        """Return what all tasks told that ended, but some."""
        store = self.ctx.store
        with storage_errors(f"reading what the tasks of job '{self.job.id}' wrote"):
            paths = [i.path for i in store.list_level(self.target.tasks).objects]
            told = [path for path in sorted(paths) if path.endswith(".json")]
            wanted = [path for path in told if path.rsplit("/", 1)[-1][: -len(".json")] not in but]
            with ThreadPoolExecutor(_PARALLEL) as pool:
                bodies = list(pool.map(store.get, wanted))
        return [Message.from_json(body.decode()) for body in bodies if body is not None]

    def _remove(self, messages: Iterable[Message]) -> None:
        place = self.target.place
        paths = [f"{place}/{path}" for one in messages for path in one.files()]
        with storage_errors("removing files of tasks that are not committed"):
            self.ctx.store.delete(paths)

    def commit(self, messages: Sequence[Message]) -> WriteResult:
        """Commit what chosen tasks wrote; afterwards the record of the job is gone.

        When the outcome is not known, record and files stay.
        """
        job = self.job.wrote(sum(m.rows for m in messages), sum(m.bytes for m in messages))
        fragments = fragments_of(messages)
        done = self._commit(job, messages, fragments)
        self.finish(messages)
        return result_of(self.names, job, done)

    def _commit(self, job: Job, messages: Sequence[Message], fragments: list[Any]) -> Done:
        files = [f"{self.target.place}/{path}" for one in messages for path in one.files()]

        def check() -> None:
            self.running.require(files)

        if self.creation is not None:
            given = self.properties
            return self.creation.land(job, self.target.schema, fragments, given, check=check)
        done = commit_job(
            self.ctx,
            self.names,
            job,
            lambda now: Planned(self.operation(now, fragments)),
            files=files,
            check=check,
        )
        give_properties(self.ctx, self.names, done, self.properties)
        return done

    def operation(self, now: Opened, fragments: list[Any]) -> Any:
        """Return what Lance is to commit on top of a version; 20 when it does not fit any more."""
        if now.found.location != self.target.place:
            raise errors.ConcurrentModificationError(
                f"table '{format_text(self.names)}' was dropped and made anew while the job ran; "
                "run it again"
            )
        if self.mode == "overwrite":
            return lance.LanceOperation.Overwrite(self.target.schema, fragments)
        assert self.base is not None
        require_same_columns(self.base.dataset, now.dataset, self.target.text)
        return lance.LanceOperation.Append(fragments)

    def finish(self, messages: Sequence[Message]) -> None:
        """End a job that is committed.

        Where a task was tried twice, the try that was killed may have left a file that nobody was
        told of: then the record stays, for `lance-catalog check`.
        """
        store, place = self.ctx.store, self.target.place
        if self.speculative or any(one.attempt for one in messages):
            with storage_errors("looking for files of tasks that were killed"):
                if job_records.strays(store, place, self.running):
                    self.running.stop()
                    store.delete_tree(self.target.tasks)
                    return
        self.running.end()

    def give_up(self) -> None:
        """Remove what the tasks of a failed job told of.

        The record stays where a table was: a worker that was killed told nobody of its files.
        """
        self.running.stop()
        messages = self.messages()
        self._remove(messages)
        if self.creation is not None and self.creation.is_new:
            self.running.end()
            self.creation.discard([])
            return
        with storage_errors("ending a failed job"):
            self.ctx.store.delete_tree(self.target.tasks)


def exists(ctx: Context, names: Identifier) -> bool:
    """Whether a table is there and has data."""
    found = find_table(ctx, ctx.exact(), names)
    return found is not None and has_versions(ctx.store, found.location)


def open_sink(
    ref: CatalogRef,
    names: Identifier,
    mode: str,
    job: Job,
    schema: pa.Schema | None,
    *,
    properties: Mapping[str, str] | None = None,
    keys: Sequence[str] = (),
    fresh: bool | None = None,
    max_rows: int | None = None,
    max_bytes: int | None = None,
    base: Opened | None = None,
) -> Sink:
    """Open a table for a write: ``create``, ``append``, ``overwrite`` or ``merge``.

    ``schema`` is that of a new table, or of what replaces its columns; not needed to append.
    ``base`` is the table, where the caller has opened it.
    """
    ctx = ref.open().context
    if ref.root.startswith("memory:"):
        raise UnsupportedOperationError(
            "a catalog in the memory of this process cannot be written to by Spark's workers; use "
            "a path or an object store"
        )
    creation: Creation | None = None
    if mode == "create" or (mode == "overwrite" and base is None and not exists(ctx, names)):
        creation = job_creation.prepare(ctx, names, fresh=fresh)
        place, version, storage = creation.place, None, None
    else:
        base = base or open_for_job(ctx, names)
        place = base.found.location
        version = None if mode == "overwrite" else base.version
        storage = str(base.dataset.data_storage_version)
        schema = schema if mode == "overwrite" else base.dataset.schema
    assert schema is not None
    running = job_records.begin(ctx.store, place, job.id)
    target = FragmentTarget(
        format_text(names),
        place,
        schema,
        running.tasks,
        version,
        storage,
        max_rows or MAX_ROWS,
        max_bytes or MAX_BYTES,
        tuple(keys),
    )
    return Sink(ref, names, job, mode, target, running, properties or {}, creation, base)


def reopened(sink: Sink) -> Opened | None:
    """Return the version that an append was checked against, in another process."""
    if sink.target.version is None:
        return None
    now = open_for_job(sink.ctx, sink.names)
    options = dict(sink.ctx.store.lance_options) or None
    uri = sink.ctx.store.uri_of(sink.target.place)
    then = lance.dataset(uri, version=sink.target.version, storage_options=options)
    return Opened(now.found, then, now.target)
