"""The ``__manifest`` table as other implementations see it: columns, indices, rows, strangers."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from lance_catalog.config import Mode
from lance_catalog.manifest.schema import SCHEMA
from tests.behaviour.catalogs import Catalog, code, local_only, refusal

pytestmark = pytest.mark.modes(Mode.V2, Mode.COMPAT)

PRIMARY_KEY = {b"lance-schema:unenforced-primary-key:position": b"0"}


def append(catalog: Catalog, *rows: dict[str, Any]) -> None:
    """Write rows as another implementation would."""
    empty = {"location": None, "metadata": None, "base_objects": None}
    table = pa.Table.from_pylist([{**empty, **row} for row in rows], schema=SCHEMA)
    catalog.root.write("__manifest", table, mode="append")


class TestFormat:
    def test_columns_exactly(self, catalog: Catalog) -> None:
        """C04: names, types, nullability and the primary key, as native writes them."""
        catalog.namespace("a")
        catalog.create(["a", "t"], properties={"k": "v"})
        schema = catalog.manifest().schema
        assert [(field.name, field.nullable) for field in schema] == [
            ("object_id", False),
            ("object_type", False),
            ("location", True),
            ("metadata", True),
            ("base_objects", True),
        ]
        assert [field.type for field in schema][:4] == [pa.string()] * 4
        child = schema.field("base_objects").type
        assert pa.types.is_list(child)
        assert (child.value_field.name, child.value_type) == ("object_id", pa.string())
        assert child.value_field.nullable
        assert schema.field("object_id").metadata == PRIMARY_KEY
        assert not schema.metadata
        for field in list(schema)[1:]:
            assert not field.metadata

    def test_storage_format(self, catalog: Catalog) -> None:
        """C04: what native readers know: 2.2, V2 version names, no stable row ids, no flags."""
        catalog.namespace("a")
        catalog.namespace("b")
        manifest = catalog.manifest()
        assert manifest.data_storage_version == "2.2"
        assert manifest.has_stable_row_ids is False
        names = catalog.root.paths("__manifest/_versions/")
        numbers = [name.rsplit("/", 1)[-1] for name in names if name.endswith(".manifest")]
        latest = f"{2**64 - 1 - manifest.version:020d}.manifest"
        assert latest in numbers
        assert all(len(number) == len(latest) for number in numbers)

    def test_metadata_is_json_of_strings(self, catalog: Catalog) -> None:
        """C07: compact, unescaped, NULL for none."""
        catalog.create(["t"], properties={"b": 'ü"\n', "a": "1"})
        catalog.create(["u"])
        rows = catalog.rows()
        assert rows["t"]["metadata"] == '{"a":"1","b":"ü\\"\\n"}'
        assert rows["u"]["metadata"] is None
        assert rows["t"]["base_objects"] is None

    def test_indices(self, catalog: Catalog) -> None:
        """C08: BTREE object_id, BITMAP object_type, LABEL_LIST base_objects."""
        catalog.namespace("a")
        catalog.namespace("b")
        found = {
            (index.name, tuple(index.field_names), index.index_type.upper())
            for index in catalog.manifest().describe_indices()
        }
        assert found == {
            ("object_id_btree", ("object_id",), "BTREE"),
            ("object_type_bitmap", ("object_type",), "BITMAP"),
            ("base_objects_label_list", ("base_objects",), "LABELLIST"),
        }

    def test_indices_and_fragments_as_it_grows(self, catalog: Catalog) -> None:
        """C08: indices that another writer dropped come back; fragments stay few."""
        catalog.namespace("a")
        for name in ("object_id_btree", "object_type_bitmap", "base_objects_label_list"):
            catalog.manifest().drop_index(name)
        assert catalog.manifest().describe_indices() == []
        for number in range(40):
            catalog.namespace(f"n{number}")
        manifest = catalog.manifest()
        names = {index.name for index in manifest.describe_indices()}
        assert names == {"object_id_btree", "object_type_bitmap", "base_objects_label_list"}
        assert len(manifest.get_fragments()) < 20
        assert manifest.to_table(filter="object_id = 'n7'").num_rows == 1
        assert len(catalog.namespaces()) == 41

    @local_only
    def test_every_change_is_the_next_version(self, catalog: Catalog) -> None:
        """Invariant 1: one mutation, one version (after the indices are made)."""
        catalog.namespace("a")
        catalog.namespace("b")
        version = catalog.manifest().version
        catalog.namespace("c")
        assert catalog.manifest().version == version + 1
        catalog.drop_namespace({"id": ["c"]})
        assert catalog.manifest().version == version + 2

    def test_nothing_stray_in_the_table(self, catalog: Catalog) -> None:
        """Invariant 2: every data file is referenced by some version; no staged manifests."""
        for number in range(6):
            catalog.namespace(f"n{number}")
        catalog.drop_namespace({"id": ["n3"]})
        assert code(catalog.namespace, "n1") == 2
        manifest = catalog.manifest()
        used = set()
        for version in manifest.versions():
            dataset = manifest.checkout_version(version["version"])
            for fragment in dataset.get_fragments():
                used |= {f"__manifest/data/{file.path}" for file in fragment.metadata.files}
        assert set(catalog.root.paths("__manifest/data/")) == used
        for path in catalog.root.paths("__manifest/_versions/"):
            assert path.endswith((".manifest", "latest_version_hint.json")), path


class TestOtherWriters:
    def test_their_rows_are_seen_at_once(self, catalog: Catalog) -> None:
        """C04: rows that stock Lance appends, updates and deletes."""
        catalog.namespace("a")
        append(catalog, {"object_id": "b", "object_type": "namespace"})
        append(
            catalog,
            {"object_id": "a$t", "object_type": "table", "location": "x", "metadata": '{"k":"v"}'},
        )
        assert catalog.namespaces() == ["a", "b"]
        assert catalog.describe_table({"id": ["a", "t"]}).properties == {"k": "v"}
        catalog.manifest().update({"metadata": '\'{"k":"w"}\''}, where="object_id = 'a$t'")
        assert catalog.describe_table({"id": ["a", "t"]}).properties == {"k": "w"}
        catalog.manifest().delete("object_id = 'b'")
        assert catalog.namespaces() == ["a"]
        assert code(catalog.namespace, "a") == 2
        catalog.namespace("b")

    def test_their_compaction_and_overwrite_are_survived(self, catalog: Catalog) -> None:
        """C04: rows move to other fragments under us; changes still hit the right ones."""
        for name in ("a", "b", "c", "d"):
            catalog.namespace(name)
        catalog.manifest().optimize.compact_files()
        catalog.drop_namespace({"id": ["b"]})
        table = catalog.manifest().to_table()
        catalog.root.write("__manifest", table.slice(1), mode="overwrite")
        left = sorted(table.slice(1)["object_id"].to_pylist())
        assert catalog.namespaces() == left
        catalog.drop_namespace({"id": [left[0]]})
        catalog.namespace("e")
        assert set(catalog.rows()) == {*left[1:], "e"}

    def test_extra_columns_are_kept(self, catalog: Catalog) -> None:
        """C04: through rename, deregister and register of their row, and changes of others."""
        catalog.namespace("ns")
        catalog.create(["t"])
        catalog.create(["u"])
        catalog.manifest().add_columns({"owner": "concat('o-', object_id)"})
        catalog.rename_table({"id": ["t"], "new_table_name": "r", "new_namespace_id": ["ns"]})
        catalog.drop_table({"id": ["u"]}, purge=True)
        catalog.create(["new"])
        rows = catalog.rows()
        assert {key: row["owner"] for key, row in rows.items()} == {
            "ns": "o-ns",
            "ns$r": "o-t",
            "new": None,
        }
        location = catalog.deregister_table({"id": ["ns", "r"]}).location
        catalog.register_table({"id": ["back"], "location": location})
        assert catalog.rows()["back"]["owner"] == "o-t"
        for number in range(24):
            catalog.namespace(f"n{number}")
        rows = catalog.rows()
        assert (rows["back"]["owner"], rows["ns"]["owner"]) == ("o-t", "o-ns")

    def test_base_objects_are_kept(self, catalog: Catalog) -> None:
        """C04: values of others in base_objects survive a rename."""
        catalog.namespace("ns")
        append(
            catalog,
            {"object_id": "v", "object_type": "table", "location": "v", "base_objects": ["a", "b"]},
        )
        catalog.rename_table({"id": ["v"], "new_table_name": "w"})
        assert catalog.rows()["w"]["base_objects"] == ["a", "b"]

    @local_only
    def test_objects_of_unknown_type_are_left_alone(self, catalog: Catalog) -> None:
        """C04, O01: neither table nor namespace, but their names are taken."""
        catalog.namespace("ns")
        append(catalog, {"object_id": "ns$v", "object_type": "view"})
        assert (catalog.tables(["ns"]), catalog.namespaces(["ns"])) == ([], [])
        assert code(catalog.namespace, "ns", "v") == 2
        assert code(catalog.declare_table, {"id": ["ns", "v"]}) == 5
        assert code(catalog.describe_table, {"id": ["ns", "v"]}) == 4
        assert code(catalog.drop_table, {"id": ["ns", "v"]}) == 4
        assert code(catalog.drop_namespace, {"id": ["ns"]}) == 3
        assert set(catalog.rows()) == {"ns", "ns$v"}

    def test_orphans_are_tolerated(self, catalog: Catalog) -> None:
        """Invariant 1: rows without a parent, which native adds, stay reachable and droppable."""
        catalog.namespace("a")
        location = catalog.create(["t"]).location
        append(catalog, {"object_id": "gone$t", "object_type": "table", "location": "orphan"})
        assert "gone$t" in catalog.all_tables()
        assert code(catalog.namespace, "gone", "child") == 1
        assert code(catalog.declare_table, {"id": ["gone", "u"]}) == 1
        assert catalog.describe_table({"id": ["gone", "t"]}).location.endswith("/orphan")
        catalog.drop_table({"id": ["gone", "t"]})
        assert catalog.all_tables() == ["t"]
        assert catalog.describe_table({"id": ["t"]}).location == location

    @local_only
    def test_unreadable_metadata_is_19(self, catalog: Catalog) -> None:
        """C07: what is no JSON object of strings is said so; the row can still go."""
        catalog.namespace("a")
        for number, text in enumerate(("junk", "null", "[]", '{"a":1}', "")):
            row = {"object_id": f"t{number}", "object_type": "table", "location": f"x{number}"}
            append(catalog, {**row, "metadata": text})
            assert code(catalog.describe_table, {"id": [f"t{number}"]}) == 19, text
            catalog.deregister_table({"id": [f"t{number}"]})
        assert catalog.tables() == []

    def test_their_table_metadata_is_kept(self, catalog: Catalog) -> None:
        """C04, I02: config and metadata of others live beside ours."""
        catalog.namespace(mode="overwrite", properties={"k": "v"})
        catalog.manifest().update_metadata({"theirs": "x"})
        catalog.namespace("a")
        catalog.namespace(mode="overwrite", properties={"k": "w"})
        assert catalog.manifest().metadata["theirs"] == "x"
        assert catalog.describe_namespace({"id": []}).properties == {"k": "w"}

    def test_v1_named_versions(self, catalog: Catalog) -> None:
        """C04, I37: a manifest whose versions are named `<v>.manifest` keeps them."""
        row = {"object_id": "a", "object_type": "namespace", "location": None}
        table = pa.Table.from_pylist([{**row, "metadata": None}], schema=SCHEMA)
        catalog.root.write("__manifest", table, enable_v2_manifest_paths=False)
        assert catalog.namespaces() == ["a"]
        catalog.namespace("b")
        catalog.drop_namespace({"id": ["a"]})
        assert catalog.namespaces() == ["b"]
        assert set(catalog.rows()) == {"b"}
        names = [path.rsplit("/", 1)[-1] for path in catalog.root.paths("__manifest/_versions/")]
        assert all(len(name) < 20 for name in names if name.endswith(".manifest"))


class TestForeignTable:
    """A table at ``__manifest`` that is no catalog's: 18, naming the column."""

    @pytest.mark.parametrize(
        ("schema", "column"),
        [
            (pa.schema([("id", pa.int64())]), "object_id"),
            (pa.schema([field for field in SCHEMA if field.name != "location"]), "location"),
            (SCHEMA.set(1, pa.field("object_type", pa.int32())), "object_type"),
            (SCHEMA.set(4, pa.field("base_objects", pa.string())), "base_objects"),
        ],
    )
    @local_only
    def test_is_18_and_untouched(self, catalog: Catalog, schema: pa.Schema, column: str) -> None:
        """C04: reads and writes refuse alike, and name what is wrong."""
        catalog.root.write("__manifest", schema.empty_table())
        before = catalog.root.digest()
        calls = [
            lambda: catalog.list_tables({"id": []}),
            lambda: catalog.namespace("a"),
            lambda: catalog.create(["t"]),
            lambda: catalog.describe_namespace({"id": ["a"]}),
        ]
        for call in calls:
            error = refusal(call)
            assert error.code == 18
            assert f"'{column}'" in str(error)
        assert catalog.root.digest() == before

    @local_only
    def test_metadata_shape_is_json(self, catalog: Catalog) -> None:
        """C07: what we write is readable JSON for anybody."""
        catalog.namespace("a", properties={"k": "v"})
        assert json.loads(catalog.rows()["a"]["metadata"])["k"] == "v"
