"""Every operation against a dict: after each step the catalog, its rows and the disk agree with it.

One machine per mode. The compatibility machine also writes through V1, so that tables without a
row are there to be found, renamed, registered, migrated and dropped.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lance_catalog import DirectoryNamespace
from lance_catalog.config import Mode
from lance_catalog.directory.migration import migrate
from lance_catalog.errors import LanceNamespaceError
from lance_catalog.maintenance.check import check
from tests.concurrency.racing import ipc, open_catalog

Names = tuple[str, ...]

#: (examples of `make test`, of `make soak`), 50 steps each; 200 examples in all of `make test`.
EXAMPLES = {Mode.V2: (80, 800), Mode.COMPAT: (80, 800), Mode.V1: (40, 400)}
STEPS = 50

# Few names, so that they meet: "t" and "a" can be table and namespace alike (O01).
ROOT_NAMES = ("t", "u", "a")
NESTED: tuple[Names, ...] = (("a",), ("t",), ("a", "b"), ("a", "t"), ("a", "b", "t"))
NAMESPACE_IDS = st.sampled_from(NESTED)
TABLE_IDS = st.sampled_from([(name,) for name in ROOT_NAMES] + [*NESTED[2:], ("a", "b", "u")])
ROOT_IDS = st.sampled_from([(name,) for name in ROOT_NAMES])
PROPERTIES = st.sampled_from([{}, {"owner": "ann"}, {"owner": "bob", "x": "it's"}])


@dataclass
class Table:
    """What the model knows of a table: its rows (None: declared), properties, place."""

    place: str
    rows: list[int] | None = None
    properties: dict[str, str] = field(default_factory=dict)
    has_row: bool = True


@dataclass
class Hidden:
    """A deregistered table: the id it had, and itself."""

    names: Names
    table: Table


class CatalogMachine(RuleBasedStateMachine):
    mode = Mode.V2

    def __init__(self) -> None:
        super().__init__()
        base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.root = tempfile.mkdtemp(prefix="lance-catalog-model-", dir=base)
        self.ticks = itertools.count(1_700_000_000_000)
        self.values = itertools.count()
        self.namespaces: dict[Names, dict[str, str]] = {}
        self.root_properties: dict[str, str] = {}
        self.tables: dict[Names, Table] = {}
        self.hidden: list[Hidden] = []
        self.flagged = False
        self.ns = self.open()

    def open(self, mode: Mode | None = None) -> DirectoryNamespace:
        ns = open_catalog(self.root, mode or self.mode)
        # Two hidings in one millisecond would have no order.
        ns.context.clock = lambda: next(self.ticks)
        return ns

    def teardown(self) -> None:
        try:
            for names in list(self.tables):
                self.compare_table(names)
            problems = check(self.ns.context, grace_seconds=-3600).problems
            assert problems == [], problems
        finally:
            shutil.rmtree(self.root)

    # What the model says.

    def has_parent(self, names: Names) -> bool:
        return len(names) == 1 or names[:-1] in self.namespaces

    def missing(self, names: Names) -> int:
        """The code for a table that is not there (R11)."""
        return 4 if self.has_parent(names) else 1

    def at_place(self, place: str) -> Hidden | None:
        return next((one for one in self.hidden if one.table.place == place), None)

    def latest_hidden(self, names: Names) -> Hidden | None:
        """The deregistered table that a drop by id means: by directory first, then the latest."""
        found = [one for one in self.hidden if one.names == names]
        without_row = [one for one in found if not one.table.has_row]
        return (without_row or found[::-1] or [None])[0]

    def expect(
        self, wanted: int | set[int] | None, operation: str, request: dict[str, Any], *data: bytes
    ) -> Any:
        """Call; the answer, or None when it was refused as the model says."""
        call = getattr(self.ns, operation)
        if wanted is None:
            return call(request, *data)
        with pytest.raises(LanceNamespaceError) as caught:
            call(request, *data)
        codes = wanted if isinstance(wanted, set) else {wanted}
        assert caught.value.code in codes, (operation, request, wanted, caught.value)
        return None

    def place_of(self, location: str) -> str:
        prefix = f"file://{self.root}/"
        assert location.startswith(prefix)
        return location.removeprefix(prefix)

    def fresh_rows(self) -> list[int]:
        return [next(self.values), next(self.values)]

    # Tables.

    @rule(names=TABLE_IDS)
    def declare(self, names: Names) -> None:
        wanted = self.creation_refusal(names)
        answer = self.expect(wanted, "declare_table", {"id": list(names)})
        if answer is not None:
            self.tables[names] = Table(self.place_of(answer.location), has_row=self.rows_kept)

    def creation_refusal(self, names: Names) -> int | None:
        if not self.has_parent(names):
            return 1
        if names in self.tables or names in self.namespaces:
            return 5
        if self.mode is Mode.V1 and self.at_place(f"{names[0]}.lance"):
            return 5
        return None

    @property
    def rows_kept(self) -> bool:
        return self.mode is not Mode.V1

    @rule(
        names=TABLE_IDS,
        mode=st.sampled_from(["create", "exist_ok", "overwrite"]),
        properties=PROPERTIES,
    )
    def create(self, names: Names, mode: str, properties: dict[str, str]) -> None:
        rows = self.fresh_rows()
        known = self.tables.get(names)
        filled = known is not None and known.rows is not None
        wanted = (5 if mode == "create" else None) if filled else None
        if known is None:
            wanted = self.creation_refusal(names)
        request = {"id": list(names), "mode": mode, "properties": properties}
        answer = self.expect(wanted, "create_table", request, ipc(rows))
        if answer is None:
            return
        place = self.place_of(answer.location)
        if known is None:
            self.tables[names] = Table(place, rows, properties, self.rows_kept)
            return
        assert place == known.place
        if filled and mode == "exist_ok":
            assert (answer.properties or {}) == known.properties
            return
        replaced = properties if filled else {**known.properties, **properties}
        # Creating a root table registers it (C17), also over a declared directory.
        has_row = known.has_row or (not filled and self.rows_kept)
        self.tables[names] = Table(place, rows, replaced, has_row)

    @rule(names=TABLE_IDS)
    def insert(self, names: Names) -> None:
        rows = self.fresh_rows()
        known = self.tables.get(names)
        wanted = self.missing(names) if known is None else 19 if known.rows is None else None
        answer = self.expect(wanted, "insert_into_table", {"id": list(names)}, ipc(rows))
        if answer is not None:
            assert known is not None
            assert known.rows is not None
            known.rows += rows

    @rule(names=TABLE_IDS)
    def drop(self, names: Names) -> None:
        former = self.latest_hidden(names)
        wanted = None
        if names not in self.tables and (former is None or names in self.namespaces):
            wanted = self.missing(names)
        elif names not in self.tables and not self.has_parent(names):
            wanted = None  # A deregistered table outlives its namespace, and can still go.
        if self.expect(wanted, "drop_table", {"id": list(names)}) is None:
            return
        if names in self.tables:
            del self.tables[names]
        else:
            assert former is not None
            self.hidden.remove(former)

    @rule(names=TABLE_IDS)
    def deregister(self, names: Names) -> None:
        known = self.tables.get(names)
        wanted = self.missing(names) if known is None else None
        answer = self.expect(wanted, "deregister_table", {"id": list(names)})
        if answer is not None:
            assert known is not None
            assert self.place_of(answer.location) == known.place
            assert (answer.properties or {}) == known.properties
            self.hidden.append(Hidden(names, self.tables.pop(names)))

    @precondition(lambda self: self.hidden)
    @rule(names=TABLE_IDS, pick=st.integers(0, 7), same=st.booleans())
    def register(self, names: Names, pick: int, same: bool) -> None:
        chosen = self.hidden[pick % len(self.hidden)]
        if same:
            names = chosen.names
        place = chosen.table.place
        wanted: int | None = None
        if self.mode is Mode.V1:
            wanted = None if names == chosen.names else 13
        elif not self.has_parent(names):
            wanted = 1
        elif names in self.tables or names in self.namespaces:
            wanted = 5
        answer = self.expect(wanted, "register_table", {"id": list(names), "location": place})
        if answer is not None:
            assert (answer.properties or {}) == chosen.table.properties
            self.hidden.remove(chosen)
            chosen.table.has_row = self.rows_kept
            self.tables[names] = chosen.table

    @precondition(lambda self: self.tables)
    @rule(names=TABLE_IDS, pick=st.integers(0, 7))
    def register_where_one_lives(self, names: Names, pick: int) -> None:
        """A place has one table: refused, whatever the name."""
        owner, table = sorted(self.tables.items())[pick % len(self.tables)]
        own = not table.has_row and names == owner
        if self.mode is Mode.COMPAT and own:
            return  # Registering what only its directory tells of: see `register_directory`.
        wanted: int | set[int]
        if not self.has_parent(names):
            wanted = 1
        elif names in self.tables and not self.tables[names].has_row:
            wanted = {5, 13}  # Name and place are taken; either is a good answer.
        elif names in self.tables or names in self.namespaces:
            wanted = 5
        else:
            wanted = 13
        if self.mode is Mode.V1 and names != owner:
            wanted = 13
        self.expect(wanted, "register_table", {"id": list(names), "location": table.place})

    @rule(names=TABLE_IDS, new=TABLE_IDS)
    def rename(self, names: Names, new: Names) -> None:
        request = {"id": list(names), "new_table_name": new[-1]}
        if new[:-1] != names[:-1]:
            request["new_namespace_id"] = list(new[:-1])
        wanted: int | None = None
        if self.mode is Mode.V1:
            wanted = 0
        elif names not in self.tables:
            wanted = self.missing(names)
        elif not self.has_parent(new):
            wanted = 1
        elif new in self.tables or new in self.namespaces:
            wanted = 5
        if self.expect(wanted, "rename_table", request) is not None:
            moved = self.tables.pop(names)
            moved.has_row = True
            self.tables[new] = moved

    @rule(names=TABLE_IDS)
    def describe(self, names: Names) -> None:
        if names in self.tables:
            self.compare_table(names)
            self.ns.table_exists({"id": list(names)})
        else:
            wanted = self.missing(names)
            self.expect(wanted, "describe_table", {"id": list(names)})
            self.expect(wanted, "table_exists", {"id": list(names)})

    def compare_table(self, names: Names) -> None:
        known = self.tables[names]
        found = self.ns.describe_table({"id": list(names), "load_detailed_metadata": True})
        assert self.place_of(found.location) == known.place
        assert found.is_only_declared is (known.rows is None)
        assert (found.properties or {}) == known.properties, names
        if known.rows is not None:
            read = lance.dataset(found.location).to_table()["g"].to_pylist()
            assert sorted(read) == sorted(known.rows)

    @rule()
    def reopen(self) -> None:
        self.ns = self.open()

    # What must hold after each step.

    @invariant()
    def lists_agree(self) -> None:
        listed = self.ns.list_all_tables({"id": []}).tables
        assert listed == sorted("$".join(names) for names in self.tables)
        declared = {names for names, table in self.tables.items() if table.rows is None}
        for parent in [(), *self.namespaces]:
            names = [one[-1] for one in self.tables if one[:-1] == parent]
            assert self.ns.list_tables({"id": list(parent)}).tables == sorted(names)
            filled = [one[-1] for one in self.tables if one[:-1] == parent and one not in declared]
            request = {"id": list(parent), "include_declared": False}
            assert self.ns.list_tables(request).tables == sorted(filled)
            if self.mode is not Mode.V1:
                below = [one[-1] for one in self.namespaces if one[:-1] == parent]
                assert self.ns.list_namespaces({"id": list(parent)}).namespaces == sorted(below)

    @invariant()
    def rows_agree(self) -> None:
        if self.mode is Mode.V1:
            assert not os.path.exists(f"{self.root}/__manifest")
            return
        found = {(e.object_id, e.object_type, e.location) for e in self.live_rows()}
        wanted = {("$".join(names), "namespace", None) for names in self.namespaces}
        wanted |= {
            ("$".join(names), "table", table.place)
            for names, table in self.tables.items()
            if table.has_row
        }
        assert found == wanted
        trash = sorted(
            (entry.object_id.split("$", 2)[2], entry.location)
            for entry in self.ns.snapshot().entries()
            if entry.object_id.startswith("__trash$")
        )
        hidden = [one for one in self.hidden if one.table.has_row]
        assert trash == sorted(("$".join(one.names), one.table.place) for one in hidden)

    def live_rows(self) -> Iterator[Any]:
        for entry in self.ns.snapshot().entries():
            if not entry.object_id.startswith("__trash$"):
                yield entry

    @rule(dry=st.booleans())
    def migrate(self, dry: bool) -> None:
        report = migrate(self.ns.context, dry_run=dry)
        todo = {names[0]: table for names, table in self.tables.items() if not table.has_row}
        assert report.registered == ([] if self.mode is Mode.V1 else sorted(todo))
        # What this catalog hides has its marker at the root already.
        assert report.hidden == []
        places = [*(t.place for t in self.tables.values()), *(h.table.place for h in self.hidden)]
        wanted = not self.flagged and any(place.endswith(".lance") for place in places)
        assert report.flagged == wanted
        if not dry:
            self.flagged = self.flagged or wanted
            if self.mode is not Mode.V1:
                for table in todo.values():
                    table.has_row = True

    @invariant()
    def disk_agrees(self) -> None:
        wanted = {table.place for table in self.tables.values()}
        wanted |= {one.table.place for one in self.hidden}
        folders, files = set(), set()
        for entry in os.scandir(self.root):
            (folders if entry.is_dir() else files).add(entry.name)
        assert folders - {"__manifest", "__claims"} == wanted
        with contextlib.suppress(FileNotFoundError):
            assert os.listdir(f"{self.root}/__claims") == []
        marked = {one.table.place for one in self.hidden if one.table.place.endswith(".lance")}
        flag = {".lance-catalog-layout"} if self.flagged else set()
        assert files == {place.removesuffix(".lance") + ".deleted" for place in marked} | flag


class ManifestMachine(CatalogMachine):
    """Namespaces, in the modes that have them."""

    @rule(
        names=NAMESPACE_IDS,
        mode=st.sampled_from([None, "create", "exist_ok", "ExistOk", "overwrite"]),
        properties=PROPERTIES,
    )
    def create_namespace(self, names: Names, mode: str | None, properties: dict[str, str]) -> None:
        plain = (mode or "create").lower().replace("existok", "exist_ok")
        wanted: int | None = None
        if not self.has_parent(names):
            wanted = 1
        elif names in self.tables or (names in self.namespaces and plain == "create"):
            wanted = 2
        elif names in self.namespaces and plain == "overwrite" and self.below(names):
            wanted = 3
        request = {"id": list(names), "mode": mode, "properties": properties}
        answer = self.expect(wanted, "create_namespace", request)
        if answer is None:
            return
        if names not in self.namespaces or plain == "overwrite":
            self.namespaces[names] = properties
        assert (answer.properties or {}) == self.namespaces[names]

    def below(self, names: Names) -> list[Names]:
        depth = len(names)
        known = [*self.namespaces, *self.tables]
        return [one for one in known if len(one) > depth and one[:depth] == names]

    @rule(
        names=NAMESPACE_IDS,
        mode=st.sampled_from([None, "fail", "Skip"]),
        behavior=st.sampled_from([None, "restrict", "cascade"]),
    )
    def drop_namespace(self, names: Names, mode: str | None, behavior: str | None) -> None:
        wanted: int | None = None
        if names not in self.namespaces:
            wanted = None if mode == "Skip" else 1
        elif behavior != "cascade" and self.below(names):
            wanted = 3
        request = {"id": list(names), "mode": mode, "behavior": behavior}
        if self.expect(wanted, "drop_namespace", request) is None:
            return
        if names in self.namespaces:
            for one in [*self.below(names), names]:
                self.namespaces.pop(one, None)
                self.tables.pop(one, None)

    @rule(names=NAMESPACE_IDS)
    def describe_namespace(self, names: Names) -> None:
        wanted = None if names in self.namespaces else 1
        answer = self.expect(wanted, "describe_namespace", {"id": list(names)})
        self.expect(wanted, "namespace_exists", {"id": list(names)})
        if answer is not None:
            assert (answer.properties or {}) == self.namespaces[names]

    @rule(properties=PROPERTIES)
    def set_root_properties(self, properties: dict[str, str]) -> None:
        self.ns.create_namespace({"id": [], "mode": "overwrite", "properties": properties})
        self.root_properties = properties

    @invariant()
    def root_properties_agree(self) -> None:
        found = self.ns.describe_namespace({"id": []}).properties or {}
        assert found == self.root_properties


class V2Machine(ManifestMachine):
    mode = Mode.V2


class V1Machine(CatalogMachine):
    mode = Mode.V1

    def has_parent(self, names: Names) -> bool:
        return True

    def expect(
        self, wanted: int | set[int] | None, operation: str, request: dict[str, Any], *data: bytes
    ) -> Any:
        # Deeper ids are refused before anything is looked at (I03).
        deep = len(request["id"]) > 1
        return super().expect(0 if deep else wanted, operation, request, *data)


class CompatMachine(ManifestMachine):
    mode = Mode.COMPAT

    @rule(names=ROOT_IDS, properties=PROPERTIES, declared=st.booleans())
    def create_by_v1(self, names: Names, properties: dict[str, str], declared: bool) -> None:
        """A V1 client makes a table that has no row; it does not see rows, only directories."""
        place = f"{names[0]}.lance"
        taken = names in self.tables or names in self.namespaces
        if taken or self.at_place(place) or place in {t.place for t in self.tables.values()}:
            return
        writer = self.open(Mode.V1)
        if declared:
            writer.declare_table({"id": list(names)})
            self.tables[names] = Table(place, has_row=False)
            return
        rows = self.fresh_rows()
        writer.create_table({"id": list(names), "properties": properties}, ipc(rows))
        self.tables[names] = Table(place, rows, properties, has_row=False)

    @rule(names=ROOT_IDS)
    def register_directory(self, names: Names) -> None:
        """What only its directory tells of gets a row under its own name."""
        known = self.tables.get(names)
        if known is None or known.has_row:
            return
        wanted = 13 if known.rows is None else None
        request = {"id": list(names), "location": known.place}
        if self.expect(wanted, "register_table", request) is not None:
            known.has_row = True


def _settings(mode: Mode, size: int) -> settings:
    return settings(
        max_examples=EXAMPLES[mode][size],
        stateful_step_count=STEPS,
        deadline=None,
        report_multiple_bugs=False,
    )


TestV1 = V1Machine.TestCase
TestV1.settings = _settings(Mode.V1, 0)
TestV2 = V2Machine.TestCase
TestV2.settings = _settings(Mode.V2, 0)
TestCompat = CompatMachine.TestCase
TestCompat.settings = _settings(Mode.COMPAT, 0)


@pytest.mark.soak
@pytest.mark.parametrize("machine", [V1Machine, V2Machine, CompatMachine])
def test_ten_times_as_many_examples_with_other_seeds(machine: type[CatalogMachine]) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    wanted = settings(_settings(machine.mode, 1), derandomize=False, print_blob=True)
    run_state_machine_as_test(machine, settings=wanted)


def test_the_issue_asks_for_two_hundred_examples() -> None:
    assert sum(size for size, _ in EXAMPLES.values()) == 200


def test_rows_are_what_a_table_holds() -> None:
    """The helper writes what the machines compare."""
    with pa.ipc.open_stream(ipc([1, 2])) as reader:
        assert reader.read_all().to_pydict() == {"g": [1, 2]}
