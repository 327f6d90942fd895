"""Tables: declare, create, list, describe, exists, drop."""

from __future__ import annotations

import json
import re

import pyarrow as pa
import pytest

from lance_catalog.config import Mode
from tests.behaviour.catalogs import Catalog, code, ipc, local_only, refusal, rows

pytestmark = pytest.mark.homes("root", "nested")


class TestCreate:
    def test_data_lies_at_the_location(self, catalog: Catalog) -> None:
        """I26, I03: an Arrow stream in; what Lance alone reads at the location is that."""
        made = catalog.create(catalog.at("t"), [3, 1, 2])
        assert made.version == 1
        assert catalog.data(catalog.at("t")) == [1, 2, 3]
        assert catalog.describe_table({"id": catalog.at("t")}).location == made.location
        assert catalog.tables(catalog.home) == ["t"]

    @local_only
    def test_empty_table_and_wide_schema(self, catalog: Catalog) -> None:
        """I26: no rows is a table too; the schema is kept."""
        schema = pa.schema(
            [("v", pa.list_(pa.float32(), 4)), ("s", pa.string()), ("u", pa.struct([("x", "i4")]))]
        )
        catalog.create_table({"id": catalog.at("t")}, ipc(schema.empty_table()))
        assert catalog.ns.open_table(catalog.at("t")).schema == schema
        assert catalog.count_table_rows({"id": catalog.at("t")}).count == 0

    def test_existing_is_5(self, catalog: Catalog) -> None:
        """I26, C09: mode create refuses, and nothing is left of the attempt."""
        catalog.create(catalog.at("t"), [1], properties={"k": "v"})
        before = catalog.root.digest()
        for mode in (None, "create", "Create"):
            assert code(catalog.create, catalog.at("t"), [2], mode=mode) == 5
        assert catalog.root.digest() == before

    @pytest.mark.parametrize("mode", ["exist_ok", "ExistOk"])
    def test_exist_ok_takes_what_is_there(self, catalog: Catalog, mode: str) -> None:
        """I26: mode exist_ok makes it once."""
        catalog.create(catalog.at("t"), [1], mode=mode, properties={"k": "v"})
        before = catalog.root.digest()
        again = catalog.create(catalog.at("t"), [2], mode=mode, properties={"k": "w"})
        assert again.properties == {"k": "v"}
        assert again.location == catalog.describe_table({"id": catalog.at("t")}).location
        assert catalog.data(catalog.at("t")) == [1]
        assert catalog.root.digest() == before

    @pytest.mark.parametrize("mode", ["overwrite", "Overwrite"])
    def test_overwrite_is_a_new_version_of_the_same_table(
        self, catalog: Catalog, mode: str
    ) -> None:
        """I26, R14: data and properties replaced, lineage and place kept."""
        catalog.create(catalog.at("t"), [1], mode=mode, properties={"k": "v", "gone": "1"})
        place = catalog.place(catalog.at("t"))
        made = catalog.create_table(
            {"id": catalog.at("t"), "mode": mode, "properties": {"k": "w"}},
            ipc(pa.table({"n": ["text"]})),
        )
        assert made.properties == {"k": "w"}
        assert made.version > 1
        assert catalog.place(catalog.at("t")) == place
        assert catalog.data(catalog.at("t")) == ["text"]
        asked = {"id": catalog.at("t"), "load_detailed_metadata": True}
        assert catalog.describe_table(asked).properties == {"k": "w"}
        old = catalog.ns.open_table(catalog.at("t"), version=1)
        assert old.to_table()["n"].to_pylist() == [1]

    @local_only
    def test_unknown_mode_is_13(self, catalog: Catalog) -> None:
        """I26: a mode nobody knows is refused, before anything is written."""
        before = catalog.root.digest()
        assert code(catalog.create, catalog.at("t"), mode="upsert") == 13
        assert catalog.root.digest() == before

    def test_garbage_is_13_and_leaves_nothing(self, catalog: Catalog) -> None:
        """I26, R12: bytes that are no Arrow stream are the caller's mistake."""
        before = catalog.root.digest()
        for data in (b"", b"garbage", b"\xff" * 500, b"ARROW1\0\0" + b"\0" * 64, None):
            assert code(catalog.create_table, {"id": catalog.at("t")}, data) == 13
        assert catalog.root.digest() == before
        assert not catalog.exists(catalog.at("t"))

    @local_only
    def test_stream_cut_short_is_13(self, catalog: Catalog) -> None:
        """I26: a stream that ends in the middle is not taken for a shorter table."""
        whole = ipc(rows(range(1000)))
        before = catalog.root.digest()
        assert code(catalog.create_table, {"id": catalog.at("t")}, whole[:-4000]) == 13
        assert catalog.root.digest() == before

    @local_only
    def test_no_id_is_13(self, catalog: Catalog) -> None:
        """I26, O03: a table has at least one name."""
        for table_id in (None, []):
            assert code(catalog.create_table, {"id": table_id}, ipc(rows([1]))) == 13
            for call in (
                catalog.declare_table,
                catalog.describe_table,
                catalog.table_exists,
                catalog.drop_table,
                catalog.deregister_table,
            ):
                assert code(call, {"id": table_id}) == 13


class TestDeclare:
    def test_reserves_name_and_place(self, catalog: Catalog) -> None:
        """I20: `.lance-reserved` is written at the place of the mode, and nothing else."""
        made = catalog.declare_table({"id": catalog.at("t")})
        place = catalog.place(catalog.at("t"))
        assert catalog.root.paths(place) == [f"{place}/.lance-reserved"]
        assert catalog.root.get(f"{place}/.lance-reserved").startswith(b"reserved")
        described = catalog.describe_table({"id": catalog.at("t"), "check_declared": True})
        assert described.location == made.location
        assert described.is_only_declared is True
        assert catalog.exists(catalog.at("t"))

    def test_existing_is_5(self, catalog: Catalog) -> None:
        """I20, C09: over a declared and over a created table; nothing is left behind."""
        catalog.declare_table({"id": catalog.at("d")})
        catalog.create(catalog.at("t"))
        before = catalog.root.digest()
        assert code(catalog.declare_table, {"id": catalog.at("d")}) == 5
        assert code(catalog.declare_table, {"id": catalog.at("t")}) == 5
        assert catalog.root.digest() == before

    @pytest.mark.parametrize("mode", ["create", "exist_ok", "overwrite"])
    def test_create_fills_it(self, catalog: Catalog, mode: str) -> None:
        """I20, I26: the same place, version 1, no longer only declared."""
        location = catalog.declare_table({"id": catalog.at("t")}).location
        made = catalog.create(catalog.at("t"), [7], mode=mode)
        assert made.location == location
        assert made.version == 1
        assert catalog.data(catalog.at("t")) == [7]
        described = catalog.describe_table({"id": catalog.at("t"), "check_declared": True})
        assert described.is_only_declared is False

    def test_reading_it_is_19(self, catalog: Catalog) -> None:
        """I27: a table without data is in no state to be read, but it exists."""
        catalog.declare_table({"id": catalog.at("t")})
        assert code(catalog.count_table_rows, {"id": catalog.at("t")}) == 19
        assert code(catalog.describe_table, {"id": catalog.at("t"), "version": 1}) in (11, 19)

    @local_only
    def test_create_empty_table_is_the_old_name(self, catalog: Catalog) -> None:
        """I20: the deprecated operation of the interface declares."""
        catalog.create_empty_table({"id": catalog.at("t")})
        described = catalog.describe_table({"id": catalog.at("t"), "check_declared": True})
        assert described.is_only_declared is True

    @pytest.mark.needs("declared properties")
    def test_properties_are_kept(self, catalog: Catalog) -> None:
        """I20, R14: in the row, and through the creation that fills the table."""
        catalog.declare_table({"id": catalog.at("t"), "properties": {"k": "v", "l": "1"}})
        assert catalog.describe_table({"id": catalog.at("t")}).properties == {"k": "v", "l": "1"}
        catalog.create(catalog.at("t"), properties={"l": "2"})
        assert catalog.describe_table({"id": catalog.at("t")}).properties == {"k": "v", "l": "2"}


class TestParents:
    @pytest.mark.needs("namespaces")
    def test_missing_parent_is_1_and_leaves_nothing(self, catalog: Catalog) -> None:
        """I20, I26, R11: declare, create and register check the parent, the whole way up."""
        catalog.create(["there"])
        location = catalog.describe_table({"id": ["there"]}).location
        before = catalog.root.digest()
        for names in (["zz", "t"], ["zz", "y", "t"], ["there", "t"]):
            assert code(catalog.declare_table, {"id": names}) == 1
            assert code(catalog.create, names) == 1
            assert code(catalog.register_table, {"id": names, "location": location}) == 1
        assert catalog.root.digest() == before

    @pytest.mark.needs("namespaces")
    def test_missing_table_is_4_missing_parent_is_1(self, catalog: Catalog) -> None:
        """R11, I22, I23, I25: for every operation on a table that is not there."""
        catalog.namespace("ns")
        calls = [
            catalog.table_exists,
            catalog.describe_table,
            catalog.drop_table,
            catalog.deregister_table,
            catalog.count_table_rows,
            lambda request: catalog.rename_table({**request, "new_table_name": "x"}),
        ]
        for call in calls:
            assert code(call, {"id": ["gone"]}) == 4
            assert code(call, {"id": ["ns", "gone"]}) == 4
            assert code(call, {"id": ["zz", "t"]}) == 1
            assert code(call, {"id": ["ns", "zz", "t"]}) == 1
            # A namespace asked for as a table.
            assert code(call, {"id": ["ns"]}) == 4

    @pytest.mark.homes("root")
    def test_missing_table_is_4_on_an_empty_root(self, catalog: Catalog) -> None:
        """R11, I22, I23, I25: nothing is there, and nothing is made."""
        for call in (
            catalog.table_exists,
            catalog.describe_table,
            catalog.drop_table,
            catalog.deregister_table,
            catalog.count_table_rows,
        ):
            assert code(call, {"id": ["gone"]}) == 4
        assert catalog.root.paths() == []

    @pytest.mark.needs("namespaces")
    def test_name_of_a_namespace_is_5(self, catalog: Catalog) -> None:
        """O01: names are unique among siblings of any kind, whatever the mode."""
        catalog.namespace(*catalog.at("x"))
        for mode in ("create", "exist_ok", "overwrite"):
            assert code(catalog.create, catalog.at("x"), mode=mode) == 5
        assert code(catalog.declare_table, {"id": catalog.at("x")}) == 5
        assert catalog.namespaces(catalog.home) == ["x"]
        assert catalog.tables(catalog.home) == []


class TestList:
    def test_names_sorted_declared_included(self, catalog: Catalog) -> None:
        """I21: last components of one level, declared ones unless they are not wanted."""
        for name in ("b", "a", "B", "ä", "a b"):
            catalog.create(catalog.at(name), [1])
        catalog.declare_table({"id": catalog.at("c")})
        assert catalog.tables(catalog.home) == ["B", "a", "a b", "b", "c", "ä"]
        both = {"include_declared": True}
        assert catalog.tables(catalog.home, **both) == ["B", "a", "a b", "b", "c", "ä"]
        only = {"include_declared": False}
        assert catalog.tables(catalog.home, **only) == ["B", "a", "a b", "b", "ä"]

    def test_list_all_tables(self, catalog: Catalog) -> None:
        """I26: everything below, ids from the root; declared ones unless not wanted."""
        catalog.create(catalog.at("t"))
        catalog.declare_table({"id": catalog.at("d")})
        if catalog.can("namespaces"):
            catalog.namespace("other")
            catalog.create(["other", "x"])
            catalog.create(["r"])
        expected = ["$".join(catalog.at("d")), "$".join(catalog.at("t"))]
        others = ["other$x", "r"] if catalog.can("namespaces") else []
        assert catalog.all_tables() == sorted(expected + others)
        assert catalog.all_tables(include_declared=False) == sorted(expected[1:] + others)
        assert catalog.all_tables(catalog.home) == sorted(
            expected + (others if not catalog.home else [])
        )

    def test_folders_that_are_no_tables_are_left_out(self, catalog: Catalog) -> None:
        """C02, I21: a table's prefix holds a file; files, markers and strangers are no tables."""
        catalog.create(catalog.at("t"))
        catalog.root.put("notes.txt", b"x")
        catalog.root.put("file.lance", b"x")
        catalog.root.put("folder/x", b"x")
        catalog.root.put("ghost.deleted", b"{}")
        assert catalog.tables(catalog.home) == ["t"]
        assert code(catalog.describe_table, {"id": ["file"]}) == 4
        assert code(catalog.describe_table, {"id": ["ghost"]}) == 4


class TestDescribe:
    def test_basic_answer(self, catalog: Catalog) -> None:
        """I22: name, namespace and location; nothing is opened unless asked."""
        catalog.create(catalog.at("t"))
        told = catalog.describe_table({"id": catalog.at("t")})
        assert (told.table, told.namespace) == ("t", list(catalog.home))
        assert told.location == told.table_uri
        assert (told.version, told.var_schema, told.is_only_declared) == (None, None, None)
        assert told.storage_options is None

    def test_detailed_metadata(self, catalog: Catalog) -> None:
        """I22: version, schema and properties with load_detailed_metadata."""
        catalog.create(catalog.at("t"), properties={"k": "v"})
        catalog.insert_into_table({"id": catalog.at("t")}, ipc(rows([4])))
        asked = {"id": catalog.at("t"), "load_detailed_metadata": True}
        told = catalog.describe_table(asked)
        dataset = catalog.ns.open_table(catalog.at("t"))
        assert told.version == dataset.version
        assert [field.name for field in told.var_schema.fields] == ["n"]
        assert told.properties == {"k": "v"}
        assert told.is_only_declared is False

    def test_version_tag_and_branch_are_honoured(self, catalog: Catalog) -> None:
        """I22: a version, tag or branch asked for is answered; missing ones are 11, 8, 22."""
        table_id = catalog.at("t")
        catalog.create(table_id, [1])
        catalog.insert_into_table({"id": table_id}, ipc(rows([2])))
        catalog.create_table_tag({"id": table_id, "tag": "first", "version": 1})
        catalog.create_table_branch({"id": table_id, "name": "dev", "from_version": 1})
        detailed = {"id": table_id, "load_detailed_metadata": True}
        assert catalog.describe_table({**detailed, "version": 1}).version == 1
        assert catalog.describe_table({**detailed, "tag": "first"}).version == 1
        assert catalog.describe_table({**detailed, "version": 2}).version == 2
        assert catalog.describe_table({**detailed, "branch": "dev"}).version == 1
        for more, expected in (({"version": 99}, 11), ({"tag": "no"}, 8), ({"branch": "no"}, 22)):
            assert code(catalog.describe_table, {"id": table_id, **more}) == expected
            assert code(catalog.describe_table, {**detailed, **more}) == expected

    @local_only
    def test_exists_at_a_version(self, catalog: Catalog) -> None:
        """I26: TableExists honours the version asked for."""
        catalog.create(catalog.at("t"))
        catalog.table_exists({"id": catalog.at("t")})
        catalog.table_exists({"id": catalog.at("t"), "version": 1})
        assert code(catalog.table_exists, {"id": catalog.at("t"), "version": 9}) == 11

    @local_only
    def test_storage_options_only_when_wanted(self, catalog: Catalog) -> None:
        """R16, C14: vend_input_storage_options answers the options as the store gets them."""
        catalog.create(catalog.at("t"))
        more = {"vend_input_storage_options": "true", "storage.some_option": "x"}
        vending = catalog.open(**more)
        told = vending.describe_table({"id": catalog.at("t")})
        if catalog.kind != "memory":
            assert told.storage_options == {**catalog.root.options, "some_option": "x"}
        assert catalog.describe_table({"id": catalog.at("t")}).storage_options is None


class TestProperties:
    def test_round_trip_and_copy(self, catalog: Catalog) -> None:
        """R14, C07: the row is the truth in V2 and compat, with a copy in the table's metadata."""
        wanted = {"ü": '漢"\\\n', "k": "", "a'b": "') OR 1=1", "lance_catalog.protected": "true"}
        made = catalog.create(catalog.at("t"), properties=wanted)
        assert made.properties == wanted
        asked = {"id": catalog.at("t"), "load_detailed_metadata": True}
        assert catalog.describe_table(asked).properties == wanted
        assert dict(catalog.ns.open_table(catalog.at("t")).metadata) == wanted
        if catalog.mode is not Mode.V1:
            row = catalog.rows()["$".join(catalog.at("t"))]
            assert json.loads(row["metadata"]) == wanted
            assert catalog.describe_table({"id": catalog.at("t")}).properties == wanted

    def test_the_row_wins(self, catalog: Catalog) -> None:
        """R14: what another writer puts into the table's own metadata changes V1's answer only."""
        catalog.create(catalog.at("t"), properties={"k": "v"})
        catalog.ns.open_table(catalog.at("t")).update_metadata({"k": "w"})
        asked = {"id": catalog.at("t"), "load_detailed_metadata": True}
        expected = "w" if catalog.mode is Mode.V1 else "v"
        assert catalog.describe_table(asked).properties == {"k": expected}

    @local_only
    def test_none_is_null(self, catalog: Catalog) -> None:
        """C07: no properties are NULL, as native writes them."""
        catalog.create(catalog.at("t"))
        if catalog.mode is not Mode.V1:
            assert catalog.rows()["$".join(catalog.at("t"))]["metadata"] is None
        asked = {"id": catalog.at("t"), "load_detailed_metadata": True}
        assert not catalog.describe_table(asked).properties

    @local_only
    def test_keys_of_ours_are_refused(self, catalog: Catalog) -> None:
        """R14: 13, naming the key, and nothing is written."""
        location = catalog.create(catalog.at("there")).location
        before = catalog.root.digest()
        bad = {"lance_catalog.drop_id": "1"}
        error = refusal(catalog.create, catalog.at("t"), properties=bad)
        assert error.code == 13
        assert "lance_catalog.drop_id" in str(error)
        assert code(catalog.declare_table, {"id": catalog.at("t"), "properties": bad}) == 13
        register = {"id": catalog.at("t"), "location": location, "properties": bad}
        assert code(catalog.register_table, register) == 13
        assert code(catalog.create, catalog.at("there"), mode="overwrite", properties=bad) == 13
        assert catalog.root.digest() == before


class TestDrop:
    def test_table_and_data_go(self, catalog: Catalog) -> None:
        """I25, R5: gone from list, describe, exists; no bytes of it are left below the root."""
        catalog.create(catalog.at("keep"))
        catalog.create(catalog.at("t"))
        place = catalog.place(catalog.at("t"))
        answer = catalog.drop_table({"id": catalog.at("t")}, purge=True)
        assert answer.id == catalog.at("t")
        assert answer.location.rsplit("/", 1)[-1].startswith(place[:16])
        assert catalog.tables(catalog.home) == ["keep"]
        assert not catalog.exists(catalog.at("t"))
        assert code(catalog.describe_table, {"id": catalog.at("t")}) == 4
        assert code(catalog.drop_table, {"id": catalog.at("t")}) == 4
        assert code(catalog.count_table_rows, {"id": catalog.at("t")}) == 4
        assert catalog.root.paths(place) == []
        assert not [path for path in catalog.root.paths() if "t.deleted" in path]
        assert catalog.root.paths("__trash") == []
        assert catalog.data(catalog.at("keep")) == [1, 2, 3]

    def test_answer_names_the_drop(self, catalog: Catalog) -> None:
        """R13: transaction_id is the drop id; properties tell it and when it expires, as text."""
        catalog.ns.context.clock = lambda: 1_700_000_000_123
        catalog.create(catalog.at("t"))
        answer = catalog.drop_table({"id": catalog.at("t")})
        assert re.fullmatch("[0-9a-f]{10}-[0-9a-f]{12}", answer.transaction_id)
        assert answer.properties["lance_catalog.drop_id"] == answer.transaction_id
        week = 7 * 24 * 3600 * 1000
        assert answer.properties["lance_catalog.expires_at_ms"] == str(1_700_000_000_123 + week)

    def test_declared_table_goes(self, catalog: Catalog) -> None:
        """I25: a table without data can be dropped as well."""
        catalog.declare_table({"id": catalog.at("t")})
        place = catalog.place(catalog.at("t"))
        catalog.drop_table({"id": catalog.at("t")}, purge=True)
        assert not catalog.exists(catalog.at("t"))
        assert catalog.root.paths(place) == []

    def test_name_is_free_again(self, catalog: Catalog) -> None:
        """I25, C10: the next table of that name has nothing of the old one."""
        for number in range(3):
            catalog.create(catalog.at("t"), [number], properties={f"k{number}": "v"})
            assert catalog.data(catalog.at("t")) == [number]
            asked = {"id": catalog.at("t"), "load_detailed_metadata": True}
            told = catalog.describe_table(asked)
            assert told.properties == {f"k{number}": "v"}
            catalog.drop_table({"id": catalog.at("t")})
        assert catalog.tables(catalog.home) == []


def test_restore_table_makes_an_older_version_current(catalog: Catalog) -> None:
    """I26: RestoreTable."""
    table_id = catalog.at("t")
    catalog.create(table_id, [1])
    catalog.insert_into_table({"id": table_id}, ipc(rows([2])))
    catalog.restore_table({"id": table_id, "version": 1})
    assert catalog.data(table_id) == [1]
    assert code(catalog.restore_table, {"id": table_id, "version": 99}) == 11
