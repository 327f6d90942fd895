"""Our trash beside native and stock Lance writers: hidden from them, and kept by them."""

from __future__ import annotations

from pathlib import Path

import lance
import lance_namespace as ln
import pyarrow as pa
import pytest

from lance_catalog.directory.dropped import TableState
from lance_catalog.maintenance.check import check
from lance_catalog.maintenance.findings import Kind
from tests.interop.peers import COMPAT, MANIFEST_MODES, MODES, V1, V2, Peer, World, manifest_rows

#: (mode, namespace): V1 has the root only.
PLACES = [(mode, ()) for mode in MODES] + [(mode, ("n",)) for mode in MANIFEST_MODES]


def make(root: Path, mode: str, parent: tuple[str, ...]) -> World:
    world = World.at(root, mode)
    if parent:
        world.ours.create_namespace(*parent)
    return world


def trash_rows(root: Path) -> list[tuple[str, str, str]]:
    rows = manifest_rows(root) if (root / "__manifest").exists() else []
    found = [row for row in rows if row["object_id"].startswith("__trash$")]
    return [(row["object_id"], row["location"], row["metadata"]) for row in found]


def status(world: World, *names: str) -> TableState:
    return TableState(world.ours.api.table_status(names).state)


@pytest.mark.parametrize(("mode", "parent"), PLACES)
@pytest.mark.parametrize("maker", ["ours", "native"])
def test_native_does_not_see_what_we_dropped_and_keeps_it(
    root: Path, mode: str, parent: tuple[str, ...], maker: str
) -> None:
    world = make(root, mode, parent)
    place = getattr(world, maker).create(*parent, "t", rows=(1, 2))
    world.ours.create(*parent, "stays", rows=(3,))
    world.ours.drop(*parent, "t")
    kept = trash_rows(root)
    assert len(kept) == (mode != V1)
    for native in (world.native, Peer("native", root, mode)):
        assert native.tables(*parent) == ["stays"]
        assert not native.has_table(*parent, "t")
        with pytest.raises(ln.TableNotFoundError):
            native.insert(*parent, "t", rows=(9,))
        native.can_write()
        native.create(*parent, "theirs", rows=(4,))
        native.drop(*parent, "theirs")
    # Row for row as it was, although native has written the whole manifest anew.
    assert trash_rows(root) == kept
    assert world.fresh("ours").trash() == [(*parent, "t")]
    assert world.ours.undrop(*parent, "t") == place
    for peer in (world.ours, world.native):
        assert peer.tables(*parent) == ["stays", "t"]
        assert peer.rows(*parent, "t") == [1, 2]


@pytest.mark.parametrize(("mode", "parent"), PLACES)
def test_a_drop_by_native_is_seen_at_once(root: Path, mode: str, parent: tuple[str, ...]) -> None:
    """Ours cannot undo it: native deletes."""
    world = make(root, mode, parent)
    world.ours.create(*parent, "t", rows=(1,))
    assert world.ours.rows(*parent, "t") == [1]
    world.native.drop(*parent, "t")
    assert status(world, *parent, "t") is TableState.NOT_FOUND
    assert world.ours.tables(*parent) == [] == world.ours.trash()
    assert not world.ours.has_table(*parent, "t")
    for call in (world.ours.drop, world.ours.purge, world.ours.undrop):
        with pytest.raises(ln.TableNotFoundError):
            call(*parent, "t")
    world.ours.create(*parent, "t", rows=(2,))
    assert world.native.rows(*parent, "t") == [2]
    assert check(world.ours.api.context, grace_seconds=-3600).problems == []


@pytest.mark.parametrize(("mode", "parent"), [one for one in PLACES if one[0] != V1])
def test_a_name_we_dropped_is_native_s_to_take(
    root: Path, mode: str, parent: tuple[str, ...]
) -> None:
    """In the manifest the name is free at once; ours comes back under another."""
    world = make(root, mode, parent)
    old = world.ours.create(*parent, "t", rows=(1,))
    world.ours.drop(*parent, "t")
    if mode != V2 and not parent:
        # Native's place for a root table is where the dropped one lies.
        with pytest.raises((ln.TableAlreadyExistsError, ln.InternalError)):
            world.native.create(*parent, "t", rows=(2,))
    else:
        world.native.create(*parent, "t", rows=(2,))
        assert world.ours.rows(*parent, "t") == [2]
        with pytest.raises(ln.TableAlreadyExistsError):
            world.ours.undrop(*parent, "t")
    assert world.ours.undrop(*parent, "t", to=(*parent, "u")) == old
    assert world.ours.rows(*parent, "u") == [1]
    world.native.can_write()


@pytest.mark.parametrize(("mode", "parent"), [one for one in PLACES if one[0] != V1])
@pytest.mark.parametrize("end", ["ours drops", "native deregisters", "native drops"])
def test_native_registers_what_we_dropped(
    root: Path, mode: str, parent: tuple[str, ...], end: str
) -> None:
    """A live row and a trash row share a place: nothing is deleted, and everybody is told."""
    world = make(root, mode, parent)
    place = world.ours.create(*parent, "t", rows=(1,))
    world.ours.drop(*parent, "t")
    world.native.create_namespace("back")
    world.native.register("back", "t", location=place)
    assert world.ours.rows("back", "t") == [1]
    api = world.ours.api
    (drop,) = api.list_dropped_tables()
    with pytest.raises(ln.InvalidTableStateError, match=r"'back\$t' uses the same place"):
        world.ours.purge(*parent, "t")
    with pytest.raises(ln.InvalidTableStateError, match=r"back\$t.*back under that id already"):
        world.ours.undrop(*parent, "t")
    api.context.clock = lambda: drop.expires_at_ms + 1
    report = api.purge_tables()
    assert [(one.drop_id, error.code) for one, error in report.failed] == [(drop.drop_id, 19)]
    assert report.purged == []
    shared = [p for p in check(api.context, grace_seconds=-3600).problems if p.subject == place]
    assert Kind.SHARED_LOCATION in {problem.kind for problem in shared}
    world.ours.insert("back", "t", rows=(2,))
    assert lance.dataset(root / place).count_rows() == 2
    if end == "ours drops":
        # It is one table: the later drop takes the place of the former.
        world.ours.drop("back", "t")
        assert world.ours.trash() == [("back", "t")]
        world.ours.undrop("back", "t")
        assert world.ours.rows("back", "t") == [1, 2]
    elif end == "native deregisters":
        world.native.deregister("back", "t")
        world.ours.undrop(*parent, "t")
        assert world.ours.rows(*parent, "t") == [1, 2]
    else:
        # Native deletes the data: ours has only the row of it left, and can forget it.
        world.native.drop("back", "t")
        assert world.ours.trash() == [(*parent, "t")]
        world.ours.purge(*parent, "t")
    assert check(api.context, grace_seconds=-3600).problems == []
    world.native.can_write()


@pytest.mark.parametrize(("mode", "parent"), PLACES)
def test_rows_of_a_writer_that_has_the_table_open_come_back(
    root: Path, mode: str, parent: tuple[str, ...]
) -> None:
    """A stock writer does not look at catalogs: what it appends to a dropped table is kept."""
    world = make(root, mode, parent)
    place = world.ours.create(*parent, "t", rows=(1,))
    writer = lance.dataset(root / place)
    world.ours.drop(*parent, "t")
    writer = lance.write_dataset(pa.table({"n": [2]}), writer, mode="append")
    assert world.ours.tables(*parent) == [] == world.native.tables(*parent)
    world.ours.undrop(*parent, "t")
    assert world.ours.rows(*parent, "t") == [1, 2] == world.native.rows(*parent, "t")
    lance.write_dataset(pa.table({"n": [3]}), writer, mode="append")
    assert world.ours.rows(*parent, "t") == [1, 2, 3]


@pytest.mark.parametrize(("mode", "parent"), PLACES)
def test_a_creation_over_a_dropped_table_keeps_a_stock_writer_s_versions(
    root: Path, mode: str, parent: tuple[str, ...]
) -> None:
    """S08: the next version of the same lineage, on top of whatever was written meanwhile."""
    world = make(root, mode, parent)
    place = world.ours.create(*parent, "t", rows=(1,))
    world.ours.drop(*parent, "t")
    lance.write_dataset(pa.table({"n": [2]}), root / place, mode="append")
    assert world.ours.create(*parent, "t", rows=(7,)) == place
    assert world.ours.rows(*parent, "t") == [7] == world.native.rows(*parent, "t")
    assert lance.dataset(root / place, version=2).to_table()["n"].to_pylist() == [1, 2]


def test_native_v1_and_a_table_dropped_in_compatibility_mode(root: Path) -> None:
    """Both markers are there for those who look at directories only."""
    world = World.at(root, COMPAT)
    world.ours.create("t", rows=(1,))
    world.ours.drop("t")
    for kind in ("native", "ours"):
        assert Peer(kind, root, V1, fresh=True).tables() == []
        assert not Peer(kind, root, V1, fresh=True).has_table("t")
    with pytest.raises(ln.TableAlreadyExistsError):
        Peer("native", root, V1).create("t", rows=(2,))
    world.ours.undrop("t")
    for kind in ("native", "ours"):
        assert Peer(kind, root, V1, fresh=True).rows("t") == [1]
