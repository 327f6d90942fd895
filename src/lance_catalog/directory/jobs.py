"""Committing to a table exactly once, by a job id.

At version N the job is not done (``job_search.py``); then the operation lands as version N+1, or
all of it is looked at again. So it is one copy whatever happens: a driver that died at any moment
and runs again, two that run at once, an answer that was lost.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import lance

from lance_catalog.directory.context import Context
from lance_catalog.directory.job_ids import Done, Job
from lance_catalog.directory.job_search import Looker, Opened, find_done, open_for_job
from lance_catalog.directory.managed import commit as managed_commit
from lance_catalog.directory.managed.target import Target
from lance_catalog.directory.operations.access import classify
from lance_catalog.directory.resolve import find_table
from lance_catalog.directory.transaction import Collector
from lance_catalog.errors import (
    CommitOutcomeUnknownError,
    ConcurrentModificationError,
    InternalError,
    LanceNamespaceError,
    ServiceUnavailableError,
    TableNotFoundError,
    storage_errors,
)
from lance_catalog.failpoints import hit
from lance_catalog.identifiers import Identifier, format_text
from lance_catalog.manifest import gated

__all__ = [
    "Done",
    "Job",
    "Looker",
    "Opened",
    "Planned",
    "commit_job",
    "find_done",
    "open_for_job",
    "stage",
]

#: The longest pause between two tries.
_PAUSE: Final = 0.25
#: After these nobody knows whether a commit of the registry landed.
_UNDECIDED: Final = (InternalError, ServiceUnavailableError)


@dataclass(frozen=True, slots=True)
class Planned:
    """An operation for one try, and files that were written for this try alone."""

    operation: Any
    files: Sequence[str] = ()


def commit_job(
    ctx: Context,
    names: Identifier,
    job: Job,
    make: Callable[[Opened], Planned],
    *,
    files: Sequence[str] = (),
    max_conflicts: int | None = None,
    check: Callable[[], None] = lambda: None,
) -> Done:
    """Commit what ``make`` plans for the latest version as the next one, once per job.

    ``make`` runs again for every version that others put in between, and raises where what was
    written does not fit any more. ``files`` are what was written for the commit: removed when it
    is known not to have landed, and when another run of the job was first. ``check`` runs right
    before each try. 14 after ``max_conflicts`` or ``commit_timeout``; whoever plans for long gives
    the number.
    """
    looker = Looker(ctx, job)
    tokens: set[str] = set()
    unknown: LanceNamespaceError | None = None
    deadline = time.monotonic() + ctx.settings.commit_timeout
    conflicts = 0
    try:
        while True:
            opened = open_for_job(ctx, names)
            looker.announce(opened)
            # Nobody else has an id that was made up here; it may only be there by an own try.
            done = None if job.own and unknown is None else looker.look(opened)
            if done is not None:
                if done.token in tokens:
                    return _acknowledge(ctx, names, opened, replace(done, repeated=False))
                if unknown is None:
                    _discard(ctx, files)
                return done
            hit("job.looked")
            planned = make(opened)
            token = uuid.uuid4()
            tokens.add(str(token))
            try:
                check()
                version = _land(ctx, names, opened, planned.operation, job, token)
            except CommitOutcomeUnknownError as error:
                # Only this job's next try can take the same number, so trying again is safe.
                unknown = error
            except LanceNamespaceError:
                _discard(ctx, planned.files)
                raise
            else:
                if version is not None:
                    done = Done(version, job.rows, job.bytes, repeated=False, token=str(token))
                    return _acknowledge(ctx, names, opened, done)
                hit("job.refused")
                _discard(ctx, planned.files)
            conflicts += 1
            late = time.monotonic() > deadline if max_conflicts is None else False
            if late or (max_conflicts is not None and conflicts > max_conflicts):
                raise ConcurrentModificationError(
                    f"others keep committing to '{format_text(names)}'; nothing was written. Retry."
                )
            time.sleep(random.uniform(0, min(_PAUSE, 0.002 * 2 ** min(conflicts, 10))))
    except LandedElsewhereError:
        raise
    except LanceNamespaceError as error:
        if unknown is not None:
            raise CommitOutcomeUnknownError(
                f"the commit to '{format_text(names)}' may or may not have landed ({unknown}), and "
                f"that could not be found out ({error}). Run the job again under the id "
                f"'{job.id}': it is written once."
            ) from error
        _discard(ctx, files)
        raise


class LandedElsewhereError(TableNotFoundError):
    """The commit landed, but the table had left the catalog just then."""


def _acknowledge(ctx: Context, names: Identifier, opened: Opened, done: Done) -> Done:
    """Make sure that the table is still there; where versions are managed the commit said so."""
    hit("job.landed")
    if opened.target is None:
        now = find_table(ctx, ctx.exact(), names)
        if now is None or now.location != opened.found.location:
            raise LandedElsewhereError(
                f"table '{format_text(names)}' was dropped or renamed while the job committed. "
                f"What it wrote is version {done.version} of that table: brought back, it has it."
            )
    return done


def _land(
    ctx: Context, names: Identifier, opened: Opened, operation: Any, job: Job, token: uuid.UUID
) -> int | None:
    """Land an operation as the next version; None when another was first."""
    what = f"committing to '{format_text(names)}'"
    with storage_errors(what):
        if opened.target is None:
            try:
                made = gated.put_on_top(
                    ctx.store,
                    opened.found.location,
                    opened.dataset,
                    operation,
                    token,
                    lambda step: hit(f"job.{step}"),
                    job.properties(),
                )
            except (RuntimeError, ValueError, OSError) as error:
                raise classify(error, what) from error
            return None if made is None else int(made.version)
        asked = stage(ctx, names, opened, operation, job, token)
        return None if asked is None else _register(ctx, opened.target, asked)


def stage(
    ctx: Context, names: Identifier, opened: Opened, operation: Any, job: Job, token: uuid.UUID
) -> managed_commit.Asked | None:
    """Let Lance make the next manifest of a managed table, and keep it beside the others."""
    assert opened.target is not None
    base, place = int(opened.dataset.version), opened.found.location
    client: Any = Collector(ctx, names, place, opened.target, base)
    transaction = lance.Transaction(base, operation, str(token), job.properties())
    options = dict(ctx.store.lance_options) or None
    try:
        # Opened through the client: else Lance looks for newer versions itself, and rebases.
        lance.LanceDataset.commit(
            lance.dataset(namespace_client=client, table_id=list(names), storage_options=options),
            transaction,
            storage_options=options,
            max_retries=0,
            namespace_client=client,
            table_id=list(names),
            namespace_client_managed_versioning=True,
        )
    except (OSError, RuntimeError, ValueError) as error:
        _delete_staged(ctx, place, client.staged)
        raised = classify(error, f"committing to '{format_text(names)}'")
        if isinstance(raised, ConcurrentModificationError) or opened.target.file(base) is None:
            return None  # Nothing is registered yet, so it is sure. Or others cleaned up below.
        raise raised from error
    hit("job.staged")
    found: managed_commit.Asked = client.staged[-1]
    return found


def _register(ctx: Context, target: Target, asked: managed_commit.Asked) -> int | None:
    try:
        managed_commit.create(ctx, [(target, asked)])
    except CommitOutcomeUnknownError:
        raise
    except _UNDECIDED as error:
        raise CommitOutcomeUnknownError(str(error)) from error
    except ConcurrentModificationError:
        _delete_staged(ctx, target.directory, [asked])
        return None
    except LanceNamespaceError:
        _delete_staged(ctx, target.directory, [asked])
        raise
    hit("job.finalized")
    return asked.version


def _delete_staged(ctx: Context, place: str, staged: Sequence[managed_commit.Asked]) -> None:
    names = [one.manifest_path.rsplit("/", 1)[-1] for one in staged]
    ctx.store.delete([f"{place}/_versions/{name}" for name in names])


def _discard(ctx: Context, files: Sequence[str]) -> None:
    if files:
        with storage_errors("removing the files of a commit that was not made"):
            ctx.store.delete(files)
