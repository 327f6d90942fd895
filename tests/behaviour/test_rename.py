"""Rename: one row commit, across namespaces too; the data never moves."""

from __future__ import annotations

import pytest

from lance_catalog.config import Mode
from tests.behaviour.catalogs import Catalog, code, ipc, local_only, rows

pytestmark = pytest.mark.needs("rename")


def rename(catalog: Catalog, id: list[str], name: str, **more: object) -> None:
    catalog.rename_table({"id": id, "new_table_name": name, **more})


@pytest.mark.homes("root", "nested")
class TestRename:
    def test_in_place(self, catalog: Catalog) -> None:
        """I26, R8: the id changes, location, data and properties stay; new_namespace_id None."""
        catalog.create(catalog.at("t"), [1], properties={"k": "v"})
        location = catalog.describe_table({"id": catalog.at("t")}).location
        version = catalog.manifest().version
        rename(catalog, catalog.at("t"), "u")
        assert catalog.manifest().version == version + 1
        assert catalog.tables(catalog.home) == ["u"]
        told = catalog.describe_table({"id": catalog.at("u")})
        assert (told.table, told.location, told.properties) == ("u", location, {"k": "v"})
        assert catalog.data(catalog.at("u")) == [1]
        assert code(catalog.describe_table, {"id": catalog.at("t")}) == 4

    def test_across_namespaces(self, catalog: Catalog) -> None:
        """I26, R13: new_namespace_id moves the table; [] is the root."""
        catalog.create(catalog.at("t"), [1], properties={"k": "v"})
        catalog.namespace("other")
        rename(catalog, catalog.at("t"), "t", new_namespace_id=["other"])
        assert catalog.tables(["other"]) == ["t"]
        assert catalog.tables(catalog.home) == []
        rename(catalog, ["other", "t"], "r", new_namespace_id=[])
        assert catalog.tables() == ["r"]
        assert catalog.data(["r"]) == [1]
        assert catalog.describe_table({"id": ["r"]}).properties == {"k": "v"}
        rename(catalog, ["r"], "t", new_namespace_id=list(catalog.home))
        assert catalog.data(catalog.at("t")) == [1]

    def test_taken_is_5(self, catalog: Catalog) -> None:
        """I26, O01: by a table, a declared table or a namespace, or itself; nothing changes."""
        catalog.create(catalog.at("t"), [1])
        catalog.create(catalog.at("u"), [2])
        catalog.declare_table({"id": catalog.at("d")})
        catalog.namespace(*catalog.at("ns"))
        before = catalog.root.digest()
        for name in ("u", "d", "ns", "t"):
            request = {"id": catalog.at("t"), "new_table_name": name}
            assert code(catalog.rename_table, request) == 5
        assert catalog.root.digest() == before

    @local_only
    def test_missing_is_4_or_1(self, catalog: Catalog) -> None:
        """I26, R11: 4 for the table, 1 for a namespace on either side; a namespace is no table."""
        catalog.create(catalog.at("t"))
        catalog.namespace("ns")
        before = catalog.root.digest()
        request = {"id": catalog.at("gone"), "new_table_name": "x"}
        assert code(catalog.rename_table, request) == 4
        assert code(catalog.rename_table, {"id": ["zz", "t"], "new_table_name": "x"}) == 1
        assert code(catalog.rename_table, {"id": ["ns"], "new_table_name": "x"}) == 4
        for target in (["zz"], ["ns", "zz"], catalog.at("t")):
            request = {"id": catalog.at("t"), "new_table_name": "x", "new_namespace_id": target}
            assert code(catalog.rename_table, request) == 1
        assert catalog.root.digest() == before

    @local_only
    def test_declared_table(self, catalog: Catalog) -> None:
        """I26: a table without data is renamed all the same."""
        catalog.declare_table({"id": catalog.at("t")})
        rename(catalog, catalog.at("t"), "u")
        catalog.create(catalog.at("u"), [3])
        assert catalog.data(catalog.at("u")) == [3]

    def test_open_writer_loses_nothing(self, catalog: Catalog) -> None:
        """R8: the data does not move, so a handle opened before the rename writes on."""
        catalog.create(catalog.at("t"), [1])
        handle = catalog.ns.open_table(catalog.at("t"))
        rename(catalog, catalog.at("t"), "u")
        handle.insert(rows([2]))
        assert catalog.data(catalog.at("u")) == [1, 2]

    def test_old_name_and_drop(self, catalog: Catalog) -> None:
        """R8, C10: both names live on their own; dropping one leaves the other."""
        catalog.create(catalog.at("t"), [1])
        rename(catalog, catalog.at("t"), "u")
        catalog.create(catalog.at("t"), [2])
        assert catalog.place(catalog.at("t")) != catalog.place(catalog.at("u"))
        catalog.drop_table({"id": catalog.at("u")})
        assert catalog.data(catalog.at("t")) == [2]
        catalog.create(catalog.at("u"), [3])
        catalog.drop_table({"id": catalog.at("t")})
        assert catalog.data(catalog.at("u")) == [3]


@pytest.mark.modes(Mode.COMPAT)
class TestCompat:
    """Root tables in compatibility mode, whose directories carry their first name."""

    @pytest.mark.parametrize("registered", [True, False], ids=["row", "directory"])
    def test_renamed_root_table_keeps_its_directory(
        self, catalog: Catalog, registered: bool
    ) -> None:
        """R8, C18: t→u, then t is not found although t.lance exists; one more with a row."""
        maker = catalog if registered else Catalog(Mode.V1, catalog.kind, catalog.root)
        maker.create(["t"], [1])
        rename(catalog, ["t"], "u")
        assert catalog.tables() == ["u"]
        assert catalog.rows()["u"]["location"] == "t.lance"
        assert code(catalog.describe_table, {"id": ["t"]}) == 4
        assert code(catalog.drop_table, {"id": ["t"]}) == 4
        assert catalog.data(["u"]) == [1]

    def test_either_name_created_next_gets_a_v2_path(self, catalog: Catalog) -> None:
        """C18, R8: whichever of the two names is created next."""
        catalog.create(["t"], [1])
        rename(catalog, ["t"], "u")
        catalog.create(["t"], [2])
        assert catalog.place(["t"]) != "t.lance"
        assert catalog.place(["t"]).endswith("_t")
        rename(catalog, ["u"], "w")
        catalog.create(["u"], [3])
        assert catalog.place(["u"]) == "u.lance"
        assert [catalog.data([name]) for name in ("t", "u", "w")] == [[2], [3], [1]]
        assert catalog.tables() == ["t", "u", "w"]

    def test_renamed_table_leaves_and_returns(self, catalog: Catalog) -> None:
        """R3, R8: deregister and register of a table whose directory has another name."""
        catalog.create(["t"], [1])
        rename(catalog, ["t"], "u")
        location = catalog.deregister_table({"id": ["u"]}).location
        assert catalog.tables() == []
        assert not catalog.exists(["t"])
        catalog.create(["t"], [2])
        catalog.register_table({"id": ["u"], "location": location})
        assert catalog.tables() == ["t", "u"]
        assert (catalog.data(["t"]), catalog.data(["u"])) == ([2], [1])

    def test_drop_of_a_renamed_table(self, catalog: Catalog) -> None:
        """I25, R8: its directory goes, whatever its name; a new one of that name is separate."""
        catalog.create(["t"], [1])
        rename(catalog, ["t"], "u")
        catalog.create(["t"], [2])
        catalog.drop_table({"id": ["u"]}, purge=True)
        assert catalog.root.paths("t.lance") == []
        assert catalog.tables() == ["t"]
        assert catalog.data(["t"]) == [2]

    def test_rename_to_a_directory_table_is_5(self, catalog: Catalog) -> None:
        """O01, C15: a directory at the root takes the name as a row does."""
        Catalog(Mode.V1, catalog.kind, catalog.root).create(["d"], [9])
        catalog.create(["t"], [1])
        assert code(catalog.rename_table, {"id": ["t"], "new_table_name": "d"}) == 5
        assert catalog.data(["d"]) == [9]
        catalog.insert_into_table({"id": ["t"]}, ipc(rows([2])))
        assert catalog.data(["t"]) == [1, 2]
