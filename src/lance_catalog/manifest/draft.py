"""Several changes folded into one version: each planned on top of the ones before it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from lance_catalog.manifest.change import Change
from lance_catalog.manifest.snapshot import Snapshot
from lance_catalog.model import Entry

__all__ = ["Draft"]


@dataclass
class Draft:
    """A snapshot with the changes of a batch applied, not written yet.

    Rows that exist only here have negative addresses; a later member may replace or remove them,
    and then they are never written.
    """

    base: Snapshot
    view: Snapshot = field(init=False)
    _removed: dict[int, Entry] = field(default_factory=dict)
    _added: dict[str, tuple[Entry, Entry | None]] = field(default_factory=dict)
    _next: int = -2

    def __post_init__(self) -> None:
        # One copy for the whole batch; members see it change under them, one after the other.
        self._overlay = dict(self.base.overlay)
        self.view = replace(self.base, overlay=self._overlay)

    def apply(self, change: Change) -> None:
        """Add one member's change."""
        carried: dict[str, Entry | None] = {}
        for entry in change.add:
            source = change.replaces.get(entry.object_id)
            if source is not None and source.address < 0:
                source = self._added[source.object_id][1]
            carried[entry.object_id] = source
        for entry in change.remove:
            if entry.address < 0:
                del self._added[entry.object_id]
            else:
                self._removed[entry.address] = entry
            self._overlay[entry.object_id] = None
        for entry in change.add:
            placed = replace(entry, address=self._next)
            self._next -= 1
            self._added[entry.object_id] = (placed, carried[entry.object_id])
            self._overlay[entry.object_id] = placed
        # What the view remembered of its overlay is out of date now.
        self.view = replace(self.base, overlay=self._overlay)

    def change(self) -> Change:
        """Return everything as one change."""
        return Change(
            tuple(self._removed.values()),
            tuple(entry for entry, _ in self._added.values()),
            {key: source for key, (_, source) in self._added.items() if source is not None},
        )
