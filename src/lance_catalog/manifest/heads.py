"""The latest registered version of tables this process works on, kept by what each commit changes.

Rows of table versions are not part of the snapshot: a catalog may have a million of them. What a
commit on a table has to know is only the highest number, and that follows from the rows that come
in with each step of the log. A table whose own row changed is looked up again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from threading import Lock

from lance_catalog.identifiers import split_key
from lance_catalog.model import Entry

__all__ = ["Delta", "Heads"]


@dataclass(frozen=True, slots=True)
class Delta:
    """What one step of the log changed, as far as versions care."""

    #: Ids of the version rows that came.
    versions: tuple[str, ...] = ()
    #: Ids of other rows that went, or were replaced.
    removed: tuple[str, ...] = ()
    #: Ids of other rows that came, or replaced some.
    added: tuple[str, ...] = ()
    #: Whether everything was read anew, so that nothing known before counts.
    whole: bool = False
    #: The version rows that came, as they are.
    rows: tuple[Entry, ...] = ()


@dataclass
class Heads:
    """Highest registered version by table id, for those that were asked for."""

    _known: dict[str, int] = field(default_factory=dict)
    #: The row of that version: every reader who opens a table asks for it.
    _rows: dict[str, Entry] = field(default_factory=dict)
    _steps: int = 0
    _lock: Lock = field(default_factory=Lock)

    def get(self, table: str, steps: int) -> int | None:
        """Return the highest version, None when it has to be looked up, or the log went on."""
        with self._lock:
            return self._known.get(table) if steps == self._steps else None

    def row(self, table: str, version: int, steps: int) -> Entry | None:
        """Return the row of the highest version, for reading: where it lies is not known."""
        with self._lock:
            known = self._known.get(table) == version and steps == self._steps
            return self._rows.get(table) if known else None

    def steps(self) -> int:
        """Return how often the log went on: to be asked before a lookup."""
        with self._lock:
            return self._steps

    def learn(self, table: str, version: int, steps: int) -> None:
        """Remember what a lookup found, unless the log went on meanwhile: it may be more by now."""
        with self._lock:
            if steps == self._steps and self._known.get(table) != version:
                self._known[table] = version
                self._rows.pop(table, None)

    def learn_row(self, table: str, version: int, row: Entry, steps: int) -> None:
        """Remember the row of the highest version, in the same way."""
        with self._lock:
            if steps == self._steps and self._known.get(table) == version:
                self._rows[table] = replace(row, address=-1)

    def step(self, delta: Delta) -> None:
        """Follow the log by one step."""
        with self._lock:
            self._steps += 1
            if delta.whole:
                self._known.clear()
                self._rows.clear()
                return
            for table in delta.removed:
                self._known.pop(table, None)
                self._rows.pop(table, None)
            rows = {row.object_id: row for row in delta.rows}
            for key in delta.versions:
                table, number = split_key(key)
                if table not in self._known or not number.isdecimal():
                    continue
                if int(number) >= self._known[table]:
                    self._known[table] = int(number)
                    self._rows.pop(table, None)
                    if key in rows:
                        self._rows[table] = replace(rows[key], address=-1)
