"""Whether the files at a place are still those of the table that a deletion was decided for.

A directory ``<name>.lance`` has its name from the table: dropped, purged and created anew by others
while a deletion sleeps between its rows and its files, it holds the same numbers of another table.
Hashed directories are never used twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from lance_catalog.directory.managed.target import Target
from lance_catalog.identifiers import is_internal_key
from lance_catalog.lifecycle.locations import v1_name
from lance_catalog.versions import registry
from lance_catalog.versions.registry import Registered

__all__ = ["Lineage"]


@dataclass(frozen=True, slots=True)
class Lineage:
    """A table, told from another at the same place by the latest version it had."""

    target: Target
    witness: Registered | None

    @classmethod
    def of(cls, target: Target) -> Lineage:
        """Look before the commit; what earlier committers left is put in place."""
        now = target.now()
        head, _ = now.ready()
        return cls(now, now.registered(head).get(head) if head else None)

    @contextmanager
    def held(self) -> Iterator[bool]:
        """Whether it is still the same table; on a disk nobody can purge it inside the block.

        A store has no lock: there one request may be under way when another table comes.
        """
        named = v1_name(self.target.directory) is not None
        with self.target.ctx.store.exclusive() if named else nullcontext():
            yield not named or self._is_same()

    def _is_same(self) -> bool:
        view = self.target.ctx.exact()
        live = [
            entry
            for entry in view.at_location(self.target.entry.location or "")
            if not is_internal_key(entry.object_id)
        ]
        if len(live) != 1:
            return False  # In the trash, where deleted versions do not come back from; or gone.
        if self.witness is None:
            return registry.floor_of(live[0]) > 0
        number = self.witness.version
        now = Target(self.target.ctx, view, live[0], self.target.directory)
        row = now.registered(number).get(number)
        return row is not None and _mark(row) == _mark(self.witness)


def _mark(version: Registered) -> tuple[str | None, int, int]:
    return version.staged, version.size, version.timestamp_ms
