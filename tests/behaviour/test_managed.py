"""Managed versions: the catalog decides which manifest is the next version of a table (I31–I36)."""

from __future__ import annotations

import json
from typing import Any

import lance
import pytest

from lance_catalog.config import Mode
from lance_catalog.maintenance.check import check
from tests.behaviour.catalogs import Catalog, code, ipc, refusal, rows

pytestmark = pytest.mark.modes(Mode.V2, Mode.COMPAT)

T = ["ns", "t"]


@pytest.fixture
def managed(catalog: Catalog) -> Catalog:
    """A catalog with managed versions and a namespace."""
    catalog.namespace("ns")
    assert catalog.enable_managed_versions().managed
    return catalog


def write(catalog: Catalog, id: list[str], numbers: list[int], mode: str = "append") -> Any:
    """Write as a stock writer does: Lance with the namespace as its client."""
    options = catalog.root.options or None
    return lance.write_dataset(
        rows(numbers), namespace_client=catalog.ns, table_id=id, mode=mode, storage_options=options
    )


def opened(catalog: Catalog, id: list[str] = T, **how: Any) -> Any:
    options = catalog.root.options or None
    return lance.dataset(namespace_client=catalog.ns, table_id=id, storage_options=options, **how)


def numbers(catalog: Catalog, id: list[str] = T, **how: Any) -> list[int]:
    return [v.version for v in catalog.list_table_versions({"id": id, **how}).versions]


def version_rows(catalog: Catalog) -> dict[str, dict[str, Any]]:
    found = {k: r for k, r in catalog.rows().items() if r["object_type"] == "table_version"}
    return found


class TestWriters:
    def test_create_and_append(self, managed: Catalog) -> None:
        """I31, I32, O06: rows first, finals in place, nothing staged is left."""
        write(managed, T, [1], "create")
        write(managed, T, [2])
        write(managed, T, [3], "overwrite")
        assert numbers(managed) == [3, 2, 1]
        assert set(version_rows(managed)) == {"ns$t$1", "ns$t$2", "ns$t$3"}
        assert managed.describe_table({"id": T}).managed_versioning is True
        assert managed.data(T) == [3]
        place = managed.place(T)
        assert not [path for path in managed.root.paths(place) if ".manifest-" in path]
        for row in version_rows(managed).values():
            values = json.loads(row["metadata"])
            assert values["manifest_path"] in managed.root.paths(place)
            assert int(values["manifest_size"]) == len(managed.root.get(values["manifest_path"]))

    def test_everything_lance_does(self, managed: Catalog) -> None:
        """Issue 5.4: each of these is a version of the registry."""
        table = write(managed, T, [1, 2, 3, 4], "create")
        table.insert(rows([5]))
        table.delete("n = 1")
        table.update({"n": "n + 10"}, where="n = 2")
        table.merge_insert("n").when_not_matched_insert_all().execute(rows([6]))
        table.create_scalar_index("n", "BTREE")
        table.optimize.compact_files()
        assert numbers(managed)[0] == table.version == len(numbers(managed))
        assert sorted(opened(managed).to_table()["n"].to_pylist()) == [3, 4, 5, 6, 12]
        table.tags.create("first", 1)
        assert opened(managed, version="first").count_rows() == 4
        old = opened(managed, version=2)
        old.restore()
        assert opened(managed).count_rows() == 5
        assert numbers(managed)[0] == opened(managed).version

    def test_branches_are_not_registered(self, managed: Catalog) -> None:
        """Issue 5.1: their versions are files."""
        table = write(managed, T, [1], "create")
        branch = table.create_branch("b")
        branch.insert(rows([2]))
        assert set(version_rows(managed)) == {"ns$t$1"}
        assert len(numbers(managed, branch="b")) == 2
        assert opened(managed).count_rows() == 1

    def test_own_operations(self, managed: Catalog) -> None:
        """Issue 5.2: what the catalog itself writes is registered too."""
        managed.create(T, [1], properties={"a": "b"})
        managed.insert_into_table({"id": T}, ipc(rows([2])))
        managed.create(T, [3], mode="overwrite")
        highest = opened(managed).version
        assert numbers(managed) == list(range(highest, 0, -1))
        assert len(version_rows(managed)) == highest
        assert opened(managed).to_table()["n"].to_pylist() == [3]


class TestBehindOurBack:
    def test_is_seen_and_taken_in(self, managed: Catalog) -> None:
        """Issue 5.2: a writer that ignores the flag loses nothing, and blocks nobody."""
        write(managed, T, [1], "create")
        location = managed.describe_table({"id": T}).location
        options = managed.root.options or None
        lance.dataset(location, storage_options=options).insert(rows([2]))
        assert numbers(managed) == [2, 1]
        assert sorted(opened(managed).to_table()["n"].to_pylist()) == [1, 2]
        assert set(version_rows(managed)) == {"ns$t$1"}
        opened(managed).insert(rows([3]))
        assert set(version_rows(managed)) == {"ns$t$1", "ns$t$2", "ns$t$3"}
        assert managed.data(T) == [1, 2, 3]

    def test_what_was_deleted_stays_deleted(self, managed: Catalog) -> None:
        """Issue 5.2: a file that a crash left of a deleted version is garbage."""
        write(managed, T, [1], "create")
        for number in range(3):
            opened(managed).insert(rows([number]))
        place = managed.place(T)
        name = version_rows(managed)["ns$t$2"]
        path = json.loads(name["metadata"])["manifest_path"]
        body = managed.root.get(path)
        ranges = [{"start_version": 1, "end_version": 3}]
        assert managed.batch_delete_table_versions({"id": T, "ranges": ranges}).deleted_count == 2
        managed.root.put(path, body)
        assert path in managed.root.paths(place)
        assert numbers(managed) == [4, 3]
        assert code(managed.describe_table_version, {"id": T, "version": 2}) == 11

    def test_a_dead_committer(self, managed: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
        """I31, I35: registered and not in place: the next read puts it there."""
        from lance_catalog.directory.managed import commit

        write(managed, T, [1], "create")
        monkeypatch.setattr(commit, "publish", lambda prepared: _die())
        # Lance asks what became of it, which puts it in place: the lost answer is no loss.
        opened(managed).insert(rows([2]))
        place = managed.place(T)
        assert not [path for path in managed.root.paths(place) if "x.manifest-" in path]
        monkeypatch.undo()
        assert set(version_rows(managed)) == {"ns$t$1", "ns$t$2"}
        assert numbers(managed, limit=1) == [2]
        assert managed.data(T) == [1, 2]
        opened(managed).insert(rows([3]))
        assert managed.data(T) == [1, 2, 3]


def _die() -> Any:
    raise OSError("died")


class TestPaging:
    def test_order_and_pages(self, managed: Catalog) -> None:
        """I34, R2: latest first, either way, versions that come between pages included."""
        write(managed, T, [0], "create")
        table = opened(managed)
        for number in range(6):
            table.insert(rows([number]))
        assert numbers(managed) == [7, 6, 5, 4, 3, 2, 1]
        assert numbers(managed, descending=False) == [1, 2, 3, 4, 5, 6, 7]
        page = managed.list_table_versions({"id": T, "limit": 3})
        assert ([v.version for v in page.versions], page.page_token) == ([7, 6, 5], "5")
        table.insert(rows([9]))
        rest = managed.list_table_versions({"id": T, "limit": 9, "page_token": page.page_token})
        assert [v.version for v in rest.versions] == [4, 3, 2, 1]
        up = managed.list_table_versions({"id": T, "limit": 7, "descending": False})
        assert [v.version for v in up.versions] == [1, 2, 3, 4, 5, 6, 7]
        assert numbers(managed, descending=False, page_token="7") == [8]
        assert managed.list_table_versions({"id": T, "limit": 0}).versions == []


class TestBadInput:
    def test_versions(self, managed: Catalog) -> None:
        """Issue 5 "Bad input"."""
        write(managed, T, [1], "create")
        place = managed.place(T)
        staged = f"{place}/_versions/x.manifest-1"
        managed.root.put(staged, b"bytes")

        def create(version: int, path: str = staged, **more: Any) -> int:
            asked = {"id": T, "version": version, "manifest_path": path, **more}
            return code(managed.create_table_version, asked)

        assert create(0) == 13
        assert create(-1) == 13
        assert create(5) == 14
        error = refusal(
            managed.create_table_version, {"id": T, "version": 1, "manifest_path": staged}
        )
        assert error.code == 12
        assert create(2, f"{place}/_versions/absent.manifest-1") == 13
        assert create(2, "../../etc/passwd") == 13
        assert create(2, manifest_size=99) == 13
        assert create(2, naming_scheme="V3") == 13
        assert numbers(managed) == [1]

    def test_deletions(self, managed: Catalog) -> None:
        """R10, I36."""
        write(managed, T, [1], "create")
        opened(managed).insert(rows([2]))

        def delete(start: int, end: int, **context: str) -> int | None:
            ranges = [{"start_version": start, "end_version": end}]
            asked = {"id": T, "ranges": ranges, "context": context}
            try:
                return int(managed.batch_delete_table_versions(asked).deleted_count)
            except Exception as error:  # The code is what counts.
                return -int(error.code)  # type: ignore[attr-defined]

        assert delete(1, 3) == -19
        assert delete(0, -1) == -19
        assert delete(3, 2) == -13
        assert delete(5, 9) == 0
        assert delete(5, 9, **{"lance_catalog.ignore_missing": "false"}) == -11
        assert delete(1, 2) == 1
        assert numbers(managed) == [2]
        assert managed.data(T) == [1, 2]


class TestLifecycle:
    def test_rename_drop_undrop(self, managed: Catalog) -> None:
        """Issue 5.2: version rows are right in the same commit."""
        write(managed, T, [1], "create")
        opened(managed).insert(rows([2]))
        managed.rename_table({"id": T, "new_table_name": "u"})
        assert set(version_rows(managed)) == {"ns$u$1", "ns$u$2"}
        managed.drop_table({"id": ["ns", "u"]})
        assert version_rows(managed) == {}
        managed.undrop_table(["ns", "u"], as_id=T)
        assert set(version_rows(managed)) == {"ns$t$1", "ns$t$2"}
        opened(managed).insert(rows([3]))
        assert managed.data(T) == [1, 2, 3]
        managed.drop_namespace({"id": ["ns"], "behavior": "cascade"})
        assert version_rows(managed) == {}

    def test_a_name_as_table_then_as_namespace(self, managed: Catalog) -> None:
        """Issue 5.2: `x$1` is a version, then a table."""
        write(managed, ["x"], [1], "create")
        managed.drop_table({"id": ["x"]})
        managed.namespace("x")
        write(managed, ["x", "1"], [5], "create")
        assert managed.tables(["x"]) == ["1"]
        assert managed.data(["x", "1"]) == [5]
        managed.undrop_table(["x"], as_id=["y"])
        assert numbers(managed, ["y"]) == [1]

    def test_created_over_a_dropped_one(self, managed: Catalog) -> None:
        """S08: the lineage goes on, and so does the registry."""
        managed.create(T, [1])
        managed.drop_table({"id": T})
        managed.create(T, [2])
        assert numbers(managed)[0] == opened(managed).version > 1
        opened(managed).insert(rows([3]))
        assert managed.data(T) == [2, 3]

    def test_deregister_and_register(self, managed: Catalog) -> None:
        write(managed, T, [1], "create")
        location = managed.deregister_table({"id": T}).location
        assert version_rows(managed) == {}
        managed.register_table({"id": T, "location": location})
        assert set(version_rows(managed)) == {"ns$t$1"}


class TestSwitch:
    def test_on_and_off(self, catalog: Catalog) -> None:
        """I32: existing versions are registered; off again, natives find no row of theirs."""
        catalog.namespace("ns")
        catalog.create(T, [1])
        catalog.insert_into_table({"id": T}, ipc(rows([2])))
        assert not catalog.managed_versions_status().managed
        report = catalog.enable_managed_versions()
        assert (report.tables, report.versions, report.changed) == (1, 2, True)
        assert not catalog.enable_managed_versions().changed
        assert numbers(catalog) == [2, 1]
        opened(catalog).insert(rows([3]))
        report = catalog.disable_managed_versions()
        assert (report.versions, report.changed) == (3, True)
        assert version_rows(catalog) == {}
        assert catalog.describe_table({"id": T}).managed_versioning is None
        assert catalog.data(T) == [1, 2, 3]
        assert numbers(catalog) == [3, 2, 1]
        assert check(catalog.context, grace_seconds=-60).problems == []


class TestTransactions:
    def test_all_at_once(self, managed: Catalog) -> None:
        """Issue 5.5: nothing before the end, everything after it."""
        a, b = ["ns", "a"], ["ns", "b"]
        with managed.transaction() as tx:
            tx.write(a, rows([1]), "create")
            tx.write(b, rows([2]), "create")
            tx.write(a, rows([3]))
            assert managed.tables(["ns"]) == []
        assert (managed.data(a), managed.data(b)) == ([1, 3], [2])
        before = managed.snapshot()
        with managed.transaction() as tx:
            tx.open(a).delete("n = 1")
            tx.write(b, rows([4]))
            assert (managed.data(a), managed.data(b)) == ([1, 3], [2])
        now = managed.snapshot()
        assert (now.open_table(a).count_rows(), now.open_table(b).count_rows()) == (1, 2)
        assert (before.open_table(a).count_rows(), before.open_table(b).count_rows()) == (2, 1)

    def test_nothing_on_an_error(self, managed: Catalog) -> None:
        """Issue 5.5: and nothing of it is left."""
        write(managed, T, [1], "create")
        before = set(managed.root.paths())
        with pytest.raises(RuntimeError, match="mine"), managed.transaction() as tx:
            tx.write(T, rows([2]))
            tx.write(["ns", "new"], rows([3]), "create")
            raise RuntimeError("mine")
        assert managed.tables(["ns"]) == ["t"]
        left = {path for path in managed.root.paths() if "_transactions" not in path}
        assert left - before == set()

    def test_a_conflict_publishes_nothing(self, managed: Catalog) -> None:
        """Issue 5.5: all or none, and it can be run again."""
        a, b = ["ns", "a"], ["ns", "b"]
        write(managed, a, [1], "create")
        write(managed, b, [1], "create")
        met = []

        def work(tx: Any) -> int:
            tx.write(a, rows([2]))
            tx.write(b, rows([2]))
            if not met:
                met.append(opened(managed, b).insert(rows([9])))
            return 7

        assert managed.run_transaction(work) == 7
        assert (managed.data(a), managed.data(b)) == ([1, 2], [1, 2, 9])

    def test_not_without_managed_versions(self, catalog: Catalog) -> None:
        assert code(catalog.transaction) == 0


class TestBatchCommit:
    def test_mixed_and_atomic(self, managed: Catalog) -> None:
        """I33: one commit, or nothing of it."""
        write(managed, T, [1], "create")
        opened(managed).insert(rows([2]))
        place = managed.place(T)
        staged = f"{place}/_versions/next.manifest-1"
        latest = json.loads(version_rows(managed)["ns$t$2"]["metadata"])["manifest_path"]
        managed.root.put(staged, managed.root.get(latest))
        before = managed.snapshot().version
        good: list[dict[str, Any]] = [
            {"declare_table": {"id": ["ns", "new"]}},
            {
                "delete_table_versions": {
                    "id": T,
                    "ranges": [{"start_version": 1, "end_version": 2}],
                }
            },
        ]
        bad = {"create_table_version": {"id": T, "version": 9, "manifest_path": staged}}
        assert code(managed.batch_commit_tables, {"operations": [*good, bad]}) == 14
        assert managed.tables(["ns"]) == ["t"]
        assert numbers(managed) == [2, 1]
        assert managed.snapshot().version == before
        fine = {"create_table_version": {"id": T, "version": 3, "manifest_path": staged}}
        answer = managed.batch_commit_tables({"operations": [*good, fine]})
        assert len(answer.results) == 3
        assert managed.tables(["ns"]) == ["new", "t"]
        assert numbers(managed) == [3, 2]
