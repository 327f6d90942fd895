"""Namespaces: create, list, describe, exists, drop, in their modes and behaviours."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lance_catalog.config import Mode
from tests.behaviour.catalogs import FLAG, Catalog, code, local_only, refusal

pytestmark = pytest.mark.needs("namespaces")


def paths_without_manifest(catalog: Catalog) -> list[str]:
    return [path for path in catalog.root.paths() if not path.startswith("__manifest/")]


class TestCreate:
    def test_namespaces_nest_and_leave_nothing_on_disk(self, catalog: Catalog) -> None:
        """I01, I10, O04: logical, at any depth, rows only."""
        for depth in range(1, 6):
            catalog.namespace(*"abcde"[:depth])
        assert catalog.namespaces() == ["a"]
        assert catalog.namespaces("abcd") == ["e"]
        assert catalog.namespaces("abcde") == []
        assert paths_without_manifest(catalog) == []

    @local_only
    def test_row_holds_id_type_and_no_location(self, catalog: Catalog) -> None:
        """C05, C06: names joined by $, the bare name at root; a location is for tables only."""
        catalog.namespace("a")
        catalog.namespace("a", "b")
        rows = catalog.rows()
        assert set(rows) == {"a", "a$b"}
        assert {row["object_type"] for row in rows.values()} == {"namespace"}
        assert {row["location"] for row in rows.values()} == {None}

    def test_created_at_is_recorded_and_not_shown(self, catalog: Catalog) -> None:
        """R6, I10: in the row's metadata under the reserved key, from the injected clock."""
        catalog.ns.context.clock = lambda: 1_700_000_000_123
        catalog.namespace("a", properties={"k": "v"})
        stored = json.loads(catalog.rows()["a"]["metadata"])
        created = "2023-11-14T22:13:20.123+00:00"
        assert stored == {"k": "v", "lance_catalog.created_at": created}
        assert catalog.describe_namespace({"id": ["a"]}).properties == {"k": "v"}

    def test_missing_parent_is_1(self, catalog: Catalog) -> None:
        """I10, R11: the parent is checked, and nothing is written when it is missing."""
        assert code(catalog.namespace, "zz", "b") == 1
        assert code(catalog.namespace, "zz", "b", "c") == 1
        assert catalog.root.paths() == []
        catalog.namespace("a")
        error = refusal(catalog.namespace, "a", "missing", "c")
        assert error.code == 1
        assert "a.missing" in str(error)

    def test_parent_that_is_a_table_is_1(self, catalog: Catalog) -> None:
        """R11: a table asked for as a namespace is 1."""
        catalog.create(["t"])
        assert code(catalog.namespace, "t", "b") == 1
        assert code(catalog.list_namespaces, {"id": ["t"]}) == 1
        assert code(catalog.list_tables, {"id": ["t"]}) == 1
        assert code(catalog.describe_namespace, {"id": ["t"]}) == 1
        assert code(catalog.namespace_exists, {"id": ["t"]}) == 1
        assert code(catalog.drop_namespace, {"id": ["t"]}) == 1

    def test_existing_is_2(self, catalog: Catalog) -> None:
        """I10, C09: mode create refuses what exists and changes nothing."""
        catalog.namespace("a", properties={"k": "v"})
        version = catalog.manifest().version
        for mode in (None, "create", "Create", "CREATE"):
            assert code(catalog.namespace, "a", mode=mode, properties={"k": "w"}) == 2
        assert catalog.describe_namespace({"id": ["a"]}).properties == {"k": "v"}
        assert catalog.manifest().version == version

    def test_exist_ok_answers_what_is_there(self, catalog: Catalog) -> None:
        """I10: mode exist_ok, in PascalCase and snake_case."""
        for mode in ("exist_ok", "ExistOk", "EXIST_OK"):
            made = catalog.namespace(mode, mode=mode, properties={"k": "v"})
            assert made.properties == {"k": "v"}
            again = catalog.namespace(mode, mode=mode, properties={"k": "w", "l": "x"})
            assert again.properties == {"k": "v"}
            assert catalog.describe_namespace({"id": [mode]}).properties == {"k": "v"}

    @pytest.mark.parametrize("mode", ["overwrite", "Overwrite"])
    def test_overwrite_replaces_properties_of_an_empty_one(
        self, catalog: Catalog, mode: str
    ) -> None:
        """I10: mode overwrite; a namespace with children is never replaced (3)."""
        catalog.namespace("a", properties={"k": "v", "gone": "1"})
        assert catalog.namespace("a", mode=mode, properties={"k": "w"}).properties == {"k": "w"}
        assert catalog.describe_namespace({"id": ["a"]}).properties == {"k": "w"}
        catalog.namespace("a", "b")
        assert code(catalog.namespace, "a", mode=mode, properties={}) == 3
        assert catalog.describe_namespace({"id": ["a"]}).properties == {"k": "w"}

    @local_only
    def test_unknown_mode_is_13(self, catalog: Catalog) -> None:
        """I10: a mode nobody knows is refused before anything is written."""
        error = refusal(catalog.namespace, "a", mode="replace")
        assert error.code == 13
        assert "exist_ok" in str(error)
        assert catalog.root.paths() == []

    def test_name_of_a_table_is_2(self, catalog: Catalog) -> None:
        """O01: names are unique among siblings of any kind, whatever the mode."""
        catalog.create(["x"])
        for mode in ("create", "exist_ok", "overwrite"):
            assert code(catalog.namespace, "x", mode=mode) == 2
        assert catalog.data(["x"]) == [1, 2, 3]

    @local_only
    def test_the_same_name_elsewhere_is_another_object(self, catalog: Catalog) -> None:
        """O01: unique among siblings only."""
        catalog.namespace("x")
        catalog.namespace("x", "x")
        catalog.create(["x", "x", "x"])
        assert catalog.namespaces(["x"]) == ["x"]
        assert catalog.tables(["x", "x"]) == ["x"]

    @local_only
    def test_no_id_is_13(self, catalog: Catalog) -> None:
        """I10: an id is required."""
        for call in (
            catalog.create_namespace,
            catalog.list_namespaces,
            catalog.describe_namespace,
            catalog.namespace_exists,
            catalog.drop_namespace,
            catalog.list_tables,
        ):
            assert code(call, {}) == 13


class TestRoot:
    def test_root_always_exists(self, catalog: Catalog) -> None:
        """O03: the root has the empty identifier and needs no creation."""
        catalog.namespace_exists({"id": []})
        assert catalog.describe_namespace({"id": []}).properties == {}
        assert catalog.namespaces() == []
        assert catalog.root.paths() == []

    def test_root_cannot_be_created_or_dropped(self, catalog: Catalog) -> None:
        """O03: create is 2, drop is 13, even by cascade."""
        assert code(catalog.namespace) == 2
        assert code(catalog.drop_namespace, {"id": []}) == 13
        assert code(catalog.drop_namespace, {"id": [], "behavior": "cascade"}) == 13
        assert catalog.root.paths() == []

    def test_root_properties_round_trip(self, catalog: Catalog) -> None:
        """I02: kept in the __manifest table's own metadata."""
        wanted = {"owner": 'ü "quoted"', "x": ""}
        answer = catalog.namespace(mode="overwrite", properties=wanted)
        assert answer.properties == wanted
        assert catalog.describe_namespace({"id": []}).properties == wanted
        assert catalog.namespace(mode="exist_ok").properties == wanted
        assert any("ü" in value for value in catalog.manifest().metadata.values())
        assert catalog.rows() == {}

    def test_root_properties_survive_other_changes(self, catalog: Catalog) -> None:
        """I02: rows and root properties are independent, in either order."""
        catalog.namespace("a")
        catalog.namespace(mode="overwrite", properties={"k": "v"})
        catalog.namespace("b")
        catalog.create(["t"])
        assert catalog.describe_namespace({"id": []}).properties == {"k": "v"}
        catalog.namespace(mode="overwrite", properties={})
        assert catalog.describe_namespace({"id": []}).properties == {}
        assert catalog.namespaces() == ["a", "b"]
        assert catalog.data(["t"]) == [1, 2, 3]


class TestListAndDescribe:
    def test_list_is_one_level_last_components(self, catalog: Catalog) -> None:
        """I11: exactly one level below, tables left out."""
        for names in (("b",), ("a",), ("a", "c"), ("a", "b"), ("a", "b", "x")):
            catalog.namespace(*names)
        catalog.create(["a", "t"])
        catalog.create(["u"])
        assert catalog.namespaces() == ["a", "b"]
        assert catalog.namespaces(["a"]) == ["b", "c"]
        assert catalog.namespaces(["b"]) == []

    def test_names_that_begin_alike_do_not_mix(self, catalog: Catalog) -> None:
        """I11: `ab` is no child of `a`, nor is what sorts next to the delimiter."""
        for name in ("a", "ab", "a#", "a%", "a ", "a.b"):
            catalog.namespace(name)
            catalog.namespace(name, f"in {name}")
        for name in ("a", "ab", "a#", "a%", "a ", "a.b"):
            assert catalog.namespaces([name]) == [f"in {name}"]

    def test_missing_is_1(self, catalog: Catalog) -> None:
        """I11, I12, I14, I13, I21: for a missing namespace, on an empty root and beside others."""
        for _ in range(2):
            for names in (["zz"], ["zz", "y"]):
                assert code(catalog.list_namespaces, {"id": names}) == 1
                assert code(catalog.list_tables, {"id": names}) == 1
                assert code(catalog.list_all_tables, {"id": names}) == 1
                assert code(catalog.describe_namespace, {"id": names}) == 1
                assert code(catalog.namespace_exists, {"id": names}) == 1
                assert code(catalog.drop_namespace, {"id": names}) == 1
            catalog.namespace("a", mode="exist_ok")

    def test_properties_round_trip(self, catalog: Catalog) -> None:
        """I02, I12, C07, R15: any text, as JSON in the metadata column."""
        wanted = {"ü": '漢"\\\n', "": "empty name", "k": "", "a.b": "'; DROP", "😀": "\u0001"}
        catalog.namespace("a", properties=wanted)
        assert catalog.describe_namespace({"id": ["a"]}).properties == wanted
        stored = json.loads(catalog.rows()["a"]["metadata"])
        assert {k: v for k, v in stored.items() if not k.startswith("lance_catalog.")} == wanted
        catalog.namespace("none")
        assert catalog.describe_namespace({"id": ["none"]}).properties == {}

    @pytest.mark.parametrize("key", ["lance_catalog.created_at", "lance_catalog.x"])
    @local_only
    def test_keys_of_ours_are_refused(self, catalog: Catalog, key: str) -> None:
        """R14: 13 for users, except lance_catalog.protected; nothing is written."""
        error = refusal(catalog.namespace, "a", properties={key: "1"})
        assert error.code == 13
        assert key in str(error)
        assert code(catalog.namespace, mode="overwrite", properties={key: "1"}) == 13
        assert catalog.root.paths() == []
        catalog.namespace("a", properties={"lance_catalog.protected": "true"})
        properties = catalog.describe_namespace({"id": ["a"]}).properties
        assert properties == {"lance_catalog.protected": "true"}

    @local_only
    def test_exists(self, catalog: Catalog) -> None:
        """I14: answers for each level, and 1 after a drop."""
        catalog.namespace("a")
        catalog.namespace("a", "b")
        catalog.namespace_exists({"id": ["a", "b"]})
        catalog.drop_namespace({"id": ["a", "b"]})
        assert code(catalog.namespace_exists, {"id": ["a", "b"]}) == 1
        catalog.namespace_exists({"id": ["a"]})

    @pytest.mark.parametrize("name", ["__trash", "__claims", "__manifest"])
    @local_only
    def test_bookkeeping_is_not_found(self, catalog: Catalog, name: str) -> None:
        """R9: ids below __trash and __claims are NotFound for every ordinary operation."""
        catalog.create(["t"])
        catalog.deregister_table({"id": ["t"]})
        for names in ([name], [name, "x"]):
            assert code(catalog.namespace_exists, {"id": names}) == 1
            assert code(catalog.describe_namespace, {"id": names}) == 1
            assert code(catalog.list_tables, {"id": names}) == 1
            assert code(catalog.list_namespaces, {"id": names}) == 1
            assert code(catalog.list_all_tables, {"id": names}) == 1
            for behavior in ("restrict", "cascade"):
                assert code(catalog.drop_namespace, {"id": names, "behavior": behavior}) == 1
        assert catalog.namespaces() == []
        assert catalog.all_tables() == []


class TestDrop:
    def test_empty_one_goes(self, catalog: Catalog) -> None:
        """I13: the row goes, siblings stay, the name is free."""
        for name in ("a", "b"):
            catalog.namespace(name, properties={"k": name})
        catalog.drop_namespace({"id": ["a"]})
        assert catalog.namespaces() == ["b"]
        assert set(catalog.rows()) == {"b"}
        catalog.namespace("a")
        assert catalog.describe_namespace({"id": ["a"]}).properties == {}

    @pytest.mark.parametrize("child", ["namespace", "table", "declared"])
    def test_children_refuse_it(self, catalog: Catalog, child: str) -> None:
        """I13: 3 while anything is below, of any kind; nothing changes."""
        catalog.namespace("a")
        if child == "namespace":
            catalog.namespace("a", "b")
        elif child == "table":
            catalog.create(["a", "b"])
        else:
            catalog.declare_table({"id": ["a", "b"]})
        before = catalog.root.digest()
        for behavior in (None, "restrict", "Restrict"):
            assert code(catalog.drop_namespace, {"id": ["a"], "behavior": behavior}) == 3
        assert catalog.root.digest() == before

    def test_skip_takes_a_missing_one_as_done(self, catalog: Catalog) -> None:
        """I13: mode skip; fail (and none) is 1."""
        for mode in ("skip", "Skip", "SKIP"):
            catalog.drop_namespace({"id": ["zz"], "mode": mode})
        assert catalog.root.paths() == []
        for strict in (None, "fail", "Fail"):
            assert code(catalog.drop_namespace, {"id": ["zz"], "mode": strict}) == 1
        catalog.namespace("a")
        catalog.namespace("a", "b")
        assert code(catalog.drop_namespace, {"id": ["a"], "mode": "skip"}) == 3

    @pytest.mark.parametrize("behavior", ["cascade", "Cascade"])
    def test_cascade_takes_everything_below(self, catalog: Catalog, behavior: str) -> None:
        """I13: namespaces, tables and their data below go; what only looks alike stays."""
        for names in (("a",), ("a", "b"), ("a", "b", "c"), ("ab",), ("z",)):
            catalog.namespace(*names)
        for names in (["a", "t"], ["a", "b", "c", "t"], ["ab", "t"], ["z", "a"], ["t"]):
            catalog.create(names)
        catalog.declare_table({"id": ["a", "b", "declared"]})
        catalog.drop_namespace({"id": ["a"], "behavior": behavior}, purge=True)
        assert catalog.namespaces() == ["ab", "z"]
        assert catalog.all_tables() == ["ab$t", "t", "z$a"]
        assert set(catalog.rows()) == {"ab", "ab$t", "z", "z$a", "t"}
        for names in (["ab", "t"], ["z", "a"], ["t"]):
            assert catalog.data(names) == [1, 2, 3]
        kept = {catalog.place(names) for names in (["ab", "t"], ["z", "a"], ["t"])}
        left = {path.split("/")[0] for path in paths_without_manifest(catalog)}
        assert left - {FLAG} == kept

    @local_only
    def test_cascade_of_an_empty_or_missing_one(self, catalog: Catalog) -> None:
        """I13: cascade needs the namespace to be there, not to be full."""
        catalog.namespace("a")
        catalog.drop_namespace({"id": ["a"], "behavior": "cascade"})
        assert code(catalog.drop_namespace, {"id": ["a"], "behavior": "cascade"}) == 1
        catalog.drop_namespace({"id": ["a"], "behavior": "cascade", "mode": "skip"})

    @local_only
    def test_unknown_mode_or_behavior_is_13(self, catalog: Catalog) -> None:
        """I13: what nobody knows is refused, not taken for the default."""
        catalog.namespace("a")
        assert code(catalog.drop_namespace, {"id": ["a"], "mode": "force"}) == 13
        assert code(catalog.drop_namespace, {"id": ["a"], "behavior": "everything"}) == 13
        assert catalog.namespaces() == ["a"]

    def test_deregistered_table_is_no_child(self, catalog: Catalog) -> None:
        """I13, I23: a deregistered table does not keep its namespace; its data stays."""
        catalog.namespace("a")
        location = catalog.create(["a", "t"]).location
        catalog.deregister_table({"id": ["a", "t"]})
        catalog.drop_namespace({"id": ["a"]})
        assert catalog.namespaces() == []
        catalog.namespace("b")
        catalog.register_table({"id": ["b", "t"], "location": location})
        assert catalog.data(["b", "t"]) == [1, 2, 3]


@pytest.mark.modes(Mode.COMPAT)
def test_directory_table_takes_the_name(catalog: Catalog) -> None:
    """O01, C15: in compatibility mode a directory at the root is a sibling too."""
    v1: Any = Catalog(Mode.V1, catalog.kind, catalog.root)
    v1.create(["x"])
    for mode in ("create", "exist_ok", "overwrite"):
        assert code(catalog.namespace, "x", mode=mode) == 2
    assert catalog.tables() == ["x"]
    assert not catalog.root.paths("__manifest")
