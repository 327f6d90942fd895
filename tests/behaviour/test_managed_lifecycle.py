"""Tables that come, go and change their names, with the rows of their versions: always in the same
commit, so that at no version of the manifest a row tells of something else (issue 5.2).
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any, Final

import lance
import pytest

from lance_catalog.config import Mode
from lance_catalog.maintenance.check import check
from lance_catalog.manifest import Change
from lance_catalog.storage.manifests import Naming, manifest_name
from lance_catalog.versions.registry import Registered
from tests.behaviour.catalogs import STORES, Catalog, code, rows
from tests.behaviour.versioning import T, numbers, opened, settled, version_rows, write

pytestmark = [pytest.mark.modes(Mode.V2), pytest.mark.stores("local")]

U = ["ns", "u"]
MANY: Final = 10_000


def registered(dataset: Any) -> Counter[str]:
    """How many versions a table has in the registry, by the table's id; of one manifest.

    Whatever is registered belongs to a table that is there: the rule this file is about.
    """
    found = dataset.to_table(columns=["object_id", "object_type"]).to_pylist()
    tables = {row["object_id"] for row in found if row["object_type"] == "table"}
    parents = [
        row["object_id"].rpartition("$")[0]
        for row in found
        if row["object_type"] == "table_version"
    ]
    assert set(parents) <= tables
    return Counter(parents)


def seen_since(catalog: Catalog, version: int) -> list[Counter[str]]:
    """What was registered at every version of the manifest after one."""
    manifest = catalog.manifest()
    later = range(version + 1, manifest.version + 1)
    return [registered(manifest.checkout_version(number)) for number in later]


class TestSmall:
    @pytest.mark.stores(*STORES)
    def test_rename_drop_undrop(self, managed: Catalog) -> None:
        write(managed, T, [1], "create")
        opened(managed).insert(rows([2]))
        managed.rename_table({"id": T, "new_table_name": "u"})
        assert set(version_rows(managed)) == {"ns$u$1", "ns$u$2"}
        managed.drop_table({"id": U})
        assert version_rows(managed) == {}
        managed.undrop_table(U, as_id=T)
        assert settled(managed, [1, 2]) == 2
        opened(managed).insert(rows([3]))
        assert settled(managed, [1, 2, 3]) == 3
        managed.drop_namespace({"id": ["ns"], "behavior": "cascade"})
        assert version_rows(managed) == {}

    @pytest.mark.modes(Mode.V2, Mode.COMPAT)
    def test_created_over_a_dropped_one(self, managed: Catalog) -> None:
        """S08: the lineage goes on, and so does the registry."""
        managed.create(T, [1])
        managed.drop_table({"id": T})
        managed.create(T, [2])
        assert settled(managed, [2]) > 1
        opened(managed).insert(rows([3]))
        assert settled(managed, [2, 3]) > 2

    def test_deregister_and_register(self, managed: Catalog) -> None:
        write(managed, T, [1], "create")
        opened(managed).insert(rows([2]))
        location = managed.deregister_table({"id": T}).location
        assert version_rows(managed) == {}
        managed.register_table({"id": U, "location": location})
        assert settled(managed, [1, 2], U) == 2

    def test_deleted_versions_do_not_come_back(self, managed: Catalog) -> None:
        """A deletion that died before its files were gone, then drop and undrop."""
        write(managed, T, [1], "create")
        for number in (2, 3):
            opened(managed).insert(rows([number]))
        told = managed.describe_table_version({"id": T, "version": 1}).version
        path = f"{managed.place(T)}/_versions/{told.manifest_path.rsplit('/', 1)[-1]}"
        body = managed.root.get(path)
        ranges = [{"start_version": 1, "end_version": 2}]
        managed.batch_delete_table_versions({"id": T, "ranges": ranges})
        managed.root.put(path, body)
        managed.drop_table({"id": T})
        managed.undrop_table(T)
        assert numbers(managed) == [3, 2]
        managed.rename_table({"id": T, "new_table_name": "u"})
        assert numbers(managed, U) == [3, 2]
        assert code(managed.describe_table_version, {"id": U, "version": 1}) == 11

    def test_written_while_in_the_trash(self, managed: Catalog) -> None:
        """Behind the catalog's back: it comes back with what was written."""
        write(managed, T, [1], "create")
        location = managed.describe_table({"id": T}).location
        managed.drop_table({"id": T})
        lance.dataset(location, storage_options=managed.root.options or None).insert(rows([2]))
        managed.undrop_table(T)
        assert settled(managed, [1, 2]) == 2


class TestNames:
    @pytest.mark.modes(Mode.V2, Mode.COMPAT)
    def test_table_then_namespace_then_table(self, managed: Catalog) -> None:
        """`x$1` is a version, then a table, then a version: never more than one of them."""
        write(managed, ["x"], [1], "create")
        opened(managed, ["x"]).insert(rows([2]))
        start = managed.manifest().version
        managed.drop_table({"id": ["x"]})
        managed.namespace("x")
        write(managed, ["x", "1"], [5], "create")
        write(managed, ["x", "2"], [6], "create")
        opened(managed, ["x", "1"]).insert(rows([7]))
        assert managed.tables(["x"]) == ["1", "2"]
        assert settled(managed, [5, 7], ["x", "1"]) == 2
        assert set(version_rows(managed)) == {"x$1$1", "x$1$2", "x$2$1"}
        managed.drop_namespace({"id": ["x"], "behavior": "cascade"})
        write(managed, ["x"], [9], "create")
        assert settled(managed, [9], ["x"]) == 1
        assert set(version_rows(managed)) == {"x$1"}
        assert managed.all_tables() == ["x"]
        # And each of them again, under another name.
        drops = {one.id: one.drop_id for one in managed.list_dropped_tables()}
        managed.undrop_table(["x"], as_id=["first"])
        assert settled(managed, [1, 2], ["first"]) == 2
        managed.undrop_table(["x", "1"], as_id=["ns", "1"], drop_id=drops["x", "1"])
        assert settled(managed, [5, 7], ["ns", "1"]) == 2
        assert settled(managed, [9], ["x"]) == 1
        seen_since(managed, start)

    def test_a_fresh_table_of_the_name(self, managed: Catalog) -> None:
        """Its versions begin at 1 again, in every process that knew the old one."""
        write(managed, T, [1], "create")
        for number in range(5):
            opened(managed).insert(rows([number]))
        managed.drop_table({"id": T})
        write(managed, T, [8], "create")
        assert settled(managed, [8]) == 1
        opened(managed).insert(rows([9]))
        assert settled(managed, [8, 9]) == 2

    def test_names_that_begin_alike(self, managed: Catalog) -> None:
        """Rows are found by ranges of ids: those of `t` are not those of `t1` or `t$1`."""
        for name in ("t", "t1", "t%", "t#", "T"):
            write(managed, ["ns", name], [1], "create")
        opened(managed).insert(rows([2]))
        managed.drop_table({"id": T})
        assert Counter(key.rpartition("$")[0] for key in version_rows(managed)) == {
            "ns$t1": 1,
            "ns$t%": 1,
            "ns$t#": 1,
            "ns$T": 1,
        }


def fill(catalog: Catalog, id: list[str], count: int) -> None:
    """Give a table versions: copies of its manifest, and rows, as commits would have left them."""
    write(catalog, id, [1], "create")
    place, key = catalog.place(id), "$".join(id)
    assert catalog.root.folder is not None
    folder = f"{catalog.root.folder}/{place}/_versions"
    first = f"{folder}/{manifest_name(1, Naming.V2)}"
    size = os.path.getsize(first)
    made = []
    for number in range(2, count + 1):
        os.link(first, f"{folder}/{manifest_name(number, Naming.V2)}")
        made.append(Registered(number, Naming.V2, size, None, number).row(key, place))
    catalog.context.commit(lambda view: (Change(add=tuple(made)), None))


class TestMany:
    """Ten thousand versions; nothing is opened, so copies of one manifest are enough."""

    def test_everything_that_can_become_of_a_table(self, managed: Catalog) -> None:
        write(managed, U, [1], "create")
        fill(managed, T, MANY)
        start = managed.manifest().version
        assert registered(managed.manifest()) == {"ns$t": MANY, "ns$u": 1}
        managed.rename_table({"id": T, "new_table_name": "v"})
        managed.drop_table({"id": ["ns", "v"]})
        managed.undrop_table(["ns", "v"], as_id=T)
        location = managed.deregister_table({"id": T}).location
        managed.register_table({"id": T, "location": location})
        managed.drop_namespace({"id": ["ns"], "behavior": "cascade"})
        managed.namespace("ns")
        managed.undrop_table(T)
        # Not one version of the manifest in which some rows are there and others not.
        states = [dict(found) for found in seen_since(managed, start)]
        changes = [s for n, s in enumerate(states) if n == 0 or s != states[n - 1]]
        assert changes == [
            {"ns$v": MANY, "ns$u": 1},
            {"ns$u": 1},
            {"ns$t": MANY, "ns$u": 1},
            {"ns$u": 1},
            {"ns$t": MANY, "ns$u": 1},
            {},
            {"ns$t": MANY},
        ]
        assert numbers(managed, limit=3) == [MANY, MANY - 1, MANY - 2]
        assert numbers(managed, limit=3, descending=False) == [1, 2, 3]

    def test_purge(self, managed: Catalog) -> None:
        """Nothing is left of it: no row, no file; others keep theirs."""
        write(managed, U, [1], "create")
        fill(managed, T, MANY)
        place = managed.place(T)
        start = managed.manifest().version
        managed.drop_table({"id": T}, purge=True)
        assert all(found == {"ns$u": 1} for found in seen_since(managed, start))
        assert managed.root.paths(place) == []
        write(managed, T, [7], "create")
        assert settled(managed, [7]) == 1
        assert check(managed.context, grace_seconds=-60).problems == []

    def test_deletion_and_disable(self, managed: Catalog) -> None:
        fill(managed, T, MANY)
        ranges = [{"start_version": 0, "end_version": MANY}]
        asked = {"id": T, "ranges": ranges}
        assert managed.batch_delete_table_versions(asked).deleted_count == MANY - 1
        assert numbers(managed) == [MANY]
        managed.drop_table({"id": T})
        managed.undrop_table(T)
        assert numbers(managed) == [MANY]
        report = managed.disable_managed_versions()
        assert (report.versions, version_rows(managed)) == (1, {})
