"""Holding a claim on a dropped table, wherever it is kept: in its row, or beside its marker."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from lance_catalog.directory.context import Context
from lance_catalog.directory.dropped import Found
from lance_catalog.errors import ConcurrentModificationError, LanceNamespaceError, storage_errors
from lance_catalog.identifiers import format_text
from lance_catalog.lifecycle import claim_files, markers, trash
from lance_catalog.lifecycle.claims import Claim, Verb, new_claim, obstacle
from lance_catalog.manifest import Change, Snapshot

__all__ = ["Held", "claim"]


@dataclass(frozen=True, slots=True)
class Held:
    """A claim that was won."""

    ctx: Context
    found: Found
    claim: Claim

    @property
    def inherited(self) -> bool:
        """Whether somebody had it before, and may have left a version behind."""
        return self.claim.number > 0

    def counts(self, current: Claim | None) -> bool:
        """Whether a claim that was read is this one."""
        return current is not None and current.holder == self.claim.holder

    def require(self) -> None:
        """Raise 14 unless the claim still counts."""
        if not self.counts(self._current()):
            raise ConcurrentModificationError(
                f"another process took over '{format_text(self.found.names)}'; look again"
            )

    def require_in_commit(self) -> None:
        """As :meth:`require`, from inside a Lance commit.

        Lance cannot be called on the thread on which it calls us: the interpreter aborts
        ("PyEval_SaveThread: the GIL is released", pylance 14), so a row is read on one of ours.
        """
        if self.found.row is None:
            self.require()
            return
        with ThreadPoolExecutor(1) as pool:
            pool.submit(self.require).result()

    def tell(self, error: Exception) -> None:
        """Raise 14 when a failure is that another process changed, or deleted, what we read."""
        if not isinstance(error, ConcurrentModificationError):
            try:
                self.require()
            except ConcurrentModificationError as overtaken:
                raise overtaken from error

    def _current(self) -> Claim | None:
        if self.found.row is None:
            name, drop_id = self.found.names[0], self.found.hidden.drop_id
            return claim_files.latest(self.ctx.store, name, drop_id)
        row = trash.get(self.ctx.exact(), self.found.row.entry.object_id)
        return None if row is None else row.hidden.claim

    def give_back(self) -> None:
        """Give up the claim; one that cannot be given back lapses by itself."""
        # The caller has a failure to tell of already.
        with contextlib.suppress(LanceNamespaceError, OSError):
            if self.found.row is None:
                name, drop_id = self.found.names[0], self.found.hidden.drop_id
                claim_files.give_back(self.ctx.store, name, drop_id, self.claim)
            else:
                self.ctx.commit(self._freed)

    def _freed(self, view: Snapshot) -> tuple[Change, None]:
        assert self.found.row is not None
        key = self.found.row.entry.object_id
        current = trash.get(view, key)
        if current is None or not self.counts(current.hidden.claim):
            return Change(), None
        freed = trash.reclaimed(current, self.claim.freed() if self.inherited else None)
        return Change(view.rows_of(key), (freed.entry,), {key: current.entry}), None


def claim(ctx: Context, found: Found, verb: Verb, *, force: bool = False) -> Held | None:
    """Win the claim on a dropped table; None when the drop has ended, 14 when another has it.

    ``force`` does not wait for the lease of another.
    """
    if found.row is None:
        return _claim_marker(ctx, found, verb, force=force)
    key = found.row.entry.object_id

    def plan(view: Snapshot) -> tuple[Change, Held | None]:
        current = trash.get(view, key)
        if current is None:
            return Change(), None
        terms = ctx.terms(force=force)
        latest = current.hidden.claim
        why = obstacle(latest, verb, terms.now_ms, terms.lease_ms, force=force)
        if why is not None and current.hidden.is_purging:
            return Change(), None
        if why is not None:
            raise ConcurrentModificationError(
                f"table '{format_text(found.names)}': {why}; look again and retry"
            )
        won = new_claim(verb, terms.now_ms, latest)
        claimed = trash.reclaimed(current, won)
        held = Held(ctx, found, won)
        return Change(view.rows_of(key), (claimed.entry,), {key: current.entry}), held

    return ctx.commit(plan)


def _claim_marker(ctx: Context, found: Found, verb: Verb, *, force: bool) -> Held | None:
    name, place, hidden = found.names[0], found.location, found.hidden
    with storage_errors(f"claiming '{name}'"):
        try:
            won = markers.claim(ctx.store, name, place, hidden, verb, ctx.terms(force=force))
        except ConcurrentModificationError:
            now = markers.read(ctx.store, name, place)
            if now is None or now.drop_id != hidden.drop_id:
                return None
            raise
    return Held(ctx, found, won)
