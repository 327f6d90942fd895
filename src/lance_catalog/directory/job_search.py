"""Finding what an earlier run of a job committed, at the cost of what came since it began.

A job that was never announced was never committed: one look by its key, and that is nearly always
all. Else the versions after the announcement are read, from the latest back; a restore leads on to
the version it brought back, for what lies between was undone. What a cleanup removed of them stands
in the ledger; what others removed nobody knows, and then it is not guessed.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

from lance_catalog.directory import dropped
from lance_catalog.directory.context import Context
from lance_catalog.directory.job_ids import Done, Job, Told, told_by
from lance_catalog.directory.job_ledger import Ledger, announce, announced, ledger_of
from lance_catalog.directory.managed.adoption import above, adopt
from lance_catalog.directory.managed.target import Target, managed_target
from lance_catalog.directory.resolve import FoundTable, find_table, require_table
from lance_catalog.errors import (
    ConcurrentModificationError,
    InvalidTableStateError,
    LanceNamespaceError,
    TableNotFoundError,
    UnsupportedOperationError,
    storage_errors,
)
from lance_catalog.failpoints import hit
from lance_catalog.identifiers import Identifier, format_text
from lance_catalog.manifest import gated
from lance_catalog.storage.manifests import Naming, manifest_name, newest_versions

__all__ = ["Looker", "Opened", "find_done", "open_for_job"]

#: How many versions are read at a time, where a read is a request.
_PARALLEL: Final = 16


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
                head = max(newest_versions(ctx.store, found.location), default=0)
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
    folder = f"{found.location}/_versions"
    infos = (ctx.store.head(f"{folder}/{manifest_name(version, naming)}") for naming in Naming)
    return any(info is not None and info.size > 0 for info in infos)


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


@dataclass
class Looker:
    """Looks for a job among the versions of a table; what was read is not read again."""

    ctx: Context
    job: Job
    _place: str = ""
    #: What was committed under the job came after this version.
    _base: int = 0
    _latest: int = 0
    _told: dict[int, Told | None] = field(default_factory=dict)

    def announce(self, opened: Opened) -> None:
        """Say that the job is about to commit; before the first try at a table."""
        place = opened.found.location
        if place == self._place and opened.version >= self._latest:
            return
        self._told = {}  # Another table by now.
        store, now = self.ctx.store, self.ctx.clock()
        with storage_errors(f"announcing the job at {place}"):
            self._base = announce(store, place, self.job, opened.version, now)
        self._place = place
        hit("job.announced")

    def look(self, opened: Opened) -> Done | None:
        """Return what became of the job in an earlier run, up to the version that is open."""
        self.announce(opened)
        return self._look(opened)

    def find(self, opened: Opened) -> Done | None:
        """As :meth:`look`, for who only wants to know."""
        place = opened.found.location
        with storage_errors(f"looking for the job at {place}"):
            base = announced(self.ctx.store, place, self.job)
        if base is None:
            return None
        self._place, self._base = place, base
        return self._look(opened)

    def _look(self, opened: Opened) -> Done | None:
        self._latest = opened.version
        with storage_errors(f"looking for the job at {opened.found.location}"):
            return self._walk(opened)

    def _walk(self, opened: Opened) -> Done | None:
        """Go back from the latest version to the announcement."""
        store, place = self.ctx.store, opened.found.location
        version, ahead = opened.version, 1
        ledger = Ledger()
        present: set[int] | None = None
        lost: int | None = None
        while version > self._base:
            told: Told | None = None
            if version in self._told:
                told = self._told[version]
            elif ledger.covers(version):
                told = ledger.at(version)
                if told is None:
                    version = ledger.below(version)
                    continue
            elif present is not None and version not in present:
                lost = lost or version
            else:
                self._read(opened, range(version, max(self._base, version - ahead), -1))
                ahead = min(2 * ahead, _PARALLEL)
                if version not in self._told:
                    # After the version: a cleanup writes down first and deletes then.
                    ledger = ledger_of(store, place)
                    if not ledger.covers(version):
                        present = set(newest_versions(store, place, everything=True))
                continue
            if told is not None:
                done = self.job.done(told.properties, version, told.token)
                if done is not None:
                    return done
                if self.job.is_after(told.properties):
                    return None
                if told.restored is not None:
                    # Itself counts: it may be a version that a cleanup has removed since.
                    version = min(told.restored, version - 1)
                    continue
            version -= 1
        if lost is not None:
            raise InvalidTableStateError(
                f"job '{self.job.id}' began to commit at version {self._base} of the table at "
                f"{place}, and version {lost} was removed since by something else than the "
                "catalog's cleanup, so nobody can tell whether it had. Look whether its rows are "
                "there; if they are not, run it under another job id."
            )
        return None

    def _read(self, opened: Opened, wanted: Sequence[int]) -> None:
        versions = [version for version in wanted if version not in self._told]
        if not self.ctx.store.remote or len(versions) < 2:
            found = [self._told_by(opened, opened.dataset, version) for version in versions]
        else:
            own = threading.local()

            def read(version: int) -> tuple[int, Told | None] | None:
                # A handle each: Lance's is for one thread at a time.
                if not hasattr(own, "dataset"):
                    place = opened.found.location
                    own.dataset = gated.latest(self.ctx.store, place, opened.version)
                return self._told_by(opened, own.dataset, version)

            with ThreadPoolExecutor(_PARALLEL // 4) as pool:
                found = list(pool.map(read, versions))
        self._told |= dict(one for one in found if one is not None)

    def _told_by(
        self, opened: Opened, dataset: Any, version: int
    ) -> tuple[int, Told | None] | None:
        try:
            return version, told_by(dataset, version)
        except (OSError, ValueError):
            if _is_there(self.ctx, opened.found, version):
                raise
            return None  # Cleaned up.


def find_done(ctx: Context, names: Identifier, job: Job) -> Done | None:
    """Return what an earlier run of a job committed to a table; None without it, or a table."""
    found = find_table(ctx, ctx.exact(), names)
    if found is None:
        return None
    with storage_errors(f"looking for the job at {found.location}"):
        if announced(ctx.store, found.location, job) is None:
            return None
    try:
        opened = open_for_job(ctx, names)
    except (TableNotFoundError, InvalidTableStateError):
        return None
    return Looker(ctx, job).find(opened)
