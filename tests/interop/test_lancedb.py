"""lancedb on our class, and plain pylance with our class as its namespace client."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import lance
import lance_namespace as ln
import lancedb
import pyarrow as pa
import pytest
from lancedb.index import BTree
from lancedb.namespace import LanceNamespaceDBConnection

import lance_catalog
from tests.interop.peers import COMPAT, V1, V2, Peer

PROPERTIES: dict[str, dict[str, str]] = {
    V1: {"manifest_enabled": "false"},
    V2: {"dir_listing_enabled": "false"},
    COMPAT: {},
}
SCHEMA = pa.schema(
    [("id", pa.int64()), ("vector", pa.list_(pa.float32(), 2)), ("text", pa.string())]
)
IMPLS = ("lance-catalog", "lance_catalog.DirectoryNamespace")
#: (mode, namespace): V1 has the root only.
PLACES = [(V1, []), (V2, []), (V2, ["a", "b"]), (COMPAT, []), (COMPAT, ["a", "b"])]


def connect(root: Path, mode: str, impl: str = IMPLS[0], **more: Any) -> Any:
    return lancedb.connect_namespace(impl, {"root": str(root), **PROPERTIES[mode]}, **more)


def vectors(*numbers: int) -> list[dict[str, Any]]:
    return [{"id": n, "vector": [float(n), float(n + 1)], "text": f"row {n}"} for n in numbers]


def ids(table: Any) -> list[int]:
    return sorted(table.to_arrow()["id"].to_pylist())


def make_path(db: Any, path: list[str]) -> None:
    for depth in range(1, len(path) + 1):
        db.create_namespace(path[:depth])


@pytest.mark.parametrize(("mode", "path"), PLACES)
@pytest.mark.parametrize("impl", IMPLS)
def test_everything_a_user_does(root: Path, mode: str, path: list[str], impl: str) -> None:
    db = connect(root, mode, impl)
    make_path(db, path)
    table = db.create_table("t", vectors(*range(10)), namespace_path=path)
    assert ids(table) == list(range(10))
    with pytest.raises((RuntimeError, ValueError), match=r"exists already|already exists"):
        db.create_table("t", vectors(1), namespace_path=path)
    again = db.create_table("t", vectors(1), namespace_path=path, exist_ok=True)
    assert again.count_rows() == 10

    table = connect(root, mode, impl).open_table("t", namespace_path=path)
    nearest = table.search([3.1, 4.1]).limit(2).to_list()
    assert [row["id"] for row in nearest] == [3, 4]
    filtered = table.search([3.1, 4.1]).where("id > 5").limit(1).to_list()
    assert [row["id"] for row in filtered] == [6]
    table.add(vectors(99))
    table.update(where="id = 3", values={"text": "changed"})
    assert [r["id"] for r in table.search().where("text = 'changed'").to_list()] == [3]
    table.delete("id = 4")
    table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(
        vectors(5, 100)
    )
    expected = [*(n for n in range(10) if n != 4), 99, 100]
    assert ids(table) == expected
    assert ids(db.open_table("t", namespace_path=path)) == expected
    table.create_index("id", config=BTree())
    assert [list(index.columns) for index in table.list_indices()] == [["id"]]
    table.optimize()
    versions = [version["version"] for version in table.list_versions()]
    assert len(versions) > 5
    table.checkout(1)
    assert table.count_rows() == 10
    table.checkout_latest()

    over = db.create_table("t", vectors(7), mode="overwrite", namespace_path=path)
    assert ids(over) == [7]
    db.create_table("second", vectors(1), namespace_path=path)
    assert db.list_tables(namespace_path=path).tables == ["second", "t"]
    listed = db.list_tables(namespace_path=path, limit=1)
    assert listed.tables == ["second"]
    rest = db.list_tables(namespace_path=path, page_token=listed.page_token)
    assert rest.tables == ["t"]
    # What lancedb made is a table of the catalog, for us and for native.
    for kind in ("ours", "native"):
        reader = Peer(kind, root, mode, fresh=True)
        assert reader.tables(*path) == ["second", "t"]
        assert reader.count(*path, "t") == 1
    db.drop_table("t", namespace_path=path)
    with pytest.raises(ln.TableNotFoundError):
        db.open_table("t", namespace_path=path)
    with pytest.raises((RuntimeError, ValueError, ln.TableNotFoundError)):
        db.drop_table("t", namespace_path=path)
    assert db.list_tables(namespace_path=path).tables == ["second"]
    db.create_table("third", vectors(1, 2), namespace_path=path)
    assert ids(db.open_table("third", namespace_path=path)) == [1, 2]
    db.drop_all_tables(namespace_path=path)
    assert db.list_tables(namespace_path=path).tables == []
    ours = lance_catalog.connect(str(root), **PROPERTIES[mode])
    assert [one.id[-1] for one in ours.list_dropped_tables()] == ["second", "t", "third"]
    purged = ours.purge_tables([one.id for one in ours.list_dropped_tables()], force=True)
    assert len(purged.purged) == 3
    assert not [p for p in root.iterdir() if p.name not in ("__manifest", "__claims")]


@pytest.mark.parametrize("how", ["create", "overwrite", "exist_ok"])
@pytest.mark.parametrize(("mode", "path"), [place for place in PLACES if place[0] != V1])
def test_create_after_drop(root: Path, mode: str, path: list[str], how: str) -> None:
    """lancedb declares, and writes the data itself: never into the dropped table (R5)."""
    db = connect(root, mode)
    make_path(db, path)
    db.create_table("t", vectors(1, 2), namespace_path=path)
    db.drop_table("t", namespace_path=path)
    given: dict[str, Any] = {"exist_ok": True} if how == "exist_ok" else {"mode": how}
    table = db.create_table("t", vectors(3), namespace_path=path, **given)
    table.add(vectors(4))
    assert ids(db.open_table("t", namespace_path=path)) == [3, 4]
    assert db.list_tables(namespace_path=path).tables == ["t"]
    assert Peer("ours", root, mode, fresh=True).count(*path, "t") == 2
    ours = lance_catalog.connect(str(root), **PROPERTIES[mode])
    ours.undrop_table([*path, "t"], as_id=[*path, "old"])
    assert ids(db.open_table("old", namespace_path=path)) == [1, 2]
    assert ids(db.open_table("t", namespace_path=path)) == [3, 4]


@pytest.mark.parametrize("how", ["create", "overwrite", "exist_ok"])
def test_limit_lancedb_create_after_drop_in_v1(root: Path, how: str) -> None:
    """In V1 the place is the name, so a declaration over a dropped table is refused: 5."""
    db = connect(root, V1)
    db.create_table("t", vectors(1, 2))
    db.drop_table("t")
    given: dict[str, Any] = {"exist_ok": True} if how == "exist_ok" else {"mode": how}
    # Rust has the exception as a text only.
    with pytest.raises(RuntimeError, match=r"TableAlreadyExistsError: .*trash undrop t"):
        db.create_table("t", vectors(3), **given)
    ours = lance_catalog.connect(str(root), **PROPERTIES[V1])
    with pytest.raises(ln.TableAlreadyExistsError, match="v1_redeclare=purge") as caught:
        ours.declare_table({"id": ["t"]})
    assert caught.value.code == 5
    assert db.list_tables().tables == []
    # The ways out that the message names: undrop, our own create_table, purge.
    ours.undrop_table(["t"])
    assert ids(db.open_table("t")) == [1, 2]
    db.drop_table("t")
    Peer("ours", root, V1).create("t", rows=(5,))
    assert db.open_table("t").to_arrow()["n"].to_pylist() == [5]
    db.drop_table("t")
    ours.purge_table(["t"], force=True)
    assert ids(db.create_table("t", vectors(6))) == [6]


def test_create_after_drop_in_v1_that_purges_first(root: Path) -> None:
    properties = {"root": str(root), **PROPERTIES[V1], "v1_redeclare": "purge"}
    db = lancedb.connect_namespace("lance-catalog", properties)
    for number in (1, 2, 3):
        db.create_table("t", vectors(number))
        assert ids(db.open_table("t")) == [number]
        db.drop_table("t")
    assert db.list_tables().tables == []
    ours = lance_catalog.connect(str(root), **PROPERTIES[V1])
    assert [one.id for one in ours.list_dropped_tables()] == [("t",)]


@pytest.mark.parametrize(("mode", "path"), [place for place in PLACES if place[0] != V1])
def test_rename(root: Path, mode: str, path: list[str]) -> None:
    db = connect(root, mode)
    make_path(db, path or ["a"])
    target = path or ["a"]
    db.create_table("t", vectors(1), namespace_path=path)
    db.rename_table("t", "u", cur_namespace_path=path, new_namespace_path=path)
    assert db.list_tables(namespace_path=path).tables == ["u"]
    db.rename_table("u", "v", cur_namespace_path=path, new_namespace_path=target[:1])
    opened = db.open_table("v", namespace_path=target[:1])
    opened.add(vectors(2))
    assert ids(opened) == [1, 2]
    with pytest.raises(ln.TableNotFoundError):
        db.open_table("t", namespace_path=path)


def test_rename_in_v1_says_why_not(root: Path) -> None:
    db = connect(root, V1)
    db.create_table("t", vectors(1))
    with pytest.raises((RuntimeError, NotImplementedError), match="rename"):
        db.rename_table("t", "u")
    assert ids(db.open_table("t")) == [1]


@pytest.mark.parametrize("mode", [V2, COMPAT])
def test_namespaces(root: Path, mode: str) -> None:
    db = connect(root, mode)
    db.create_namespace(["a"], properties={"colour": "blue"})
    make_path(db, ["b", "c"])
    assert db.list_namespaces().namespaces == ["a", "b"]
    assert db.list_namespaces(["b"]).namespaces == ["c"]
    assert db.describe_namespace(["a"]).properties == {"colour": "blue"}
    db.create_namespace(["a"], mode="exist_ok")
    with pytest.raises((RuntimeError, ln.LanceNamespaceError)):
        db.create_namespace(["a"])
    db.create_table("t", vectors(1), namespace_path=["b", "c"])
    with pytest.raises((RuntimeError, ln.LanceNamespaceError)):
        db.drop_namespace(["b"])
    db.drop_namespace(["b"], behavior="cascade")
    assert db.list_namespaces().namespaces == ["a"]
    assert Peer("native", root, mode).namespaces() == ["a"]


@pytest.mark.parametrize(("mode", "path"), [(V2, ["a"]), (COMPAT, []), (V1, [])])
def test_creation_pushed_down_to_the_namespace(root: Path, mode: str, path: list[str]) -> None:
    """lancedb 0.40 declares and writes by itself all the same."""
    db = connect(root, mode, namespace_client_pushdown_operations=["CreateTable"])
    make_path(db, path)
    table = db.create_table("t", vectors(*range(10)), namespace_path=path)
    assert [row["id"] for row in table.search([3.1, 4.1]).limit(2).to_list()] == [3, 4]
    assert db.list_tables(namespace_path=path).tables == ["t"]
    with pytest.raises((RuntimeError, ValueError), match=r"exists already|already exists"):
        db.create_table("t", vectors(1), namespace_path=path)


@pytest.mark.parametrize("kind", ["ours", "native"])
def test_limit_lancedb_cannot_push_queries_down_to_a_python_class(root: Path, kind: str) -> None:
    """lancedb 0.40 wants bytes of query_table; the interface (0.13) answers with a model."""
    client = Peer(kind, root, V2).api
    db = LanceNamespaceDBConnection(client, namespace_client_pushdown_operations=["QueryTable"])
    table = db.create_table("t", vectors(*range(10)))
    with pytest.raises(TypeError, match="QueryTableResponse"):
        table.search([3.1, 4.1]).limit(2).to_list()


def test_importing_the_package_registers_the_short_name(root: Path) -> None:
    """In a process of its own, where nothing else has imported anything."""
    code = (
        "import sys, lancedb\n"
        "import lance_catalog\n"
        "db = lancedb.connect_namespace('lance-catalog', {'root': sys.argv[1]})\n"
        "db.create_table('t', [{'id': 1, 'vector': [1.0, 2.0]}])\n"
        "assert db.open_table('t').count_rows() == 1\n"
    )
    subprocess.run([sys.executable, "-c", code, str(root)], check=True, timeout=60)
    # Without our package imported the full path is enough.
    code = (
        "import sys, lancedb\n"
        "impl = 'lance_catalog.DirectoryNamespace'\n"
        "db = lancedb.connect_namespace(impl, {'root': sys.argv[1]})\n"
        "assert db.open_table('t').count_rows() == 1\n"
    )
    subprocess.run([sys.executable, "-c", code, str(root)], check=True, timeout=60)


def test_a_property_we_do_not_know_is_refused(root: Path) -> None:
    with pytest.raises((ln.InvalidInputError, ValueError, RuntimeError), match="manifest_enabled"):
        lancedb.connect_namespace("lance-catalog", {"root": str(root), "manifest_enable": "true"})


# pylance with our class as namespace client.


@pytest.mark.parametrize(("mode", "path"), PLACES)
def test_pylance_writes_through_our_class(root: Path, mode: str, path: list[str]) -> None:
    ours = lance_catalog.connect(str(root), **PROPERTIES[mode])
    for depth in range(1, len(path) + 1):
        ours.create_namespace({"id": path[:depth]})
    where: dict[str, Any] = {"namespace_client": ours, "table_id": [*path, "t"]}
    with pytest.raises((ln.TableNotFoundError, ln.NamespaceNotFoundError)):
        lance.dataset(**where)

    def rows(*numbers: int) -> pa.Table:
        return pa.Table.from_pylist(vectors(*numbers), schema=SCHEMA)

    lance.write_dataset(rows(1, 2), mode="create", **where)
    with pytest.raises((ln.TableAlreadyExistsError, OSError)):
        lance.write_dataset(rows(8), mode="create", **where)
    lance.write_dataset(rows(3), mode="append", **where)
    dataset = lance.dataset(**where)
    assert sorted(dataset.to_table()["id"].to_pylist()) == [1, 2, 3]
    dataset.insert(rows(4))
    dataset.delete("id = 1")
    assert lance.dataset(**where).count_rows() == 3
    assert lance.dataset(version=1, **where).count_rows() == 2
    db = connect(root, mode)
    assert ids(db.open_table("t", namespace_path=path)) == [2, 3, 4]
    db.open_table("t", namespace_path=path).add(vectors(5))
    assert lance.dataset(**where).count_rows() == 4
    lance.write_dataset(rows(9), mode="overwrite", **where)
    opened = db.open_table("t", namespace_path=path)
    assert ids(opened) == [9]
    assert [r["id"] for r in opened.search([9.0, 10.0]).limit(1).to_list()] == [9]
    assert Peer("native", root, mode).count(*path, "t") == 1
    db.drop_table("t", namespace_path=path)
    with pytest.raises(ln.TableNotFoundError):
        lance.dataset(**where)


@pytest.mark.parametrize(("mode", "path"), PLACES)
def test_native_reads_and_searches_what_lancedb_made(
    root: Path, mode: str, path: list[str]
) -> None:
    """And the other way round: lancedb through native opens and changes what ours holds."""
    db = connect(root, mode)
    make_path(db, path)
    db.create_table("t", vectors(1, 2), namespace_path=path)
    native = lancedb.connect_namespace("dir", {"root": str(root), **PROPERTIES[mode]})
    theirs = native.open_table("t", namespace_path=path)
    assert ids(theirs) == [1, 2]
    theirs.add(vectors(3))
    native.create_table("u", vectors(4), namespace_path=path)
    assert ids(db.open_table("t", namespace_path=path)) == [1, 2, 3]
    assert ids(db.open_table("u", namespace_path=path)) == [4]
    assert db.list_tables(namespace_path=path).tables == ["t", "u"]
    native.drop_table("t", namespace_path=path)
    db.drop_table("u", namespace_path=path)
    for connection in (db, native):
        assert connection.list_tables(namespace_path=path).tables == []
