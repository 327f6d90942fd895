"""Dropping a table and bringing it back: one meaning in every mode (S03, S06, S07, S09, R13)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import lance
import pytest

from lance_catalog import TableState
from lance_catalog.config import Mode
from tests.behaviour.catalogs import Catalog, code, ipc, local_only, outcome, refusal, rows

DAY = 24 * 3600 * 1000
NOW = 1_700_000_000_000


def hold(catalog: Catalog, at_ms: int = NOW) -> None:
    """Stop the clock."""
    catalog.ns.context.clock = lambda: at_ms


@pytest.mark.homes("root", "nested")
class TestDrop:
    def test_hides_and_keeps(self, catalog: Catalog) -> None:
        """S03, S09, S10: gone from every answer, while an open handle goes on reading."""
        table = catalog.at("t")
        catalog.create(catalog.at("keep"))
        catalog.create(table)
        place = catalog.place(table)
        before = catalog.root.paths(f"{place}/")
        location = catalog.describe_table({"id": table}).location
        reader = lance.dataset(location, storage_options=catalog.root.options or None)
        catalog.drop_table({"id": table})
        assert catalog.tables(catalog.home) == ["keep"]
        assert not catalog.exists(table)
        for call in (catalog.describe_table, catalog.count_table_rows, catalog.drop_table):
            assert code(call, {"id": table}) == 4
        assert code(catalog.list_table_versions, {"id": table}) == 4
        assert code(catalog.insert_into_table, {"id": table}, ipc(rows([9]))) == 4
        assert code(catalog.query_table, {"id": table, "k": 1, "vector": {}}) == 4
        assert set(before) <= set(catalog.root.paths(f"{place}/"))
        assert sorted(reader.to_table()["n"].to_pylist()) == [1, 2, 3]

    def test_the_way_back(self, catalog: Catalog) -> None:
        """S07: rows, properties, versions and place as they were."""
        table = catalog.at("t")
        catalog.create(table, properties={"owner": "me"})
        catalog.insert_into_table({"id": table}, ipc(rows([4])))
        place = catalog.place(table)
        described = catalog.describe_table({"id": table, "load_detailed_metadata": True})
        drop_id = catalog.drop_table({"id": table}).transaction_id
        back = catalog.undrop_table(table)
        assert (back.id, back.location, back.drop_id) == (tuple(table), place, drop_id)
        assert catalog.data(table) == [1, 2, 3, 4]
        assert catalog.describe_table({"id": table, "load_detailed_metadata": True}) == described
        assert catalog.list_dropped_tables() == []
        assert not [path for path in catalog.root.paths() if ".deleted" in path]
        assert not [path for path in catalog.root.paths() if "deregistered" in path]
        assert catalog.root.paths("__claims") == []

    def test_again_and_again(self, catalog: Catalog) -> None:
        """S07: each drop has an id of its own."""
        table = catalog.at("t")
        catalog.create(table)
        seen = set()
        for _ in range(4):
            seen.add(catalog.drop_table({"id": table}).transaction_id)
            catalog.undrop_table(table)
        assert len(seen) == 4
        assert catalog.data(table) == [1, 2, 3]

    def test_writers_with_an_open_handle(self, catalog: Catalog) -> None:
        """S10: what they append to the dropped table comes back with it."""
        table = catalog.at("t")
        catalog.create(table)
        location = catalog.describe_table({"id": table}).location
        handle = lance.dataset(location, storage_options=catalog.root.options or None)
        catalog.drop_table({"id": table})
        handle.insert(rows([4]))
        catalog.undrop_table(table)
        assert catalog.data(table) == [1, 2, 3, 4]

    def test_declared_table(self, catalog: Catalog) -> None:
        """S03, S07: it has no data to keep, but a name and a place."""
        table = catalog.at("t")
        catalog.declare_table({"id": table})
        place = catalog.place(table)
        catalog.drop_table({"id": table})
        assert not catalog.exists(table)
        catalog.undrop_table(table)
        assert catalog.place(table) == place
        assert catalog.describe_table({"id": table, "check_declared": True}).is_only_declared


@pytest.mark.homes("root", "nested")
class TestStatus:
    def test_a_life(self, catalog: Catalog) -> None:
        """S06: purged is as if it never was."""
        table = catalog.at("t")
        hold(catalog)
        assert catalog.table_status(table).state is TableState.NOT_FOUND
        catalog.create(table)
        assert catalog.table_status(table).state is TableState.EXISTS
        drop = catalog.drop_table({"id": table})
        status = catalog.table_status(table)
        assert status.state is TableState.SOFT_DELETED
        assert (status.deleted_at_ms, status.expires_at_ms) == (NOW, NOW + 7 * DAY)
        assert status.drop_id == drop.transaction_id == drop.properties["lance_catalog.drop_id"]
        assert drop.properties["lance_catalog.expires_at_ms"] == str(NOW + 7 * DAY)
        catalog.purge_table(table, force=True)
        assert catalog.table_status(table).state is TableState.NOT_FOUND

    def test_deregistered_is_not_soft_deleted(self, catalog: Catalog) -> None:
        """Issue 4.4: hidden without a time, until it is dropped."""
        table = catalog.at("t")
        catalog.create(table)
        catalog.deregister_table({"id": table})
        assert catalog.table_status(table).state is TableState.NOT_FOUND
        assert catalog.list_dropped_tables() == []
        assert "deregistered" in str(refusal(catalog.undrop_table, table))
        assert code(catalog.purge_table, table, force=True) == 4
        catalog.drop_table({"id": table})
        assert catalog.table_status(table).state is TableState.SOFT_DELETED
        catalog.undrop_table(table)
        assert catalog.data(table) == [1, 2, 3]


class TestTimeToLive:
    @pytest.mark.parametrize(
        ("how", "expected"),
        [
            ({}, 7 * DAY),
            ({"ttl": "3d"}, 3 * DAY),
            ({"ttl": 60}, 60_000),
            ({"ttl": "never"}, None),
            ({"ttl": 0}, 0),
        ],
    )
    def test_per_call(self, catalog: Catalog, how: dict[str, Any], expected: int | None) -> None:
        """S05, R13."""
        hold(catalog)
        catalog.create(["t"])
        answer = catalog.drop_table({"id": ["t"]}, **how)
        at = None if expected is None else NOW + expected
        assert catalog.table_status(["t"]).expires_at_ms == at
        told = answer.properties.get("lance_catalog.expires_at_ms")
        assert told == (None if at is None else str(at))

    @local_only
    def test_by_context(self, catalog: Catalog) -> None:
        """R13: controls travel in the request's context, of a dict or of a model."""
        hold(catalog)
        catalog.create(["t"])
        catalog.drop_table({"id": ["t"], "context": {"lance_catalog.ttl_ms": "5000"}})
        assert catalog.table_status(["t"]).expires_at_ms == NOW + 5000
        catalog.undrop_table(["t"])
        context = {"lance_catalog.drop_behavior": "purge"}
        catalog.drop_table({"id": ["t"], "context": context})
        assert catalog.table_status(["t"]).state is TableState.NOT_FOUND
        catalog.create(["t"])
        for bad in ({"lance_catalog.ttl_ms": "soon"}, {"lance_catalog.drop_behavior": "burn"}):
            assert code(catalog.drop_table, {"id": ["t"], "context": bad}) == 13
        assert code(catalog.drop_table, {"id": ["t"]}, ttl="soon") == 13
        assert catalog.exists(["t"])

    @local_only
    def test_by_property(self, catalog: Catalog) -> None:
        """S05, R5: a default of the catalog; a call decides otherwise."""
        catalog.ns = catalog.open(drop_ttl="1h", drop_behavior="purge")
        hold(catalog)
        catalog.create(["t"])
        catalog.drop_table({"id": ["t"]})
        assert catalog.table_status(["t"]).state is TableState.NOT_FOUND
        catalog.create(["t"])
        catalog.drop_table({"id": ["t"]}, purge=False)
        assert catalog.table_status(["t"]).expires_at_ms == NOW + 3_600_000

    def test_clock_that_jumps_back(self, catalog: Catalog) -> None:
        """Issue 4 "Bad input": nothing expires by it, and everything can still be brought back."""
        hold(catalog)
        catalog.create(["t"])
        catalog.drop_table({"id": ["t"]}, ttl="1h")
        hold(catalog, NOW - 400 * DAY)
        assert catalog.list_purgable_tables() == []
        assert code(catalog.purge_table, ["t"]) == 19
        catalog.undrop_table(["t"])
        assert catalog.data(["t"]) == [1, 2, 3]

    def test_purgable(self, catalog: Catalog) -> None:
        """S05: by each table's own time, or by the caller's."""
        for number, name in enumerate(["a", "b", "c"]):
            hold(catalog, NOW + number * DAY)
            catalog.create([name])
            catalog.drop_table({"id": [name]}, ttl="never" if name == "c" else "1d")

        def names(found: list[Any]) -> list[str]:
            return [table.id[0] for table in found]

        hold(catalog, NOW + DAY)
        assert names(catalog.list_purgable_tables()) == ["a"]
        hold(catalog, NOW + 100 * DAY)
        assert names(catalog.list_purgable_tables()) == ["a", "b"]
        assert names(catalog.list_purgable_tables(NOW + DAY)) == ["a"]
        moment = datetime.fromtimestamp((NOW + 50 * DAY) / 1000, UTC)
        assert names(catalog.list_purgable_tables(moment)) == ["a", "b", "c"]
        assert names(catalog.list_dropped_tables()) == ["a", "b", "c"]
        naive = moment.replace(tzinfo=None)
        assert code(catalog.list_purgable_tables, naive) == 13
        assert code(catalog.list_purgable_tables, "yesterday") == 13


class TestUndropRefused:
    @pytest.mark.homes("root", "nested")
    def test_name_is_taken(self, catalog: Catalog) -> None:
        """Issue 4 "Bad input": 5, and the table stays in the trash."""
        table = catalog.at("t")
        if catalog.mode is Mode.V1:
            catalog.create(table)
            assert code(catalog.undrop_table, table) == 4
            return
        catalog.create(table)
        catalog.drop_table({"id": table})
        catalog.declare_table({"id": table})
        error = refusal(catalog.undrop_table, table)
        assert error.code == 5
        assert "--as" in str(error)
        other = catalog.at("u")
        assert catalog.undrop_table(table, as_id=other).id == tuple(other)
        assert catalog.data(other) == [1, 2, 3]
        assert catalog.tables(catalog.home) == ["t", "u"]

    def test_unknown(self, catalog: Catalog) -> None:
        """4: never there, purged, or another drop's id."""
        assert code(catalog.undrop_table, ["t"]) == 4
        catalog.create(["t"])
        drop = catalog.drop_table({"id": ["t"]})
        assert code(catalog.undrop_table, ["t"], drop_id="0123456789-000000000000") == 4
        assert code(catalog.undrop_table, []) == 13
        assert catalog.undrop_table(["t"], drop_id=drop.transaction_id).id == ("t",)
        assert code(catalog.undrop_table, ["t"]) == 4

    @pytest.mark.modes(Mode.V1)
    def test_v1_has_one_name_for_it(self, catalog: Catalog) -> None:
        """A directory is the name: another is 0."""
        catalog.create(["t"])
        catalog.drop_table({"id": ["t"]})
        assert code(catalog.undrop_table, ["t"], as_id=["u"]) == 0
        assert catalog.undrop_table(["t"], as_id=["t"]).id == ("t",)

    @pytest.mark.needs("namespaces")
    def test_parent_is_gone(self, catalog: Catalog) -> None:
        """Issue 4.2: 1 with a hint; no namespace comes back silently."""
        catalog.namespace("a")
        catalog.create(["a", "t"])
        catalog.drop_namespace({"id": ["a"], "behavior": "cascade"})
        assert [table.id for table in catalog.list_dropped_tables()] == [("a", "t")]
        error = refusal(catalog.undrop_table, ["a", "t"])
        assert error.code == 1
        assert "namespace create a" in str(error)
        assert catalog.namespaces() == []
        catalog.undrop_table(["a", "t"], as_id=["t"])
        assert catalog.data(["t"]) == [1, 2, 3]
        catalog.drop_table({"id": ["t"]})
        catalog.namespace("a")
        assert code(catalog.undrop_table, ["a", "t"]) == 4

    @pytest.mark.needs("namespaces")
    def test_bad_targets(self, catalog: Catalog) -> None:
        """R9, O01: as any new table."""
        catalog.namespace("ns")
        catalog.create(["t"])
        catalog.drop_table({"id": ["t"]})
        for target, expected in ((["ns"], 5), (["__trash"], 13), (["a$b"], 13), (["x", "t"], 1)):
            assert code(catalog.undrop_table, ["t"], as_id=target) == expected
        assert catalog.undrop_table(["t"], as_id=["ns", "t"]).id == ("ns", "t")


@pytest.mark.modes(Mode.V1, Mode.COMPAT)
class TestMarkers:
    def test_body(self, catalog: Catalog) -> None:
        """S01, R7: small JSON at the root, and the nested marker for other implementations."""
        hold(catalog)
        catalog.create(["t"])
        drop = catalog.drop_table({"id": ["t"]}, ttl=60)
        body = json.loads(catalog.root.get("t.deleted"))
        assert (body["deleted_at_ms"], body["ttl_ms"]) == (NOW, 60_000)
        assert body["drop_id"] == drop.transaction_id
        assert catalog.root.get("t.lance/.lance-deregistered") == b"reserved"
        catalog.undrop_table(["t"])
        assert {"t.deleted", "t.lance/.lance-deregistered"} & set(catalog.root.paths()) == set()

    def test_of_another_implementation(self, catalog: Catalog) -> None:
        """S01: nothing but the times is enough."""
        hold(catalog)
        catalog.root.write("t.lance", rows([5]))
        body = json.dumps({"deleted_at_ms": NOW - 1000, "ttl_ms": 500}).encode()
        catalog.root.put("t.deleted", body)
        assert catalog.tables() == []
        status = catalog.table_status(["t"])
        assert (status.deleted_at_ms, status.expires_at_ms) == (NOW - 1000, NOW - 500)
        assert [table.id for table in catalog.list_purgable_tables()] == [("t",)]
        catalog.undrop_table(["t"])
        assert catalog.data(["t"]) == [5]

    @pytest.mark.parametrize(
        "body",
        [b"", b"{", b"null", b"[]", b"\xff\xfe", b'{"deleted_at_ms": "soon"}', b'{"ttl_ms": 1}',
         b'{"deleted_at_ms": 1, "ttl_ms": 1, "drop_id": "../../x", "state": "dropped"}',
         b'{"deleted_at_ms": 1, "ttl_ms": 1, "state": "unheard-of"}'],
    )  # fmt: skip
    def test_unreadable(self, catalog: Catalog, body: bytes) -> None:
        """Issue 4 "Bad input": hidden stays hidden, check reports it, nothing is deleted."""
        from lance_catalog.maintenance.check import check

        catalog.create(["t"])
        if catalog.mode is Mode.COMPAT:
            catalog.deregister_table({"id": ["t"]})
            catalog.root.remove("t.lance/.lance-deregistered")
            catalog.ns.context.commit(_forget_all)
        catalog.root.put("t.deleted", body)
        before = catalog.root.paths("t.lance")
        assert catalog.tables() == []
        assert not catalog.exists(["t"])
        assert catalog.list_purgable_tables(10**15) == []
        assert code(catalog.purge_table, ["t"], force=True) == 4
        assert outcome(catalog.drop_table, {"id": ["t"]}) == 4
        if catalog.mode is Mode.V1:
            assert code(catalog.create, ["t"]) == 5
            assert code(catalog.declare_table, {"id": ["t"]}) == 5
        kinds = [problem.kind for problem in check(catalog.context, grace_seconds=-60).problems]
        assert kinds == ["unreadable-marker"]
        assert catalog.purge_tables(deleted_before=10**15).purged == []
        assert catalog.root.paths("t.lance") == before
        catalog.root.remove("t.deleted")
        assert catalog.data(["t"]) == [1, 2, 3]

    def test_without_a_directory(self, catalog: Catalog) -> None:
        """Issue 4 "Bad input": nothing is in the trash, and the name is free."""
        body = json.dumps({"deleted_at_ms": 1, "ttl_ms": 1}).encode()
        catalog.root.put("t.deleted", body)
        assert catalog.table_status(["t"]).state is TableState.NOT_FOUND
        assert catalog.list_dropped_tables() == []
        assert code(catalog.undrop_table, ["t"]) == 4
        catalog.create(["t"], [6])
        assert catalog.data(["t"]) == [6]


def _forget_all(view: Any) -> Any:
    from lance_catalog.manifest import Change

    return Change(remove=tuple(view.entries())), None


@pytest.mark.modes(Mode.COMPAT)
class TestCompat:
    def test_dropped_in_v1(self, catalog: Catalog) -> None:
        """S12: a table that only its marker tells of, undone and purged from here."""
        v1 = Catalog(Mode.V1, catalog.kind, catalog.root)
        v1.create(["t"])
        v1.drop_table({"id": ["t"]})
        assert [table.id for table in catalog.list_dropped_tables()] == [("t",)]
        catalog.undrop_table(["t"])
        assert v1.data(["t"]) == catalog.data(["t"]) == [1, 2, 3]
        v1.drop_table({"id": ["t"]})
        catalog.undrop_table(["t"], as_id=["other"])
        assert catalog.data(["other"]) == [1, 2, 3]
        assert catalog.tables() == ["other"]
        catalog.drop_table({"id": ["other"]})
        assert v1.tables() == catalog.tables() == []
        catalog.purge_table(["other"], force=True)
        assert catalog.root.paths("t.") == []

    def test_dropped_here_is_hidden_in_v1(self, catalog: Catalog) -> None:
        """R3: by the markers, at once."""
        v1 = Catalog(Mode.V1, catalog.kind, catalog.root)
        catalog.create(["t"])
        assert v1.tables() == ["t"]
        catalog.drop_table({"id": ["t"]})
        assert v1.tables() == []
        catalog.undrop_table(["t"])
        assert v1.tables() == ["t"]

    def test_created_over_in_v1_mode(self, catalog: Catalog) -> None:
        """S08: a dropped V1 table is revived from here, and gets its row."""
        v1 = Catalog(Mode.V1, catalog.kind, catalog.root)
        v1.create(["t"])
        v1.drop_table({"id": ["t"]})
        catalog.create(["t"], [9])
        assert catalog.place(["t"]) == "t.lance"
        assert catalog.data(["t"]) == v1.data(["t"]) == [9]
        assert "t" in catalog.rows()
