"""A table that a job makes: written where nobody sees it, and shown by one commit.

As ``create_table`` does it, but with files that were written before, by many processes and over
hours: into a directory of its own that no reader knows until the row is there; into a declared
table; or into a dropped one, which it brings back as a new version. Of several creations one wins,
and one that lost looks whether the winner was another run of the same job.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import lance

from lance_catalog.config import Mode
from lance_catalog.directory import (
    dropped,
    first_version,
    job_ledger,
    redoing,
    reviving,
    trashing,
)
from lance_catalog.directory.context import Context
from lance_catalog.directory.dropped import Found
from lance_catalog.directory.job_ids import FOLDER, Done, Job
from lance_catalog.directory.job_search import find_done
from lance_catalog.directory.layout import RESERVED, RESERVED_BODY, fresh_directory, v1_directory
from lance_catalog.directory.managed.adoption import adopt_written
from lance_catalog.directory.managed.target import put_in_place
from lance_catalog.directory.operations.access import classify
from lance_catalog.directory.places import claimed_to_fill, require_free, taken
from lance_catalog.directory.properties import set_of_table
from lance_catalog.directory.resolve import FoundTable, find_table, require_namespace
from lance_catalog.directory.settling import Written, confirm, confirm_over, settle
from lance_catalog.errors import (
    CommitOutcomeUnknownError,
    ConcurrentModificationError,
    InvalidInputError,
    LanceNamespaceError,
    TableAlreadyExistsError,
    UnsupportedOperationError,
    storage_errors,
)
from lance_catalog.failpoints import hit
from lance_catalog.identifiers import Identifier, check_new_name, encode, format_text, parent_of
from lance_catalog.manifest import gated
from lance_catalog.model import Entry, Kind, check_user_properties, dump_metadata
from lance_catalog.storage.capabilities import require_put_if_absent
from lance_catalog.storage.gate import CommitGate
from lance_catalog.storage.manifests import newest_versions

__all__ = ["Creation", "prepare"]

_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class Creation:
    """A table to be: where its files go, and what is there already."""

    ctx: Context
    names: Identifier
    place: str
    #: A declared table that is filled.
    declared: FoundTable | None = None
    #: A dropped table that is written over.
    over: Found | None = None

    @property
    def is_new(self) -> bool:
        """Whether the place is this creation's alone."""
        return self.declared is None and self.over is None

    def land(
        self,
        job: Job,
        schema: Any,
        fragments: Sequence[Any],
        properties: Mapping[str, str],
        *,
        check: Callable[[], None] = lambda: None,
    ) -> Done:
        """Make the files a table, once per job; 5 when somebody else has made one meanwhile.

        They are removed when the creation is known to have failed, or was done by another run.
        """
        given = check_user_properties(dict(properties))
        operation = lance.LanceOperation.Overwrite(schema, list(fragments))
        files = [f"{self.place}/data/{file.path}" for part in fragments for file in part.files]
        try:
            check()
            self.announce(job)
        except LanceNamespaceError:
            self.discard(files)
            raise
        try:
            if self.over is not None:
                version = self._put_over(operation, given, job)
            else:
                version = self._put_first(operation, given, job, files)
        except CommitOutcomeUnknownError:
            raise
        except LanceNamespaceError as error:
            self._unannounce(job)
            lost = isinstance(error, (TableAlreadyExistsError, ConcurrentModificationError))
            done = find_done(self.ctx, self.names, job) if lost else None
            if done is None:
                raise
            return done
        hit("job.created")
        return Done(version, job.rows, job.bytes, repeated=False)

    def announce(self, job: Job) -> None:
        """Leave the word by which another run finds this one, at whatever version is there."""
        ctx = self.ctx
        with storage_errors(f"announcing the job at {self.place}"):
            base = max(newest_versions(ctx.store, self.place), default=0)
            job_ledger.announce(ctx.store, self.place, job, base, ctx.clock())
        hit("job.announced")

    def _unannounce(self, job: Job) -> None:
        """In V1 a directory is a table as soon as it holds anything: leave it as it was."""
        store = self.ctx.store
        if self.is_new and self.ctx.mode is Mode.V1:
            with storage_errors("removing what is left of a table that was not made"):
                if not first_version.has_versions(store, self.place):
                    job_ledger.unannounce(store, self.place, job)
                    store.prune(f"{self.place}/{FOLDER}/jobs")

    def discard(self, files: Sequence[str]) -> None:
        """Remove what was written for a creation that is not to be."""
        store = self.ctx.store
        with storage_errors("removing the files of a table that was not made"):
            if self.is_new and self.ctx.mode is not Mode.V1:
                # Nobody knows the place but us; a row there would mean that it landed.
                if not self.ctx.exact().at_location(self.place):
                    store.delete_tree(self.place)
                return
            store.delete(files)
            store.prune(f"{self.place}/data")

    def _put_over(self, operation: Any, given: dict[str, str], job: Job) -> int:
        assert self.over is not None
        version = reviving.put_over(self.ctx, self.over, operation, given, job.properties())
        if version is None:
            raise ConcurrentModificationError(
                f"the dropped table '{format_text(self.names)}' was brought back or purged while "
                "the job wrote over it; run it again"
            )
        # Properties, or others that had the table open, may have added versions of their own.
        found = find_done(self.ctx, self.names, job)
        return version if found is None else found.version

    def _put_first(self, operation: Any, given: dict[str, str], job: Job, files: list[str]) -> int:
        fill = self.declared is not None and self.declared.entry is not None
        with claimed_to_fill(self.ctx, self.place) if fill else contextlib.nullcontext():
            token = str(uuid.uuid4())
            transaction = lance.Transaction(0, operation, token, job.properties())
            try:
                dataset, final = self._first_version(transaction)
            except CommitOutcomeUnknownError:
                raise
            except LanceNamespaceError:
                self.discard(files)
                raise
            manifests, version = {final: token}, int(dataset.version)
            written = [*files, f"{self.place}/_transactions/0-{token}.txn"]
            if given:
                self._put_properties(dataset, given, manifests, written)
            try:
                self._show(given, Written(tuple(written), manifests))
            except CommitOutcomeUnknownError:
                raise
            except LanceNamespaceError:
                # Of a declared table everything is withdrawn already that may be.
                if self.is_new:
                    self.discard(files)
                raise
        return version

    def _first_version(self, transaction: Any) -> tuple[Any, str]:
        """Put version 1; 5 when somebody else has."""
        store, place = self.ctx.store, self.place

        def lost(error: Exception) -> bool:
            return first_version.has_versions(store, place)

        gate = CommitGate(store, place, 0, on_step=lambda step: hit(f"table.version_{step}"))
        what = f"creating '{format_text(self.names)}'"
        try:
            with storage_errors(what):
                made = gated.commit(gate, store.uri_of(place), transaction, lost)
        except (RuntimeError, ValueError, OSError) as error:
            raise classify(error, what) from error
        finally:
            gate.discard_staged()
        if made is None:
            raise taken(self.names)
        return made, gate.final_path(1)

    def _put_properties(
        self, dataset: Any, given: dict[str, str], manifests: dict[str, str], written: list[str]
    ) -> None:
        """Write the properties as version 2 (R14); in a place of our own nobody is faster."""
        store, place = self.ctx.store, self.place
        updates = lance.LanceOperation.UpdateMap(dict(given))
        operation = lance.LanceOperation.UpdateConfig(table_metadata_updates=updates)
        token = uuid.uuid4()
        with storage_errors(f"creating '{format_text(self.names)}'"):
            made = gated.put_on_top(store, place, dataset, operation, token)
        if made is None:
            gated.latest(store, place).update_metadata(dict(given))
            return
        first = CommitGate(store, place, 1)
        manifests[first.final_path(2)] = str(token)
        written.append(f"{place}/_transactions/1-{token}.txn")

    def _show(self, given: dict[str, str], written: Written) -> None:
        ctx, names = self.ctx, self.names
        if self.declared is not None:
            confirm_over(ctx, self.declared, written, given)
            adopt_written(ctx, names)
            if given and self.declared.entry is not None:
                set_of_table(ctx, names, given, ())
            return
        if ctx.mode is Mode.V1:
            confirm(ctx, names, self.place, written)
            return
        row = Entry(encode(names), Kind.TABLE.value, self.place, dump_metadata(given))
        for left in reversed(range(_TRIES)):
            try:
                settle(ctx, names, row, written)
            except CommitOutcomeUnknownError:
                # Settling again is safe: it finds its own row.
                if ctx.exact().at_location(self.place):
                    return
                if not left:
                    raise
            else:
                return


def prepare(ctx: Context, names: Identifier, *, fresh: bool | None = None) -> Creation:
    """Choose where the files of a table to be go; 5 when there is one, 1 without its namespace.

    ``fresh``: leave a dropped table of the name where it is; by default as the property
    ``recreate`` says.
    """
    if ctx.settings.as_of is not None:
        raise UnsupportedOperationError("the catalog is open as of a moment: the past is read only")
    if not names:
        raise InvalidInputError("a table id has at least one name")
    if ctx.mode is Mode.V1 and len(names) > 1:
        raise UnsupportedOperationError("V1 (manifest_enabled=false) has no namespaces")
    require_put_if_absent(ctx.store)
    view = ctx.exact()
    found = find_table(ctx, view, names)
    if found is not None:
        with storage_errors(f"looking at '{format_text(names)}'"):
            put_in_place(ctx, found)
            if first_version.has_versions(ctx.store, found.location):
                raise taken(names)
        return Creation(ctx, names, found.location, declared=found)
    check_new_name(names, stored=ctx.mode is not Mode.V1)
    if not (ctx.settings.recreate_fresh if fresh is None else fresh):
        over = _dropped(ctx, names)
        if over is not None:
            return Creation(ctx, names, over.location, over=over)
    require_free(ctx, ctx.exact(), names)
    if ctx.mode is Mode.V1:
        return Creation(ctx, names, v1_directory(names[0]))
    # Hashed, also at the root of compatibility mode: a worker that outlives its job must not make
    # a directory that shows as a table.
    place = fresh_directory(names)
    body = RESERVED_BODY + b" " + uuid.uuid4().hex.encode()
    with storage_errors(f"reserving a place for '{format_text(names)}'"):
        ctx.store.put_flag(f"{place}/{RESERVED}", body)
    return Creation(ctx, names, place)


def _dropped(ctx: Context, names: Identifier) -> Found | None:
    """Return the drop of the name that a creation brings back: the latest one that has data."""
    while True:
        view = ctx.exact()
        found = dropped.find(ctx, view, names)
        if not found or found[0].hidden.is_purging:
            break
        if trashing.settle_first(ctx, found[0].row):
            continue
        if ctx.mode is not Mode.V1:
            require_namespace(view, parent_of(names))
        if first_version.has_versions(ctx.store, found[0].location):
            return found[0]
        break
    if ctx.mode is Mode.V1:
        # Dropped before it had data: there is nothing to keep.
        redoing.make_way(ctx, names[0], delete=True)
    return None
