"""The latest registered version of tables this process works on, kept by what each commit changes.

Rows of table versions are not part of the snapshot: a catalog may have a million of them. What a
commit on a table has to know is only the highest number, and that follows from the rows that come
in with each step of the log. A table whose own row changed is looked up again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from threading import Lock

from lance_catalog.identifiers import split_key

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


@dataclass
class Heads:
    """Highest registered version by table id, for those that were asked for."""

    _known: dict[str, int] = field(default_factory=dict)
    _steps: int = 0
    _lock: Lock = field(default_factory=Lock)

    def get(self, table: str, steps: int) -> int | None:
        """Return the highest version, None when it has to be looked up, or the log went on."""
        with self._lock:
            return self._known.get(table) if steps == self._steps else None

    def steps(self) -> int:
        """Return how often the log went on: to be asked before a lookup."""
        with self._lock:
            return self._steps

    def learn(self, table: str, version: int, steps: int) -> None:
        """Remember what a lookup found, unless the log went on meanwhile: it may be more by now."""
        with self._lock:
            if steps == self._steps:
                self._known[table] = version

    def step(self, delta: Delta) -> None:
        """Follow the log by one step."""
        with self._lock:
            self._steps += 1
            if delta.whole:
                self._known.clear()
                return
            for table in delta.removed:
                self._known.pop(table, None)
            for key, version in _numbers(delta.versions):
                if key in self._known:
                    self._known[key] = max(self._known[key], version)


def _numbers(ids: Iterable[str]) -> Iterable[tuple[str, int]]:
    for key in ids:
        table, number = split_key(key)
        if number.isdecimal():
            yield table, int(number)
