"""The catalog as a few dicts: what is there, what is hidden, and what each call must answer."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field

from lance_catalog.config import Mode
from lance_catalog.model import PROTECTED

Names = tuple[str, ...]

DAY_MS = 86_400_000
#: What a drop gets unless told otherwise.
DEFAULT_TTL_MS = 7 * DAY_MS


class Clock:
    """A clock that the model holds: never the same twice, whichever way it jumps."""

    def __init__(self) -> None:
        self._ticks = itertools.count(1)
        self._base = 1_700_000_000_000

    def __call__(self) -> int:
        return self._base + next(self._ticks)

    def jump(self, days: int) -> None:
        self._base += days * DAY_MS


@dataclass
class Table:
    """What the model knows of a table: its rows (None: declared), properties, place."""

    place: str
    rows: list[int] | None = None
    properties: dict[str, str] = field(default_factory=dict)
    has_row: bool = True

    @property
    def protected(self) -> bool:
        return self.properties.get(PROTECTED) == "true"


@dataclass
class Hidden:
    """A deregistered table: the id it had, itself, and since when, as good as."""

    names: Names
    table: Table
    at_ms: int


@dataclass
class Drop:
    """A dropped table: the id it had, itself, and for how long."""

    names: Names
    table: Table
    drop_id: str
    at_ms: int
    #: None: never expires.
    expires_ms: int | None

    def is_expired(self, now_ms: int) -> bool:
        return self.expires_ms is not None and self.expires_ms <= now_ms


@dataclass
class Model:
    """All of a catalog, and the codes that its rules give."""

    mode: Mode
    namespaces: dict[Names, dict[str, str]] = field(default_factory=dict)
    root_properties: dict[str, str] = field(default_factory=dict)
    tables: dict[Names, Table] = field(default_factory=dict)
    hidden: list[Hidden] = field(default_factory=list)
    trash: list[Drop] = field(default_factory=list)
    flagged: bool = False

    # What there is.

    @property
    def rows_kept(self) -> bool:
        return self.mode is not Mode.V1

    def has_parent(self, names: Names) -> bool:
        return self.mode is Mode.V1 or len(names) == 1 or names[:-1] in self.namespaces

    def missing(self, names: Names) -> int:
        """The code for a table that is not there (R11)."""
        return 4 if self.has_parent(names) else 1

    def is_taken(self, names: Names) -> bool:
        return names in self.tables or names in self.namespaces

    def hidden_at(self, place: str) -> Hidden | None:
        return next((one for one in self.hidden if one.table.place == place), None)

    def dropped_at(self, place: str) -> Drop | None:
        return next((one for one in self.trash if one.table.place == place), None)

    def below(self, names: Names) -> list[Names]:
        depth = len(names)
        known = [*self.namespaces, *self.tables]
        return [one for one in known if len(one) > depth and one[:depth] == names]

    def places(self) -> list[str]:
        """Every directory, whoever sees it."""
        tables = [*self.tables.values(), *(one.table for one in (*self.hidden, *self.trash))]
        return [table.place for table in tables]

    def free_names(self, known: Iterable[Names]) -> list[Names]:
        """Those of some ids that can be taken."""
        return [names for names in known if self.has_parent(names) and not self.is_taken(names)]

    def droppable_names(self) -> list[Names]:
        return [*self.tables, *(one.names for one in self.hidden)]

    def dropped_names(self) -> list[Names]:
        return sorted({one.names for one in self.trash})

    # The trash.

    def drops(self, names: Names, drop_id: str | None = None) -> list[Drop]:
        """The drops of an id, the latest first: by their times, whatever the clock did since."""
        found = [one for one in self.trash if one.names == names]
        found = [one for one in found if drop_id is None or one.drop_id == drop_id]
        return sorted(found, key=lambda one: -one.at_ms)

    def listed_drops(self) -> list[tuple[Names, str, str, int, int | None, bool]]:
        """What list_dropped_tables answers."""
        return [
            (
                one.names,
                one.drop_id,
                one.table.place,
                one.at_ms,
                one.expires_ms,
                # What only a marker hides is not opened for a list.
                one.table.has_row and one.table.protected,
            )
            for one in sorted(self.trash, key=lambda one: (one.names, -one.at_ms))
        ]

    def latest_hidden(self, names: Names) -> Hidden | None:
        """The deregistered table that a drop by id means: by directory first, then the latest."""
        found = [one for one in self.hidden if one.names == names]
        without_row = [one for one in found if not one.table.has_row]
        return max(without_row or found, key=lambda one: one.at_ms, default=None)

    # What is refused, and how; None: nothing is.

    def refuses_creation(self, names: Names) -> int | None:
        if not self.has_parent(names):
            return 1
        if self.is_taken(names):
            return 5
        if self.mode is Mode.V1 and self.hidden_at(f"{names[0]}.lance"):
            return 5
        return None

    def refuses_declaration(self, names: Names, *, redeclare: bool = False) -> int | None:
        refusal = self.refuses_creation(names)
        if refusal is not None or self.mode is not Mode.V1:
            return refusal
        former = self.dropped_at(f"{names[0]}.lance")
        if former is None:
            return None
        if redeclare:
            return 19 if former.table.protected else None
        return 5

    def refuses_drop(self, names: Names, *, force: bool) -> int | None:
        table = self.tables.get(names)
        former = self.latest_hidden(names)
        if table is None and (former is None or names in self.namespaces):
            return self.missing(names)
        # A deregistered table outlives its namespace, and can still go.
        if table is None:
            assert former is not None
            table = former.table
        return 19 if table.protected and not force else None

    def refuses_undrop(self, chosen: Drop | None, names: Names, target: Names) -> int | None:
        if self.mode is Mode.V1 and target != names:
            return 0
        if chosen is None:
            return 4
        if not self.has_parent(target):
            return 1
        return 5 if self.is_taken(target) else None

    def refuses_purge(
        self, chosen: Drop | None, names: Names, now_ms: int, *, force: bool
    ) -> int | None:
        if chosen is None:
            return 19 if names in self.tables else 4
        if force:
            return None
        return 19 if chosen.table.protected or not chosen.is_expired(now_ms) else None

    def refuses_register(self, names: Names, place: str) -> int | set[int] | None:
        """Of a place that a deregistered or a dropped table has."""
        if self.mode is Mode.V1:
            return 13 if place != f"{names[0]}.lance" or self.dropped_at(place) else None
        if not self.has_parent(names):
            return 1
        if self.is_taken(names):
            by_directory = names in self.tables and not self.tables[names].has_row
            # Name and place are taken; either is a good answer.
            return {5, 13} if by_directory and self.dropped_at(place) else 5
        return 13 if self.dropped_at(place) else None

    def refuses_rename(self, names: Names, new: Names) -> int | None:
        if self.mode is Mode.V1:
            return 0
        if names not in self.tables:
            return self.missing(names)
        if not self.has_parent(new):
            return 1
        return 5 if self.is_taken(new) else None

    def refuses_space_drop(
        self, names: Names, *, skip: bool, cascade: bool, force: bool
    ) -> int | None:
        if names not in self.namespaces:
            return None if skip else 1
        guarded = [self.namespaces[names]]
        if cascade:
            for one in self.below(names):
                guarded.append(self.namespaces.get(one) or self.tables_of(one))
        elif self.below(names) and not self._guards(guarded, force):
            return 3
        return 19 if self._guards(guarded, force) else None

    def tables_of(self, names: Names) -> dict[str, str]:
        return self.tables[names].properties if names in self.tables else {}

    @staticmethod
    def _guards(guarded: list[dict[str, str]], force: bool) -> bool:
        return not force and any(one.get(PROTECTED) == "true" for one in guarded)
