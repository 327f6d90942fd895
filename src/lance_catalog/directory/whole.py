"""What concerns the catalog as a whole, beside the library's interface: its moments, its past,
changes of several tables at once, and its upkeep.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from lance_catalog.config import parse_duration_ms
from lance_catalog.directory import history
from lance_catalog.directory.context import Context
from lance_catalog.directory.edge import operation
from lance_catalog.directory.history import CatalogChange, Moment
from lance_catalog.directory.pinned import CatalogSnapshot
from lance_catalog.directory.transaction import Transaction, run
from lance_catalog.errors import UnsupportedOperationError
from lance_catalog.manifest import housekeeping
from lance_catalog.manifest.housekeeping import UpkeepReport

__all__ = ["WholeCatalog"]

T = TypeVar("T")


class WholeCatalog:
    """Operations on all of a catalog; mixed into the namespace."""

    _ctx: Context

    def snapshot(self) -> CatalogSnapshot:
        """Return a pinned view of the catalog: what is resolved from it is of one moment."""
        return CatalogSnapshot(self._ctx, self._ctx.view())

    @operation
    def history(
        self, since: Moment | None = None, until: Moment | None = None
    ) -> list[CatalogChange]:
        """Return what changed in the catalog after one point up to another, oldest first.

        A point is a version of the manifest or a time; 11 beyond ``manifest_retention``, with the
        oldest point available.
        """
        return list(history.history(self._ctx, since, until))

    @operation
    def diff(self, one: Moment, other: Moment) -> list[CatalogChange]:
        """Return what is different between two points, as if it had been one change."""
        return history.diff(self._ctx, one, other)

    def transaction(self) -> Transaction:
        """Begin a transaction: several tables written, and published by one commit (``with``)."""
        return Transaction(self)

    def run_transaction(self, work: Callable[[Transaction], T], retries: int = 5) -> T:
        """Run work in a transaction, again from the beginning when others came between."""
        return run(self, work, retries)

    @operation
    def upkeep(
        self,
        *,
        keep: str | float | None = None,
        prune_names: bool = False,
        dry_run: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> UpkeepReport:
        """Merge small fragments of the manifest, complete its indices, remove old versions.

        Commits do the same bit by bit; this does all of it now, beside any writer. ``keep`` is
        how long old versions stay (as ``"7d"``, seconds, or ``"never"``), by default what the
        property ``manifest_retention`` says. The newest two always stay, and those that a tag
        holds. With less than a minute a commit of another writer that is on its way can fail
        for want of the version it read (nothing is lost; repeat it), and the clocks of this
        machine and of the store must agree.

        An empty file stays under the name of each removed version, so that native writers that
        slept meanwhile land where they should. ``prune_names`` removes those too: only for a root
        that no native writer has open. ``progress`` is told (versions done, of how many).
        """
        log = self._ctx.log
        if log is None:
            raise UnsupportedOperationError(
                "upkeep: there is no manifest in V1 (manifest_enabled=false) to look after"
            )
        given = self._ctx.settings.retention_ms
        keep_ms = given if keep is None else parse_duration_ms("keep", keep)
        return housekeeping.upkeep(
            log,
            older_than_ms=None if keep_ms is None else self._ctx.clock() - keep_ms,
            prune_names=prune_names,
            dry_run=dry_run,
            progress=progress,
        )
