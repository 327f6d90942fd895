"""What lies in the root: asked of the store itself, not of the code under test."""

from __future__ import annotations

import os
import re

import pytest

from lance_catalog.config import Mode
from tests.behaviour.catalogs import Catalog, code, rows

HASHED = re.compile(r"[0-9a-f]{16}_(.*)")


@pytest.mark.modes(Mode.V1)
class TestV1:
    def test_table_is_a_directory(self, catalog: Catalog) -> None:
        """C01: `<root>/<name>.lance`, and no manifest."""
        catalog.create(["t"])
        catalog.declare_table({"id": ["d"]})
        assert catalog.root.level() == {"t.lance", "d.lance"} | catalog.flag
        assert catalog.root.dataset("t.lance").count_rows() == 3
        assert catalog.root.paths("d.lance") == ["d.lance/.lance-reserved"]

    def test_existence_is_a_file_below_the_prefix(self, catalog: Catalog) -> None:
        """C02: one file of any name is enough; an empty folder or a file of that name is not."""
        catalog.root.put("x.lance/anything", b"x")
        catalog.root.put("deep.lance/a/b/c", b"x")
        catalog.root.put("file.lance", b"x")
        catalog.root.put("file.lance.txt", b"x")
        if catalog.root.folder is not None:
            os.makedirs(f"{catalog.root.folder}/empty.lance/data")
        assert catalog.tables() == ["deep", "x"]
        assert catalog.exists(["x"])
        assert catalog.exists(["deep"])
        for name in ("file", "empty", "x.lance", "file.lance"):
            assert not catalog.exists([name])

    def test_strangers_hide_no_table(self, catalog: Catalog) -> None:
        """C02, S01: only `<name>.deleted` hides; a file that has the table's name does not."""
        catalog.create(["t"])
        catalog.root.put("t", b"x")
        catalog.root.put("t.txt", b"x")
        assert catalog.tables() == ["t"]
        assert catalog.exists(["t"])

    def test_tables_of_other_writers_are_found(self, catalog: Catalog) -> None:
        """C01: what Lance alone wrote to `<name>.lance` is a table."""
        catalog.root.write("t.lance", rows([7]))
        assert catalog.tables() == ["t"]
        assert catalog.data(["t"]) == [7]
        catalog.drop_table({"id": ["t"]}, purge=True)
        assert not catalog.root.paths("t.lance")


@pytest.mark.modes(Mode.V2)
class TestV2:
    def test_everything_is_tracked_in_the_manifest(self, catalog: Catalog) -> None:
        """C03, C05, C06, C10, I01: `__manifest` and one hashed directory per table, no others."""
        catalog.namespace("a")
        catalog.namespace("a", "b")
        catalog.create(["t"])
        catalog.create(["a", "b", "t"])
        catalog.declare_table({"id": ["a", "d"]})
        rows = catalog.rows()
        assert {key: row["object_type"] for key, row in rows.items()} == {
            "a": "namespace",
            "a$b": "namespace",
            "t": "table",
            "a$b$t": "table",
            "a$d": "table",
        }
        places = {row["location"] for row in rows.values() if row["object_type"] == "table"}
        assert catalog.root.level() == {"__manifest", *places}
        for key in ("t", "a$b$t", "a$d"):
            match = HASHED.fullmatch(rows[key]["location"])
            assert match is not None
            assert match[1] == key
            assert catalog.place(key.split("$")) == rows[key]["location"]

    def test_directories_do_not_make_tables(self, catalog: Catalog) -> None:
        """C03: a `<name>.lance` that no row knows is no table here."""
        catalog.root.write("x.lance", rows([1]))
        assert catalog.tables() == []
        assert code(catalog.describe_table, {"id": ["x"]}) == 4
        catalog.create(["x"], [2])
        assert catalog.data(["x"]) == [2]
        catalog.drop_table({"id": ["x"]})
        assert catalog.root.dataset("x.lance").count_rows() == 1

    def test_every_creation_has_a_fresh_directory(self, catalog: Catalog) -> None:
        """C10: high entropy, fresh for every creation of the same name."""
        seen = set()
        for _ in range(8):
            catalog.declare_table({"id": ["t"]})
            seen.add(catalog.place(["t"]))
            catalog.drop_table({"id": ["t"]})
        assert len(seen) == 8
        hashes = {place.split("_")[0] for place in seen}
        assert len(hashes) == 8
        assert all(len(text) == 16 for text in hashes)


@pytest.mark.modes(Mode.COMPAT)
class TestCompat:
    def test_root_tables_use_v1_names_and_have_rows(self, catalog: Catalog) -> None:
        """C11, C17: `<name>.lance`, registered in the manifest."""
        catalog.create(["t"])
        catalog.declare_table({"id": ["d"]})
        assert catalog.root.level() == {"__manifest", "t.lance", "d.lance"} | catalog.flag
        rows = catalog.rows()
        assert {key: row["location"] for key, row in rows.items()} == {
            "t": "t.lance",
            "d": "d.lance",
        }

    def test_child_tables_use_v2_paths(self, catalog: Catalog) -> None:
        """C19: below a namespace, the hashed directory; and never the directory listing."""
        catalog.namespace("a")
        catalog.create(["a", "t"])
        location = catalog.rows()["a$t"]["location"]
        match = HASHED.fullmatch(location)
        assert match is not None
        assert match[1] == "a$t"
        catalog.root.write("a/x.lance", rows([1]))
        assert catalog.tables(["a"]) == ["t"]
        assert code(catalog.describe_table, {"id": ["a", "x"]}) == 4

    def test_taken_directory_means_a_v2_path(self, catalog: Catalog) -> None:
        """C11, I20: leftovers in `<name>.lance` are never taken over by a new table."""
        catalog.create(["other"])
        catalog.root.put("t.deleted", b"{}")
        catalog.create(["t"], [5])
        assert HASHED.fullmatch(catalog.place(["t"]))
        assert catalog.data(["t"]) == [5]


def test_a_refused_creation_leaves_nothing(catalog: Catalog) -> None:
    """Invariant 2, I20: no row, no directory, no file; not even a manifest."""
    assert code(catalog.declare_table, {"id": ["t"], "location": "../x"}) == 13
    assert code(catalog.create_table, {"id": ["t"]}, b"garbage") == 13
    assert code(catalog.drop_table, {"id": ["t"]}) == 4
    assert code(catalog.deregister_table, {"id": ["t"]}) == 4
    assert code(catalog.create, ["__manifest"]) == 13
    assert code(catalog.create, ["zz", "t"]) in (0, 1)
    assert catalog.root.paths() == []
    if catalog.root.folder is not None:
        assert not os.path.exists(catalog.root.folder)


def test_nothing_stray_after_a_life(catalog: Catalog) -> None:
    """Invariant 2, R7: after everything is dropped, the manifest and the layout flag are left."""
    if catalog.can("namespaces"):
        catalog.namespace("a")
        catalog.create(["a", "t"])
        catalog.declare_table({"id": ["a", "d"]})
        catalog.drop_namespace({"id": ["a"], "behavior": "cascade"}, purge=True)
    for name in ("t", "u"):
        catalog.create([name])
        catalog.drop_table({"id": [name]}, purge=True)
    left = {path for path in catalog.root.paths() if not path.startswith("__manifest/")}
    assert left == catalog.flag
    if catalog.mode is not Mode.V1:
        assert catalog.rows() == {}
