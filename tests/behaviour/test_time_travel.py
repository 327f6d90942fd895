"""The catalog as it was: a read-only view of any version of the manifest, what changed between two
of them, and what is said of points that are gone (issue 5.6).
"""

from __future__ import annotations

import inspect
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import lance
import pytest

from lance_catalog.config import Mode
from tests.behaviour.catalogs import Catalog, code, ipc, refusal, rows
from tests.behaviour.versioning import T, opened, values, write

pytestmark = [pytest.mark.modes(Mode.V2), pytest.mark.stores("local")]


#: Everything a catalog of the past answers.
READS = {
    *("list_namespaces", "describe_namespace", "namespace_exists"),
    *("list_tables", "list_all_tables", "describe_table", "table_exists", "table_status"),
    *("list_dropped_tables", "list_purgable_tables", "managed_versions_status"),
    *("list_table_versions", "describe_table_version", "list_table_tags", "list_table_branches"),
    *("list_table_indices", "describe_table_index_stats", "get_table_tag_version"),
    *("count_table_rows", "query_table", "explain_table_query_plan", "analyze_table_query_plan"),
    *("get_table_stats", "describe_transaction", "history", "diff", "snapshot", "open_table"),
    *("namespace_id", "managed", "locate", "with_store"),
}


def at(catalog: Catalog, point: Any) -> Catalog:
    """The same catalog, opened as of a point."""
    then = Catalog(catalog.mode, catalog.kind, catalog.root)
    then.ns = catalog.open(as_of=point)
    return then


def changes(catalog: Catalog, since: Any = None, until: Any = None) -> list[tuple[str, ...]]:
    return [
        (one.action, one.kind, ".".join(one.id), one.detail)
        for one in catalog.history(since, until)
    ]


class TestAsOf:
    @pytest.mark.modes(Mode.V2, Mode.COMPAT)
    def test_tables_namespaces_and_properties(self, catalog: Catalog) -> None:
        catalog.namespace("ns", properties={"colour": "blue"})
        catalog.create(T, [1], properties={"a": "1"})
        first = catalog.snapshot().version
        catalog.namespace("later")
        catalog.rename_table({"id": T, "new_table_name": "u"})
        catalog.create(["ns", "new"], [2])
        second = catalog.snapshot().version
        catalog.drop_table({"id": ["ns", "u"]})
        then = at(catalog, first)
        assert (then.namespaces(), then.tables(["ns"])) == (["ns"], ["t"])
        assert then.describe_table({"id": T}).properties == {"a": "1"}
        assert then.describe_namespace({"id": ["ns"]}).properties == {"colour": "blue"}
        assert code(then.describe_table, {"id": ["ns", "new"]}) == 4
        assert then.data(T) == [1]
        assert at(catalog, second).tables(["ns"]) == ["new", "u"]
        assert at(catalog, str(second)).namespaces() == ["later", "ns"]
        assert catalog.tables(["ns"]) == ["new"]

    def test_by_time(self, catalog: Catalog) -> None:
        """A moment means the latest version that was there by then."""
        catalog.namespace("a")
        catalog.namespace("b")
        catalog.namespace("c")
        seen = {one.id: one for one in catalog.history() if one.action == "created"}
        for name, expected in (("a", ["a"]), ("b", ["a", "b"]), ("c", ["a", "b", "c"])):
            moment = datetime.fromtimestamp(seen[(name,)].timestamp_ms / 1000, UTC)
            if seen[(name,)].timestamp_ms in {
                one.timestamp_ms for key, one in seen.items() if key != (name,)
            }:
                continue  # Two in one millisecond: the moment means the later one.
            assert at(catalog, moment.isoformat()).namespaces() == expected
        soon = datetime.now(UTC) + timedelta(days=1)
        assert at(catalog, soon.isoformat()).namespaces() == ["a", "b", "c"]

    @pytest.mark.parametrize("kept", [True, False], ids=["managed", "unmanaged"])
    def test_nothing_can_be_changed(self, catalog: Catalog, kept: bool) -> None:
        """0 from every method that is not known to read, and the root is as it was."""
        catalog.namespace("ns")
        if kept:
            catalog.enable_managed_versions()
        catalog.create(T, [1])
        then = at(catalog, catalog.snapshot().version).ns
        before = catalog.root.digest()
        data = {"insert_into_table", "merge_insert_into_table", "create_table"}
        refused = 0
        for name, method in inspect.getmembers(then, inspect.ismethod):
            if name.startswith("_") or name in READS:
                continue
            given: list[Any] = [{"id": T, "predicate": "n = 1", "tag": "x", "column": "n"}]
            assert code(method, *given, *([ipc(rows([2]))] if name in data else [])) == 0, name
            refused += 1
        assert refused > 35
        assert catalog.root.digest() == before

    @pytest.mark.stores("local", "s3")
    def test_versions_of_a_table(self, managed: Catalog) -> None:
        """Issue 5.6: what the registry said then, and nothing that came since."""
        write(managed, T, [1], "create")
        opened(managed).insert(rows([2]))
        then = at(managed, managed.snapshot().version)
        opened(managed).insert(rows([3]))
        asked = {"id": T}
        assert [v.version for v in then.list_table_versions(asked).versions] == [2, 1]
        assert then.describe_table_version(asked).version.version == 2
        assert code(then.describe_table_version, {"id": T, "version": 3}) == 11
        assert values(then.snapshot().open_table(T)) == [1, 2]
        options = managed.root.options or None
        found = lance.dataset(namespace_client=then.ns, table_id=T, storage_options=options)
        assert values(found) == [1, 2]
        assert values(opened(managed)) == [1, 2, 3]

    def test_points_that_are_not_there(self, catalog: Catalog) -> None:
        """11, and which is the oldest that is."""
        catalog.namespace("a")
        latest = catalog.snapshot().version
        error = refusal(at(catalog, latest + 1).namespaces)
        assert error.code == 11 and "oldest point available is version 1" in str(error)
        old = datetime(2020, 1, 1, tzinfo=UTC).isoformat()
        error = refusal(at(catalog, old).namespaces)
        assert error.code == 11 and "oldest point available is version 1" in str(error)
        assert code(catalog.open, as_of="yesterday") == 13

    def test_beyond_retention(self, catalog: Catalog) -> None:
        """The past is as long as manifest_retention says."""
        for name in ("a", "b", "c", "d"):
            catalog.namespace(name)
        catalog.upkeep(keep=0)
        error = refusal(at(catalog, 1).namespaces)
        assert error.code == 11
        told = re.search(r"oldest point available is version (\d+) ", str(error))
        assert told is not None
        oldest = int(told[1])
        assert 1 < oldest <= catalog.snapshot().version
        assert at(catalog, oldest).namespaces() == ["a", "b", "c", "d"]
        assert code(at(catalog, oldest - 1).namespaces) == 11
        assert code(catalog.history, 1) == 11
        assert catalog.history(oldest) == []

    @pytest.mark.modes(Mode.V1)
    def test_not_in_v1(self, catalog: Catalog) -> None:
        assert code(catalog.open, as_of="1") == 13
        assert code(catalog.history) == 0
        assert code(catalog.diff, 1, 2) == 0


class TestHistory:
    def test_of_tables(self, catalog: Catalog) -> None:
        catalog.namespace("ns")
        start = catalog.snapshot().version
        catalog.create(T, [1], properties={"a": "1"})
        catalog.rename_table({"id": T, "new_table_name": "u"})
        catalog.drop_table({"id": ["ns", "u"]})
        catalog.undrop_table(["ns", "u"])
        catalog.drop_table({"id": ["ns", "u"]})
        catalog.purge_tables([["ns", "u"]], force=True)
        told = [(one[0], one[2]) for one in changes(catalog, start)]
        assert told == [
            ("created", "ns.t"),
            ("renamed", "ns.u"),
            ("dropped", "ns.u"),
            ("undropped", "ns.u"),
            ("dropped", "ns.u"),
            ("purged", "ns.u"),
        ]
        # Read from the very beginning, the namespace is news as well.
        assert changes(catalog)[0][:3] == ("created", "namespace", "ns")

    def test_of_versions(self, managed: Catalog) -> None:
        """Each commit tells of its table; who is known, and the time goes forward."""
        start = managed.snapshot().version
        write(managed, T, [1], "create")
        opened(managed).insert(rows([2]))
        found = managed.history(start)
        told = [(one.action, ".".join(one.id), one.versions) for one in found]
        assert told == [
            ("created", "ns.t", ()),
            ("committed", "ns.t", ((1, 1),)),
            ("committed", "ns.t", ((2, 2),)),
        ]
        assert all(one.who for one in found)
        times = [one.timestamp_ms for one in found]
        assert times == sorted(times)
        versions = [one.version for one in found]
        assert versions == sorted(versions)

    def test_between_two_points(self, catalog: Catalog) -> None:
        catalog.namespace("a")
        first = catalog.snapshot().version
        catalog.namespace("b")
        second = catalog.snapshot().version
        catalog.namespace("c")
        assert [one[2] for one in changes(catalog, first, second)] == ["b"]
        assert changes(catalog, second, second) == []
        assert code(catalog.history, second, first) == 13

    def test_a_diff_is_one_change(self, catalog: Catalog) -> None:
        """What came and went in between does not show."""
        catalog.namespace("ns")
        catalog.create(T, [1])
        first = catalog.snapshot().version
        catalog.create(["ns", "short"], [1])
        catalog.rename_table({"id": T, "new_table_name": "u"})
        catalog.drop_table({"id": ["ns", "short"]}, purge=True)
        catalog.namespace("more")
        last = catalog.snapshot().version
        found = [(one.action, ".".join(one.id)) for one in catalog.diff(first, last)]
        assert sorted(found) == [("created", "more"), ("renamed", "ns.u")]
        assert catalog.diff(last, last) == []
        back = [(one.action, ".".join(one.id)) for one in catalog.diff(last, first)]
        assert sorted(back) == [("dropped", "more"), ("renamed", "ns.t")]
