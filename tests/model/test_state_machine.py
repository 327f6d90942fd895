"""Every operation against a dict: after each step the catalog, its rows and the disk agree with it.

One machine per mode. The compatibility machine also writes through V1, so that tables without a
row are there to be found, renamed, registered, migrated and dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test

from lance_catalog.config import Mode
from lance_catalog.model import PROTECTED
from tests.concurrency.racing import attempt, ipc
from tests.model.machine import (
    DRAWN_NAMESPACES,
    DRAWN_TABLES,
    NESTED,
    PROPERTIES,
    ROOT_IDS,
    Drawn,
    likely,
)
from tests.model.model import DEFAULT_TTL_MS, Drop, Hidden, Names, Table
from tests.model.tables import CatalogMachine

#: (examples of `make test`, of `make soak`), 50 steps each; 200 examples in all of `make test`.
EXAMPLES = {Mode.V2: (80, 800), Mode.COMPAT: (80, 800), Mode.V1: (40, 400)}
STEPS = 50


class ManifestMachine(CatalogMachine):
    """Namespaces, in the modes that have them."""

    @initialize(depth=st.integers(0, 2))
    def begin_with_namespaces(self, depth: int) -> None:
        for names in (("a",), ("a", "b"))[:depth]:
            self.ns.create_namespace({"id": list(names)})
            self.model.namespaces[names] = {}

    @rule(
        drawn=DRAWN_NAMESPACES,
        mode=st.sampled_from([None, "create", "exist_ok", "ExistOk", "overwrite"]),
        properties=PROPERTIES,
    )
    def create_namespace(self, drawn: Drawn, mode: str | None, properties: dict[str, str]) -> None:
        names = likely(drawn, self.model.free_names(NESTED))
        plain = (mode or "create").lower().replace("existok", "exist_ok")
        known = names in self.model.namespaces
        wanted: int | None = None
        if not self.model.has_parent(names):
            wanted = 1
        elif names in self.model.tables or (known and plain == "create"):
            wanted = 2
        elif known and plain == "overwrite" and self.model.below(names):
            wanted = 3
        request = {"id": list(names), "mode": mode, "properties": properties}
        answer = self.expect(wanted, "create_namespace", request)
        if answer is None:
            return
        if not known or plain == "overwrite":
            self.model.namespaces[names] = dict(properties)
        assert (answer.properties or {}) == self.model.namespaces[names]

    @precondition(lambda self: self.model.namespaces)
    @rule(
        drawn=DRAWN_NAMESPACES,
        mode=st.sampled_from([None, "fail", "Skip"]),
        behavior=st.sampled_from([None, None, "restrict", "cascade"]),
        force=st.booleans(),
    )
    def drop_namespace(
        self, drawn: Drawn, mode: str | None, behavior: str | None, force: bool
    ) -> None:
        """With all that is below: its tables to the trash, each on its own."""
        names = likely(drawn, self.model.namespaces)
        known = names in self.model.namespaces
        wanted = self.model.refuses_space_drop(
            names, skip=mode == "Skip", cascade=behavior == "cascade", force=force
        )
        began = self.clock()
        request = {"id": list(names), "mode": mode, "behavior": behavior}
        if self.expect(wanted, "drop_namespace", request, force=force) is None or not known:
            return
        old = {one.drop_id for one in self.model.trash}
        new = {one.id: one for one in self.ns.list_dropped_tables() if one.drop_id not in old}
        for one in [*self.model.below(names), names]:
            self.model.namespaces.pop(one, None)
            if one in self.model.tables:
                table = self.model.tables.pop(one)
                self.bin(one, table, new[one].drop_id, DEFAULT_TTL_MS, began)

    @precondition(lambda self: self.model.namespaces)
    @rule(drawn=DRAWN_NAMESPACES, on=st.sampled_from([True, False, False]))
    def protect_namespace(self, drawn: Drawn, on: bool) -> None:
        names = likely(drawn, self.model.namespaces)
        known = self.model.namespaces.get(names)
        change: dict[str, object] = {"set": {PROTECTED: "true"}} if on else {"unset": [PROTECTED]}
        wanted = 1 if known is None else None
        answer = self.expect_call(wanted, names, "set_namespace_properties", list(names), **change)
        if answer is not None:
            assert known is not None
            known.pop(PROTECTED, None)
            known.update({PROTECTED: "true"} if on else {})
            assert answer == known

    @precondition(lambda self: self.model.namespaces)
    @rule(drawn=DRAWN_NAMESPACES)
    def describe_namespace(self, drawn: Drawn) -> None:
        names = likely(drawn, self.model.namespaces)
        wanted = None if names in self.model.namespaces else 1
        answer = self.expect(wanted, "describe_namespace", {"id": list(names)})
        self.expect(wanted, "namespace_exists", {"id": list(names)})
        if answer is not None:
            assert (answer.properties or {}) == self.model.namespaces[names]

    @rule(properties=PROPERTIES)
    def set_root_properties(self, properties: dict[str, str]) -> None:
        self.ns.create_namespace({"id": [], "mode": "overwrite", "properties": properties})
        self.model.root_properties = properties
        found = self.ns.describe_namespace({"id": []}).properties or {}
        assert found == properties


class V2Machine(ManifestMachine):
    mode = Mode.V2


class V1Machine(CatalogMachine):
    mode = Mode.V1

    @rule(names=ROOT_IDS)
    def declare_over_dropped(self, names: Names) -> None:
        """With v1_redeclare=purge the dropped table goes first."""
        self.ns = self.open(v1_redeclare="purge")
        wanted = self.model.refuses_declaration(names, redeclare=True)
        answer = self.expect(wanted, "declare_table", {"id": list(names)})
        self.ns = self.open()
        if answer is not None:
            place = self.place_of(answer.location)
            self.model.trash = [one for one in self.model.trash if one.table.place != place]
            self.model.tables[names] = Table(place, has_row=False)


class CompatMachine(ManifestMachine):
    mode = Mode.COMPAT

    @rule(names=ROOT_IDS, properties=PROPERTIES, declared=st.booleans())
    def create_by_v1(self, names: Names, properties: dict[str, str], declared: bool) -> None:
        """A V1 client makes a table that has no row; it does not see rows, only directories."""
        place = f"{names[0]}.lance"
        if self.model.is_taken(names) or place in self.model.places():
            return
        writer = self.open(Mode.V1)
        if declared:
            writer.declare_table({"id": list(names)})
            self.model.tables[names] = Table(place, has_row=False)
            return
        rows = self.fresh_rows()
        writer.create_table({"id": list(names), "properties": properties}, ipc(rows))
        self.model.tables[names] = Table(place, rows, properties, has_row=False)

    @precondition(lambda self: self.model.trash or self.model.hidden or self.model.tables)
    @rule(
        drawn=DRAWN_TABLES,
        pick=st.integers(0, 7),
        verb=st.sampled_from(["undrop", "purge", "create", "redeclare"]),
    )
    def v1_beside(self, drawn: Drawn, pick: int, verb: str) -> None:
        """A V1 client ends a hiding: what a marker alone decides, and nothing else (19)."""
        self.something_dropped(drawn)
        known = self.hidden_from_v1()
        if not known:
            return
        one = known[pick % len(known)]
        names = (one.table.place.removesuffix(".lance"),)
        if isinstance(one, Hidden):
            verb = "register" if verb in ("undrop", "purge") else "drop"
        if not one.table.has_row and self.model.is_taken(names):
            return  # To V1 it would be this table, to others that one.
        rows = self.fresh_rows()
        v1 = self.open(Mode.V1, v1_redeclare="purge")
        calls: dict[str, Callable[[], Any]] = {
            "undrop": lambda: v1.undrop_table(list(names)),
            "purge": lambda: v1.purge_table(list(names), force=True),
            "create": lambda: v1.create_table({"id": list(names)}, ipc(rows)),
            "redeclare": lambda: v1.declare_table({"id": list(names)}),
            "register": lambda: v1.register_table({"id": list(names), "location": one.table.place}),
            "drop": lambda: v1.drop_table({"id": list(names)}, ttl="never", force=True),
        }
        began = self.clock()
        code, text = attempt(calls[verb])
        if one.table.has_row:
            assert code == 19, (verb, text)
            return
        if verb == "redeclare" and one.table.protected:
            assert code == 19, text
            return
        assert code is None, (verb, text)
        (self.model.hidden if isinstance(one, Hidden) else self.model.trash).remove(one)  # type: ignore[arg-type]
        if verb == "drop":
            (drop_id,) = (d.drop_id for d in self.ns.list_dropped_tables() if d.id == names)
            self.bin(names, one.table, drop_id, None, began)
        elif verb != "purge":
            new = {"create": Table(one.table.place, rows), "redeclare": Table(one.table.place)}
            self.model.tables[names] = new.get(verb, one.table)
            self.model.tables[names].has_row = False

    def hidden_from_v1(self) -> list[Hidden | Drop]:
        """What a V1 client finds hidden: by its directory."""
        both: list[Hidden | Drop] = [*self.model.hidden, *self.model.trash]
        return [one for one in both if one.table.place.endswith(".lance")]

    @rule(names=ROOT_IDS)
    def register_directory(self, names: Names) -> None:
        """What only its directory tells of gets a row under its own name."""
        known = self.model.tables.get(names)
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
    wanted = settings(_settings(machine.mode, 1), derandomize=False, print_blob=True)
    run_state_machine_as_test(machine, settings=wanted)


def test_the_issue_asks_for_two_hundred_examples() -> None:
    assert sum(size for size, _ in EXAMPLES.values()) == 200


def test_rows_are_what_a_table_holds() -> None:
    """The helper writes what the machines compare."""
    with pa.ipc.open_stream(ipc([1, 2])) as reader:
        assert reader.read_all().to_pydict() == {"g": [1, 2]}
