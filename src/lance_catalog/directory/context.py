"""What every operation of a directory namespace works with."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from lance_catalog.config import Mode, Settings
from lance_catalog.errors import ConcurrentModificationError, InvalidTableStateError
from lance_catalog.identifiers import is_internal_key
from lance_catalog.lifecycle.claim_files import Terms
from lance_catalog.lifecycle.claims import LEASE_MS, Verb
from lance_catalog.manifest import Change, ManifestLog, PointView, Snapshot, open_log
from lance_catalog.manifest.past import PastLog
from lance_catalog.manifest.schema import DIRECTORY as MANIFEST
from lance_catalog.storage.port import Store

__all__ = ["Context", "now_ms"]

T = TypeVar("T")


def now_ms() -> int:
    """Return the time; tests put another clock into the context."""
    return time.time_ns() // 1_000_000


@dataclass
class Context:
    """Settings, the store, the log (none in V1) and the clock."""

    settings: Settings
    store: Store
    log: ManifestLog | None = None
    clock: Callable[[], int] = field(default=now_ms)
    #: How long a claim on a hidden table lasts without a sign of life; tests shorten it.
    lease_ms: int = LEASE_MS

    @classmethod
    def build(cls, settings: Settings, store: Store) -> Context:
        """Put the parts together. No I/O."""
        if settings.mode is Mode.V1:
            return cls(settings, store)
        if settings.as_of is not None:
            return cls(settings, store, PastLog(store, settings.as_of))
        log = open_log(store, keep_ms=settings.retention_ms)
        return cls(settings, store, log)

    @property
    def mode(self) -> Mode:
        return self.settings.mode

    def view(self) -> Snapshot:
        """Return the manifest's latest snapshot; in V1, where there is none, an empty one.

        Latest as of now, or as of a look within ``read_consistency_interval``.
        """
        if self.log is None:
            return Snapshot.empty()
        return self.log.snapshot(self.settings.read_consistency_interval)

    def exact(self) -> Snapshot:
        """Return the latest snapshot whatever ``read_consistency_interval`` says.

        For every step of a protocol that looks at what others did meanwhile.
        """
        return Snapshot.empty() if self.log is None else self.log.snapshot()

    def terms(self, *, force: bool = False) -> Terms:
        """Return the terms on which a claim is taken now."""
        return Terms(self.clock(), self.lease_ms, force, self._require_no_row)

    def whole(self) -> Context:
        """Return the same root with its manifest: in V1 others may keep one beside us.

        V1 does not read it to find tables. But what ends a hiding, or deletes, must not pass it by.
        """
        if self.mode is not Mode.V1 or not self.store.any_object(f"{MANIFEST}/_versions"):
            return self
        seen = replace(self.settings, mode=Mode.COMPAT)
        return replace(self, settings=seen, log=open_log(self.store, keep_ms=seen.retention_ms))

    def _require_no_row(self, place: str, verb: Verb) -> None:
        """Raise when the manifest decides about a hiding: a row in the trash, or one to delete."""
        rows = self.whole().exact().at_location(place)
        hidden = [row for row in rows if is_internal_key(row.object_id)]
        if not hidden and (not rows or verb is not Verb.PURGE):
            return
        if self.mode is not Mode.V1:
            raise ConcurrentModificationError(f"{place} has a row by now; look again")
        state = "hidden by the manifest" if hidden else f"table '{rows[0].object_id}'"
        raise InvalidTableStateError(
            f"{place} is {state} of this root, which V1 (manifest_enabled=false) does not decide "
            "about. Open the root with manifest_enabled=true and do it there (the CLI without "
            "--mode v1): undrop or register brings the table back, purge deletes it."
        )

    def glance(self) -> PointView:
        """Return a view to look up one object: on a large catalog without loading it all."""
        if self.log is None:
            return Snapshot.empty()
        return self.log.glance(self.settings.read_consistency_interval)

    def commit(self, plan: Callable[[Snapshot], tuple[Change, T]]) -> T:
        """Land a change of the manifest."""
        if self.log is None:
            raise AssertionError("V1 has no manifest to change")
        return self.log.commit(
            plan,
            timeout=self.settings.commit_timeout,
            max_conflicts=self.settings.commit_retries,
        )
