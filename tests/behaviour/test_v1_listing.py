"""R7: which directories are tables, what finding out costs, and the flag that makes it cheap."""

from __future__ import annotations

import json
import math
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import lance.namespace
import lance_namespace as ln
import obstore
import pytest

from lance_catalog import DirectoryNamespace
from lance_catalog.config import Mode
from lance_catalog.directory.migration import MigrationReport, migrate
from lance_catalog.lifecycle.states import Hidden, HiddenState, new_drop_id
from lance_catalog.maintenance import repair
from lance_catalog.maintenance.check import check
from lance_catalog.storage.instrumented import CountingStore, FaultyStore
from lance_catalog.storage.local import STAGING_PREFIX
from tests.behaviour.catalogs import (
    CLOUD_STORES,
    FLAG,
    LOCAL_STORES,
    SWITCHES,
    Catalog,
    code,
    ipc,
    rows,
)
from tests.servers.proxy import CountingProxy

by_directory = pytest.mark.modes(Mode.V1, Mode.COMPAT)
NESTED = ".lance-deregistered"


def deregister_elsewhere(catalog: Catalog, *names: str) -> None:
    """What another implementation's deregister in V1 leaves: the nested marker, nothing else."""
    for name in names:
        catalog.root.put(f"{name}.lance/{NESTED}", b"reserved")


def begun_elsewhere(catalog: Catalog) -> None:
    """A root of another implementation: two tables, one of them deregistered, one declared."""
    catalog.root.write("t.lance", rows([1]))
    catalog.root.write("gone.lance", rows([2]))
    deregister_elsewhere(catalog, "gone")
    catalog.root.put("declared.lance/.lance-reserved", b"reserved")


def kinds(catalog: Catalog) -> list[tuple[str, str]]:
    found = check(catalog.context, grace_seconds=-60).problems
    return [(problem.kind.value, problem.subject) for problem in found]


def mend(catalog: Catalog) -> None:
    done = repair.apply(catalog.context, repair.plan(catalog.context, grace_seconds=-60))
    assert [why for _, why in done] == [None] * len(done)


def counted(catalog: Catalog) -> tuple[DirectoryNamespace, CountingStore]:
    store = CountingStore(catalog.ns.context.store)
    return DirectoryNamespace.with_store(store, **catalog.properties()), store


@by_directory
class TestExact:
    @pytest.mark.parametrize("flag", [False, True], ids=["plain", "flagged"])
    def test_what_is_a_table(self, catalog: Catalog, flag: bool) -> None:
        """C01, C02, R7: a folder with a file and no marker; with the flag or without."""
        put = catalog.root.put
        put("hint.lance/_versions/latest_version_hint.json", b"{}")
        put("reserved.lance/.lance-reserved", b"")
        put("other.lance/anything", b"x")
        put("deep.lance/a/b/c", b"x")
        put("ü #1.lance/.lance-reserved", b"")
        put("both.lance/.lance-reserved", b"")
        put(f"both.lance/{NESTED}", b"reserved")
        put("both.deleted", b"{}")
        put("root.lance/data/x", b"x")
        put("root.deleted", b"")
        put("file.lance", b"x")
        put("folder/x.lance/y", b"x")
        put("lance/x", b"x")
        if flag:
            put(FLAG, b"{}")
        else:
            put(f"nested.lance/{NESTED}", b"reserved")
            put("nested.lance/_versions/latest_version_hint.json", b"{}")
            put("nested too.lance/.lance-reserved", b"")
            put(f"nested too.lance/{NESTED}", b"reserved")
        expected = ["deep", "hint", "other", "reserved", "ü #1"]
        assert catalog.tables() == expected
        assert [name for name in expected if not catalog.exists([name])] == []
        for name in ("both", "root", "file", "x", "nested", "nested too"):
            assert not catalog.exists([name]), name

    @pytest.mark.stores("local")
    def test_what_only_looks_like_one(self, catalog: Catalog) -> None:
        """C02: folders in the place of files prove nothing, links to folders count as folders."""
        folder = catalog.root.folder
        assert folder is not None
        for path in (
            "empty.lance",
            "branches.lance/data/x",
            "hint.lance/_versions/latest_version_hint.json",
            "reserved.lance/.lance-reserved",
            f"marked.lance/{NESTED}",
        ):
            os.makedirs(f"{folder}/{path}")
        catalog.root.put(f"staging.lance/{STAGING_PREFIX}1", b"x")
        catalog.root.put(f"staging too.lance/data/{STAGING_PREFIX}1", b"x")
        catalog.root.put("marked.lance/data/x", b"x")
        catalog.root.put("elsewhere/data/x", b"x")
        os.symlink(f"{folder}/elsewhere", f"{folder}/linked.lance")
        os.symlink(f"{folder}/nowhere", f"{folder}/broken.lance")
        os.symlink(f"{folder}/nowhere", f"{folder}/linked.lance/{NESTED}")
        assert catalog.tables() == ["linked", "marked"]
        for name in ("empty", "branches", "hint", "reserved", "staging", "staging too", "broken"):
            assert not catalog.exists([name]), name
        assert catalog.exists(["linked"])
        assert catalog.exists(["marked"])

    @pytest.mark.stores(*LOCAL_STORES)
    def test_the_flag_changes_nothing_on_disk(self, catalog: Catalog) -> None:
        """R7: local listings are exact always, and no folder is listed to find out."""
        begun_elsewhere(catalog)
        catalog.root.put(FLAG, b"{}")
        reader, store = counted(catalog)
        assert reader.list_tables({"id": []}).tables == ["declared", "t"]
        asked = [done for done in store.operations() if "__manifest" not in done[1]]
        assert asked == [("list_root", ""), ("look_into", "declared.lance gone.lance t.lance")]


@by_directory
@pytest.mark.stores(*CLOUD_STORES)
class TestCost:
    def proxied(
        self, catalog: Catalog, request: pytest.FixtureRequest, proxy: CountingProxy
    ) -> DirectoryNamespace:
        server = request.getfixturevalue(f"{catalog.kind}_server")
        options = server.storage_options("", endpoint=proxy.endpoint)
        storage = {f"storage.{key}": value for key, value in options.items()}
        return DirectoryNamespace(root=catalog.root.uri, **SWITCHES[catalog.mode], **storage)

    def requests(self, catalog: Catalog, request: pytest.FixtureRequest) -> tuple[Any, list[str]]:
        """What a list of the root answers, and the requests for it but those to the manifest."""
        server = request.getfixturevalue(f"{catalog.kind}_server")
        with CountingProxy(server.endpoint) as proxy:
            found = self.proxied(catalog, request, proxy).list_tables({"id": []}).tables
            seen = [r for r in proxy.traffic.requests() if "__manifest" not in r.path + r.query]
        return found, [r.kind for r in seen]

    def test_one_listing_of_a_flagged_root(self, catalog: Catalog, request: Any) -> None:
        """R7, S02: a request per thousand keys, none per table; without the flag one per table."""
        names = [f"t{number:04d}" for number in range(1100)]
        for name in names[:5]:
            catalog.root.put(f"{name}.lance/.lance-reserved", b"")
        assert self.requests(catalog, request) == (names[:5], ["LIST"] * 6)
        catalog.root.put(FLAG, b"{}")
        assert self.requests(catalog, request) == (names[:5], ["LIST"])
        for name in names[5:]:
            catalog.root.put(f"{name}.lance/.lance-reserved", b"")
        # Azure answers five thousand at a time.
        pages = 2 if catalog.kind == "s3" else 1
        assert self.requests(catalog, request) == (names, ["LIST"] * pages)

    @pytest.mark.modes(Mode.V1)
    @pytest.mark.stores("s3")
    def test_what_is_dropped_costs_no_request(self, catalog: Catalog, request: Any) -> None:
        """S02, S03: 5 000 tables, 500 of them in the trash: the pages of the root's keys alone."""
        names = [f"t{number:04d}" for number in range(5000)]
        marker = Hidden(new_drop_id("t"), HiddenState.DROPPED, 1, 7 * 86_400_000).body()
        paths = {f"{name}.lance/.lance-reserved": b"" for name in names}
        paths |= {f"{name}.deleted": marker for name in names[::10]}
        paths[FLAG] = b"{}"
        with ThreadPoolExecutor(32) as pool:
            list(pool.map(catalog.root.put, paths, paths.values()))
        # One more each way, by the catalog itself.
        catalog.undrop_table([names[0]])
        catalog.drop_table({"id": [names[1]]})
        shown = sorted({*names} - {*names[::10]} - {names[1]} | {names[0]})
        keys = {path.split("/", 1)[0] for path in catalog.root.paths()}
        keys = {key for key in keys if not key.startswith("__")}
        assert len(keys) == 5000 + 500 + 1
        for mode in (Mode.V1, Mode.COMPAT):
            reader = Catalog(mode, catalog.kind, catalog.root)
            listed, asked = self.requests(reader, request)
            assert listed == shown
            assert asked == ["LIST"] * math.ceil(len(keys) / 1000)

    def test_the_first_creation_asks_once(self, catalog: Catalog) -> None:
        """R7: one look at the root per process, and the flag after what it follows."""
        writer, store = counted(catalog)
        writer.declare_table({"id": ["a"]})
        done = store.operations()
        assert done.count(("sample", "")) == 1
        assert done[-1] == ("put_if_absent", FLAG)
        writer.declare_table({"id": ["b"]})
        assert store.counts()["sample"] == 1
        again, store = counted(catalog)
        for name in ("c", "d"):
            again.declare_table({"id": [name]})
        assert store.counts()["sample"] == 1
        assert ("put_if_absent", FLAG) not in store.operations()


class TestFlag:
    @pytest.mark.parametrize("verb", ["create", "declare"])
    def test_the_first_table_of_a_root_brings_it(self, catalog: Catalog, verb: str) -> None:
        """R7: on object stores, where it is read; a small JSON that says what it means."""
        assert catalog.tables() == []
        assert catalog.root.paths() == []
        catalog.create(["t"]) if verb == "create" else catalog.declare_table({"id": ["t"]})
        assert {path for path in catalog.root.paths() if "/" not in path} == catalog.flag
        assert catalog.tables() == ["t"]
        if catalog.flag:
            body = json.loads(catalog.root.get(FLAG))
            assert body["format"] == 1
            assert ".deleted" in body["meaning"]
            for mode in (Mode.V1, Mode.COMPAT):
                reader = Catalog(mode, catalog.kind, catalog.root)
                assert reader.tables() == ["t"]
                assert kinds(reader) == []

    @by_directory
    @pytest.mark.stores(*CLOUD_STORES)
    def test_not_in_a_root_that_others_began(self, catalog: Catalog) -> None:
        """R7: their deregistered tables have no marker at the root, so lists stay exact."""
        begun_elsewhere(catalog)
        catalog.create(["mine"])
        assert FLAG not in catalog.root.paths()
        assert catalog.tables() == ["declared", "mine", "t"]

    @by_directory
    @pytest.mark.stores(*CLOUD_STORES)
    def test_not_by_a_creation_that_fails(self, catalog: Catalog) -> None:
        """Invariant 2: nothing is left of it, the flag included; the next one brings it."""
        store = FaultyStore(catalog.ns.context.store)
        faulty = DirectoryNamespace.with_store(store, **catalog.properties())
        store.fail("put_if_absent", PermissionError(13, "denied"), path=".lance-reserved")
        assert code(faulty.declare_table, {"id": ["t"]}) == 15
        assert store.pending() == 0
        assert catalog.root.paths() == []
        faulty.declare_table({"id": ["t"]})
        assert FLAG in catalog.root.paths()

    @by_directory
    @pytest.mark.stores(*CLOUD_STORES)
    @pytest.mark.parametrize("operation", ["sample", "put_if_absent"])
    def test_a_creation_does_not_fail_by_it(self, catalog: Catalog, operation: str) -> None:
        """R7: without the flag the root is only slower to list."""
        store = FaultyStore(catalog.ns.context.store)
        faulty = DirectoryNamespace.with_store(store, **catalog.properties())
        path = FLAG if operation == "put_if_absent" else ""
        store.fail(operation, PermissionError(13, "denied"), path=path)
        faulty.create_table({"id": ["t"]}, ipc(rows([1])))
        assert store.pending() == 0
        assert FLAG not in catalog.root.paths()
        assert catalog.tables() == ["t"]

    @by_directory
    @pytest.mark.stores(*CLOUD_STORES)
    def test_our_own_hidings_are_seen_in_the_listing(self, catalog: Catalog) -> None:
        """R7, I23, I25: deregister, register, drop: the list follows at once, by names."""
        for name in ("a", "b", "c"):
            catalog.create([name])
        assert FLAG in catalog.root.paths()
        place = catalog.deregister_table({"id": ["a"]}).location
        assert catalog.tables() == ["b", "c"]
        catalog.drop_table({"id": ["b"]})
        assert catalog.tables() == ["c"]
        catalog.register_table({"id": ["a"], "location": place})
        assert catalog.tables() == ["a", "c"]
        assert Catalog(Mode.V1, catalog.kind, catalog.root).tables() == ["a", "c"]


class TestMigrate:
    def hidden(self, catalog: Catalog) -> MigrationReport:
        return migrate(catalog.context)

    def test_marks_what_others_hid_then_flags(self, catalog: Catalog) -> None:
        """R7, S13: in every mode; nothing moves, nothing goes, the list stays as it was."""
        begun_elsewhere(catalog)
        before = {path: catalog.root.get(path) for path in catalog.root.paths()}
        report = migrate(catalog.context)
        assert (report.hidden, report.flagged) == (["gone"], True)
        assert report.registered == ([] if catalog.mode is Mode.V1 else ["declared", "t"])
        after = {path: catalog.root.get(path) for path in before}
        assert after == before
        new = {p for p in catalog.root.paths() if not p.startswith("__manifest/")} - set(before)
        assert new == {"gone.deleted", FLAG}
        body = json.loads(catalog.root.get("gone.deleted"))
        assert (body["state"], body["ttl_ms"]) == ("deregistered", None)
        # When it was hidden, not when it was migrated.
        assert 1_600_000_000_000 < body["deleted_at_ms"] <= catalog.context.clock()
        for mode in Mode:
            reader = Catalog(mode, catalog.kind, catalog.root)
            unknown = mode is Mode.V2 and catalog.mode is Mode.V1
            assert reader.tables() == ([] if unknown else ["declared", "t"])
            assert not reader.exists(["gone"])
        if catalog.mode is not Mode.V2:
            assert kinds(catalog) == []

    def test_a_dry_run_and_a_second_run_change_nothing(self, catalog: Catalog) -> None:
        """C20, R7: a dry run tells what the run does; done is done."""
        begun_elsewhere(catalog)
        before = catalog.root.digest()
        told = migrate(catalog.context, dry_run=True)
        assert catalog.root.digest() == before
        seen: list[tuple[int, int]] = []
        done = migrate(catalog.context, progress=lambda *steps: seen.append(steps))
        assert (told.registered, told.hidden, told.flagged) == (
            done.registered,
            done.hidden,
            done.flagged,
        )
        total = 1 + len(done.registered)
        assert seen == [(1, total)] + [(total, total)] * (total > 1)
        before = catalog.root.digest()
        again = migrate(catalog.context)
        assert (again.registered, again.hidden, again.flagged) == ([], [], False)
        assert catalog.root.digest() == before

    def test_a_root_without_tables_stays_as_it_is(self, catalog: Catalog) -> None:
        """Invariant 2: a mistyped root is not made."""
        assert migrate(catalog.context) == MigrationReport()
        assert catalog.root.paths() == []
        if catalog.root.folder is not None:
            assert not os.path.exists(catalog.root.folder)

    @by_directory
    def test_the_way_back_and_the_end(self, catalog: Catalog) -> None:
        """R7, I24, I25: what was marked here is registered, or dropped, like any other."""
        begun_elsewhere(catalog)
        catalog.root.write("end.lance", rows([3]))
        deregister_elsewhere(catalog, "end")
        migrate(catalog.context)
        catalog.register_table({"id": ["gone"], "location": "gone.lance"})
        assert catalog.data(["gone"]) == [2]
        catalog.drop_table({"id": ["end"]}, purge=True)
        assert catalog.root.paths("end.") == []
        assert catalog.tables() == ["declared", "gone", "t"]
        assert Catalog(Mode.V1, catalog.kind, catalog.root).tables() == ["declared", "gone", "t"]
        assert kinds(catalog) == []

    def test_the_flag_comes_after_every_marker(self, catalog: Catalog) -> None:
        """R7: a run that stops half way leaves an exact root; the next one ends it."""
        begun_elsewhere(catalog)
        catalog.root.write("too.lance", rows([3]))
        deregister_elsewhere(catalog, "too")
        store = FaultyStore(catalog.ns.context.store)
        faulty = DirectoryNamespace.with_store(store, **catalog.properties())
        store.fail("put_if_absent", PermissionError(13, "denied"), path="too.deleted")
        assert code(migrate, faulty.context) == 15
        assert store.pending() == 0
        assert "gone.deleted" in catalog.root.paths()
        assert FLAG not in catalog.root.paths()
        assert Catalog(Mode.V1, catalog.kind, catalog.root).tables() == ["declared", "t"]
        report = migrate(faulty.context)
        assert (report.hidden, report.flagged) == (["too"], True)

    @pytest.mark.modes(Mode.COMPAT, Mode.V2)
    def test_what_the_manifest_shows_is_not_hidden(self, catalog: Catalog) -> None:
        """R7, C15: the row is the truth. No flag until the marker is gone; repair removes it."""
        begun_elsewhere(catalog)
        migrate(catalog.context)
        catalog.root.remove(FLAG)
        deregister_elsewhere(catalog, "t")
        report = migrate(catalog.context)
        assert (report.hidden, report.flagged) == ([], False)
        assert [name for name, _ in report.skipped] == ["t"]
        assert "t.deleted" not in catalog.root.paths()
        assert FLAG not in catalog.root.paths()
        assert catalog.data(["t"]) == [1]
        assert kinds(catalog) == [("unfinished-register", "t.lance")]
        mend(catalog)
        assert catalog.data(["t"]) == [1]
        assert Catalog(Mode.V1, catalog.kind, catalog.root).data(["t"]) == [1]
        assert migrate(catalog.context).flagged
        assert kinds(catalog) == []


@by_directory
class TestDeregisteredLater:
    """Another implementation deregisters a table in a root that has the flag."""

    def flagged(self, catalog: Catalog) -> None:
        begun_elsewhere(catalog)
        migrate(Catalog(Mode.V1, catalog.kind, catalog.root).context)
        assert FLAG in catalog.root.paths()
        deregister_elsewhere(catalog, "t")

    def test_describe_and_exists_are_exact(self, catalog: Catalog) -> None:
        """R7: always; the list of an object store shows it until it is healed."""
        self.flagged(catalog)
        assert not catalog.exists(["t"])
        assert code(catalog.describe_table, {"id": ["t"]}) == 4
        assert code(catalog.count_table_rows, {"id": ["t"]}) == 4
        stale = catalog.kind in CLOUD_STORES
        assert catalog.tables() == (["declared", "t"] if stale else ["declared"])

    @pytest.mark.parametrize("healer", ["repair", "migrate"])
    def test_found_and_healed(self, catalog: Catalog, healer: str) -> None:
        """R7: check reports it; either of the two gives it its marker, and removes nothing."""
        self.flagged(catalog)
        before = catalog.root.digest()
        assert kinds(catalog) == [("unlisted-marker", "t.lance")]
        assert catalog.root.digest() == before
        files = {path: catalog.root.get(path) for path in catalog.root.paths()}
        if healer == "repair":
            mend(catalog)
        else:
            assert migrate(catalog.context).hidden == ["t"]
        assert {path: catalog.root.get(path) for path in files} == files
        assert "t.deleted" in catalog.root.paths()
        assert catalog.tables() == ["declared"]
        assert kinds(catalog) == []
        catalog.register_table({"id": ["t"], "location": "t.lance"})
        assert catalog.data(["t"]) == [1]


@pytest.mark.modes(Mode.V1)
@pytest.mark.stores("local", *CLOUD_STORES)
def test_native_does_not_mind_the_flag(catalog: Catalog) -> None:
    """Invariant 6, R7: native lists, creates, deregisters and drops in a flagged root."""
    catalog.create(["ours"], [1])
    migrate(catalog.context)
    assert FLAG in catalog.root.paths()
    native = lance.namespace.DirectoryNamespace(**catalog.properties())

    def listed() -> list[str]:
        return sorted(native.list_tables(ln.ListTablesRequest(id=[])).tables)

    assert listed() == ["ours"]
    native.create_table(ln.CreateTableRequest(id=["theirs"]), ipc(rows([2])))
    native.declare_table(ln.DeclareTableRequest(id=["declared"]))
    assert listed() == catalog.tables() == ["declared", "ours", "theirs"]
    assert catalog.data(["theirs"]) == [2]
    native.deregister_table(ln.DeregisterTableRequest(id=["theirs"]))
    assert not catalog.exists(["theirs"])
    assert kinds(catalog) == [("unlisted-marker", "theirs.lance")]
    mend(catalog)
    assert listed() == catalog.tables() == ["declared", "ours"]
    native.drop_table(ln.DropTableRequest(id=["declared"]))
    assert listed() == catalog.tables() == ["ours"]
    assert FLAG in catalog.root.paths()


@by_directory
@pytest.mark.stores(*CLOUD_STORES)
def test_a_large_root_of_other_things_is_told_from_one_with_tables(catalog: Catalog) -> None:
    """R7: a first page without a table leaves doubt, and then the whole level is asked for."""
    store = catalog.root.bucket
    names = [f"0{number:04d}" for number in range(1000)]
    for name in names:
        obstore.put(store, f"{catalog.root.prefix}/{name}/x", b"")
    catalog.root.put("t.lance/.lance-reserved", b"")
    catalog.declare_table({"id": ["u"]})
    assert FLAG not in catalog.root.paths()
    for name in ("t", "u"):
        catalog.drop_table({"id": [name]}, purge=True)
    fresh = Catalog(catalog.mode, catalog.kind, catalog.root)
    fresh.declare_table({"id": ["u"]})
    assert FLAG in catalog.root.paths()
    assert fresh.tables() == ["u"]
