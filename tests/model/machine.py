"""What every machine has: a catalog on disk, the model beside it, and what must hold of both."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from typing import Any

import lance
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from lance_catalog import DirectoryNamespace
from lance_catalog.config import Mode
from lance_catalog.directory.dropped import TableState
from lance_catalog.errors import LanceNamespaceError
from lance_catalog.maintenance.check import check
from lance_catalog.manifest import ManifestLog
from tests.concurrency.racing import open_catalog
from tests.model.model import Clock, Model, Names, Table

# Few names, so that they meet: "t" and "a" can be table and namespace alike (O01).
ROOT_NAMES = ("t", "u", "a")
NESTED: tuple[Names, ...] = (("a",), ("t",), ("a", "b"), ("a", "t"), ("a", "b", "t"))
NAMESPACE_IDS = st.sampled_from(NESTED)
ALL_TABLES: list[Names] = [*((name,) for name in ROOT_NAMES), *NESTED[2:], ("a", "b", "u")]
TABLE_IDS = st.sampled_from(ALL_TABLES)
ROOT_IDS = st.sampled_from([(name,) for name in ROOT_NAMES])
PROPERTIES = st.sampled_from([{}, {"owner": "ann"}, {"owner": "bob", "x": "it's"}])

#: Any id, or more often one of those that an operation is likely to find something at.
Drawn = tuple[Names, int]
DRAWN_TABLES = st.tuples(TABLE_IDS, st.integers(0, 31))
DRAWN_NAMESPACES = st.tuples(NAMESPACE_IDS, st.integers(0, 31))

Wanted = int | set[int] | None


def likely(drawn: Drawn, candidates: Iterable[Names]) -> Names:
    """Choose an id: three of four times a candidate, if there is one."""
    names, number = drawn
    found = sorted(candidates)
    return found[number % len(found)] if found and number < 24 else names


class Machine(RuleBasedStateMachine):
    mode = Mode.V2

    def __init__(self) -> None:
        super().__init__()
        base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.root = tempfile.mkdtemp(prefix="lance-catalog-model-", dir=base)
        # Two hidings in one millisecond would have no order.
        self.clock = Clock()
        self.values = itertools.count()
        self.model = Model(self.mode)
        self.ns = self.open()

    def open(self, mode: Mode | None = None, **more: Any) -> DirectoryNamespace:
        ns = open_catalog(self.root, mode or self.mode, **more)
        ns.context.clock = self.clock
        return ns

    @rule()
    def restart(self) -> None:
        """Another process: nothing in memory is left."""
        self.ns = self.open()
        if self.ns.context.log is not None:
            self.ns.context.log = ManifestLog(self.ns.context.store)

    def teardown(self) -> None:
        try:
            for names in list(self.model.tables):
                self.compare_table(names)
            self.compare_trash()
            problems = check(self.ns.context, grace_seconds=-3600).problems
            assert problems == [], problems
        finally:
            shutil.rmtree(self.root)

    # Calling.

    def expect(
        self, wanted: Wanted, operation: str, request: dict[str, Any], *data: bytes, **more: Any
    ) -> Any:
        """Call; the answer, or None when it was refused as the model says."""
        return self.expect_call(wanted, request["id"], operation, request, *data, **more)

    def expect_call(
        self, wanted: Wanted, names: Names | list[str], operation: str, *args: Any, **more: Any
    ) -> Any:
        call = getattr(self.ns, operation)
        if self.mode is Mode.V1 and len(names) > 1:
            wanted = 0  # Deeper ids are refused before anything is looked at (I03).
        if wanted is None:
            return call(*args, **more)
        with pytest.raises(LanceNamespaceError) as caught:
            call(*args, **more)
        codes = wanted if isinstance(wanted, set) else {wanted}
        assert caught.value.code in codes, (operation, args, more, wanted, caught.value)
        return None

    def place_of(self, location: str) -> str:
        prefix = f"file://{self.root}/"
        assert location.startswith(prefix)
        return location.removeprefix(prefix)

    def fresh_rows(self) -> list[int]:
        return [next(self.values), next(self.values)]

    # What must hold after each step.

    def compare_table(self, names: Names) -> None:
        known = self.model.tables[names]
        found = self.ns.describe_table({"id": list(names), "load_detailed_metadata": True})
        assert self.place_of(found.location) == known.place
        assert found.is_only_declared is (known.rows is None)
        assert (found.properties or {}) == known.properties, names
        self.compare_rows(known)

    def compare_rows(self, known: Table) -> None:
        if known.rows is not None:
            read = lance.dataset(f"{self.root}/{known.place}").to_table()["g"].to_pylist()
            assert sorted(read) == sorted(known.rows)

    def compare_trash(self) -> None:
        """What was dropped has the rows that it had."""
        for one in self.model.trash:
            self.compare_rows(one.table)

    @invariant()
    def lists_agree(self) -> None:
        tables = self.model.tables
        listed = self.ns.list_all_tables({"id": []}).tables
        assert listed == sorted("$".join(names) for names in tables)
        declared = {names for names, table in tables.items() if table.rows is None}
        for parent in [(), *self.model.namespaces]:
            names = [one[-1] for one in tables if one[:-1] == parent]
            assert self.ns.list_tables({"id": list(parent)}).tables == sorted(names)
            filled = [one[-1] for one in tables if one[:-1] == parent and one not in declared]
            request = {"id": list(parent), "include_declared": False}
            assert self.ns.list_tables(request).tables == sorted(filled)
            if self.mode is not Mode.V1:
                below = [one[-1] for one in self.model.namespaces if one[:-1] == parent]
                assert self.ns.list_namespaces({"id": list(parent)}).namespaces == sorted(below)

    @invariant()
    def drops_agree(self) -> None:
        found = [
            (one.id, one.drop_id, one.location, one.deleted_at_ms, one.expires_at_ms, one.protected)
            for one in self.ns.list_dropped_tables()
        ]
        assert found == self.model.listed_drops()

    @rule(drawn=DRAWN_TABLES)
    def status(self, drawn: Drawn) -> None:
        names = likely(drawn, self.model.dropped_names())
        answer = self.expect_call(None, names, "table_status", list(names))
        if answer is None:
            return
        drops = self.model.drops(names)
        if names in self.model.tables:
            assert answer.state is TableState.EXISTS
        elif not drops:
            assert answer.state is TableState.NOT_FOUND
        else:
            assert answer.state is TableState.SOFT_DELETED
            told = (answer.deleted_at_ms, answer.expires_at_ms, answer.drop_id, answer.purging)
            assert told == (drops[0].at_ms, drops[0].expires_ms, drops[0].drop_id, False)

    @invariant()
    def rows_agree(self) -> None:
        if self.mode is Mode.V1:
            assert not os.path.exists(f"{self.root}/__manifest")
            return
        found = {(e.object_id, e.object_type, e.location) for e in self.live_rows()}
        wanted = {("$".join(names), "namespace", None) for names in self.model.namespaces}
        wanted |= {
            ("$".join(names), "table", table.place)
            for names, table in self.model.tables.items()
            if table.has_row
        }
        assert found == wanted
        trash = sorted(
            (entry.object_id.split("$", 2)[2], entry.location)
            for entry in self.ns.snapshot().entries()
            if entry.object_id.startswith("__trash$")
        )
        hidden = [*self.model.hidden, *self.model.trash]
        rows = [("$".join(one.names), one.table.place) for one in hidden if one.table.has_row]
        assert trash == sorted(rows)

    def live_rows(self) -> Iterator[Any]:
        for entry in self.ns.snapshot().entries():
            if not entry.object_id.startswith("__trash$"):
                yield entry

    @invariant()
    def disk_agrees(self) -> None:
        folders, files = set(), set()
        for entry in os.scandir(self.root):
            (folders if entry.is_dir() else files).add(entry.name)
        assert folders - {"__manifest", "__claims"} == set(self.model.places())
        with contextlib.suppress(FileNotFoundError):
            assert os.listdir(f"{self.root}/__claims") == []
        hidden = [one.table.place for one in (*self.model.hidden, *self.model.trash)]
        marked = {place for place in hidden if place.endswith(".lance")}
        flag = {".lance-catalog-layout"} if self.model.flagged else set()
        assert files == {place.removesuffix(".lance") + ".deleted" for place in marked} | flag
