"""Native pylance and ours on one root: what one writes the other reads, after each operation.

``World.check`` looks through both open handles and through new ones of both, and lets native
write on a copy (invariant 6). Native's own limits are tests of their own, ``test_limit_*``: the
page docs/explanation/interop.md lists them.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import lance
import lance_namespace as ln
import pyarrow as pa
import pytest

from tests.interop.peers import (
    COMPAT,
    MANIFEST_MODES,
    MIGRATING,
    MODES,
    V1,
    V2,
    Peer,
    Table,
    World,
    ipc,
)

KINDS = ("native", "ours")


def other(kind: str) -> str:
    return "ours" if kind == "native" else "native"


def directory_of(place: str, root: Path) -> str:
    """What stands before the object id in a hashed directory is random: only that it is there."""
    assert (root / place).is_dir()
    return place


# One script, told by either; the other is asked after every line.


@pytest.mark.parametrize("mode", MANIFEST_MODES)
@pytest.mark.parametrize("actor", KINDS)
def test_every_operation_of_one_is_read_by_the_other(root: Path, mode: str, actor: str) -> None:
    world = World.at(root, mode)
    act: Peer = getattr(world, actor)
    world.check()  # An empty, absent root.

    act.create_namespace("a")
    world.namespaces["a",] = {}
    world.check()
    act.create_namespace("a", "b", colour="blue", text='ü "quoted"\n')
    world.namespaces["a", "b"] = {"colour": "blue", "text": 'ü "quoted"\n'}
    world.check()
    act.create_namespace("a", "b", "c")
    world.namespaces["a", "b", "c"] = {}
    world.check()

    place = act.declare("a", "b", "declared", owner="me")
    world.tables["a", "b", "declared"] = Table(place, None, {"owner": "me"})
    world.check()
    place = act.create("a", "b", "t", rows=(1, 2), kind="x")
    assert re.fullmatch(r"[0-9a-f]{8,}_a\$b\$t", directory_of(place, root))
    world.tables["a", "b", "t"] = Table(place, (1, 2), {"kind": "x"})
    world.check()
    place = act.create("r", rows=(5,))
    assert place == "r.lance" if mode != V2 else re.fullmatch(r"[0-9a-f]{8,}_r", place)
    world.tables["r",] = Table(place, (5,))
    world.check()
    place = act.declare("d")
    world.tables["d",] = Table(place, None)
    world.check()

    act.insert("a", "b", "t", rows=(3,))
    world.tables["a", "b", "t"].rows = (1, 2, 3)
    world.check()
    act.insert("r", rows=(9, 8), mode="overwrite")
    world.tables["r",].rows = (8, 9)
    world.check()
    act.create("a", "b", "declared", rows=(4,))
    world.tables["a", "b", "declared"].rows = (4,)
    world.check()
    act.create("a", "b", "t", rows=(6,), mode="overwrite", kind="y")
    world.tables["a", "b", "t"].rows = (6,)
    world.tables["a", "b", "t"].properties = {"kind": "y"}
    world.check()

    taken = world.tables.pop(("a", "b", "declared"))
    act.deregister("a", "b", "declared")
    world.gone.add(("a", "b", "declared"))
    world.check()
    assert lance.dataset(root / taken.place).count_rows() == 1
    act.register("a", "b", "c", "back", location=taken.place)
    # Native forgets properties with the row; ours keeps them for the way back.
    taken.properties = {"owner": "me"} if actor == "ours" else {}
    world.tables["a", "b", "c", "back"] = taken
    world.check()

    for refused in ((("a", "b"),), (("a",),)):
        with pytest.raises(ln.NamespaceNotEmptyError):
            act.drop_namespace(*refused[0])
        with pytest.raises(ln.NamespaceNotEmptyError):
            getattr(world, other(actor)).drop_namespace(*refused[0])
    world.check()

    for names in (("a", "b", "c", "back"), ("a", "b", "t"), ("r",), ("d",)):
        act.drop(*names)
        assert act.keeps_what_it_drops(world.tables.pop(names).place)
        world.gone.add(names)
        world.check()
    if actor == "ours":
        undo_a_drop(world, "r", Table(act.undrop("r"), (8, 9)))
    for names in (("a", "b", "c"), ("a", "b"), ("a",)):
        act.drop_namespace(*names)
        del world.namespaces[names]
        world.gone.add(names)
        world.check()
    assert world.checks >= 20


@pytest.mark.parametrize("actor", KINDS)
def test_every_operation_of_one_is_read_by_the_other_in_v1(root: Path, actor: str) -> None:
    world = World.at(root, V1)
    act: Peer = getattr(world, actor)
    world.check()
    assert act.declare("d") == "d.lance"
    world.tables["d",] = Table("d.lance", None)
    world.check()
    assert act.create("t", rows=(1, 2)) == "t.lance"
    world.tables["t",] = Table("t.lance", (1, 2))
    world.check()
    act.insert("t", rows=(3,))
    world.tables["t",].rows = (1, 2, 3)
    world.check()
    act.insert("t", rows=(4,), mode="overwrite")
    world.tables["t",].rows = (4,)
    world.check()
    act.create("d", rows=(6,))
    world.tables["d",].rows = (6,)
    world.check()
    act.deregister("t")
    taken = world.tables.pop(("t",))
    world.gone.add(("t",))
    world.check()
    assert lance.dataset(root / "t.lance").count_rows() == 1
    for peer in (world.ours, world.native):
        with pytest.raises(ln.TableAlreadyExistsError):
            peer.create("t")
        with pytest.raises(ln.TableNotFoundError):
            peer.deregister("t")
    world.ours.register("t", location="t.lance")  # Native has no register in V1.
    world.tables["t",] = taken
    world.check()
    act.deregister("t")
    del world.tables["t",]
    world.check()
    act.drop("t")
    assert act.keeps_what_it_drops("t.lance")
    act.drop("d")
    del world.tables["d",]
    world.gone.add(("d",))
    world.check()
    assert world.checks == 10
    if actor == "ours":
        undo_a_drop(world, "t", Table(act.undrop("t"), (4,)))


def undo_a_drop(world: World, name: str, table: Table) -> None:
    """A table that we brought back is there for native too; and gone when we drop it again."""
    world.tables[name,] = table
    world.check()
    world.ours.drop(name)
    del world.tables[name,]
    world.check()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("maker", KINDS)
def test_what_one_makes_the_other_changes_and_ends(root: Path, mode: str, maker: str) -> None:
    world = World.at(root, mode)
    make: Peer = getattr(world, maker)
    change: Peer = getattr(world, other(maker))
    parent: tuple[str, ...] = ()
    if mode != V1:
        make.create_namespace("m")
        change.create_namespace("m", "n")
        world.namespaces |= {("m",): {}, ("m", "n"): {}}
        parent = ("m", "n")
    for name in ("kept", "filled", "dropped", "hidden"):
        names = (*parent, name)
        place = make.declare(*names) if name == "filled" else make.create(*names, rows=(1,))
        world.tables[names] = Table(place, None if name == "filled" else (1,))
    world.check()
    for taken in world.tables:
        with pytest.raises(ln.TableAlreadyExistsError):
            change.declare(*taken)
        if mode != V1:
            with pytest.raises(ln.NamespaceAlreadyExistsError):
                change.create_namespace(*taken)
    change.insert(*parent, "kept", rows=(2,))
    make.insert(*parent, "kept", rows=(3,))
    change.insert(*parent, "kept", rows=(4,))
    world.tables[(*parent, "kept")].rows = (1, 2, 3, 4)
    world.check()
    assert change.create(*parent, "filled", rows=(7,)) == world.tables[(*parent, "filled")].place
    world.tables[(*parent, "filled")].rows = (7,)
    world.check()
    change.drop(*parent, "dropped")
    world.gone.add((*parent, "dropped"))
    assert change.keeps_what_it_drops(world.tables.pop((*parent, "dropped")).place)
    world.check()
    change.deregister(*parent, "hidden")
    world.gone.add((*parent, "hidden"))
    hidden = world.tables.pop((*parent, "hidden"))
    world.check()
    if mode == V1:
        return
    make.register(*parent, "shown", location=hidden.place)
    world.tables[(*parent, "shown")] = hidden
    world.check()
    change.drop(*parent, "shown")
    assert change.keeps_what_it_drops(world.tables.pop((*parent, "shown")).place)
    # The name is free at once, and in another directory.
    again = make.create(*parent, "hidden", rows=(11,))
    assert again != hidden.place
    world.tables[(*parent, "hidden")] = Table(again, (11,))
    world.check()
    for name in ("kept", "filled", "hidden"):
        change.drop(*parent, name)
        del world.tables[(*parent, name)]
    change.drop_namespace("m", "n")
    make.drop_namespace("m")
    world.namespaces.clear()
    world.gone |= {("m",), ("m", "n")}
    world.check()


# What only ours can do, read by native.


@pytest.mark.parametrize("mode", MANIFEST_MODES)
def test_our_rename_within_across_and_to_the_root(root: Path, mode: str) -> None:
    world = World.at(root, mode)
    for names in (("a",), ("b",)):
        world.ours.create_namespace(*names)
        world.namespaces[names] = {}
    table = Table(world.native.create("a", "t", rows=(1,), kept="yes"), (1,), {"kept": "yes"})
    path = [("a", "t"), ("a", "u"), ("b", "u"), ("b", "v"), ("a", "t")]
    if mode != COMPAT:  # Limit: default compatibility mode of native has no such root tables.
        path[3:3] = [("rooted",)]
    world.tables[path[0]] = table
    world.check()
    for old, new in itertools.pairwise(path):
        world.ours.rename(*old, to=new)
        world.tables = {new: table}
        world.gone = {names for names in path if names != new}
        world.check()
    for reader in (world.native, world.ours):
        reader.insert("a", "t", rows=(2,))
    table.rows = (1, 2, 2)
    world.check()


@pytest.mark.parametrize("mode", MANIFEST_MODES)
def test_our_cascade_takes_what_native_made_along(root: Path, mode: str) -> None:
    world = World.at(root, mode)
    world.native.create_namespace("keep")
    world.native.create_namespace("a")
    world.ours.create_namespace("a", "b")
    places = [world.native.create("a", "t"), world.ours.create("a", "b", "u")]
    places.append(world.native.declare("a", "b", "d"))
    world.namespaces = {("keep",): {}}
    world.tables = {("keep", "t"): Table(world.native.create("keep", "t", rows=(1,)), (1,))}
    world.gone = {("a",), ("a", "b"), ("a", "t"), ("a", "b", "u"), ("a", "b", "d")}
    world.ours.drop_namespace("a", behavior="cascade")
    world.check()
    assert all((root / place).exists() for place in places)
    world.native.create_namespace("a")
    world.namespaces["a",] = {}
    world.gone.remove(("a",))
    world.check()
    world.tables["a", "t"] = Table(world.ours.undrop("a", "t"), (1, 2, 3))
    assert world.tables["a", "t"].place == places[0]
    world.check()
    with pytest.raises(ln.NamespaceNotFoundError):
        world.ours.undrop("a", "b", "u")


@pytest.mark.parametrize("mode", MANIFEST_MODES)
def test_our_root_properties_survive_native_writes(root: Path, mode: str) -> None:
    world = World.at(root, mode)
    world.ours.api.create_namespace(
        ln.CreateNamespaceRequest(id=[], mode="overwrite", properties={"team": "data"})
    )
    world.check()
    world.native.create_namespace("n")
    world.native.create("n", "t", rows=(1,))
    world.namespaces["n",] = {}
    place = world.native.place(world.native.describe("n", "t").location)
    world.tables["n", "t"] = Table(place, (1,))
    world.check()
    assert world.fresh("ours").namespace_properties() == {"team": "data"}


@pytest.mark.parametrize("mode", MANIFEST_MODES)
def test_our_namespace_modes_leave_native_writing(root: Path, mode: str) -> None:
    world = World.at(root, mode)
    world.native.create_namespace("n", old="1")
    world.namespaces["n",] = {"old": "1"}

    def ours(how: str, **properties: str) -> None:
        request = ln.CreateNamespaceRequest(id=["n"], mode=how, properties=properties)
        world.ours.api.create_namespace(request)

    ours("exist_ok", ignored="2")
    world.check()
    ours("overwrite", new="3")
    world.namespaces["n",] = {"new": "3"}
    world.check()
    world.native.drop_namespace("n")
    del world.namespaces["n",]
    world.gone.add(("n",))
    world.check()


@pytest.mark.parametrize("mode", [COMPAT, MIGRATING])
def test_v1_tables_are_found_by_both_in_compatibility_mode(root: Path, mode: str) -> None:
    for kind in KINDS:
        Peer(kind, root, V1).create(f"by_{kind}", rows=(1,))
    lance.write_dataset(pa.table({"n": [2]}), root / "by_lance.lance")
    world = World.at(root, mode)
    for name, rows in (("by_native", (1,)), ("by_ours", (1,)), ("by_lance", (2,))):
        world.tables[name,] = Table(f"{name}.lance", rows)
    world.check()
    world.ours.insert("by_lance", rows=(3,))
    world.native.insert("by_lance", rows=(4,))
    world.tables["by_lance",].rows = (2, 3, 4)
    world.check()
    for name in ("by_native", "by_lance"):
        world.ours.drop(name)
        del world.tables[name,]
        world.gone.add((name,))
        world.check()
    world.ours.deregister("by_ours")
    hidden = world.tables.pop(("by_ours",))
    world.gone.add(("by_ours",))
    world.check()
    world.ours.register("by_ours", location="by_ours.lance")
    world.tables["by_ours",] = hidden
    world.check()


@pytest.mark.parametrize("mode", [COMPAT, MIGRATING])
def test_our_deregistered_root_table_is_hidden_from_native(root: Path, mode: str) -> None:
    world = World.at(root, mode)
    world.native.create("t", rows=(1,))
    world.ours.create("u", rows=(2,))
    world.tables = {("t",): Table("t.lance", (1,)), ("u",): Table("u.lance", (2,))}
    world.check()
    for name in ("t", "u"):
        world.ours.deregister(name)
        hidden = world.tables.pop((name,))
        world.gone.add((name,))
        world.check()
        world.ours.register(name, location=f"{name}.lance")
        world.tables[name,] = hidden
        world.check()


def test_native_as_lance_namespace_connects_it_is_the_same(root: Path) -> None:
    world = World.at(root, V2)
    properties = {"root": str(root), "dir_listing_enabled": "false"}
    for name in ("dir", "lance_catalog.DirectoryNamespace", "lance-catalog"):
        api = ln.connect(name, properties)
        api.create_namespace(ln.CreateNamespaceRequest(id=[name.replace(".", "_")]))
        world.namespaces[name.replace(".", "_"),] = {}
        world.check()


# Native's limits: what it does not show, or does otherwise, on a root that both use.


def test_limit_default_compat_shows_root_tables_by_directory_only(root: Path) -> None:
    """Native's default compatibility mode ignores the manifest for root tables."""
    world = World.at(root, COMPAT)
    lance.write_dataset(pa.table({"n": [1]}), root / "somewhere")
    world.ours.register("elsewhere", location="somewhere")
    assert world.ours.tables() == ["elsewhere"]
    assert world.native.tables() == []
    assert not world.native.has_table("elsewhere")
    assert Peer("native", root, MIGRATING).tables() == ["elsewhere"]
    assert Peer("native", root, V2).rows("elsewhere") == [1]
    world.native.can_write()
    assert world.ours.rows("elsewhere") == [1]


def test_limit_default_compat_shows_a_renamed_root_table_by_its_old_name(root: Path) -> None:
    """R8: data never moves, and native looks at directories."""
    world = World.at(root, COMPAT)
    world.native.create("t", rows=(1,))
    world.ours.rename("t", to=("u",))
    assert world.ours.tables() == ["u"]
    assert not world.ours.has_table("t")
    assert world.native.tables() == ["t"]
    assert not world.native.has_table("u")
    migrating = Peer("native", root, MIGRATING)
    assert migrating.tables() == ["u"]
    assert migrating.rows("u") == [1]
    assert migrating.has_table("t")  # Not listed, and found all the same.
    assert Peer("native", root, V2).tables() == ["u"]
    world.native.can_write()
    assert world.ours.tables() == ["u"]
    # The old name is free for us, in a directory of its own (R8).
    assert world.ours.create("t", rows=(2,)) != "t.lance"
    assert world.ours.rows("t") == [2]
    assert world.ours.rows("u") == [1]


def test_limit_default_compat_hides_properties_of_root_tables(root: Path) -> None:
    world = World.at(root, COMPAT)
    world.ours.create("t", owner="me")
    assert world.ours.describe("t").properties == {"owner": "me"}
    assert not world.native.describe("t").properties
    assert Peer("native", root, MIGRATING).describe("t").properties == {"owner": "me"}


def test_limit_native_deregister_in_compat_does_not_hide_a_root_table(root: Path) -> None:
    """It removes the row; the directory, and so the table, stays visible to both."""
    for mode in (COMPAT, MIGRATING):
        world = World.at(root / mode, mode)
        world.native.create("t", rows=(1,))
        world.native.deregister("t")
        assert world.native.tables() == ["t"] == world.ours.tables()
        assert world.ours.rows("t") == [1]


def test_limit_native_cannot_drop_a_table_without_a_row_in_compat(root: Path) -> None:
    lance.write_dataset(pa.table({"n": [1]}), root / "t.lance")
    for mode in (COMPAT, MIGRATING):
        world = World.at(root, mode)
        for verb in (world.native.drop, world.native.deregister):
            with pytest.raises(ln.TableNotFoundError):
                verb("t")
        assert world.ours.rows("t") == [1]
    world.ours.drop("t")
    assert (root / "t.lance").exists()
    assert world.native.tables() == [] == world.ours.tables()


def test_limit_native_shows_our_bookkeeping_as_properties(root: Path) -> None:
    """The key lance_catalog.created_at of a namespace (R6)."""
    world = World.at(root, V2)
    world.ours.create_namespace("a", colour="blue")
    assert world.ours.namespace_properties("a") == {"colour": "blue"}
    assert set(world.native.namespace_properties("a")) == {"colour", "lance_catalog.created_at"}


def test_limit_native_shows_the_trash_to_who_asks_for_it(root: Path) -> None:
    """A deregistered table is a row below __trash: nothing lists it, its full id opens it."""
    world = World.at(root, V2)
    world.ours.create_namespace("a")
    world.ours.create("a", "t", rows=(1,))
    world.ours.deregister("a", "t")
    (row,) = lance.dataset(root / "__manifest").to_table(filter="object_id != 'a'").to_pylist()
    names = row["object_id"].split("$")
    assert names[0] == "__trash"
    assert names[2:] == ["a", "t"]
    assert world.native.namespaces() == ["a"]
    assert world.native.tables() == [] == world.native.tables("a")
    assert world.native.tables(*names[:-1]) == ["t"]
    assert world.native.rows(*names) == [1]
    assert not world.ours.has_table(*names)


def test_limit_native_does_not_show_root_properties(root: Path) -> None:
    world = World.at(root, V2)
    request = ln.CreateNamespaceRequest(id=[], mode="overwrite", properties={"team": "data"})
    world.ours.api.create_namespace(request)
    assert world.native.namespace_properties() == {}
    with pytest.raises(ln.NamespaceAlreadyExistsError):
        world.native.api.create_namespace(request)


def test_limit_native_lists_a_missing_namespace_as_empty(root: Path) -> None:
    world = World.at(root, V2)
    world.native.create_namespace("a")
    assert world.native.tables("missing") == [] == world.native.namespaces("missing")
    for listing in (world.ours.tables, world.ours.namespaces):
        with pytest.raises(ln.NamespaceNotFoundError):
            listing("missing")


def test_limit_native_does_not_list_all_tables(root: Path) -> None:
    world = World.at(root, V2)
    world.native.create_namespace("a")
    world.native.create("a", "t")
    world.native.create("r")
    assert world.native.all_tables() == []
    assert world.ours.all_tables() == ["a$t", "r"]
    world = World.at(root, COMPAT)
    world.ours.create("v")
    assert world.native.all_tables() == ["v"]
    assert world.ours.all_tables() == ["a$t", "r", "v"]


def test_limit_native_has_no_rename_no_cascade_and_ignores_modes(root: Path) -> None:
    world = World.at(root, V2)
    world.ours.create_namespace("a", old="1")
    world.ours.create("a", "t", rows=(1,))
    with pytest.raises(NotImplementedError):
        world.native.rename("a", "t", to=("a", "u"))
    with pytest.raises(ln.NamespaceNotEmptyError):
        world.native.drop_namespace("a", behavior="Cascade")
    for how in ("exist_ok", "overwrite"):
        with pytest.raises(ln.NamespaceAlreadyExistsError):
            world.native.api.create_namespace(ln.CreateNamespaceRequest(id=["a"], mode=how))
    assert world.ours.rows("a", "t") == [1]


def test_limit_native_register_forgets_properties_and_checks_nothing(root: Path) -> None:
    world = World.at(root, V2)
    world.native.create_namespace("a")
    world.native.register("a", "t", location="nothing_there", owner="me")
    assert world.native.describe("a", "t").properties is None
    told = world.ours.describe("a", "t", check_declared=True)
    assert told.is_only_declared
    assert not told.properties
    with pytest.raises(ln.InvalidInputError):
        world.ours.register("a", "u", location="nothing_there_either")
    # What native registered like that is still ours to fill and to drop.
    world.ours.create("a", "t", rows=(1,))
    assert world.native.rows("a", "t") == [1]
    world.ours.drop("a", "t")
    assert not world.native.has_table("a", "t")


def test_limit_native_writes_drop_our_indices(root: Path) -> None:
    """Its next change rewrites the manifest without them; ours are made again in time."""
    world = World.at(root, V2)
    for number in range(3):
        world.ours.create_namespace(f"n{number}")
    names = {"object_id_btree", "object_type_bitmap", "base_objects_label_list"}

    def indices() -> set[str]:
        return {index.name for index in lance.dataset(root / "__manifest").describe_indices()}

    assert indices() == names
    world.native.create_namespace("native")
    assert indices() == set()
    for number in range(16):
        world.ours.create_namespace(f"m{number}")
    assert indices() == names


def test_limit_native_cannot_drop_names_beyond_ascii(root: Path) -> None:
    """Native probes their directories percent-encoded: reads work, drop removes only the row."""
    world = World.at(root, V2)
    world.ours.create_namespace("n")
    for name in ("grün", "50%", "c#1"):
        place = world.ours.create("n", name, rows=(1,))
        world.native.insert("n", name, rows=(2,))
        assert world.native.rows("n", name) == [1, 2] == world.ours.rows("n", name)
        assert world.native.describe("n", name, check_declared=True).is_only_declared
        with pytest.raises(ln.InternalError):
            world.native.drop("n", name)
        assert not world.ours.has_table("n", name)
        world.ours.register("n", name, location=place)
        world.ours.drop("n", name)
        world.ours.purge("n", name)
        assert not (root / place).exists()
    world.native.can_write()


def test_limit_default_compat_cannot_open_root_names_beyond_ascii(root: Path) -> None:
    world = World.at(root, COMPAT)
    for name in ("grün", "50%", "c#1"):
        world.ours.create(name, rows=(1,))
        assert name in world.native.tables()
        assert not world.native.has_table(name)
        assert world.ours.rows(name) == [1]
    world.native.can_write()


def test_limit_native_v1_refuses_what_ours_takes(root: Path) -> None:
    world = World.at(root, V1)
    world.ours.create("t", rows=(1,))
    with pytest.raises(ln.UnsupportedOperationError):
        world.native.register("t", location="t.lance")
    with pytest.raises(ln.TableAlreadyExistsError):  # The mode is ignored.
        world.native.create("t", rows=(2,), mode="overwrite")
    with pytest.raises(ln.InternalError):
        world.native.drop("missing")
    with pytest.raises(ln.TableNotFoundError):
        world.ours.drop("missing")
    world.ours.create("t", rows=(2,), mode="overwrite")
    assert world.native.rows("t") == [2]


def test_the_page_lists_every_limit_with_its_test() -> None:
    page = Path(__file__).parents[2] / "docs" / "explanation" / "interop.md"
    named = set(re.findall(r"`(test_limit_\w+)`", page.read_text(encoding="utf-8")))
    here: set[str] = set()
    for module in Path(__file__).parent.glob("test_*.py"):
        here |= set(re.findall(r"^def (test_limit_\w+)", module.read_text("utf-8"), re.MULTILINE))
    assert len(here) > 15
    assert named == here


def test_the_check_itself_can_fail(root: Path) -> None:
    """A world that expects what is not there is told so: by each of the things it looks at."""
    world = World.at(root, V2)
    world.ours.create_namespace("a", colour="blue")
    place = world.native.create("a", "t", rows=(1,))
    good = Table(place, (1,))

    def fails(namespaces: dict[tuple[str, ...], dict[str, str]], table: Table | None) -> None:
        world.namespaces = namespaces
        world.tables = {("a", "t"): table} if table else {}
        with pytest.raises((AssertionError, ln.LanceNamespaceError)):
            world.check()

    right = {("a",): {"colour": "blue"}}
    fails({}, good)
    fails({("a",): {}}, good)
    fails({**right, ("b",): {}}, good)
    fails(right, None)
    fails(right, Table("elsewhere", (1,)))
    fails(right, Table(place, (1, 2)))
    fails(right, Table(place, None))
    fails(right, Table(place, (1,), {"x": "y"}))
    world.namespaces, world.tables = right, {("a", "t"): good}
    world.check()
    # A row of a type native does not know stops its writes, and the check sees it (invariant 6).
    row = pa.table(
        {"object_id": ["v"], "object_type": ["view"], "location": [None], "metadata": [None]},
        schema=lance.dataset(root / "__manifest").schema.remove(4),
    ).append_column(
        lance.dataset(root / "__manifest").schema.field(4),
        pa.array([None], lance.dataset(root / "__manifest").schema.field(4).type),
    )
    lance.write_dataset(row, root / "__manifest", mode="append")
    with pytest.raises(ln.InternalError, match="Invalid object type"):
        world.check()
    assert ipc(1) != ipc(2)
