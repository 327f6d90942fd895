"""Stores that lack something or fail: refused before anything is written, or nothing is left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lance_catalog import DirectoryNamespace, failpoints
from lance_catalog.config import Mode
from lance_catalog.errors import CommitOutcomeUnknownError, LanceNamespaceError
from lance_catalog.storage.instrumented import CountingStore, FaultyStore
from tests.behaviour.catalogs import CLOUD_STORES, SWITCHES, Catalog, code, ipc, refusal, rows
from tests.servers.proxy import CountingProxy

WRITES: dict[str, Callable[[Any], Any]] = {
    "create_table": lambda c: c.create_table({"id": ["new"]}, ipc(rows([1]))),
    "overwrite": lambda c: c.create_table({"id": ["t"], "mode": "overwrite"}, ipc(rows([1]))),
    "declare_table": lambda c: c.declare_table({"id": ["new"]}),
    "register_table": lambda c: c.register_table({"id": ["out"], "location": "out.lance"}),
    "deregister_table": lambda c: c.deregister_table({"id": ["t"]}),
    "drop_table": lambda c: c.drop_table({"id": ["t"]}),
}
MANIFEST_WRITES: dict[str, Callable[[Any], Any]] = {
    "create_namespace": lambda c: c.create_namespace({"id": ["new"]}),
    "root properties": lambda c: c.create_namespace(
        {"id": [], "mode": "overwrite", "properties": {"k": "v"}}
    ),
    "drop_namespace": lambda c: c.drop_namespace({"id": ["empty"]}),
    "cascade": lambda c: c.drop_namespace({"id": ["ns"], "behavior": "cascade"}),
    "rename_table": lambda c: c.rename_table({"id": ["t"], "new_table_name": "u"}),
}


def writes_of(catalog: Catalog) -> dict[str, Callable[[Any], Any]]:
    return WRITES if catalog.mode is Mode.V1 else {**WRITES, **MANIFEST_WRITES}


def populate(catalog: Catalog) -> None:
    catalog.create(["t"])
    catalog.create(["out"])
    if catalog.mode is Mode.V1:
        catalog.deregister_table({"id": ["out"]})
        return
    catalog.drop_table({"id": ["out"]}, purge=True)
    catalog.root.write("out.lance", rows([1]))
    if catalog.mode is Mode.COMPAT:
        # Visible by its directory; out of the way for a registration.
        catalog.deregister_table({"id": ["out"]})
    catalog.namespace("empty")
    catalog.namespace("ns")
    catalog.create(["ns", "x"])


def fail_at(monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    """Let one step of a commit protocol fail, once."""
    assert point in failpoints.POINTS
    monkeypatch.setattr(failpoints, "_plan", {point: ("raise", 1)})
    monkeypatch.setattr(failpoints, "_hits", {})


class TestNoPutIfAbsent:
    def test_every_write_is_0_before_anything_is_written(self, catalog: Catalog) -> None:
        """Issue 2 "Bad input": a store without conditional writes; reads go on."""
        populate(catalog)
        store = FaultyStore(catalog.ns.context.store, no_put_if_absent="it overwrites")
        poor = DirectoryNamespace.with_store(store, **catalog.properties())
        before = catalog.root.digest()
        for name, write in writes_of(catalog).items():
            error = refusal(write, poor)
            assert error.code == 0, name
            assert "put-if-absent" in str(error)
            assert catalog.root.digest() == before, name
        assert poor.list_tables({"id": []}).tables == ["t"]
        assert poor.count_table_rows({"id": ["t"]}).count == 3
        # With the same store, and the capability, each of them works.
        for name in ("overwrite", "declare_table", "register_table", "drop_table"):
            WRITES[name](catalog)
            assert catalog.root.digest() != before, name

    def test_empty_root_stays_empty(self, catalog: Catalog) -> None:
        """Issue 2 "Bad input": not even the root is made."""
        store = FaultyStore(catalog.ns.context.store, no_put_if_absent="it overwrites")
        poor = DirectoryNamespace.with_store(store, **catalog.properties())
        for name in ("create_table", "declare_table"):
            assert code(WRITES[name], poor) == 0
        if catalog.mode is not Mode.V1:
            assert code(MANIFEST_WRITES["create_namespace"], poor) == 0
            assert code(MANIFEST_WRITES["root properties"], poor) == 0
        assert catalog.root.paths() == []

    def test_asked_once_per_store(self, catalog: Catalog) -> None:
        """Issue 2.3: the capability is checked, and the answer remembered; never on a read."""
        store = CountingStore(catalog.ns.context.store)
        counted = DirectoryNamespace.with_store(store, **catalog.properties())
        counted.list_tables({"id": []})
        assert store.counts()["probe_put_if_absent"] == 0
        for number in range(3):
            counted.declare_table({"id": [f"t{number}"]})
        assert store.counts()["probe_put_if_absent"] == 1


class TestFailures:
    """A step of ours fails: the error has a code, and nothing half-done is left."""

    @pytest.mark.modes(Mode.V2, Mode.COMPAT)
    def test_commit_that_fails_leaves_nothing(
        self, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Invariant 2, R12: failed before the put: no row, no data file, no staged version."""
        catalog.namespace("a")
        catalog.namespace("b")
        before = set(catalog.root.paths())
        fail_at(monkeypatch, "manifest.staged")
        assert code(catalog.namespace, "c") == 18
        assert set(catalog.root.paths()) == before
        assert catalog.namespaces() == ["a", "b"]
        catalog.namespace("c")

    @pytest.mark.modes(Mode.V2, Mode.COMPAT)
    def test_first_commit_that_fails_leaves_no_manifest(
        self, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Invariant 2: the very first commit; the root is as if nothing had been tried."""
        fail_at(monkeypatch, "manifest.staged")
        assert code(catalog.namespace, "a") == 18
        assert catalog.root.paths() == []
        catalog.namespace("a")
        assert set(catalog.rows()) == {"a"}

    @pytest.mark.modes(Mode.V2, Mode.COMPAT)
    def test_lost_request_of_the_commit_is_sent_again(self, catalog: Catalog) -> None:
        """Invariant 3: the put never arrived: it is sent again, the same bytes, once."""
        catalog.namespace("a")
        store = FaultyStore(catalog.ns.context.store)
        faulty = DirectoryNamespace.with_store(store, **catalog.properties())
        store.fail("put_if_absent", TimeoutError("no answer"), path="_versions")
        faulty.create_namespace({"id": ["b"]})
        assert store.pending() == 0
        assert set(catalog.rows()) == {"a", "b"}

    @pytest.mark.modes(Mode.V2, Mode.COMPAT)
    def test_outcome_that_cannot_be_found_out_is_unknown(self, catalog: Catalog) -> None:
        """Invariant 3: reported as unknown (14), never guessed; what it may need stays."""
        catalog.namespace("a")
        store = FaultyStore(catalog.ns.context.store)
        faulty = DirectoryNamespace.with_store(store, **catalog.properties())
        store.fail("put_if_absent", TimeoutError("no answer"), path="_versions", times=99)
        with pytest.raises(CommitOutcomeUnknownError) as caught:
            faulty.create_namespace({"id": ["b"]})
        assert caught.value.code == 14
        assert set(catalog.rows()) == {"a"}
        catalog.namespace("b")
        assert set(catalog.rows()) == {"a", "b"}

    @pytest.mark.modes(Mode.V2, Mode.COMPAT)
    def test_lost_reply_of_the_commit_is_looked_up(self, catalog: Catalog) -> None:
        """Invariant 3: the put was done, its answer lost: the change stands, once."""
        catalog.namespace("a")
        store = FaultyStore(catalog.ns.context.store)
        faulty = DirectoryNamespace.with_store(store, **catalog.properties())
        faulty.list_tables({"id": []})
        store.fail("put_if_absent", TimeoutError("no answer"), path="_versions", after=True)
        faulty.create_namespace({"id": ["b"]})
        assert store.pending() == 0
        assert set(catalog.rows()) == {"a", "b"}

    def test_reserving_fails(self, catalog: Catalog) -> None:
        """I20, R12: declare_table; nothing is left."""
        catalog.create(["t"])
        before = set(catalog.root.paths())
        store = FaultyStore(catalog.ns.context.store)
        faulty = DirectoryNamespace.with_store(store, **catalog.properties())
        store.fail("put_if_absent", PermissionError(13, "denied"), path=".lance-reserved")
        assert code(faulty.declare_table, {"id": ["d"]}) == 15
        assert store.pending() == 0
        assert set(catalog.root.paths()) == before
        assert catalog.tables() == ["t"]

    @pytest.mark.modes(Mode.V2, Mode.COMPAT)
    @pytest.mark.parametrize("write", ["create_table", "declare_table"])
    def test_row_of_a_creation_fails(
        self, catalog: Catalog, monkeypatch: pytest.MonkeyPatch, write: str
    ) -> None:
        """I20, I26: the table's files go when its row could not be written."""
        catalog.namespace("a")
        catalog.namespace("b")
        before = set(catalog.root.paths())
        fail_at(monkeypatch, "manifest.staged")
        assert code(WRITES[write], catalog) == 18
        # A lock file stays: a lock that others may unlink guards nothing.
        assert set(catalog.root.paths()) == before
        assert not catalog.exists(["new"])
        WRITES[write](catalog)
        assert catalog.exists(["new"])

    @pytest.mark.parametrize("point", ["table.version_staged"])
    def test_first_version_fails(
        self, catalog: Catalog, monkeypatch: pytest.MonkeyPatch, point: str
    ) -> None:
        """I26: the table's own first version; its data files go."""
        catalog.create(["t"])
        before = set(catalog.root.paths())
        fail_at(monkeypatch, point)
        assert code(WRITES["create_table"], catalog) == 18
        assert set(catalog.root.paths()) == before
        assert catalog.tables() == ["t"]

    def test_unexpected_failure_is_18_with_its_cause(self, catalog: Catalog) -> None:
        """R12: chained, so that whoever debugs sees it."""
        catalog.create(["t"])
        store = FaultyStore(catalog.ns.context.store)
        faulty = DirectoryNamespace.with_store(store, **catalog.properties())
        operation = "any_object" if catalog.mode is Mode.V1 else "list_first"
        store.fail(operation, OSError(5, "the disk is on fire"), times=9)
        error = refusal(faulty.describe_table, {"id": ["t"]})
        assert error.code == 18
        assert isinstance(error.__cause__, OSError)


@pytest.mark.stores(*CLOUD_STORES)
class TestWire:
    """Faults between us and a real store."""

    def proxied(
        self, catalog: Catalog, request: pytest.FixtureRequest, proxy: CountingProxy
    ) -> DirectoryNamespace:
        server = request.getfixturevalue(f"{catalog.kind}_server")
        options = server.storage_options("", endpoint=proxy.endpoint)
        storage = {f"storage.{key}": value for key, value in options.items()}
        return DirectoryNamespace(root=catalog.root.uri, **SWITCHES[catalog.mode], **storage)

    @pytest.mark.modes(Mode.V2, Mode.COMPAT)
    def test_lost_reply_of_a_put(self, catalog: Catalog, request: Any) -> None:
        """Invariant 3: obstore's own retry meets our object; the change stands, once."""
        catalog.namespace("a")
        server = request.getfixturevalue(f"{catalog.kind}_server")
        with CountingProxy(server.endpoint) as proxy:
            ours = self.proxied(catalog, request, proxy)
            ours.create_namespace({"id": ["warm"]})
            version = catalog.manifest().version
            name = f"{2**64 - 1 - (version + 1):020d}.manifest"
            proxy.drop_reply_next(1, kind="PUT", path=f"_versions/{name}")
            ours.create_namespace({"id": ["b"]})
            assert proxy.traffic.pending() == 0
        assert set(catalog.rows()) == {"a", "b", "warm"}

    @pytest.mark.modes(Mode.V1)
    def test_lost_reply_of_a_declaration(self, catalog: Catalog, request: Any) -> None:
        """I20: the retry of our own put is not taken for a rival."""
        server = request.getfixturevalue(f"{catalog.kind}_server")
        with CountingProxy(server.endpoint) as proxy:
            ours = self.proxied(catalog, request, proxy)
            ours.declare_table({"id": ["warm"]})
            proxy.drop_reply_next(1, kind="PUT", path="t.lance/.lance-reserved")
            ours.declare_table({"id": ["t"]})
            assert proxy.traffic.pending() == 0
        assert catalog.tables() == ["t", "warm"]

    def test_denied_is_15(self, catalog: Catalog, request: Any) -> None:
        """R12: 403 of the store, on a read and on a write."""
        catalog.create(["t"])
        server = request.getfixturevalue(f"{catalog.kind}_server")
        with CountingProxy(server.endpoint) as proxy:
            ours = self.proxied(catalog, request, proxy)
            proxy.fail_next(1000, status=403)
            assert code(ours.list_tables, {"id": []}) == 15
            assert code(ours.describe_table, {"id": ["t"]}) == 15
            assert code(ours.create_table, {"id": ["u"]}, ipc(rows([1]))) == 15

    def test_wrong_credentials_are_15_or_16(self, catalog: Catalog) -> None:
        """R12, C14: never 18, and never "not found"."""
        wrong = {
            key: ("d3Jvbmc=" if "key" in key or "secret" in key else value)
            for key, value in catalog.root.options.items()
        }
        storage = {f"storage.{key}": value for key, value in wrong.items()}
        ours = DirectoryNamespace(root=catalog.root.uri, **SWITCHES[catalog.mode], **storage)
        with pytest.raises(LanceNamespaceError) as caught:
            ours.list_tables({"id": []})
        assert caught.value.code in (15, 16)
