"""Several changes folded into one version: each planned on top of the ones before it."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Final

from lance_catalog.manifest.base import VERSION_TYPE
from lance_catalog.manifest.change import Change
from lance_catalog.manifest.overlay import Layer
from lance_catalog.manifest.snapshot import Snapshot
from lance_catalog.model import Entry

__all__ = ["Draft"]

#: Never the same twice: a draft may stand on another one, whose rows have such addresses too.
_numbers: Final = count(2)


class Draft:
    """A snapshot with the changes of a batch applied, not written yet.

    ``view`` shows them as they are added. Rows that exist only here have negative addresses; a
    later member may replace or remove them, and then they are never written.
    """

    def __init__(self, base: Snapshot) -> None:
        self._layer = Layer()
        self._removed: dict[int, Entry] = {}
        self.view = replace(
            base, overlay=base.overlay.under(self._layer), gone=(*base.gone, self._removed)
        )
        self._added: dict[str, tuple[Entry, Entry | None]] = {}

    def apply(self, change: Change) -> None:
        """Add one member's change."""
        carried: dict[str, Entry | None] = {}
        for key, source in change.replaces.items():
            # What a row inherits comes from the row that is really there, if any.
            mine = self._own(source)
            carried[key] = source if mine is None else mine[1]
        for entry in change.remove:
            own = self._own(entry) is not None
            if own:
                del self._added[entry.object_id]
            else:
                self._removed[entry.address] = entry
            if own or entry.object_type != VERSION_TYPE:
                # A stored version is not held; and a table of that very id may be: `t$5` is both.
                self._layer.set(entry.object_id, None)
        for entry in change.add:
            placed = replace(entry, address=-next(_numbers))
            self._added[entry.object_id] = (placed, carried.get(entry.object_id))
            self._layer.set(entry.object_id, placed)

    def _own(self, entry: Entry) -> tuple[Entry, Entry | None] | None:
        """Return a row that this draft added, and what it inherits."""
        found = self._added.get(entry.object_id)
        return found if found is not None and found[0].address == entry.address else None

    def change(self) -> Change:
        """Return everything as one change."""
        return Change(
            tuple(self._removed.values()),
            tuple(entry for entry, _ in self._added.values()),
            {key: source for key, (_, source) in self._added.items() if source is not None},
        )
