"""Several tables written and published as one: readers see all of a run or none of it.

The rows of all tables are written first, where nobody sees them. Then one commit of the catalog
registers a version of each. When somebody committed to one of them meanwhile the manifests are
made again on top; no row is written twice.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import lance

from lance_catalog import failpoints
from lance_catalog.directory.job_creation import Creation
from lance_catalog.directory.jobs import Done, Job, Looker, find_done, open_for_job, stage
from lance_catalog.directory.managed import batch
from lance_catalog.directory.managed.commit import Asked
from lance_catalog.directory.operations.access import classify
from lance_catalog.directory.properties import set_of_table
from lance_catalog.directory.transaction import Collector
from lance_catalog.errors import (
    CommitOutcomeUnknownError,
    ConcurrentModificationError,
    InvalidInputError,
    LanceNamespaceError,
    TableAlreadyExistsError,
    UnsupportedOperationError,
)
from lance_catalog.identifiers import Identifier, format_text
from lance_catalog.model import check_user_properties
from lance_catalog.spark.catalogs import CatalogLike, CatalogRef, resolve, table_names
from lance_catalog.spark.commit import Sink, exists, result_of
from lance_catalog.spark.fragments import Message, fragments_of
from lance_catalog.spark.merge import MAX_CONFLICTS, Merger, merger_for
from lance_catalog.spark.results import PublishResult, WriteResult
from lance_catalog.spark.source_writer import run_write
from lance_catalog.spark.write import check_mode, sink_for, write
from lance_catalog.versions.registry import is_managed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["publish"]

_OPTIONS: Final = frozenset(
    {"keys", "max_bytes_per_file", "max_rows_per_file", "mode", "properties", "vectors"}
)
#: Tables that appends and overwrites alone go to are staged in milliseconds.
_TRIES: Final = 100


def publish(
    catalog: CatalogLike,
    tables: Mapping[Any, DataFrame | tuple[DataFrame, Mapping[str, Any]]],
    *,
    job_id: str | None = None,
    atomic: bool = True,
) -> PublishResult:
    """Write several tables and publish them by one commit of the catalog, once per ``job_id``.

    ``tables`` says for each, by dotted text or a tuple of names, the DataFrame, or that and the
    options of ``write``: ``mode`` (by default ``overwrite``, which also makes a table), ``keys``,
    ``vectors``, ``properties``. One commit of several tables needs a catalog that manages
    versions (0 otherwise); with ``atomic=False`` they are committed one after the other, each
    once per job: readers may see a part of it, and a run that died is completed by running again.

    14 when one of the tables was changed again and again meanwhile: then nothing is published.
    """
    ref = resolve(catalog)
    job = Job(job_id if job_id is not None else uuid.uuid4().hex)
    parts = [_Part.of(key, given) for key, given in tables.items()]
    if not parts:
        raise InvalidInputError("publish: no table is given")
    if len({part.names for part in parts}) < len(parts):
        raise InvalidInputError("publish: a table is given twice")
    ctx = ref.open().context
    if ctx.log is None or not is_managed(ctx.exact().table_metadata):
        if atomic:
            raise UnsupportedOperationError(
                "publish: several tables become visible at once only where the catalog manages "
                "versions; `lance-catalog versions enable` switches that on, atomic=False commits "
                "them one after the other"
            )
        made = [write(part.df, ref, part.names, job_id=job.id, **part.how) for part in parts]
        return PublishResult(job.id, False, tuple(made))
    found = _published(ref, parts, job)
    if found is not None:
        return found
    return _Publication(ref, parts, job).run()


@dataclass
class _Part:
    """One table of a publish."""

    names: Identifier
    df: DataFrame
    how: dict[str, Any]
    sink: Sink | None = None
    merger: Merger | None = None
    messages: Sequence[Message] = ()
    #: Left as it is, by mode ``ignore``.
    skipped: bool = False

    @classmethod
    def of(cls, key: Any, given: Any) -> _Part:
        names = table_names(key)
        df, options = given if isinstance(given, tuple) else (given, {})
        unknown = sorted(set(options) - _OPTIONS)
        if unknown:
            raise InvalidInputError(
                f"publish: '{format_text(names)}' has the option '{unknown[0]}'; known are "
                f"{', '.join(sorted(_OPTIONS))}"
            )
        how = {"mode": "overwrite", **options}
        check_mode(how["mode"], how.get("keys"))
        return cls(names, df, how)

    def open(self, ref: CatalogRef, job: Job) -> None:
        """Check the DataFrame against its table, before anything runs."""
        mode = self.how["mode"]
        if mode == "ignore":
            self.skipped = exists(ref.open().context, self.names)
            mode = "create"
        if self.skipped:
            return
        if mode == "merge":
            self.merger = merger_for(self.df, ref, self.names, self.how["keys"], job)
            self.sink = self.merger.sink
            return
        self.sink = sink_for(
            self.df,
            ref,
            self.names,
            mode,
            job,
            vectors=self.how.get("vectors"),
            properties=self.how.get("properties"),
            max_rows=self.how.get("max_rows_per_file"),
            max_bytes=self.how.get("max_bytes_per_file"),
            # A dropped table of the name stays where it is: two could not come back at once.
            fresh=True,
        )

    def write(self) -> None:
        if self.merger is not None:
            self.merger.write(self.df)
            self.messages = self.merger.messages
        elif self.sink is not None:
            self.messages = run_write(self.df, self.sink)

    def files(self) -> list[str]:
        assert self.sink is not None
        place = self.sink.target.place
        return [f"{place}/{path}" for one in self.messages for path in one.files()]

    def job(self, job: Job) -> Job:
        return job.wrote(sum(m.rows for m in self.messages), sum(m.bytes for m in self.messages))


def _published(ref: CatalogRef, parts: Sequence[_Part], job: Job) -> PublishResult | None:
    """Return what an earlier run published: one table tells, for all came by one commit."""
    ctx = ref.open().context
    made: list[WriteResult] = []
    for part in parts:
        done = find_done(ctx, part.names, job)
        if done is not None:
            made.append(result_of(part.names, job, done))
        elif part.how["mode"] == "ignore":
            made.append(WriteResult(part.names, None, 0, 0, job.id, repeated=True))
        elif not made:
            return None
    return PublishResult(job.id, True, tuple(made)) if any(m.version for m in made) else None


@dataclass
class _Staged:
    """What one try has staged."""

    operations: list[batch.Operation] = field(default_factory=list)
    #: Manifests and deletion vectors of this try alone.
    files: list[str] = field(default_factory=list)
    versions: dict[Identifier, int] = field(default_factory=dict)


@dataclass
class _Publication:
    ref: CatalogRef
    parts: Sequence[_Part]
    job: Job
    #: Of all transactions that were staged: by them it knows what is its own.
    tokens: set[str] = field(default_factory=set)

    def run(self) -> PublishResult:
        written = self.parts
        try:
            for part in self.parts:
                part.open(self.ref, self.job)
            written = [part for part in self.parts if part.sink is not None]
            for part in written:
                part.write()
        except BaseException:
            for part in self.parts:
                if part.sink is not None:
                    part.sink.give_up()
            raise
        try:
            found = self._commit(written)
        except CommitOutcomeUnknownError:
            for part in written:
                assert part.sink is not None
                part.sink.running.stop()
            raise
        except BaseException:
            self._discard(written)
            raise
        if found.repeated:
            self._discard(written)
        else:
            for part in written:
                assert part.sink is not None
                part.sink.finish(part.messages)
        return found

    def _discard(self, written: Sequence[_Part]) -> None:
        """Remove the rows of a publication that is not to be, or was by another run."""
        ctx = self.ref.open().context
        for part in written:
            assert part.sink is not None
            part.sink.running.end()
            if part.sink.creation is not None:
                part.sink.creation.discard(part.files())
            else:
                ctx.store.delete(part.files())

    def _commit(self, written: Sequence[_Part]) -> PublishResult:
        ctx = self.ref.open().context
        unknown: LanceNamespaceError | None = None
        merges = any(part.merger is not None for part in written)
        for attempt in range(MAX_CONFLICTS if merges else _TRIES):
            try:
                found = _published(self.ref, self.parts, self.job)
                if found is not None:
                    return self._told_apart(found)
                staged = self._stage(written)
            except LanceNamespaceError as error:
                if unknown is not None:
                    raise CommitOutcomeUnknownError(f"{unknown} ({error})") from error
                if isinstance(error, ConcurrentModificationError):
                    continue
                raise
            try:
                failpoints.hit("job.staged")
                batch.carry_out(ctx, staged.operations)
            except batch.UNDECIDED as error:
                # Only this job's next try can take the same numbers, so trying again is safe.
                unknown = error
            except (ConcurrentModificationError, TableAlreadyExistsError) as error:
                failpoints.hit("job.refused")
                ctx.store.delete(staged.files)
                if isinstance(error, TableAlreadyExistsError):
                    found = _published(self.ref, self.parts, self.job)
                    if found is None:
                        raise
                    return found
            except LanceNamespaceError:
                ctx.store.delete(staged.files)
                raise
            else:
                failpoints.hit("job.landed")
                self._set_properties(written)
                return self._result(written, staged)
            time.sleep(random.uniform(0, min(0.25, 0.002 * 2 ** min(attempt, 10))))
        if unknown is not None:
            raise CommitOutcomeUnknownError(str(unknown)) from unknown
        raise ConcurrentModificationError(
            "others keep committing to the tables of this publication; nothing was published. "
            "Run it again."
        )

    def _set_properties(self, written: Sequence[_Part]) -> None:
        """Give tables that were there the properties that came with their new rows."""
        for part in written:
            assert part.sink is not None
            if part.sink.creation is None and part.sink.properties:
                given = dict(part.sink.properties)
                set_of_table(self.ref.open().context, part.names, given, ())

    def _told_apart(self, found: PublishResult) -> PublishResult:
        """Tell what this run published, though its answer was lost, from what another did."""
        ctx = self.ref.open().context
        names = next(one.table for one in found.tables if one.version is not None)
        done = find_done(ctx, names, self.job)
        if done is None or done.token not in self.tokens:
            return found
        return replace(found, tables=tuple(replace(one, repeated=False) for one in found.tables))

    def _result(self, written: Sequence[_Part], staged: _Staged) -> PublishResult:
        made = []
        for part in self.parts:
            if part not in written:
                made.append(WriteResult(part.names, None, 0, 0, self.job.id))
                continue
            job = part.job(self.job)
            done = Done(staged.versions[part.names], job.rows, job.bytes, repeated=False)
            made.append(result_of(part.names, self.job, done))
        return PublishResult(self.job.id, True, tuple(made))

    def _stage(self, written: Sequence[_Part]) -> _Staged:
        staged = _Staged()
        try:
            for part in written:
                assert part.sink is not None
                part.sink.running.require()
                if part.sink.creation is not None:
                    self._stage_first(part, part.sink.creation, staged)
                else:
                    self._stage_next(part, staged)
        except LanceNamespaceError:
            self.ref.open().context.store.delete(staged.files)
            raise
        return staged

    def _stage_next(self, part: _Part, staged: _Staged) -> None:
        assert part.sink is not None
        ctx = self.ref.open().context
        opened = open_for_job(ctx, part.names)
        if Looker(ctx, self.job).look(opened) is not None:
            raise ConcurrentModificationError("another run of this job was first")
        if part.merger is not None:
            planned = part.merger.plan(opened)
            operation = planned.operation
            staged.files += planned.files
        else:
            operation = part.sink.operation(opened, fragments_of(part.messages))
        token = uuid.uuid4()
        self.tokens.add(str(token))
        asked = stage(ctx, part.names, opened, operation, part.job(self.job), token)
        if asked is None:
            raise ConcurrentModificationError(f"'{format_text(part.names)}' was changed; retry")
        self._note(part, asked, opened.found.location, staged)

    def _stage_first(self, part: _Part, creation: Creation, staged: _Staged) -> None:
        """Stage version 1 of a table that the publication makes, or of a declared one."""
        assert part.sink is not None
        ctx = self.ref.open().context
        collector: Any = Collector(ctx, part.names, creation.place, None, 0)
        operation = lance.LanceOperation.Overwrite(
            part.sink.target.schema, fragments_of(part.messages)
        )
        token = str(uuid.uuid4())
        self.tokens.add(token)
        transaction = lance.Transaction(0, operation, token, part.job(self.job).properties())
        try:
            lance.LanceDataset.commit(
                ctx.store.uri_of(creation.place),
                transaction,
                storage_options=dict(ctx.store.lance_options) or None,
                enable_v2_manifest_paths=True,
                max_retries=0,
                namespace_client=collector,
                table_id=list(part.names),
                namespace_client_managed_versioning=True,
            )
        except (OSError, RuntimeError, ValueError) as error:
            raise classify(error, f"publishing '{format_text(part.names)}'") from error
        given = check_user_properties(dict(part.sink.properties))
        if creation.declared is None:
            staged.operations.append(batch.Declare(part.names, given, creation.place))
        self._note(part, collector.staged[-1], creation.place, staged)

    def _note(self, part: _Part, asked: Asked, place: str, staged: _Staged) -> None:
        staged.operations.append(batch.Version(part.names, asked))
        staged.files.append(f"{place}/_versions/{asked.manifest_path.rsplit('/', 1)[-1]}")
        staged.versions[part.names] = asked.version
