"""Creating and declaring over a dropped name (S08, issue 4.1), and what protects a table (4.5)."""

from __future__ import annotations

import lance
import pytest

from lance_catalog import TableState
from lance_catalog.config import Mode
from tests.behaviour.catalogs import Catalog, code, ipc, local_only, refusal, rows

PROTECTED = "lance_catalog.protected"


@pytest.mark.homes("root", "nested")
class TestRevive:
    def test_new_version_of_the_same_lineage(self, catalog: Catalog) -> None:
        """S08: the dropped rows stay reachable as an older version."""
        table = catalog.at("t")
        catalog.create(table, [1, 2], properties={"old": "1"})
        place = catalog.place(table)
        before = catalog.list_table_versions({"id": table}).versions[0].version
        catalog.drop_table({"id": table})
        made = catalog.create(table, [3], properties={"new": "2"})
        assert catalog.place(table) == place
        assert made.version > before
        assert catalog.data(table) == [3]
        location = catalog.describe_table({"id": table}).location
        options = catalog.root.options or None
        old = lance.dataset(location, version=before, storage_options=options)
        assert sorted(old.to_table()["n"].to_pylist()) == [1, 2]
        described = catalog.describe_table({"id": table, "load_detailed_metadata": True})
        assert described.properties == {"new": "2"}
        assert described.version == made.version
        assert catalog.list_dropped_tables() == []
        assert catalog.root.paths("__claims") == []
        catalog.insert_into_table({"id": table}, ipc(rows([4])))
        assert catalog.data(table) == [3, 4]

    @pytest.mark.parametrize("mode", ["create", "exist_ok", "overwrite"])
    def test_every_mode(self, catalog: Catalog, mode: str) -> None:
        """S09: for all of them the table is not there."""
        table = catalog.at("t")
        catalog.create(table)
        catalog.drop_table({"id": table})
        catalog.create(table, [5], mode=mode)
        assert catalog.data(table) == [5]

    def test_drop_and_revive_again(self, catalog: Catalog) -> None:
        table = catalog.at("t")
        for number in range(3):
            catalog.create(table, [number])
            catalog.drop_table({"id": table})
        catalog.undrop_table(table)
        assert catalog.data(table) == [2]

    def test_declared_and_dropped(self, catalog: Catalog) -> None:
        """S08: there is nothing to keep, and the name is free."""
        table = catalog.at("t")
        catalog.declare_table({"id": table})
        catalog.drop_table({"id": table})
        catalog.create(table, [5])
        assert catalog.data(table) == [5]

    def test_nothing_is_left_of_a_refused_one(self, catalog: Catalog) -> None:
        """Invariant 2: somebody else is bringing it back."""
        from lance_catalog.directory import claiming, dropped
        from lance_catalog.lifecycle.claims import Verb

        table = catalog.at("t")
        catalog.create(table)
        catalog.drop_table({"id": table})
        ctx = catalog.context
        found = dropped.find(ctx, ctx.exact(), tuple(table))[0]
        held = claiming.claim(ctx, found, Verb.REVIVE)
        assert held is not None
        before = catalog.root.paths(found.location)
        assert code(catalog.create, table, [9]) == 14
        assert catalog.root.paths(found.location) == before
        held.give_back()
        catalog.undrop_table(table)
        assert catalog.data(table) == [1, 2, 3]


@pytest.mark.needs("namespaces")
@pytest.mark.homes("root", "nested")
class TestFresh:
    def test_several_drops_wait(self, catalog: Catalog) -> None:
        """Issue 4.1: each is restorable by its drop id, or under another name."""
        catalog.ns = catalog.open(recreate="fresh")
        table = catalog.at("t")
        drops, places = [], set()
        for number in range(3):
            catalog.create(table, [number])
            places.add(catalog.place(table))
            drops.append(catalog.drop_table({"id": table}).transaction_id)
        assert len(places) == 3
        assert {one.drop_id for one in catalog.list_dropped_tables()} == set(drops)
        catalog.undrop_table(table, drop_id=drops[0])
        assert catalog.data(table) == [0]
        assert code(catalog.undrop_table, table) == 5
        catalog.undrop_table(table, as_id=catalog.at("other"), drop_id=drops[1])
        assert catalog.data(catalog.at("other")) == [1]
        catalog.purge_table(table, force=True, drop_id=drops[2])
        assert catalog.list_dropped_tables() == []
        assert catalog.data(table) == [0]

    @local_only
    def test_per_call(self, catalog: Catalog) -> None:
        """R13."""
        table = catalog.at("t")
        catalog.create(table)
        place = catalog.place(table)
        catalog.drop_table({"id": table})
        catalog.create(table, [4], context={"lance_catalog.recreate": "fresh"})
        assert catalog.place(table) != place
        assert len(catalog.list_dropped_tables()) == 1
        assert code(catalog.create, table, context={"lance_catalog.recreate": "new"}) == 13


@local_only
@pytest.mark.modes(Mode.V1)
def test_fresh_is_not_for_v1(catalog: Catalog) -> None:
    """A V1 table has one directory."""
    assert code(catalog.open, recreate="fresh") == 13
    catalog.create(["t"])
    catalog.drop_table({"id": ["t"]})
    assert code(catalog.create, ["t"], context={"lance_catalog.recreate": "fresh"}) == 13
    assert catalog.table_status(["t"]).state is TableState.SOFT_DELETED


class TestDeclare:
    @pytest.mark.needs("namespaces")
    @pytest.mark.homes("root", "nested")
    def test_never_where_a_writer_finds_something(self, catalog: Catalog) -> None:
        """Issue 4.1: a fresh directory, also for a root table whose directory is in the trash."""
        table = catalog.at("t")
        catalog.create(table)
        old = catalog.place(table)
        catalog.drop_table({"id": table})
        answer = catalog.declare_table({"id": table})
        place = catalog.place(table)
        assert place != old
        if catalog.mode is Mode.COMPAT and not catalog.home:
            assert old == "t.lance"
        lance.write_dataset(
            rows([8]), answer.location, mode="create", storage_options=catalog.root.options or None
        )
        assert catalog.data(table) == [8]
        catalog.undrop_table(table, as_id=catalog.at("u"))
        assert catalog.data(catalog.at("u")) == [1, 2, 3]

    @pytest.mark.modes(Mode.V1)
    def test_v1_says_the_ways_out(self, catalog: Catalog) -> None:
        """Issue 4.1: 5, and nothing changes."""
        catalog.create(["t"])
        catalog.drop_table({"id": ["t"]})
        error = refusal(catalog.declare_table, {"id": ["t"]})
        assert error.code == 5
        for way in ("trash undrop t", "trash purge t", "create_table", "v1_redeclare=purge"):
            assert way in str(error)
        catalog.undrop_table(["t"])
        assert catalog.data(["t"]) == [1, 2, 3]

    @pytest.mark.modes(Mode.V1)
    def test_v1_purges_first(self, catalog: Catalog) -> None:
        """Issue 4.1: by property."""
        catalog.create(["t"])
        catalog.drop_table({"id": ["t"]})
        catalog.ns = catalog.open(v1_redeclare="purge")
        answer = catalog.declare_table({"id": ["t"]})
        assert catalog.describe_table({"id": ["t"], "check_declared": True}).is_only_declared
        lance.write_dataset(
            rows([8]), answer.location, mode="create", storage_options=catalog.root.options or None
        )
        assert catalog.data(["t"]) == [8]
        assert catalog.list_dropped_tables() == []


@pytest.mark.homes("root", "nested")
class TestProtection:
    def test_table(self, catalog: Catalog) -> None:
        """Issue 4.5: 19 with the command, until unset or forced."""
        table = catalog.at("t")
        catalog.create(table, properties={PROTECTED: "true", "k": "v"})
        error = refusal(catalog.drop_table, {"id": table})
        assert error.code == 19
        assert f"--unset {PROTECTED}" in str(error)
        assert code(catalog.drop_table, {"id": table}, purge=True) == 19
        assert catalog.data(table) == [1, 2, 3]
        assert catalog.set_table_properties(table, unset=[PROTECTED]) == {"k": "v"}
        catalog.drop_table({"id": table})
        assert not catalog.exists(table)

    def test_forced(self, catalog: Catalog) -> None:
        """Issue 4.5: and its purge needs force once more."""
        table = catalog.at("t")
        catalog.create(table)
        assert catalog.set_table_properties(table, {PROTECTED: "true"}) == {PROTECTED: "true"}
        assert code(catalog.drop_table, {"id": table}) == 19
        catalog.drop_table({"id": table}, force=True, ttl=0)
        assert code(catalog.purge_table, table) == 19
        report = catalog.purge_tables()
        assert (report.purged, [error.code for _, error in report.failed]) == ([], [19])
        catalog.purge_table(table, force=True)
        assert catalog.table_status(table).state is TableState.NOT_FOUND

    def test_by_context(self, catalog: Catalog) -> None:
        """R13."""
        table = catalog.at("t")
        catalog.create(table, properties={PROTECTED: "TRUE"})
        assert code(catalog.drop_table, {"id": table}) == 19
        catalog.drop_table({"id": table, "context": {"lance_catalog.force": "true"}})
        assert not catalog.exists(table)

    def test_words(self, catalog: Catalog) -> None:
        """False is not protected; what nobody understands is refused."""
        table = catalog.at("t")
        catalog.create(table)
        assert code(catalog.set_table_properties, table, {PROTECTED: "maybe"}) == 13
        assert code(catalog.set_table_properties, table, {"lance_catalog.state": "x"}) == 13
        catalog.set_table_properties(table, {PROTECTED: "false"})
        catalog.drop_table({"id": table})
        assert not catalog.exists(table)


@pytest.mark.needs("namespaces")
class TestProtectedNamespaces:
    def test_namespace(self, catalog: Catalog) -> None:
        """Issue 4.5: refused, also with cascade; its tables can still be dropped one by one."""
        catalog.namespace("a", properties={PROTECTED: "true"})
        catalog.create(["a", "t"])
        for behavior in ("restrict", "cascade"):
            error = refusal(catalog.drop_namespace, {"id": ["a"], "behavior": behavior})
            assert error.code == 19
            assert "namespace set a" in str(error)
        catalog.drop_table({"id": ["a", "t"]})
        assert catalog.set_namespace_properties(["a"], unset=[PROTECTED]) == {}
        catalog.drop_namespace({"id": ["a"]})
        assert catalog.namespaces() == []

    def test_cascade_is_all_or_nothing(self, catalog: Catalog) -> None:
        """I13: something protected deep below keeps everything."""
        catalog.namespace("a")
        catalog.namespace("a", "b")
        catalog.create(["a", "t"])
        catalog.create(["a", "b", "t"], properties={PROTECTED: "true"})
        assert code(catalog.drop_namespace, {"id": ["a"], "behavior": "cascade"}) == 19
        assert catalog.all_tables() == ["a$b$t", "a$t"]
        catalog.drop_namespace({"id": ["a"], "behavior": "cascade"}, force=True)
        assert catalog.all_tables() == []
        assert len(catalog.list_dropped_tables()) == 2
