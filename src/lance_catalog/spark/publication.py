"""The one commit of a publish: a version of each table staged, then registered together.

When somebody committed to one of the tables meanwhile the manifests are made again on top; no row
is written twice.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import lance

from lance_catalog import failpoints
from lance_catalog.directory.context import Context
from lance_catalog.directory.job_creation import Creation
from lance_catalog.directory.jobs import Done, Job, Looker, find_done, open_for_job, stage
from lance_catalog.directory.managed import batch
from lance_catalog.directory.managed.commit import Asked
from lance_catalog.directory.operations.access import classify
from lance_catalog.directory.resolve import find_table
from lance_catalog.directory.transaction import Collector
from lance_catalog.errors import (
    CommitOutcomeUnknownError,
    ConcurrentModificationError,
    LanceNamespaceError,
    TableAlreadyExistsError,
    UnsupportedOperationError,
)
from lance_catalog.identifiers import format_text
from lance_catalog.model import check_user_properties
from lance_catalog.spark.catalogs import CatalogRef
from lance_catalog.spark.fragments import fragments_of
from lance_catalog.spark.merge import MAX_CONFLICTS
from lance_catalog.spark.publish_part import Part
from lance_catalog.spark.results import PublishResult, WriteResult, result_of
from lance_catalog.spark.sink import exists

__all__ = ["Publication"]

#: Tables that appends and overwrites alone go to are staged in milliseconds.
_TRIES: Final = 100


@dataclass
class _Staged:
    """What one try has staged."""

    operations: list[batch.Operation | batch.Properties] = field(default_factory=list)
    #: Manifests and deletion vectors of this try alone.
    files: list[str] = field(default_factory=list)
    #: As what the parts come, once it is committed.
    done: list[tuple[Part, Done]] = field(default_factory=list)


class _AgainError(Exception):
    """A table was changed between a look and the staging; the next try finds what it is now."""


@dataclass
class Publication:
    """A publish under way: parts that are written, and the tries to commit them."""

    ref: CatalogRef
    parts: Sequence[Part]
    job: Job
    #: Of all transactions that were staged: by them it knows what is its own.
    tokens: set[str] = field(default_factory=set)
    #: A try of which nobody knows whether it was committed.
    unknown: LanceNamespaceError | None = None

    @property
    def ctx(self) -> Context:
        return self.ref.open().context

    @property
    def written(self) -> list[Part]:
        """The parts that this run has written rows for."""
        return [part for part in self.parts if part.sink is not None]

    def run(self) -> PublishResult:
        try:
            for part in self.parts:
                part.done = None if self.job.own else find_done(self.ctx, part.names, self.job)
                if part.done is None:
                    part.open(self.ref, self.job)
            for part in self.written:
                part.write()
        except BaseException:
            for part in self.written:
                assert part.sink is not None
                part.sink.give_up()
            raise
        try:
            self._commit()
        except BaseException as error:
            # Interrupted, nobody knows how far it came: then a check finds what is left.
            sure = isinstance(error, LanceNamespaceError)
            sure = sure and not isinstance(error, CommitOutcomeUnknownError)
            for part in self.written:
                assert part.sink is not None
                if sure:
                    self._discard(part)
                else:
                    part.sink.running.stop()
            raise
        for part in self.written:
            assert part.sink is not None
            if part.done is not None and not part.done.repeated:
                part.sink.finish(part.messages)
            elif self.unknown is None:
                self._discard(part)
            else:
                part.sink.running.stop()
        return PublishResult(self.job.id, True, tuple(map(self._result, self.parts)))

    def _result(self, part: Part) -> WriteResult:
        if part.done is not None:
            return result_of(part.names, self.job, part.done)
        return WriteResult(part.names, None, 0, 0, self.job.id)  # Left as it is, by ``ignore``.

    def _discard(self, part: Part) -> None:
        """Remove the rows of a part that is not to be, or was by another run."""
        assert part.sink is not None
        if part.sink.creation is not None:
            part.sink.running.end()
            part.sink.creation.discard(part.files())
        else:
            self.ctx.store.delete(part.files())
            part.sink.finish(part.messages)

    def _commit(self) -> None:
        merges = any(part.merger is not None for part in self.written)
        for attempt in range(MAX_CONFLICTS if merges else _TRIES):
            if attempt:
                time.sleep(random.uniform(0, min(0.25, 0.002 * 2 ** min(attempt, 10))))
            try:
                staged = self._stage()
            except _AgainError:
                continue
            except LanceNamespaceError as error:
                if self.unknown is not None:
                    raise self._undecided(f"{self.unknown} ({error})") from error
                raise
            if not staged.operations or self._carry_out(staged):
                return
        if self.unknown is not None:
            raise self._undecided(str(self.unknown)) from self.unknown
        raise ConcurrentModificationError(
            "others keep committing to the tables of this publication; nothing was published. "
            "Run it again."
        )

    def _undecided(self, why: str) -> CommitOutcomeUnknownError:
        return CommitOutcomeUnknownError(
            f"the publication may or may not have landed: {why}. Run it again under the job id "
            f"'{self.job.id}': it is published once."
        )

    def _carry_out(self, staged: _Staged) -> bool:
        """Commit one try; False when others were first, or nobody knows."""
        try:
            failpoints.hit("job.staged")
            batch.carry_out(self.ctx, staged.operations)
        except batch.UNDECIDED as error:
            # Only this job's next try can take the same numbers, so trying again is safe.
            self.unknown = error
            return False
        except (ConcurrentModificationError, TableAlreadyExistsError):
            # Where a table has come, the next look says whose it is.
            failpoints.hit("job.refused")
            self.ctx.store.delete(staged.files)
            return False
        except LanceNamespaceError:
            self.ctx.store.delete(staged.files)
            if any(self._is_replaced(part) for part, _ in staged.done):
                return False  # What was staged is not there any more; the next look says why.
            raise
        failpoints.hit("job.landed")
        for part, done in staged.done:
            part.done = done
        return True

    def _is_replaced(self, part: Part) -> bool:
        """Whether another table has the name by now."""
        assert part.sink is not None
        found = find_table(self.ctx, self.ctx.exact(), part.names)
        return found is not None and found.location != part.sink.target.place

    def _stage(self) -> _Staged:
        """Stage the next version of every table that has not the job; the others have it now."""
        staged = _Staged()
        try:
            for part in self.written:
                assert part.sink is not None
                part.sink.running.require(part.files())
                if part.sink.creation is not None:
                    self._stage_first(part, part.sink.creation, staged)
                else:
                    self._stage_next(part, staged)
        except BaseException:
            self.ctx.store.delete(staged.files)
            raise
        return staged

    def _found(self, part: Part, done: Done | None) -> bool:
        """Note what a look found; whether it found anything."""
        part.done = None
        if done is not None:
            part.done = replace(done, repeated=done.token not in self.tokens)
        return done is not None

    def _stage_next(self, part: Part, staged: _Staged) -> None:
        assert part.sink is not None
        ctx = self.ctx
        opened = open_for_job(ctx, part.names)
        if opened.target is None:
            raise UnsupportedOperationError(
                f"table '{format_text(part.names)}' is not in the manifest, or versions are not "
                "managed any more, so it cannot be published with others; `lance-catalog migrate` "
                "registers tables, `lance-catalog versions enable` switches that on"
            )
        part.looker = part.looker or Looker(ctx, self.job)
        part.looker.announce(opened)
        sure = self.job.own and self.unknown is None
        if self._found(part, None if sure else part.looker.look(opened)):
            return
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
            raise _AgainError
        if part.sink.properties:
            staged.operations.append(batch.Properties(part.names, dict(part.sink.properties)))
        self._note(part, asked, opened.found.location, staged)

    def _stage_first(self, part: Part, creation: Creation, staged: _Staged) -> None:
        """Stage version 1 of a table that the publication makes, or of a declared one."""
        assert part.sink is not None
        ctx = self.ctx
        if exists(ctx, part.names):
            if self._found(part, find_done(ctx, part.names, self.job)):
                return
            if part.how["mode"] == "ignore":
                return  # Somebody made it meanwhile: as good as if it had been there.
            raise _came(part)
        creation.announce(self.job)
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
        elif given:
            staged.operations.append(batch.Properties(part.names, given))
        self._note(part, collector.staged[-1], creation.place, staged)

    def _note(self, part: Part, asked: Asked, place: str, staged: _Staged) -> None:
        staged.operations.append(batch.Version(part.names, asked))
        staged.files.append(f"{place}/_versions/{asked.manifest_path.rsplit('/', 1)[-1]}")
        job = part.job(self.job)
        staged.done.append((part, Done(asked.version, job.rows, job.bytes, repeated=False)))


def _came(part: Part) -> LanceNamespaceError:
    """Return the error for a table that somebody made while rows for a first one were written."""
    text = format_text(part.names)
    if part.how["mode"] == "create":
        return TableAlreadyExistsError(
            f"'{text}' was created by somebody else while the job ran; nothing was published"
        )
    return ConcurrentModificationError(
        f"table '{text}' was made by somebody else while the job wrote a first one; nothing was "
        "published. Run it again to overwrite that."
    )
