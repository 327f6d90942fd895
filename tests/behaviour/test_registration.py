"""Deregister and register: out of the catalog and back, the data untouched."""

from __future__ import annotations

import json

import pytest

from lance_catalog.config import Mode
from tests.behaviour.catalogs import Catalog, code, ipc, local_only, refusal, rows

pytestmark = pytest.mark.homes("root", "nested")


def table_files(catalog: Catalog, place: str) -> list[str]:
    """The files of a table, without the markers that hide it."""
    found = catalog.root.paths(f"{place}/")
    return [path for path in found if not path.endswith(".lance-deregistered")]


class TestDeregister:
    def test_hidden_everywhere_data_untouched(self, catalog: Catalog) -> None:
        """I23, R3: hidden from list, describe, exists and data operations; every file stays."""
        table_id = catalog.at("t")
        catalog.create(table_id, properties={"k": "v"})
        catalog.create(catalog.at("keep"))
        location = catalog.describe_table({"id": table_id}).location
        place = catalog.place(table_id)
        files = {path: catalog.root.get(path) for path in table_files(catalog, place)}
        answer = catalog.deregister_table({"id": table_id})
        assert (answer.id, answer.location) == (table_id, location)
        assert answer.properties == {"k": "v"}
        assert catalog.tables(catalog.home) == ["keep"]
        assert catalog.all_tables() == ["$".join(catalog.at("keep"))]
        for call in (catalog.describe_table, catalog.table_exists, catalog.count_table_rows):
            assert code(call, {"id": table_id}) == 4
        assert {path: catalog.root.get(path) for path in table_files(catalog, place)} == files

    @local_only
    def test_second_time_is_4(self, catalog: Catalog) -> None:
        """I23: a deregistered table is not found."""
        catalog.create(catalog.at("t"))
        catalog.deregister_table({"id": catalog.at("t")})
        before = catalog.root.digest()
        assert code(catalog.deregister_table, {"id": catalog.at("t")}) == 4
        assert catalog.root.digest() == before

    def test_declared_table(self, catalog: Catalog) -> None:
        """I23, I24: a table without data leaves and comes back, still declared."""
        catalog.declare_table({"id": catalog.at("t")})
        location = catalog.deregister_table({"id": catalog.at("t")}).location
        assert not catalog.exists(catalog.at("t"))
        catalog.register_table({"id": catalog.at("t"), "location": location})
        asked = {"id": catalog.at("t"), "check_declared": True}
        assert catalog.describe_table(asked).is_only_declared is True

    @pytest.mark.homes("root")
    def test_v1_named_directories_carry_both_markers(self, catalog: Catalog) -> None:
        """R7, R3: root-level JSON and nested marker, so that readers of directories hide it too."""
        catalog.ns.context.clock = lambda: 1_700_000_000_123
        catalog.create(["t"])
        catalog.deregister_table({"id": ["t"]})
        if catalog.mode is Mode.V2:
            assert not [path for path in catalog.root.paths() if "deregistered" in path]
            return
        body = json.loads(catalog.root.get("t.deleted"))
        assert body["deleted_at_ms"] == 1_700_000_000_123
        assert body["ttl_ms"] is None
        assert catalog.root.get("t.lance/.lance-deregistered") == b"reserved"
        for mode in (Mode.V1, Mode.COMPAT):
            other = Catalog(mode, catalog.kind, catalog.root)
            assert other.tables() == []
            assert not other.exists(["t"])
        catalog.register_table({"id": ["t"], "location": "t.lance"})
        assert "t.deleted" not in catalog.root.level()
        assert "t.lance/.lance-deregistered" not in catalog.root.paths()

    @pytest.mark.homes("root")
    @pytest.mark.modes(Mode.V1, Mode.COMPAT)
    def test_marker_of_another_implementation(self, catalog: Catalog) -> None:
        """R7, I23: the nested marker alone hides a directory table; register brings it back."""
        catalog.root.write("t.lance", rows([1, 2, 3]))
        catalog.root.put("t.lance/.lance-deregistered", b"reserved")
        assert catalog.tables() == []
        assert code(catalog.describe_table, {"id": ["t"]}) == 4
        assert code(catalog.deregister_table, {"id": ["t"]}) == 4
        catalog.register_table({"id": ["t"], "location": "t.lance"})
        assert catalog.data(["t"]) == [1, 2, 3]


class TestRegister:
    def test_round_trip_keeps_data_and_properties(self, catalog: Catalog) -> None:
        """I24: in every mode, V1 included; with the location that deregister answered."""
        table_id = catalog.at("t")
        catalog.create(table_id, [5], properties={"k": "v"})
        for _ in range(3):
            location = catalog.deregister_table({"id": table_id}).location
            answer = catalog.register_table({"id": table_id, "location": location})
            assert answer.location == location
            assert answer.properties == {"k": "v"}
            assert catalog.tables(catalog.home) == ["t"]
            assert catalog.data(table_id) == [5]
            asked = {"id": table_id, "load_detailed_metadata": True}
            assert catalog.describe_table(asked).properties == {"k": "v"}
            catalog.insert_into_table({"id": table_id}, ipc(rows([6])))
            catalog.delete_from_table({"id": table_id, "predicate": "n = 6"})

    def test_properties_given_are_added(self, catalog: Catalog) -> None:
        """I24, R14: what comes with the request wins over what was kept."""
        table_id = catalog.at("t")
        catalog.create(table_id, properties={"k": "v", "l": "1"})
        location = catalog.deregister_table({"id": table_id}).location
        request = {"id": table_id, "location": location, "properties": {"l": "2", "m": "3"}}
        assert catalog.register_table(request).properties == {"k": "v", "l": "2", "m": "3"}
        asked = {"id": table_id, "load_detailed_metadata": True}
        assert catalog.describe_table(asked).properties == {"k": "v", "l": "2", "m": "3"}

    @local_only
    def test_existing_is_5(self, catalog: Catalog) -> None:
        """I24: the name of a live table."""
        catalog.create(catalog.at("t"))
        location = catalog.describe_table({"id": catalog.at("t")}).location
        before = catalog.root.digest()
        for mode in (None, "create", "Create"):
            request = {"id": catalog.at("t"), "location": location, "mode": mode}
            assert code(catalog.register_table, request) == 5
        assert catalog.root.digest() == before

    @local_only
    def test_unknown_mode_is_13(self, catalog: Catalog) -> None:
        """I24: refused, not taken for create."""
        catalog.create(catalog.at("t"))
        location = catalog.deregister_table({"id": catalog.at("t")}).location
        request = {"id": catalog.at("t"), "location": location, "mode": "append"}
        assert code(catalog.register_table, request) == 13
        assert not catalog.exists(catalog.at("t"))

    @pytest.mark.modes(Mode.V2, Mode.COMPAT)
    def test_under_another_name_and_namespace(self, catalog: Catalog) -> None:
        """I24: a deregistered table may come back as another; the old name stays free."""
        catalog.create(catalog.at("t"), [5], properties={"k": "v"})
        location = catalog.deregister_table({"id": catalog.at("t")}).location
        catalog.namespace("else")
        answer = catalog.register_table({"id": ["else", "u"], "location": location})
        assert answer.properties == {"k": "v"}
        assert catalog.data(["else", "u"]) == [5]
        assert not catalog.exists(catalog.at("t"))
        catalog.create(catalog.at("t"), [6])
        assert catalog.data(["else", "u"]) == [5]
        assert catalog.data(catalog.at("t")) == [6]

    @pytest.mark.modes(Mode.V2, Mode.COMPAT)
    def test_table_that_others_wrote(self, catalog: Catalog) -> None:
        """I24: any Lance table below the root, with the properties given."""
        catalog.root.write("foreign/place", rows([9]))
        request = {"id": catalog.at("t"), "location": "foreign/place", "properties": {"k": "v"}}
        catalog.register_table(request)
        assert catalog.data(catalog.at("t")) == [9]
        assert catalog.describe_table({"id": catalog.at("t")}).properties == {"k": "v"}

    @pytest.mark.modes(Mode.V2, Mode.COMPAT)
    def test_overwrite_replaces_the_entry(self, catalog: Catalog) -> None:
        """I24: the data that the entry pointed at before is deregistered, not lost."""
        table_id = catalog.at("t")
        old = catalog.create(table_id, [1]).location
        catalog.root.write("foreign/place", rows([9]))
        for mode in ("overwrite", "Overwrite"):
            catalog.register_table({"id": table_id, "location": "foreign/place", "mode": mode})
            assert catalog.data(table_id) == [9]
        catalog.register_table({"id": table_id, "location": old, "mode": "overwrite"})
        assert catalog.data(table_id) == [1]
        assert catalog.tables(catalog.home) == ["t"]

    @pytest.mark.modes(Mode.V2, Mode.COMPAT)
    def test_name_taken_meanwhile_is_5(self, catalog: Catalog) -> None:
        """I24: the name is free after a deregistration; who took it keeps it."""
        table_id = catalog.at("t")
        old = catalog.create(table_id, [1], properties={"k": "old"})
        location = catalog.deregister_table({"id": table_id}).location
        new = catalog.create(table_id, [2])
        assert new.location != old.location
        assert code(catalog.register_table, {"id": table_id, "location": location}) == 5
        catalog.register_table({"id": catalog.at("u"), "location": location})
        assert catalog.data(table_id) == [2]
        assert catalog.data(catalog.at("u")) == [1]
        told = catalog.describe_table({"id": catalog.at("u")})
        assert told.properties == {"k": "old"}

    @pytest.mark.modes(Mode.V1)
    def test_v1_name_stays_taken(self, catalog: Catalog) -> None:
        """I23, I24: in V1 the name is the directory: 5 until it is registered or dropped."""
        catalog.create(["t"], [1])
        catalog.deregister_table({"id": ["t"]})
        before = catalog.root.digest()
        error = refusal(catalog.create, ["t"], [2])
        assert error.code == 5
        assert "register_table" in str(error)
        assert code(catalog.declare_table, {"id": ["t"]}) == 5
        assert catalog.root.digest() == before


class TestDropOfDeregistered:
    def test_data_goes(self, catalog: Catalog) -> None:
        """I25: a deregistered table can be dropped; then nothing of it is left."""
        table_id = catalog.at("t")
        catalog.create(table_id)
        place = catalog.place(table_id)
        location = catalog.deregister_table({"id": table_id}).location
        catalog.drop_table({"id": table_id}, purge=True)
        assert catalog.root.paths(place) == []
        assert "t.deleted" not in catalog.root.level()
        assert code(catalog.drop_table, {"id": table_id}) == 4
        assert code(catalog.register_table, {"id": table_id, "location": location}) == 13
        catalog.create(table_id, [7])
        assert catalog.data(table_id) == [7]

    @pytest.mark.modes(Mode.V2, Mode.COMPAT)
    def test_live_table_of_the_name_comes_first(self, catalog: Catalog) -> None:
        """I25: drop takes the live one; the deregistered one needs a drop of its own."""
        table_id = catalog.at("t")
        catalog.create(table_id, [1])
        old = catalog.place(table_id)
        catalog.deregister_table({"id": table_id})
        catalog.create(table_id, [2])
        new = catalog.place(table_id)
        catalog.drop_table({"id": table_id}, purge=True)
        assert catalog.root.paths(f"{new}/") == []
        assert catalog.root.paths(f"{old}/") != []
        catalog.drop_table({"id": table_id}, purge=True)
        assert catalog.root.paths(f"{old}/") == []
        assert code(catalog.drop_table, {"id": table_id}) == 4
