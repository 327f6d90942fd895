"""What others leave in ``__manifest`` with plain Lance: tolerated, kept, never made worse."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import lance_namespace as ln
import pyarrow as pa
import pytest

from lance_catalog.manifest import writing
from lance_catalog.manifest.schema import SCHEMA
from tests.interop.peers import (
    COMPAT,
    V2,
    Peer,
    Table,
    World,
    append_rows,
    manifest,
    manifest_rows,
)

INDICES = {"object_id_btree", "object_type_bitmap", "base_objects_label_list"}
#: Our commits until missing indices are due again.
SOON = 16


@pytest.fixture
def world(root: Path) -> World:
    return World.at(root, V2)


def seed(world: World) -> None:
    """Make a namespace and a table by each, so that the manifest has rows of both."""
    for kind in ("ours", "native"):
        peer: Peer = getattr(world, kind)
        peer.create_namespace(kind)
        world.namespaces[kind,] = {}
        world.tables[kind, "t"] = Table(peer.create(kind, "t", rows=(1,)), (1,))


def indices(root: Path) -> set[str]:
    return {index.name for index in manifest(root).describe_indices()}


def make_manifest(
    root: Path, *rows: dict[str, Any], schema: pa.Schema = SCHEMA, **how: Any
) -> None:
    """Make a manifest with plain Lance, as another tool would."""
    table = pa.Table.from_pylist(
        [{name: row.get(name) for name in schema.names} for row in rows], schema=schema
    )
    lance.write_dataset(table, root / "__manifest", **{"data_storage_version": "2.2", **how})


def namespace_row(name: str, **more: Any) -> dict[str, Any]:
    return {"object_id": name, "object_type": "namespace", **more}


def table_row(name: str, location: str | None, **more: Any) -> dict[str, Any]:
    return {"object_id": name, "object_type": "table", "location": location, **more}


# Native's own way of writing.


def test_native_overwrites_between_our_commits(world: World) -> None:
    for number in range(12):
        for kind in ("ours", "native"):
            name = f"{kind}_{number}"
            getattr(world, kind).create_namespace(name)
            world.namespaces[name,] = {}
        if number % 3 == 2:
            # Ours removes native's and the reverse: deletion vectors meet overwrites.
            world.ours.drop_namespace(f"native_{number - 1}")
            world.native.drop_namespace(f"ours_{number - 1}")
            for kind in ("ours", "native"):
                world.gone.add((f"{kind}_{number - 1}",))
                del world.namespaces[f"{kind}_{number - 1}",]
    world.check()
    transactions = [t for t in manifest(world.root).get_transactions(recent_transactions=100) if t]
    kinds = {type(t.operation).__name__ for t in transactions}
    assert {"Overwrite", "Append", "Update"} <= kinds, "the writers did not interleave"


@pytest.mark.parametrize("point", ["manifest.data_written", "manifest.staged"])
def test_native_overwrites_in_the_middle_of_our_commit(
    world: World, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    seed(world)
    world.ours.create_namespace("old")
    before = world.ours.api.context.log.conflicts
    armed: list[Callable[[], None]] = []

    def meddle(name: str) -> None:
        if name == point and armed:
            armed.pop()()

    monkeypatch.setattr(writing, "hit", meddle)
    armed.append(lambda: world.native.drop_namespace("old"))
    with pytest.raises(ln.NamespaceNotFoundError):  # Validated again, at what native left.
        world.ours.drop_namespace("old")
    armed.append(lambda: world.native.create_namespace("between"))
    with pytest.raises(ln.NamespaceAlreadyExistsError):
        world.ours.create_namespace("between")
    armed.append(lambda: world.native.create_namespace("besides"))
    world.ours.create_namespace("mine")
    assert not armed
    conflicts = world.ours.api.context.log.conflicts - before
    print("conflicts", conflicts)
    assert conflicts >= 3
    world.namespaces |= {("between",): {}, ("besides",): {}, ("mine",): {}}
    world.gone.add(("old",))
    world.check()
    parts = manifest(world.root).get_fragments()
    referenced = {file.path for part in parts for file in part.data_files()}
    assert referenced <= {path.name for path in (world.root / "__manifest/data").iterdir()}
    assert not list((world.root / "__manifest/_versions").glob("*.manifest-*")), "staged files left"


# Columns, indices, metadata of the table itself.


def test_extra_columns_are_kept_by_our_writes(world: World) -> None:
    seed(world)
    extra = pa.list_(pa.struct([("k", pa.string())]))
    manifest(world.root).add_columns({"note": "concat('about ', object_id)"})
    manifest(world.root).add_columns(pa.field("more", extra))

    def notes() -> dict[str, str | None]:
        return {row["object_id"]: row["note"] for row in manifest_rows(world.root)}

    was = notes()
    assert was["native$t"] == "about native$t"
    world.ours.create_namespace("new")
    assert notes() == {**was, "new": None}
    world.ours.rename("native", "t", to=("ours", "moved"))
    assert notes()["ours$moved"] == "about native$t"
    world.ours.deregister("ours", "moved")
    world.ours.register("native", "t", location=world.tables["native", "t"].place)
    assert notes()["native$t"] == "about native$t"
    request = ln.CreateNamespaceRequest(id=["new"], mode="overwrite", properties={"a": "b"})
    world.ours.api.create_namespace(request)
    for number in range(2 * SOON):  # Merging fragments rewrites rows: the column goes along.
        world.ours.create_namespace("many", f"n{number}") if number else (
            world.ours.create_namespace("many")
        )
    assert len(manifest(world.root).get_fragments()) < SOON + 1
    after = notes()
    assert {name: after[name] for name in was} == was
    assert manifest(world.root).schema.field("more").type == extra
    # Native drops them at its next write (facts: native §7); nothing else changes for anybody.
    world.native.create_namespace("by_native")
    assert "note" not in manifest(world.root).schema.names
    world.namespaces |= {("new",): {"a": "b"}, ("many",): {}, ("by_native",): {}}
    world.namespaces |= {("many", f"n{number}"): {} for number in range(1, 2 * SOON)}
    world.check()


def test_missing_indices_are_made_again(world: World) -> None:
    seed(world)
    for name in indices(world.root):
        manifest(world.root).drop_index(name)
    assert indices(world.root) == set()
    for number in range(SOON):
        world.ours.create_namespace(f"n{number}")
        world.namespaces[f"n{number}",] = {}
    assert indices(world.root) == INDICES
    world.check()
    manifest(world.root).drop_index("object_type_bitmap")
    for number in range(SOON):
        world.ours.drop_namespace(f"n{number}")
        del world.namespaces[f"n{number}",]
    assert indices(world.root) == INDICES
    world.check()


def test_indices_that_native_dropped_are_made_again(world: World) -> None:
    seed(world)
    for turn in range(2):
        for number in range(SOON):
            world.ours.create_namespace(f"n{turn}_{number}")
            world.namespaces[f"n{turn}_{number}",] = {}
        assert indices(world.root) == INDICES
        world.native.create_namespace(f"native_{turn}")
        world.namespaces[f"native_{turn}",] = {}
        assert indices(world.root) == set()
    world.check()


def test_native_that_indexes_by_itself(world: World) -> None:
    seed(world)
    properties = {"dir_listing_enabled": "false", "inline_optimization_enabled": "true"}
    indexing = lance.namespace.DirectoryNamespace(root=str(world.root), **properties)
    for number in range(4):
        indexing.create_namespace(ln.CreateNamespaceRequest(id=[f"i{number}"]))
        world.ours.create_namespace(f"o{number}")
        world.namespaces |= {(f"i{number}",): {}, (f"o{number}",): {}}
    assert indices(world.root) == INDICES
    world.check()


def test_table_metadata_and_config_of_others_are_kept(world: World) -> None:
    seed(world)
    manifest(world.root).update_metadata({"theirs": "1"})
    manifest(world.root).update_config({"their.setting": "2"})
    world.ours.create_namespace("n")
    request = ln.CreateNamespaceRequest(id=[], mode="overwrite", properties={"team": "data"})
    world.ours.api.create_namespace(request)
    world.ours.drop_namespace("n")
    assert manifest(world.root).metadata["theirs"] == "1"
    assert manifest(world.root).config()["their.setting"] == "2"
    assert world.fresh("ours").namespace_properties() == {"team": "data"}
    world.check()


def test_base_objects_are_kept(world: World) -> None:
    seed(world)
    append_rows(world.root, table_row("ours$v", "nowhere", base_objects=["ours$t", "native$t"]))
    world.ours.rename("ours", "v", to=("native", "v"))
    row = next(row for row in manifest_rows(world.root) if row["object_id"] == "native$v")
    assert row["base_objects"] == ["ours$t", "native$t"]
    world.native.can_write()


# Other shapes of the table.


def test_v1_named_versions_stay_v1_named(world: World) -> None:
    make_manifest(world.root, namespace_row("theirs"), enable_v2_manifest_paths=False)
    world.namespaces["theirs",] = {}
    seed(world)
    world.check()
    for number in range(SOON + 4):
        world.ours.create_namespace(f"n{number}")
        world.namespaces[f"n{number}",] = {}
        if number % 5 == 0:
            world.native.create_namespace(f"m{number}")
            world.namespaces[f"m{number}",] = {}
    world.check()
    names = {path.name for path in (world.root / "__manifest/_versions").glob("*.manifest")}
    latest = manifest(world.root).version
    assert names == {f"{number}.manifest" for number in range(1, latest + 1)}


@pytest.mark.parametrize("storage", ["2.0", "2.1"])
def test_other_storage_versions(world: World, storage: str) -> None:
    make_manifest(world.root, namespace_row("theirs"), data_storage_version=storage)
    world.namespaces["theirs",] = {}
    world.ours.create_namespace("before_native")
    world.namespaces["before_native",] = {}
    assert manifest(world.root).data_storage_version == storage
    seed(world)
    for number in range(SOON):
        world.ours.create_namespace(f"n{number}")
        world.namespaces[f"n{number}",] = {}
    assert manifest(world.root).data_storage_version == storage
    world.check()


def test_stable_row_ids(world: World) -> None:
    """Addresses are not ids then; what we carry along must still be the right row's."""
    schema = SCHEMA.append(pa.field("note", pa.string()))
    rows = [namespace_row(f"n{n:02}", note=f"note {n}") for n in range(20)]
    make_manifest(world.root, *rows, schema=schema, enable_stable_row_ids=True)
    manifest(world.root).delete("object_id = 'n03'")
    manifest(world.root).optimize.compact_files(materialize_deletions_threshold=0.0)
    append_rows(world.root, table_row("t1", "x1", note="one"), table_row("t2", "x2", note="two"))
    world.ours.rename("t1", to=("n05", "u1"))
    world.ours.create_namespace("mine")
    world.ours.drop_namespace("n07")
    world.ours.rename("t2", to=("n06", "u2"))
    rows = manifest_rows(world.root)
    notes = {row["object_id"]: row["note"] for row in rows}
    assert notes["n05$u1"] == "one"
    assert notes["n06$u2"] == "two"
    gone = {3, 7}
    assert sorted(notes) == sorted(
        ["mine", "n05$u1", "n06$u2", *(f"n{n:02}" for n in range(20) if n not in gone)]
    )
    world.namespaces = {(f"n{n:02}",): {} for n in range(20) if n not in gone} | {("mine",): {}}
    world.tables = {("n05", "u1"): Table("x1", None), ("n06", "u2"): Table("x2", None)}
    world.check()


def test_a_manifest_without_primary_key_metadata(world: World) -> None:
    plain = pa.schema([field.remove_metadata() for field in SCHEMA])
    make_manifest(world.root, namespace_row("theirs"), schema=plain)
    world.namespaces["theirs",] = {}
    world.ours.create_namespace("mine")
    world.namespaces["mine",] = {}
    world.check()
    seed(world)
    world.check()


def test_a_manifest_whose_object_id_is_nullable(world: World) -> None:
    """Native cannot write such a table, whoever else does; ours can, and changes nothing of it."""
    plain = pa.schema([field.remove_metadata().with_nullable(True) for field in SCHEMA])
    make_manifest(world.root, namespace_row("theirs"), schema=plain)
    world.ours.create_namespace("mine")
    world.ours.drop_namespace("theirs")
    for peer in (world.fresh("ours"), world.fresh("native")):
        assert peer.namespaces() == ["mine"]
    with pytest.raises(ln.InternalError, match="primary key"):
        world.native.create_namespace("refused")


@pytest.mark.parametrize("column", ["object_id", "location", "metadata"])
def test_large_strings_are_refused_with_the_name_of_the_column(world: World, column: str) -> None:
    index = SCHEMA.get_field_index(column)
    large = SCHEMA.set(index, pa.field(column, pa.large_string(), SCHEMA.field(index).nullable))
    make_manifest(world.root, namespace_row("theirs"), schema=large)
    with pytest.raises(ln.InternalError, match=f"column '{column}'"):
        world.ours.namespaces()
    with pytest.raises(ln.InternalError, match=f"column '{column}'"):
        world.ours.create_namespace("mine")
    assert manifest(world.root).version == 1


def test_large_deletes_and_compaction_by_others(world: World) -> None:
    seed(world)
    append_rows(world.root, *(namespace_row(f"x{n:04}") for n in range(5000)))
    assert len(world.ours.namespaces()) == 5002
    manifest(world.root).delete("object_type = 'namespace' AND object_id > 'x0009'")
    assert world.ours.namespaces() == ["native", "ours", *(f"x{n:04}" for n in range(10))]
    world.ours.create_namespace("x0010")  # Free again.
    world.ours.drop_namespace("x0003")
    manifest(world.root).optimize.compact_files()
    world.ours.drop_namespace("x0004")
    manifest(world.root).delete("object_id = 'x0005'")
    world.ours.create_namespace("x0005")
    world.namespaces |= {(f"x{n:04}",): {} for n in (0, 1, 2, 5, 6, 7, 8, 9, 10)}
    world.gone |= {("x0003",), ("x0004",), ("x0011",)}
    world.check()


def test_appends_updates_and_merges_by_others_are_seen(world: World) -> None:
    seed(world)
    append_rows(world.root, namespace_row("added"))
    world.namespaces["added",] = {}
    world.check()
    manifest(world.root).update({"metadata": '\'{"a":"b"}\''}, where="object_id = 'added'")
    world.namespaces["added",] = {"a": "b"}
    world.check()
    row = pa.Table.from_pylist(
        [namespace_row("merged", location=None, metadata=None, base_objects=None)], schema=SCHEMA
    )
    manifest(world.root).merge_insert("object_id").when_not_matched_insert_all().execute(row)
    world.namespaces["merged",] = {}
    world.check()


# Rows that should not be.


def test_orphans_of_native_are_readable_droppable_and_never_added_to(world: World) -> None:
    place = world.native.create("ghost", "t", rows=(1,), owner="me")
    world.native.declare("ghost", "deep", "d")
    assert world.ours.rows("ghost", "t") == [1]
    assert world.ours.describe("ghost", "t").properties == {"owner": "me"}
    world.ours.insert("ghost", "t", rows=(2,))
    assert world.native.rows("ghost", "t") == [1, 2]
    assert world.ours.all_tables() == ["ghost$deep$d", "ghost$t"]
    before = manifest(world.root).version
    lance.write_dataset(pa.table({"n": [1]}), world.root / "free")
    refused = (
        lambda: world.ours.tables("ghost"),
        lambda: world.ours.declare("ghost", "new"),
        lambda: world.ours.create("ghost", "new"),
        lambda: world.ours.create_namespace("ghost", "deep"),
        lambda: world.ours.register("ghost", "new", location="free"),
        lambda: world.ours.rename("ghost", "t", to=("ghost", "new")),
        lambda: world.ours.drop_namespace("ghost"),
    )
    for attempt in refused:
        with pytest.raises(ln.NamespaceNotFoundError):
            attempt()
    assert manifest(world.root).version == before
    world.ours.create_namespace("home")
    world.ours.rename("ghost", "t", to=("home", "t"))
    world.ours.drop("ghost", "deep", "d")
    world.namespaces["home",] = {}
    world.tables["home", "t"] = Table(place, (1, 2), {"owner": "me"})
    world.gone |= {("ghost", "t"), ("ghost", "deep", "d"), ("ghost",)}
    world.check()


def test_an_orphan_can_be_given_a_parent(world: World) -> None:
    place = world.native.create("ghost", "t", rows=(1,))
    world.ours.create_namespace("ghost")
    world.namespaces["ghost",] = {}
    world.tables["ghost", "t"] = Table(place, (1,))
    world.check()


@pytest.mark.parametrize("seen", [True, False])
@pytest.mark.parametrize("way", ["drop", "deregister", "rename"])
def test_duplicate_rows_of_a_table_end_with_any_change_of_ours(
    world: World, seen: bool, way: str
) -> None:
    seed(world)
    if seen:
        assert world.ours.rows("native", "t") == [1]
    place = world.tables["native", "t"].place
    for _ in range(2):
        append_rows(world.root, table_row("native$t", place))
    with pytest.raises(ln.InternalError, match="duplicate"):
        world.native.create_namespace("refused")
    assert world.ours.tables("native") == ["t"]
    assert world.ours.rows("native", "t") == [1]
    world.ours.create_namespace("meanwhile")  # Neither better nor worse.
    assert [row["object_id"] for row in manifest_rows(world.root)].count("native$t") == 3
    if way == "rename":
        world.ours.rename("native", "t", to=("native", "u"))
        world.tables["native", "u"] = world.tables["native", "t"]
    else:
        getattr(world.ours, way)("native", "t")
        assert (world.root / place).exists()
    del world.tables["native", "t"]
    world.gone.add(("native", "t"))
    world.namespaces["meanwhile",] = {}
    world.check()


def test_duplicate_rows_of_a_namespace_end_with_its_drop(world: World) -> None:
    seed(world)
    append_rows(world.root, namespace_row("twice"), namespace_row("twice"))
    assert world.ours.namespaces() == ["native", "ours", "twice"]
    with pytest.raises(ln.NamespaceAlreadyExistsError):
        world.ours.create_namespace("twice")
    world.ours.drop_namespace("twice")
    world.gone.add(("twice",))
    world.check()


def test_a_duplicate_that_goes_away_leaves_the_other_row(world: World) -> None:
    """By delta or by a full load: the row that is left is the one we show and change."""
    seed(world)
    append_rows(world.root, namespace_row("twice", metadata='{"row":"1"}'))
    assert world.ours.namespace_properties("twice") == {"row": "1"}
    append_rows(world.root, namespace_row("twice", metadata='{"row":"2"}'))
    assert world.ours.namespaces() == ["native", "ours", "twice"]
    manifest(world.root).delete('metadata = \'{"row":"1"}\'')
    world.namespaces["twice",] = {"row": "2"}
    world.check()
    world.ours.drop_namespace("twice")
    del world.namespaces["twice",]
    world.gone.add(("twice",))
    world.check()


def test_rows_of_unknown_type_are_left_alone(world: World) -> None:
    seed(world)
    row = {"object_id": "ours$v", "object_type": "view", "location": "x", "metadata": "whatever"}
    append_rows(world.root, row, {"object_id": "w", "object_type": "index"})
    assert world.ours.tables("ours") == ["t"]
    assert world.ours.namespaces() == ["native", "ours"]
    assert not world.ours.has_table("ours", "v")
    assert not world.ours.has_namespace("w")
    for names, error in (
        (("ours", "v"), ln.TableAlreadyExistsError),
        (("w",), ln.TableAlreadyExistsError),
    ):
        with pytest.raises(error):
            world.ours.create(*names)
        with pytest.raises(ln.NamespaceAlreadyExistsError):
            world.ours.create_namespace(*names)
        with pytest.raises(ln.TableNotFoundError):
            world.ours.drop(*names)
    with pytest.raises(ln.NamespaceNotFoundError):
        world.ours.drop_namespace("w")
    world.ours.drop("ours", "t")
    with pytest.raises(ln.NamespaceNotEmptyError):  # Whatever it is, it would be an orphan.
        world.ours.drop_namespace("ours")
    for number in range(SOON + 2):
        world.ours.create_namespace(f"n{number}")
    kept = {row["object_id"]: row for row in manifest_rows(world.root)}
    assert kept["ours$v"] | row == kept["ours$v"]
    assert kept["w"]["object_type"] == "index"
    # Native reads beside them and writes again when they are gone (facts: native §7).
    assert world.native.tables("native") == ["t"]
    with pytest.raises(ln.InternalError, match="Invalid object type"):
        world.native.create_namespace("refused")
    manifest(world.root).delete("object_type IN ('view', 'index')")
    world.native.can_write()


@pytest.mark.parametrize("text", ['{"a":1}', "null", "", "junk", "[]", '{"a":', '"a"'])
def test_metadata_that_is_no_object_of_strings(world: World, text: str) -> None:
    seed(world)
    place = world.native.create("native", "odd", rows=(1,))
    quoted = json.dumps(text).replace("'", "''")[1:-1].replace('\\"', '"')
    manifest(world.root).update({"metadata": f"'{quoted}'"}, where="object_id = 'native$odd'")

    def stored(object_id: str) -> str | None:
        return next(
            row["metadata"] for row in manifest_rows(world.root) if row["object_id"] == object_id
        )

    assert stored("native$odd") == text
    assert world.ours.tables("native") == ["odd", "t"]
    assert world.ours.has_table("native", "odd")
    with pytest.raises(ln.InvalidTableStateError):
        world.ours.describe("native", "odd")
    world.ours.insert("native", "odd", rows=(2,))
    assert lance.dataset(world.root / place).count_rows() == 2
    world.ours.rename("native", "odd", to=("ours", "odd"))
    assert stored("ours$odd") == text
    world.ours.deregister("ours", "odd")
    world.check()
    world.ours.register("native", "odd", location=place)
    assert stored("native$odd") == text
    world.ours.drop("native", "odd")
    world.check()
    world.ours.undrop("native", "odd")
    assert stored("native$odd") == text
    world.ours.drop("native", "odd")
    world.ours.purge("native", "odd")
    assert not (world.root / place).exists()
    world.gone |= {("native", "odd"), ("ours", "odd")}
    world.check()


def test_metadata_of_a_namespace_that_is_no_object_of_strings(world: World) -> None:
    seed(world)
    append_rows(world.root, namespace_row("odd", metadata="junk"))
    assert world.ours.has_namespace("odd")
    assert world.ours.namespaces() == ["native", "odd", "ours"]
    with pytest.raises(ln.InvalidTableStateError):
        world.ours.namespace_properties("odd")
    world.ours.create("odd", "t")
    world.ours.drop_namespace("odd", behavior="cascade")
    world.gone.add(("odd",))
    world.check()


NOWHERE = [None, "", ".", "..", "./", "/etc", "file:///etc", "__manifest", "a/../..", "__trash/x"]


@pytest.mark.parametrize("location", NOWHERE)
@pytest.mark.parametrize("mode", [V2, COMPAT])
def test_locations_that_are_no_place_of_a_table(
    root: Path, mode: str, location: str | None
) -> None:
    """Native's drop of such a row deletes the root (facts: native §9.3); ours refuses it."""
    world = World.at(root, mode)
    seed(world)
    append_rows(world.root, table_row("ours$odd", location))
    before = {p for p in root.rglob("*") if "__manifest" not in p.parts}
    assert world.ours.tables("ours") == ["odd", "t"]
    with pytest.raises(ln.InvalidTableStateError):
        world.ours.drop("ours", "odd")
    with pytest.raises(ln.InvalidTableStateError):
        world.ours.drop_namespace("ours", behavior="cascade")
    assert {p for p in root.rglob("*") if "__manifest" not in p.parts} == before
    assert world.ours.rows("ours", "t") == [1]
    world.ours.insert("ours", "t", rows=(2,))
    world.tables["ours", "t"].rows = (1, 2)
    # It stands in nobody's way: others are dropped, it is deregistered.
    world.ours.drop("native", "t")
    del world.tables["native", "t"]
    world.ours.deregister("ours", "odd")
    world.gone |= {("ours", "odd"), ("native", "t")}
    world.check()


@pytest.mark.parametrize("spelling", ["{}", "./{}", "{}/", ".//{}/.", "{}/sub", "/{}"])
def test_a_place_shared_with_another_row_is_never_deleted(world: World, spelling: str) -> None:
    seed(world)
    place = world.tables["native", "t"].place
    append_rows(world.root, table_row("ours$alias", spelling.format(place)))
    for names in (("native", "t"), ("ours", "alias")):
        with pytest.raises(ln.InvalidTableStateError):
            world.ours.drop(*names)
    assert world.ours.rows("native", "t") == [1]
    manifest(world.root).delete("object_id = 'ours$alias'")
    world.ours.drop("native", "t")
    append_rows(world.root, table_row("ours$alias", spelling.format(place)))
    with pytest.raises(ln.InvalidTableStateError):
        world.ours.purge("native", "t")
    assert lance.dataset(world.root / place).count_rows() == 1
    manifest(world.root).delete("object_id = 'ours$alias'")
    world.ours.purge("native", "t")
    assert not (world.root / place).exists()


# What our own trash means to others.


@pytest.mark.parametrize("name", ["t", "other"])
@pytest.mark.parametrize("end", ["drop", "deregister", "cascade"])
def test_native_registers_what_we_deregistered(world: World, name: str, end: str) -> None:
    """Native does not look at our trash; the hidden row and the new one are one table."""
    seed(world)
    table = world.tables.pop(("ours", "t"))
    world.ours.deregister("ours", "t")
    world.native.register("native", name + "_back", location=table.place)
    world.tables["native", name + "_back"] = table
    world.check()
    if end == "drop":
        world.ours.drop("native", name + "_back")
    elif end == "deregister":
        world.ours.deregister("native", name + "_back")
        world.ours.drop("native", name + "_back")  # Out of the trash.
    else:
        world.ours.drop_namespace("native", behavior="cascade")
        del world.namespaces["native",], world.tables["native", "t"]
    del world.tables["native", name + "_back"]
    trash = [row for row in manifest_rows(world.root) if row["object_id"].startswith("__trash")]
    assert [row["location"] for row in trash].count(table.place) == 1
    assert ("native", name + "_back") in world.ours.trash()
    world.ours.purge("native", name + "_back")
    assert not (world.root / table.place).exists()
    world.gone.add(("native", name + "_back"))
    world.check()


def test_native_registers_what_we_deregistered_at_the_root(root: Path) -> None:
    """As above with a V1 directory, whose marker goes with the table."""
    world = World.at(root, COMPAT)
    world.ours.create("t", rows=(1,))
    world.ours.deregister("t")
    assert (root / "t.deleted").exists()
    world.native.register("t", location="t.lance")
    assert world.ours.rows("t") == [1]
    world.ours.drop("t")
    assert (root / "t.deleted").exists()
    world.ours.purge("t")
    assert not (root / "t.lance").exists()
    assert not (root / "t.deleted").exists()
    assert world.ours.create("t", rows=(2,)) == "t.lance"
    assert world.native.rows("t") == [2]


# Versions that are not there any more.


def test_placeholders_of_removed_versions_are_not_versions(world: World) -> None:
    seed(world)
    for number in range(6):
        world.ours.create_namespace(f"n{number}")
        world.namespaces[f"n{number}",] = {}
    folder = world.root / "__manifest/_versions"
    latest = manifest(world.root).version
    for version in range(1, latest):
        (folder / f"{2**64 - 1 - version:020d}.manifest").write_bytes(b"")
    world.check()
    # Also for one who has only the listing, or a hint that points at a placeholder.
    hint = folder / "latest_version_hint.json"
    for text in ('{"version":2}', '{"version":', '{"version":999}', "[]", None):
        hint.write_text(text) if text is not None else hint.unlink()
        assert world.fresh("ours").namespaces() == world.native.namespaces()
    world.ours.create_namespace("after")
    world.native.create_namespace("after_native")
    world.namespaces |= {("after",): {}, ("after_native",): {}}
    world.check()


def test_an_empty_folder_at_the_manifest_is_no_manifest(world: World) -> None:
    for folder in ("__manifest", "__manifest/_versions", "__manifest/data"):
        (world.root / folder).mkdir(parents=True, exist_ok=True)
        assert world.ours.namespaces() == [] == world.ours.tables()
    seed(world)
    world.check()


def test_a_table_at_the_manifest_that_is_not_ours_names_the_column(world: World) -> None:
    lance.write_dataset(pa.table({"object_id": ["a"], "x": [1]}), world.root / "__manifest")
    for attempt in (world.ours.namespaces, lambda: world.ours.create_namespace("a")):
        with pytest.raises(ln.InternalError, match="column 'object_type'"):
            attempt()
    assert manifest(world.root).version == 1


def test_a_manifest_that_is_replaced_as_a_whole(world: World) -> None:
    """Another one under the same version numbers: seen by its tag, not only by its number."""
    seed(world)
    version = manifest(world.root).version
    shutil.rmtree(world.root / "__manifest")
    assert world.ours.namespaces() == []
    make_manifest(world.root, namespace_row("other"))
    for number in range(2, version + 1):
        append_rows(world.root, namespace_row(f"n{number}"))
    assert manifest(world.root).version == version
    assert world.ours.namespaces() == sorted(["other", *(f"n{n}" for n in range(2, version + 1))])
    world.ours.create_namespace("mine")
    world.native.can_write()
    assert world.fresh("native").namespaces() == world.fresh("ours").namespaces()
