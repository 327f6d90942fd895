"""Committing to a table exactly once, by a job id.

At version N no transaction that is kept carries the id, and the ledger does not know it; then the
operation lands as version N+1, or all of it is looked at again. So it is one copy whatever happens:
a driver that died at any moment and runs again, two that run at once, an answer that was lost.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Final

import lance

from lance_catalog.directory import dropped
from lance_catalog.directory.context import Context
from lance_catalog.directory.job_ids import Done, Job, Told, known, told_by
from lance_catalog.directory.managed import commit as managed_commit
from lance_catalog.directory.managed.adoption import above, adopt
from lance_catalog.directory.managed.target import Target, managed_target
from lance_catalog.directory.operations.access import classify
from lance_catalog.directory.resolve import FoundTable, find_table, require_table
from lance_catalog.directory.transaction import Collector
from lance_catalog.errors import (
    CommitOutcomeUnknownError,
    ConcurrentModificationError,
    InternalError,
    InvalidTableStateError,
    LanceNamespaceError,
    ServiceUnavailableError,
    TableNotFoundError,
    UnsupportedOperationError,
    storage_errors,
)
from lance_catalog.failpoints import hit
from lance_catalog.identifiers import Identifier, format_text
from lance_catalog.manifest import gated
from lance_catalog.versions.files import manifest_files

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

_PARALLEL: Final = 16
#: The longest pause between two tries.
_PAUSE: Final = 0.25
#: After these nobody knows whether a commit of the registry landed.
_UNDECIDED: Final = (InternalError, ServiceUnavailableError)


@dataclass(frozen=True, slots=True)
class Opened:
    """A table at its latest version, as a job finds it."""

    found: FoundTable
    dataset: Any
    #: Where the catalog manages versions.
    target: Target | None

    @property
    def version(self) -> int:
        return int(self.dataset.version)


@dataclass(frozen=True, slots=True)
class Planned:
    """An operation for one try, and files that were written for this try alone."""

    operation: Any
    files: Sequence[str] = ()


def open_for_job(ctx: Context, names: Identifier) -> Opened:
    """Open a table to write to it; 4 for one that is missing or dropped, 19 without data."""
    if ctx.settings.as_of is not None:
        raise UnsupportedOperationError("the catalog is open as of a moment: the past is read only")
    while True:
        view = ctx.exact()
        found = find_table(ctx, view, names)
        if found is None:
            raise _missing(ctx, names)
        target = managed_target(ctx, view, found)
        with storage_errors(f"opening '{format_text(names)}'"):
            if target is not None:
                head = target.ready()[0]
                if above(target, head):
                    adopt(target)  # Committed without the catalog: versions all the same.
                    continue
            else:
                head = max(_versions(ctx, found.location), default=0)
            if head == 0:
                raise InvalidTableStateError(
                    f"table '{format_text(names)}' is declared but has no data yet; a write with "
                    "mode 'create' or 'overwrite' fills it"
                )
            try:
                return Opened(found, gated.latest(ctx.store, found.location, head), target)
            except ValueError as error:
                # Cleaned up between the look and the opening, so there is a newer one.
                if "was not found" not in str(error) or _is_there(ctx, found, head):
                    raise


def _is_there(ctx: Context, found: FoundTable, version: int) -> bool:
    return version in _versions(ctx, found.location)


def _missing(ctx: Context, names: Identifier) -> LanceNamespaceError:
    if dropped.find(ctx, ctx.exact(), names):
        text = format_text(names)
        return TableNotFoundError(
            f"table '{text}' was dropped and is in the trash; `lance-catalog trash undrop {text}` "
            "brings it back, a write with mode 'create' writes a new version of it"
        )
    try:
        require_table(ctx, ctx.exact(), names)
    except LanceNamespaceError as error:
        return error
    return ConcurrentModificationError(f"table '{format_text(names)}' came just now; retry")


def _versions(ctx: Context, place: str) -> dict[int, tuple[int, str | None]]:
    files = manifest_files(ctx.store, f"{place}/_versions")
    return {f.version: (f.info.size, f.info.e_tag) for f in files if not f.is_placeholder}


@dataclass
class Looker:
    """Looks for a job among the versions of a table; what was read is not read again.

    From the latest version back; a restore leads on to the version it brought back, for what lies
    between was undone.
    """

    ctx: Context
    job: Job
    _place: str = ""
    _seen: dict[int, tuple[int, str | None]] = field(default_factory=dict)
    _told: dict[int, Told | None] = field(default_factory=dict)

    def look(self, opened: Opened) -> Done | None:
        """Return what became of the job in an earlier run, up to the version that is open."""
        place = opened.found.location
        with storage_errors(f"looking for the job at {place}"):
            present = {v: e for v, e in _versions(self.ctx, place).items() if v <= opened.version}
            if place != self._place or any(present.get(v, e) != e for v, e in self._seen.items()):
                self._place, self._seen, self._told = place, {}, {}  # Another table by now.
            self._read(opened, [version for version in present if version not in self._told])
            self._seen |= present
            # After the versions: a cleanup writes down first and deletes then.
            return self._walk(opened.version) or known(self.ctx.store, place, self.job)

    def _read(self, opened: Opened, versions: Sequence[int]) -> None:
        if not self.ctx.store.remote or len(versions) < 2:
            self._told |= {version: self._told_by(opened, version) for version in versions}
            return
        with ThreadPoolExecutor(_PARALLEL) as pool:
            found = pool.map(lambda version: self._told_by(opened, version), versions)
            self._told |= dict(zip(versions, found, strict=True))

    def _told_by(self, opened: Opened, version: int) -> Told | None:
        try:
            return told_by(opened.dataset, version)
        except (OSError, ValueError):
            if version in _versions(self.ctx, opened.found.location):
                raise
            return None  # Cleaned up since; the ledger knows.

    def _walk(self, version: int) -> Done | None:
        while version > 0:
            told = self._told.get(version)
            if told is not None:
                done = self.job.done(told.properties, version, told.token)
                if done is not None:
                    return done
                if told.restored is not None:
                    # Itself counts: it may be a version that a cleanup has removed since.
                    version = min(told.restored, version - 1)
                    continue
            version -= 1
        return None


def find_done(ctx: Context, names: Identifier, job: Job) -> Done | None:
    """Return what an earlier run of a job committed to a table; None without it, or a table."""
    view = ctx.exact()
    found = find_table(ctx, view, names)
    if found is None:
        return None
    try:
        opened = open_for_job(ctx, names)
    except (TableNotFoundError, InvalidTableStateError):
        return None
    return Looker(ctx, job).look(opened)


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
    is known not to have landed, and when another run of the job was first. ``check`` runs before
    each try. 14 after ``max_conflicts`` or ``commit_timeout``; whoever plans for long gives the
    number.
    """
    looker = Looker(ctx, job)
    tokens: set[str] = set()
    unknown: LanceNamespaceError | None = None
    deadline = time.monotonic() + ctx.settings.commit_timeout
    conflicts = 0
    try:
        while True:
            opened = open_for_job(ctx, names)
            done = looker.look(opened)
            if done is not None:
                if done.token in tokens:
                    return _acknowledge(ctx, names, opened, replace(done, repeated=False))
                if unknown is None:
                    _discard(ctx, files)
                return done
            hit("job.looked")
            check()
            planned = make(opened)
            token = uuid.uuid4()
            tokens.add(str(token))
            try:
                version = _land(ctx, names, opened, planned.operation, job, token)
            except CommitOutcomeUnknownError as error:
                # Only this job's next try can take the same number, so trying again is safe.
                unknown = error
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
