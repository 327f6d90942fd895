"""Compatibility mode: the manifest first, then the directories at the root."""

from __future__ import annotations

import pytest

from lance_catalog.config import Mode
from tests.behaviour.catalogs import Catalog, code, ipc, rows

pytestmark = pytest.mark.modes(Mode.COMPAT)


@pytest.fixture
def v1(catalog: Catalog) -> Catalog:
    return Catalog(Mode.V1, catalog.kind, catalog.root)


@pytest.fixture
def v2(catalog: Catalog) -> Catalog:
    return Catalog(Mode.V2, catalog.kind, catalog.root)


class TestExistence:
    def test_directory_tables_exist(self, catalog: Catalog, v1: Catalog) -> None:
        """C15: without a row, `<name>.lance` tells."""
        v1.create(["t"], [5], properties={"k": "v"})
        catalog.table_exists({"id": ["t"]})
        assert catalog.data(["t"]) == [5]
        asked = {"id": ["t"], "load_detailed_metadata": True}
        assert catalog.describe_table(asked).properties == {"k": "v"}
        assert not catalog.root.paths("__manifest")

    def test_the_manifest_comes_first(self, catalog: Catalog, v2: Catalog) -> None:
        """C15: a row of that name wins over a directory of that name."""
        v2.create(["t"], [2])
        catalog.root.write("t.lance", rows([1]))
        assert catalog.data(["t"]) == [2]
        assert catalog.tables() == ["t"]

    def test_a_namespace_row_hides_the_directory(self, catalog: Catalog, v2: Catalog) -> None:
        """C15, O01: the row says what the name is."""
        v2.namespace("x")
        catalog.root.write("x.lance", rows([1]))
        assert catalog.tables() == []
        assert catalog.namespaces() == ["x"]
        assert code(catalog.describe_table, {"id": ["x"]}) == 4

    def test_directory_of_another_row_is_no_table(self, catalog: Catalog, v2: Catalog) -> None:
        """R8, C16: a directory owned by a row under another id."""
        catalog.root.write("t.lance", rows([1]))
        v2.register_table({"id": ["u"], "location": "t.lance"})
        assert catalog.tables() == ["u"]
        assert code(catalog.describe_table, {"id": ["t"]}) == 4
        assert code(catalog.table_exists, {"id": ["t"]}) == 4


class TestListing:
    def test_merged_once_each(self, catalog: Catalog, v1: Catalog, v2: Catalog) -> None:
        """C16: both sources, by name and by location, in order."""
        v1.create(["c"])
        v1.create(["a"])
        v2.create(["d"])
        v2.create(["b"])
        catalog.create(["e"])
        catalog.create(["a2"])
        assert catalog.tables() == ["a", "a2", "b", "c", "d", "e"]
        assert catalog.all_tables() == ["a", "a2", "b", "c", "d", "e"]
        assert v1.tables() == ["a", "a2", "c", "e"]
        assert v2.tables() == ["a2", "b", "d", "e"]
        for limit in range(1, 8):
            found, token = [], None
            while True:
                page = catalog.list_tables({"id": [], "limit": limit, "page_token": token})
                found += page.tables
                token = page.page_token
                if token is None:
                    break
            assert found == ["a", "a2", "b", "c", "d", "e"]

    def test_directories_are_for_the_root_only(self, catalog: Catalog, v1: Catalog) -> None:
        """C19: a child namespace shows rows only."""
        v1.create(["t"])
        catalog.namespace("ns")
        assert catalog.tables(["ns"]) == []
        assert catalog.all_tables(["ns"]) == []
        assert catalog.all_tables() == ["t"]


class TestDirectoryTables:
    """Operations on tables that only their directory tells of."""

    def test_deregister_hides_from_the_fallback(self, catalog: Catalog, v1: Catalog) -> None:
        """R3, I23: and from V1 readers; register brings it back, now with a row."""
        v1.create(["t"], [5], properties={"k": "v"})
        answer = catalog.deregister_table({"id": ["t"]})
        assert answer.properties == {"k": "v"}
        assert catalog.tables() == v1.tables() == []
        assert code(catalog.describe_table, {"id": ["t"]}) == 4
        assert code(catalog.deregister_table, {"id": ["t"]}) == 4
        catalog.register_table({"id": ["t"], "location": answer.location})
        assert catalog.data(["t"]) == v1.data(["t"]) == [5]

    def test_row_tables_hide_from_v1_readers_too(self, catalog: Catalog, v1: Catalog) -> None:
        """R3: the row goes, and the directory behind it is hidden."""
        catalog.create(["t"], [5])
        location = catalog.deregister_table({"id": ["t"]}).location
        assert catalog.tables() == v1.tables() == []
        assert not v1.exists(["t"])
        catalog.register_table({"id": ["t"], "location": location})
        assert catalog.tables() == v1.tables() == ["t"]

    def test_create_over_one_is_5_or_its_mode(self, catalog: Catalog, v1: Catalog) -> None:
        """C15, C17, I26: an existing directory is an existing table in every mode of creation."""
        v1.create(["t"], [1])
        assert code(catalog.create, ["t"], [2]) == 5
        assert code(catalog.declare_table, {"id": ["t"]}) == 5
        catalog.create(["t"], [2], mode="exist_ok")
        assert catalog.data(["t"]) == [1]
        catalog.create(["t"], [3], mode="overwrite")
        assert catalog.data(["t"]) == v1.data(["t"]) == [3]
        assert catalog.place(["t"]) == "t.lance"

    def test_drop_removes_the_directory(self, catalog: Catalog, v1: Catalog) -> None:
        """I25: by its directory alone, without a manifest ever."""
        v1.create(["t"])
        catalog.drop_table({"id": ["t"]}, purge=True)
        assert catalog.tables() == []
        assert not catalog.root.paths("t.lance")
        assert not catalog.root.paths("t.deleted")
        assert code(catalog.drop_table, {"id": ["t"]}) == 4

    def test_drop_of_one_that_v1_deregistered(self, catalog: Catalog, v1: Catalog) -> None:
        """I25, R7: a V1 deregistration is honoured, and can be finished by a drop here."""
        v1.create(["t"])
        v1.deregister_table({"id": ["t"]})
        assert catalog.tables() == []
        catalog.drop_table({"id": ["t"]}, purge=True)
        assert not catalog.root.paths("t.lance")
        catalog.create(["t"], [9])
        assert catalog.data(["t"]) == [9]

    def test_v1_sees_what_compat_makes(self, catalog: Catalog, v1: Catalog) -> None:
        """C11, C17: root tables are shared both ways; drops too."""
        catalog.create(["t"], [1])
        assert v1.data(["t"]) == [1]
        v1.insert_into_table({"id": ["t"]}, ipc(rows([2])))
        assert catalog.data(["t"]) == [1, 2]
        catalog.drop_table({"id": ["t"]})
        assert v1.tables() == []

    def test_names_v1_allows_and_ids_do_not(self, catalog: Catalog, v1: Catalog) -> None:
        """R9: a V1 table with `$` is no alias of a nested one; it is not addressable here."""
        v1.create(["a$b"], [1])
        catalog.namespace("a")
        assert catalog.tables() == []
        assert code(catalog.describe_table, {"id": ["a", "b"]}) == 4
        catalog.create(["a", "b"], [2])
        assert catalog.data(["a", "b"]) == [2]
        assert v1.data(["a$b"]) == [1]
