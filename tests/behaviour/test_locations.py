"""Locations: inside the root, on a place of their own, and never where deleting would hurt."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lance_catalog.config import Mode
from lance_catalog.manifest.schema import SCHEMA
from tests.behaviour.catalogs import Catalog, code, local_only, refusal, rows

#: Never a table's place, whatever is there (R9, invariant 4).
OUTSIDE = [
    "",
    ".",
    "./",
    "/",
    "..",
    "../x",
    "../../x",
    "x/../../y",
    "x/..",
    "x/../y",
    "/etc/x",
    "/x",
    "//x",
    "file:///etc/x",
    "file://",
    "s3://another-bucket/x",
    "az://another/x",
    "memory://another/x",
    "http://example.com/x",
    "x\0y",
    "__manifest",
    "__manifest/",
    "./__manifest",
    "__manifest/data",
    "__trash",
    "__trash/x",
    "./__trash//x",
    "__claims",
    "__claims/x",
]


def plant(catalog: Catalog, **row: Any) -> None:
    """Write a row as another implementation would: with any location it likes."""
    values = {"object_type": "table", "location": None, "metadata": None, "base_objects": None}
    table = pa.Table.from_pylist([{**values, **row}], schema=SCHEMA)
    catalog.root.write("__manifest", table, mode="append")


class TestRegister:
    @pytest.mark.parametrize("id", [["new"]])
    def test_outside_is_13(self, catalog: Catalog, id: list[str]) -> None:
        """I24, R9: locations that leave the root or point at our own bookkeeping."""
        catalog.create(["t"])
        before = catalog.root.digest()
        for location in OUTSIDE:
            error = refusal(catalog.register_table, {"id": id, "location": location})
            assert error.code == 13, location
        assert catalog.root.digest() == before

    @local_only
    def test_root_itself_is_13(self, catalog: Catalog) -> None:
        """Invariant 4: by its URI and by its path too."""
        catalog.create(["t"])
        uri = catalog.describe_table({"id": ["t"]}).location.rsplit("/", 1)[0]
        for location in (uri, uri + "/", uri + "/.", uri + "/x/..", uri + "/__manifest", uri + "x"):
            assert code(catalog.register_table, {"id": ["new"], "location": location}) == 13

    @pytest.mark.modes(Mode.V2, Mode.COMPAT)
    def test_place_of_another_table_is_13(self, catalog: Catalog) -> None:
        """I24, invariant 4: however it is spelled; below and above a table too."""
        catalog.create(["t"])
        location = catalog.describe_table({"id": ["t"]}).location
        place = catalog.place(["t"])
        before = catalog.root.digest()
        for taken in (
            place,
            f"{place}/",
            f"./{place}",
            f".//{place}//",
            location,
            location + "/",
            f"{place}/data",
            f"{place}/_versions",
        ):
            assert code(catalog.register_table, {"id": ["new"], "location": taken}) == 13, taken
        assert catalog.root.digest() == before

    @pytest.mark.modes(Mode.V2, Mode.COMPAT)
    @local_only
    def test_folder_above_a_table_is_13(self, catalog: Catalog) -> None:
        """Invariant 4: a place has one table, at any depth."""
        catalog.root.write("deep/er/x", rows([1]))
        catalog.root.write("deep", rows([2]))
        catalog.register_table({"id": ["x"], "location": "deep/er/x"})
        assert code(catalog.register_table, {"id": ["y"], "location": "deep"}) == 13
        assert code(catalog.register_table, {"id": ["y"], "location": "deep/er"}) == 13
        catalog.deregister_table({"id": ["x"]})
        # Deregistered is not gone: its data must not become a part of another table.
        assert code(catalog.register_table, {"id": ["x"], "location": "deep/er"}) == 13
        catalog.register_table({"id": ["x"], "location": "deep/er/x"})
        assert catalog.data(["x"]) == [1]

    @pytest.mark.modes(Mode.V2, Mode.COMPAT)
    def test_no_lance_table_there_is_13(self, catalog: Catalog) -> None:
        """I24: the location is checked to hold a Lance table."""
        catalog.root.put("notes/readme.txt", b"hello")
        catalog.root.put("file", b"hello")
        before = catalog.root.digest()
        for location in ("missing", "notes", "file", "notes/readme.txt"):
            assert code(catalog.register_table, {"id": ["t"], "location": location}) == 13
        assert catalog.root.digest() == before

    @pytest.mark.modes(Mode.V2, Mode.COMPAT)
    def test_spellings_of_one_place(self, catalog: Catalog) -> None:
        """I24, C06: relative, `./x`, `x/`, absolute or URI: stored as the plain relative path."""
        catalog.create(["first"])
        base = catalog.describe_table({"id": ["first"]}).location.rsplit("/", 1)[0]
        catalog.root.write("some/where", rows([5]))
        spellings = ["some/where", "./some/where", "some//where/", f"{base}/some/where"]
        if catalog.root.folder is not None:
            spellings.append(f"{catalog.root.folder}/some/where")
        for location in spellings:
            answer = catalog.register_table({"id": ["t"], "location": location})
            assert answer.location == f"{base}/some/where"
            assert catalog.rows()["t"]["location"] == "some/where"
            assert catalog.data(["t"]) == [5]
            catalog.deregister_table({"id": ["t"]})

    @pytest.mark.modes(Mode.V1)
    def test_v1_place_follows_from_the_name(self, catalog: Catalog) -> None:
        """C01, I24: in V1 another place than `<name>.lance` is 13."""
        catalog.root.write("elsewhere", rows([1]))
        catalog.create(["t"])
        assert code(catalog.register_table, {"id": ["new"], "location": "elsewhere"}) == 13
        assert code(catalog.register_table, {"id": ["new"], "location": "t.lance"}) == 13
        assert code(catalog.register_table, {"id": ["new"], "location": "new.lance"}) == 13
        assert catalog.tables() == ["t"]


class TestDeclare:
    def test_outside_is_13(self, catalog: Catalog) -> None:
        """I20, R9: the location of a declaration is held to the same rules."""
        catalog.create(["t"])
        before = catalog.root.digest()
        for location in OUTSIDE:
            error = refusal(catalog.declare_table, {"id": ["new"], "location": location})
            assert error.code == 13, location
        assert catalog.root.digest() == before

    def test_place_in_use_is_13(self, catalog: Catalog) -> None:
        """I20, invariant 4: another table's, or a folder where something lies."""
        catalog.create(["t"])
        catalog.root.put("full/x", b"x")
        place = catalog.place(["t"])
        before = catalog.root.digest()
        for location in (place, f"./{place}/", f"{place}/data", "full", f"full/../{place}"):
            assert code(catalog.declare_table, {"id": ["new"], "location": location}) == 13
        assert catalog.root.digest() == before

    @pytest.mark.modes(Mode.V2, Mode.COMPAT)
    def test_free_place_is_taken(self, catalog: Catalog) -> None:
        """I20, C06: a free folder inside the root, stored plainly."""
        catalog.declare_table({"id": ["t"], "location": "./warehouse//t/"})
        assert catalog.rows()["t"]["location"] == "warehouse/t"
        catalog.create(["t"], [4])
        assert catalog.data(["t"]) == [4]
        catalog.drop_table({"id": ["t"]}, purge=True)
        assert catalog.root.paths("warehouse") == []

    @pytest.mark.modes(Mode.V1)
    def test_v1_own_place_or_13(self, catalog: Catalog) -> None:
        """C01, I20: in V1 only `<name>.lance`."""
        assert code(catalog.declare_table, {"id": ["t"], "location": "other"}) == 13
        catalog.declare_table({"id": ["t"], "location": "t.lance/"})
        assert catalog.tables() == ["t"]


@pytest.mark.modes(Mode.V2, Mode.COMPAT)
class TestRowsOfOthers:
    """Rows that other implementations wrote, with locations they do not check."""

    def test_drop_of_a_dangerous_location_is_19(self, catalog: Catalog) -> None:
        """Invariant 4: refused with 19, nothing deleted; deregister takes the row away."""
        catalog.create(["keep"])
        catalog.root.put("data/stray", b"x")
        for location in (
            None,
            "",
            ".",
            "./",
            "..",
            "../x",
            "/",
            "__manifest",
            "__manifest/",
            "./__trash/x",
            "data",
        ):
            plant(catalog, object_id="bad", location=location)
            before = catalog.root.digest()
            assert code(catalog.drop_table, {"id": ["bad"]}) == 19, location
            assert code(catalog.describe_table, {"id": ["bad"]}) == 19, location
            assert catalog.root.digest() == before, location
            assert catalog.tables() == ["bad", "keep"]
            catalog.deregister_table({"id": ["bad"]})
            assert catalog.tables() == ["keep"]
            assert catalog.data(["keep"]) == [1, 2, 3]

    def test_drop_of_a_shared_location_is_19(self, catalog: Catalog) -> None:
        """Invariant 4: equal, parent or child, `./x` and `x/`: neither of the two is deleted."""
        for number, spelling in enumerate(("{}", "./{}", "{}/", "/{}", "{}/data")):
            table, alias = f"t{number}", f"alias{number}"
            catalog.create([table])
            place = catalog.place([table])
            plant(catalog, object_id=alias, location=spelling.format(place))
            before = catalog.root.digest()
            assert code(catalog.drop_table, {"id": [table]}) == 19, spelling
            assert code(catalog.drop_table, {"id": [alias]}) == 19, spelling
            assert catalog.root.digest() == before, spelling
            catalog.deregister_table({"id": [alias]})
            assert alias not in catalog.tables()
            assert catalog.data([table]) == [1, 2, 3]

    def test_cascade_refuses_as_a_whole(self, catalog: Catalog) -> None:
        """I13, invariant 4: one table that cannot go keeps all of them."""
        catalog.namespace("ns")
        catalog.create(["ns", "a"])
        catalog.create(["ns", "b"])
        plant(catalog, object_id="alias", location=catalog.place(["ns", "b"]))
        before = catalog.root.digest()
        assert code(catalog.drop_namespace, {"id": ["ns"], "behavior": "cascade"}) == 19
        assert catalog.root.digest() == before

    def test_row_without_folder_can_be_dropped(self, catalog: Catalog) -> None:
        """I25: a row whose data is gone is dropped like any other."""
        catalog.create(["keep"])
        plant(catalog, object_id="gone", location="not/there")
        assert catalog.describe_table({"id": ["gone"], "check_declared": True}).is_only_declared
        catalog.drop_table({"id": ["gone"]})
        assert catalog.tables() == ["keep"]
