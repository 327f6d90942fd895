"""Deleting dropped tables for good: only those, only when it is time, and to the end (S04, R4)."""

from __future__ import annotations

import os
import shutil
import threading
from typing import Any

import pytest

from lance_catalog import DroppedTable, TableState
from lance_catalog.config import Mode
from lance_catalog.lifecycle import claim_files
from lance_catalog.lifecycle.claims import Verb, new_claim
from lance_catalog.maintenance import repair
from lance_catalog.maintenance.check import check
from tests.behaviour.catalogs import Catalog, code, local_only, refusal, rows

DAY = 24 * 3600 * 1000
NOW = 1_700_000_000_000
FAR = 10**15


def hold(catalog: Catalog, at_ms: int = NOW) -> None:
    catalog.ns.context.clock = lambda: at_ms


def kinds(catalog: Catalog) -> list[str]:
    return [problem.kind for problem in check(catalog.context, grace_seconds=-3600).problems]


def mend(catalog: Catalog) -> None:
    for action, why in repair.apply(
        catalog.context, repair.plan(catalog.context, grace_seconds=-3600)
    ):
        assert why is None, (action, why)


def paths(catalog: Catalog) -> set[str]:
    """What is below the root beside the manifest and the layout flag."""
    found = {path for path in catalog.root.paths() if not path.startswith("__manifest/")}
    return found - catalog.flag


@pytest.mark.homes("root", "nested")
class TestOne:
    def test_nothing_is_left(self, catalog: Catalog) -> None:
        """S04: data, markers, claims, the row."""
        table = catalog.at("t")
        catalog.create(table)
        catalog.create(catalog.at("keep"))
        kept = catalog.place(catalog.at("keep"))
        place = catalog.place(table)
        catalog.drop_table({"id": table})
        inside = len(catalog.root.paths(f"{place}/"))
        told: list[tuple[DroppedTable, int, int]] = []
        gone = catalog.purge_table(table, force=True, progress=lambda *now: told.append(now))
        assert (gone.table.id, gone.objects) == (tuple(table), inside)
        assert gone.bytes > 0
        assert told[-1] == (gone.table, gone.objects, gone.bytes)
        assert {path.split("/")[0] for path in paths(catalog)} == {kept}
        assert catalog.table_status(table).state is TableState.NOT_FOUND
        assert code(catalog.purge_table, table, force=True) == 4
        catalog.create(table, [7])
        assert catalog.data(table) == [7]
        assert kinds(catalog) == []

    def test_only_of_dropped_tables(self, catalog: Catalog) -> None:
        """Issue 4 "Bad input": a live table is 19, an unknown one 4, whatever is forced."""
        table = catalog.at("t")
        catalog.create(table)
        for force in (False, True):
            error = refusal(catalog.purge_table, table, force=force)
            assert error.code == 19
            assert "table drop" in str(error)
            assert code(catalog.purge_table, catalog.at("u"), force=force) == 4
        assert code(catalog.purge_tables, [table]) == 19
        assert catalog.data(table) == [1, 2, 3]

    def test_not_before_its_time(self, catalog: Catalog) -> None:
        """Issue 4 "Bad input": 19 until the time has passed, or by force."""
        table = catalog.at("t")
        hold(catalog)
        catalog.create(table)
        catalog.drop_table({"id": table}, ttl="1d")
        hold(catalog, NOW + DAY - 1)
        error = refusal(catalog.purge_table, table)
        assert error.code == 19
        assert "--force" in str(error)
        assert catalog.purge_tables().purged == []
        hold(catalog, NOW + DAY)
        assert catalog.purge_table(table).table.id == tuple(table)
        assert paths(catalog) == set()

    def test_never_by_itself(self, catalog: Catalog) -> None:
        table = catalog.at("t")
        hold(catalog)
        catalog.create(table)
        catalog.drop_table({"id": table}, ttl="never")
        hold(catalog, NOW + 10_000 * DAY)
        assert catalog.purge_tables().purged == []
        assert "never expires" in str(refusal(catalog.purge_table, table))
        catalog.undrop_table(table)
        assert catalog.data(table) == [1, 2, 3]


class TestSome:
    def test_dry_run(self, catalog: Catalog) -> None:
        """Issue 4.6: tables, objects and bytes; not a byte is written."""
        hold(catalog)
        catalog.create(["t"])
        catalog.drop_table({"id": ["t"]}, ttl=0)
        place = catalog.list_dropped_tables()[0].location
        before = catalog.root.digest()
        report = catalog.purge_tables(dry_run=True)
        assert report.dry_run
        assert [one.table.id for one in report.purged] == [("t",)]
        assert report.purged[0].objects == len(catalog.root.paths(f"{place}/"))
        assert report.purged[0].bytes > 0
        assert catalog.root.digest() == before

    def test_sweep(self, catalog: Catalog) -> None:
        """Issue 4.8: what has expired goes, the rest stays; again does nothing."""
        hold(catalog)
        for name, ttl in (("a", "1h"), ("b", "1h"), ("c", "9d"), ("d", "never")):
            catalog.create([name])
            catalog.drop_table({"id": [name]}, ttl=ttl)
        hold(catalog, NOW + DAY)
        report = catalog.purge_tables()
        assert sorted(one.table.id[0] for one in report.purged) == ["a", "b"]
        assert report.failed == []
        assert catalog.purge_tables().purged == []
        # The caller's own policy: all dropped before a time, whatever their own.
        report = catalog.purge_tables(deleted_before=NOW + 1)
        assert sorted(one.table.id[0] for one in report.purged) == ["c", "d"]
        assert paths(catalog) == set()

    def test_exactly_those(self, catalog: Catalog) -> None:
        """S04: a list is exactly that list."""
        for name in ("a", "b", "c"):
            catalog.create([name])
            catalog.drop_table({"id": [name]}, ttl=0)
        report = catalog.purge_tables([["a"], ["c"]])
        assert sorted(one.table.id[0] for one in report.purged) == ["a", "c"]
        assert [table.id for table in catalog.list_dropped_tables()] == [("b",)]

    def test_many_sweeps_at_once(self, catalog: Catalog) -> None:
        """Issue 4.8: every table is purged by one of them, and none reports a failure."""
        names = [f"t{number}" for number in range(8)]
        for name in names:
            catalog.create([name])
            catalog.drop_table({"id": [name]}, ttl=0)
        reports: list[Any] = []
        meeting = threading.Barrier(4)

        def sweep() -> None:
            ns = catalog.open()
            meeting.wait()
            reports.append(ns.purge_tables())

        threads = [threading.Thread(target=sweep) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        purged = sorted(one.table.id[0] for report in reports for one in report.purged)
        assert len(reports) == 4
        assert purged == names
        # A table that another is deleting is a conflict, and no other failure.
        assert {error.code for report in reports for _, error in report.failed} <= {14}
        assert paths(catalog) == set()
        assert kinds(catalog) == []


class TestClaims:
    def claim(self, catalog: Catalog, verb: Verb, at_ms: int) -> None:
        """Leave a claim on the dropped table ``t``, as a process that died would."""
        from lance_catalog.directory import dropped
        from lance_catalog.lifecycle import trash
        from lance_catalog.manifest import Change

        found = dropped.find(catalog.context, catalog.context.exact(), ("t",))[0]
        claim = new_claim(verb, at_ms)
        if found.row is None:
            where = claim_files.folder("t", found.hidden.drop_id)
            catalog.root.put(f"{where}/0", claim.text().encode())
            return
        claimed = trash.reclaimed(found.row, claim)
        key = claimed.entry.object_id
        catalog.context.commit(lambda view: (Change(view.rows_of(key), (claimed.entry,)), None))

    def dropped(self, catalog: Catalog) -> None:
        hold(catalog)
        catalog.create(["t"])
        catalog.drop_table({"id": ["t"]}, ttl=0)

    def test_purge_under_way(self, catalog: Catalog) -> None:
        """S11: nobody brings it back, another purge waits, and takes over when it is dead."""
        self.dropped(catalog)
        self.claim(catalog, Verb.PURGE, NOW)
        assert catalog.table_status(["t"]).purging
        assert code(catalog.undrop_table, ["t"]) == 4
        assert code(catalog.purge_table, ["t"]) == 14
        assert [error.code for _, error in catalog.purge_tables().failed] == [14]
        if catalog.mode is Mode.V1:
            assert code(catalog.create, ["t"]) == 14
        hold(catalog, NOW + 60_000)
        assert code(catalog.undrop_table, ["t"]) == 4
        assert catalog.purge_tables().failed == []
        assert catalog.table_status(["t"]).state is TableState.NOT_FOUND

    def test_purge_that_died_and_a_new_table(self, catalog: Catalog) -> None:
        """S11: a claim never closes the name for ever."""
        self.dropped(catalog)
        self.claim(catalog, Verb.PURGE, NOW)
        hold(catalog, NOW + 60_000)
        if catalog.mode is Mode.V1 and catalog.kind not in ("local", "memory"):
            # Taken over: the name stays closed for a while.
            error = refusal(catalog.create, ["t"])
            assert error.code == 5
            assert "purge_quarantine" in str(error)
            assert code(catalog.declare_table, {"id": ["t"]}) == 5
            hold(catalog, NOW + 60_000 + 5 * 60_000)
        catalog.create(["t"], [8])
        assert catalog.data(["t"]) == [8]

    @pytest.mark.parametrize("verb", [Verb.REVIVE, Verb.UNDROP])
    def test_return_under_way(self, catalog: Catalog, verb: Verb) -> None:
        """S11: whoever is bringing it back is waited for, and no longer than the lease."""
        self.dropped(catalog)
        self.claim(catalog, verb, NOW)
        for call in (catalog.undrop_table, catalog.purge_table):
            assert code(call, ["t"]) == 14
        assert code(catalog.create, ["t"]) == 14
        hold(catalog, NOW + 60_000)
        catalog.undrop_table(["t"])
        assert catalog.data(["t"]) == [1, 2, 3]

    @pytest.mark.parametrize("verb", [Verb.REVIVE, Verb.UNDROP])
    def test_return_that_died_and_a_purge(self, catalog: Catalog, verb: Verb) -> None:
        """S11: and so is it deleted."""
        self.dropped(catalog)
        self.claim(catalog, verb, NOW)
        hold(catalog, NOW + 60_000)
        catalog.purge_table(["t"])
        assert catalog.table_status(["t"]).state is TableState.NOT_FOUND
        assert catalog.root.paths("__claims") == []

    def test_claim_from_the_future(self, catalog: Catalog) -> None:
        """S11: a wrong clock closes nothing for ever."""
        self.dropped(catalog)
        self.claim(catalog, Verb.REVIVE, NOW + 1000 * DAY)
        catalog.undrop_table(["t"])
        assert catalog.data(["t"]) == [1, 2, 3]

    @pytest.mark.parametrize("verb", [Verb.REVIVE, Verb.PURGE])
    def test_check_and_repair(self, catalog: Catalog, verb: Verb) -> None:
        """Issue 4.7: what died is reported, and one repair ends it."""
        self.dropped(catalog)
        self.claim(catalog, verb, NOW)
        expected = {Verb.REVIVE: "stale-claim", Verb.PURGE: "unfinished-purge"}[verb]
        assert kinds(catalog) == [expected]
        mend(catalog)
        assert kinds(catalog) == []
        state = catalog.table_status(["t"]).state
        assert (state is TableState.SOFT_DELETED) == (verb is Verb.REVIVE)


class TestShared:
    @pytest.mark.needs("namespaces")
    def test_live_row_at_the_same_place(self, catalog: Catalog) -> None:
        """Invariant 4: another implementation registered the place; purge refuses, check tells."""
        from lance_catalog.manifest import Change
        from lance_catalog.model import Entry

        catalog.create(["t"])
        catalog.drop_table({"id": ["t"]}, ttl=0)
        place = catalog.list_dropped_tables()[0].location
        row = Entry("native", "table", f"./{place}/")
        catalog.context.commit(lambda view: (Change(add=(row,)), None))
        before = catalog.root.paths(f"{place}/")
        assert code(catalog.purge_table, ["t"]) == 19
        assert [error.code for _, error in catalog.purge_tables().failed] == [19]
        assert catalog.root.paths(f"{place}/") == before
        assert "shared-location" in kinds(catalog)
        assert code(catalog.undrop_table, ["t"]) == 19


@local_only
class TestDisk:
    def test_link_instead_of_a_directory(self, catalog: Catalog, tmp_path: Any) -> None:
        """Issue 4 "Bad input": the link goes, what is behind it stays."""
        assert catalog.root.folder is not None
        catalog.create(["t"])
        place = catalog.place(["t"])
        catalog.drop_table({"id": ["t"]}, ttl=0)
        folder = os.path.join(catalog.root.folder, place)
        outside = tmp_path / "outside"
        shutil.move(folder, outside)
        os.symlink(outside, folder)
        catalog.purge_table(["t"])
        assert not os.path.lexists(folder)
        assert (outside / "_versions").is_dir()
        assert any(outside.rglob("*.lance"))

    def test_what_came_after_the_move(self, catalog: Catalog) -> None:
        """S11: files that others write there meanwhile are not the purge's to delete."""
        assert catalog.root.folder is not None
        catalog.create(["t"])
        place = catalog.place(["t"])
        catalog.drop_table({"id": ["t"]}, ttl=0)
        again: list[str] = []

        def told(*now: Any) -> None:
            if not again:
                again.append(place)
                catalog.root.put(f"{place}/data/new", b"theirs")

        catalog.purge_table(["t"], progress=told)
        assert catalog.root.get(f"{place}/data/new") == b"theirs"


def test_rows_of_others_are_not_trash(catalog: Catalog) -> None:
    """Invariant 6: what looks like our bookkeeping and is not, is nobody's to purge."""
    if catalog.mode is Mode.V1:
        catalog.root.put("x.deleted.txt", b"{}")
        catalog.root.put("plain.deleted", b"{}")
        assert catalog.purge_tables(deleted_before=FAR).purged == []
        assert catalog.root.get("plain.deleted") == b"{}"
        return
    from lance_catalog.manifest import Change
    from lance_catalog.model import Entry

    catalog.root.write("other.lance", rows([1]))
    row = Entry("__trash$theirs$t", "table", "other.lance", '{"a":"b"}')
    catalog.context.commit(lambda view: (Change(add=(row,)), None))
    assert catalog.purge_tables(deleted_before=FAR).purged == []
    assert catalog.root.paths("other.lance") != []
