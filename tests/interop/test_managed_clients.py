"""lancedb on a catalog that manages versions: everything it commits is registered, and whoever
opens the table by its place alone sees the same (issue 5).
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pytest
from lancedb.index import BTree, IvfFlat

import lance_catalog
from lance_catalog import DirectoryNamespace
from lance_catalog.maintenance.check import check
from tests.interop.peers import COMPAT, V2, Peer
from tests.interop.test_lancedb import PROPERTIES, connect, ids, make_path, vectors

#: (mode, namespace)
PLACES = [(V2, ["a", "b"]), (V2, []), (COMPAT, ["a", "b"])]


@pytest.fixture(params=PLACES, ids=lambda place: f"{place[0]}-{'.'.join(place[1]) or 'root'}")
def place(request: pytest.FixtureRequest) -> tuple[str, list[str]]:
    mode, path = request.param
    return mode, path


class Client:
    """A lancedb connection on a managed catalog, and the catalog itself."""

    def __init__(self, root: Path, mode: str, path: list[str]) -> None:
        self.root, self.mode, self.path = root, mode, path
        self.catalog: DirectoryNamespace = lance_catalog.connect(str(root), **PROPERTIES[mode])
        self.catalog.enable_managed_versions()
        self.db = connect(root, mode)
        make_path(self.db, path)

    def create(self, *numbers: int, **how: Any) -> Any:
        return self.db.create_table("t", vectors(*numbers), namespace_path=self.path, **how)

    def open(self, **how: Any) -> Any:
        return connect(self.root, self.mode).open_table("t", namespace_path=self.path, **how)

    def versions(self) -> list[int]:
        found = self.catalog.list_table_versions({"id": [*self.path, "t"]}).versions
        return [one.version for one in found]

    def agreed(self, expected: list[int]) -> int:
        """Registry, lancedb and plain Lance say the same; the latest version."""
        key = "$".join([*self.path, "t"])
        manifest = lance.dataset(str(self.root / "__manifest")).to_table().to_pylist()
        rows = {
            row["object_id"]
            for row in manifest
            if row["object_type"] == "table_version" and row["object_id"].rpartition("$")[0] == key
        }
        latest = self.versions()[0]
        assert rows == {f"{key}${number}" for number in range(1, latest + 1)}
        plain = lance.dataset(self.catalog.describe_table({"id": [*self.path, "t"]}).location)
        assert plain.version == latest
        assert sorted(plain.to_table()["id"].to_pylist()) == expected
        assert ids(self.open()) == expected
        assert check(self.catalog.context, grace_seconds=-60).problems == []
        return latest


@pytest.fixture
def client(root: Path, place: tuple[str, list[str]]) -> Client:
    return Client(root, *place)


def test_everything_a_user_does(client: Client) -> None:
    table = client.create(*range(10))
    assert client.agreed(list(range(10))) == 1
    assert [row["id"] for row in table.search([3.1, 4.1]).limit(2).to_list()] == [3, 4]
    table.add(vectors(99))
    assert client.agreed([*range(10), 99]) == 2
    table.update(where="id = 3", values={"text": "changed"})
    assert [r["id"] for r in client.open().search().where("text = 'changed'").to_list()] == [3]
    table.delete("id = 4")
    merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(vectors(5, 100))
    expected = [*(n for n in range(10) if n != 4), 99, 100]
    assert client.agreed(expected) >= 5
    listed = sorted(one["version"] for one in table.list_versions())
    assert listed == sorted(client.versions())


def test_indices_and_optimize(client: Client) -> None:
    table = client.create(*range(64))
    table.create_index("id", config=BTree())
    table.create_index("vector", config=IvfFlat(num_partitions=2))
    table.wait_for_index([one.name for one in table.list_indices()], timedelta(seconds=30))
    table.add(vectors(64, 65))
    table.optimize()
    now = client.open()
    assert {tuple(one.columns) for one in now.list_indices()} == {("id",), ("vector",)}
    assert now.index_stats("id_idx").num_unindexed_rows == 0
    near = now.search([65.0, 66.0]).limit(1).to_list()
    assert [row["id"] for row in near] == [65]
    client.agreed(list(range(66)))


def test_time_travel_restore_and_tags(client: Client) -> None:
    table = client.create(1, 2)
    table.add(vectors(3))
    table.tags.create("three", 2)
    table.delete("id = 1")
    table.checkout(1)
    assert ids(table) == [1, 2]
    table.checkout("three")
    assert ids(table) == [1, 2, 3]
    table.checkout(1)
    table.restore()
    assert client.agreed([1, 2]) == 4
    table.add(vectors(4))
    assert client.agreed([1, 2, 4]) == 5
    client.open().restore(2)
    assert client.agreed([1, 2, 3]) == 6


def test_created_again(client: Client) -> None:
    client.create(1)
    with pytest.raises((RuntimeError, ValueError), match=r"exists already|already exists"):
        client.create(2)
    assert ids(client.create(3, exist_ok=True)) == [1]
    assert client.agreed([1]) == 1
    client.create(4, mode="overwrite")
    assert client.agreed([4]) >= 1
    client.db.drop_table("t", namespace_path=client.path)
    client.create(5)
    client.open().add(vectors(6))
    client.agreed([5, 6])


def test_two_connections_and_pylance(client: Client) -> None:
    """Each rebases on what the others made, whichever library they are."""
    client.create(1)
    one, other = client.open(), client.open()
    where: dict[str, Any] = {"namespace_client": client.catalog, "table_id": [*client.path, "t"]}
    third = lance.dataset(**where)
    one.add(vectors(2))
    other.add(vectors(3))
    third.delete("id = 1")
    one.checkout_latest()
    one.update(where="id = 3", values={"id": 30})
    assert client.agreed([2, 30]) == 5


def test_rename(client: Client) -> None:
    table = client.create(1)
    table.add(vectors(2))
    path = client.path
    client.db.rename_table("t", "u", cur_namespace_path=path, new_namespace_path=path)
    client.db.rename_table("u", "t", cur_namespace_path=path, new_namespace_path=path)
    client.open().add(vectors(3))
    assert client.agreed([1, 2, 3]) == 3


def test_cleanup_by_lancedb(client: Client) -> None:
    """Optimize with a cleanup does not tell the catalog; what it removed is not there: 11."""
    table = client.create(1)
    for number in (2, 3):
        table.add(vectors(number))
    with pytest.warns(UserWarning, match="removes every version except the latest"):
        table.optimize(cleanup_older_than=timedelta(0))
    assert ids(client.open()) == [1, 2, 3]
    for version in (1, 2, 3):
        with pytest.raises(lance_catalog.errors.LanceNamespaceError) as caught:
            client.catalog.describe_table_version({"id": [*client.path, "t"], "version": version})
        assert caught.value.code == 11
    client.open().add(vectors(4))
    assert ids(client.open()) == [1, 2, 3, 4]
    client.catalog.cleanup_table_versions([*client.path, "t"], keep=100)
    assert set(client.versions()) == {one["version"] for one in client.open().list_versions()}


def test_native_reads_what_is_committed(client: Client) -> None:
    """Invariant 6, the documented exception: its writers fail, and its readers do not."""
    client.create(1).add(vectors(2))
    native = Peer("native", client.root, client.mode)
    assert native.count(*client.path, "t") == 2
    client.catalog.disable_managed_versions()
    native = Peer("native", client.root, client.mode, fresh=True)
    native.can_write()
    client.open().add(vectors(3))
    assert native.count(*client.path, "t") == 3
