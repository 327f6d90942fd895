"""Reads never write, constructors do no I/O, and what may not be touched answers 15."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lance_catalog import DirectoryNamespace
from lance_catalog.config import Mode
from lance_catalog.storage.instrumented import CountingStore
from tests.behaviour.catalogs import (
    CLOUD_STORES,
    LOCAL_STORES,
    SWITCHES,
    Catalog,
    code,
    ipc,
    outcome,
    refusal,
    rows,
)
from tests.servers.proxy import CountingProxy

ROOT = Path(__file__).parents[2]

#: Every operation that only reads, on the table ``t`` and on things that are not there.
READS: dict[str, Callable[[Any], Any]] = {
    "list_namespaces": lambda c: c.list_namespaces({"id": []}),
    "list_namespaces missing": lambda c: c.list_namespaces({"id": ["gone"]}),
    "describe_namespace": lambda c: c.describe_namespace({"id": []}),
    "describe_namespace missing": lambda c: c.describe_namespace({"id": ["gone"]}),
    "namespace_exists": lambda c: c.namespace_exists({"id": []}),
    "list_tables": lambda c: c.list_tables({"id": [], "limit": 1}),
    "list_tables declared": lambda c: c.list_tables({"id": [], "include_declared": False}),
    "list_all_tables": lambda c: c.list_all_tables({"id": []}),
    "table_exists": lambda c: c.table_exists({"id": ["t"]}),
    "table_exists missing": lambda c: c.table_exists({"id": ["gone"]}),
    "describe_table": lambda c: c.describe_table({"id": ["t"]}),
    "describe_table detailed": lambda c: c.describe_table(
        {"id": ["t"], "load_detailed_metadata": True, "check_declared": True}
    ),
    "describe_table version": lambda c: c.describe_table({"id": ["t"], "version": 1}),
    "describe_table missing": lambda c: c.describe_table({"id": ["gone"]}),
    "count_table_rows": lambda c: c.count_table_rows({"id": ["t"]}),
    "query_table": lambda c: c.query_table({"id": ["t"], "k": 2, "vector": {}}),
    "explain": lambda c: c.explain_table_query_plan({"id": ["t"], "query": {"k": 2, "vector": {}}}),
    "analyze": lambda c: c.analyze_table_query_plan({"id": ["t"], "k": 2, "vector": {}}),
    "get_table_stats": lambda c: c.get_table_stats({"id": ["t"]}),
    "list_table_indices": lambda c: c.list_table_indices({"id": ["t"]}),
    "list_table_tags": lambda c: c.list_table_tags({"id": ["t"]}),
    "get_table_tag_version": lambda c: c.get_table_tag_version({"id": ["t"], "tag": "one"}),
    "list_table_branches": lambda c: c.list_table_branches({"id": ["t"]}),
    "list_table_versions": lambda c: c.list_table_versions({"id": ["t"]}),
    "describe_table_version": lambda c: c.describe_table_version({"id": ["t"], "version": 1}),
    "snapshot": lambda c: list(c.snapshot().entries()),
}


def read_everything(catalog: Any) -> dict[str, int | None]:
    """Run every read; the code it ended in, None when it answered."""
    return {name: outcome(read, catalog) for name, read in READS.items()}


def populate(catalog: Catalog) -> None:
    catalog.create(["t"])
    catalog.create_table_tag({"id": ["t"], "tag": "one", "version": 1})
    catalog.declare_table({"id": ["d"]})
    catalog.create(["x"])
    catalog.deregister_table({"id": ["x"]})
    if catalog.can("namespaces"):
        catalog.namespace("ns", properties={"k": "v"})
        catalog.create(["ns", "t"])


def missing_only(mode: Mode) -> dict[str, int | None]:
    expected: dict[str, int | None] = dict.fromkeys(READS)
    gone = 0 if mode is Mode.V1 else 1
    expected["list_namespaces missing"] = expected["describe_namespace missing"] = gone
    expected["table_exists missing"] = expected["describe_table missing"] = 4
    return expected


class TestNothingIsWritten:
    def test_constructor_does_no_io(self, catalog: Catalog) -> None:
        """Invariant 2: not even a look; an absent root stays absent."""
        counting = CountingStore(catalog.ns.context.store)
        made = DirectoryNamespace.with_store(counting, **catalog.properties())
        assert made.namespace_id()
        assert repr(made)
        assert counting.operations() == []
        assert catalog.root.paths() == []
        if catalog.root.folder is not None:
            assert not os.path.exists(catalog.root.folder)

    def test_reads_of_an_absent_root_make_nothing(self, catalog: Catalog) -> None:
        """Invariant 2: every read on nothing; nothing is there afterwards either."""
        outcomes = read_everything(catalog)
        assert outcomes["list_tables"] is None
        assert outcomes["describe_table"] == 4
        assert outcomes["list_table_versions"] == 4
        assert catalog.root.paths() == []
        if catalog.root.folder is not None:
            assert not os.path.exists(catalog.root.folder)

    def test_our_own_requests_only_read(self, catalog: Catalog) -> None:
        """Invariant 2: no operation of ours that could change the store."""
        populate(catalog)
        counting = CountingStore(catalog.ns.context.store)
        reader = DirectoryNamespace.with_store(counting, **catalog.properties())
        assert read_everything(reader) == missing_only(catalog.mode)
        assert counting.operations() != []
        assert counting.writes() == []

    @pytest.mark.stores(*LOCAL_STORES)
    def test_reads_leave_the_tree_as_it_is(self, catalog: Catalog) -> None:
        """Invariant 2, C02: bytes, names and folder times are the same afterwards."""
        populate(catalog)
        before = catalog.root.digest()
        assert read_everything(catalog.open()) == missing_only(catalog.mode)
        assert catalog.root.digest() == before

    @pytest.mark.stores(*CLOUD_STORES)
    def test_reads_send_no_write(self, catalog: Catalog, request: pytest.FixtureRequest) -> None:
        """Invariant 2: counted by a proxy in front of the store, Lance's requests included."""
        populate(catalog)
        server = request.getfixturevalue(f"{catalog.kind}_server")
        with CountingProxy(server.endpoint) as proxy:
            options = server.storage_options("", endpoint=proxy.endpoint)
            storage = {f"storage.{key}": value for key, value in options.items()}
            reader = DirectoryNamespace(root=catalog.root.uri, **SWITCHES[catalog.mode], **storage)
            assert read_everything(reader) == missing_only(catalog.mode)
            counts = proxy.traffic.counts()
            assert counts.reads > len(READS)
            assert [r for r in proxy.traffic.requests() if r.is_write] == []
            # The proxy does see writes, Lance's own among them.
            reader.create_table({"id": ["new"]}, ipc(rows([1])))
            assert any("/data/" in r.path for r in proxy.traffic.requests() if r.is_write)

    def test_refused_writes_leave_the_tree_as_it_is(self, catalog: Catalog) -> None:
        """Invariant 2: a failing write leaves nothing behind."""
        populate(catalog)
        before = catalog.root.digest()
        assert code(catalog.create, ["t"]) == 5
        assert code(catalog.declare_table, {"id": ["t"]}) == 5
        assert code(catalog.create_table, {"id": ["new"]}, b"garbage") == 13
        assert code(catalog.drop_table, {"id": ["gone"]}) == 4
        assert code(catalog.deregister_table, {"id": ["gone"]}) == 4
        assert code(catalog.register_table, {"id": ["new"], "location": "../t"}) == 13
        if catalog.can("namespaces"):
            assert code(catalog.namespace, "ns") == 2
            assert code(catalog.drop_namespace, {"id": ["ns"]}) == 3
            assert code(catalog.create, ["zz", "t"]) == 1
        assert catalog.root.digest() == before


@pytest.mark.stores("local")
def test_a_root_that_is_a_file_is_13(catalog: Catalog) -> None:
    """R12, C13: said as the caller's mistake, by reads and writes alike; the file stays."""
    assert catalog.root.folder is not None
    with open(catalog.root.folder, "w") as file:
        file.write("precious")
    for call in (
        lambda: catalog.create(["t"]),
        lambda: catalog.declare_table({"id": ["t"]}),
        lambda: catalog.list_tables({"id": []}),
        lambda: catalog.describe_table({"id": ["t"]}),
        lambda: catalog.drop_table({"id": ["t"]}),
    ):
        error = refusal(call)
        assert error.code == 13, error
        assert "file" in str(error)
    if catalog.can("namespaces"):
        assert code(catalog.namespace, "a") == 13
    with open(catalog.root.folder) as file:
        assert file.read() == "precious"


AS_NOBODY = """
import json, sys
from lance_catalog import DirectoryNamespace
from tests.behaviour.catalogs import ipc, outcome, rows
from tests.behaviour.test_readonly import read_everything

catalog = DirectoryNamespace(**json.loads(sys.argv[1]))
writes = {
    "create_table": lambda: catalog.create_table({"id": ["new"]}, ipc(rows([1]))),
    "create over": lambda: catalog.create_table({"id": ["t"], "mode": "overwrite"}, ipc(rows([1]))),
    "declare_table": lambda: catalog.declare_table({"id": ["new"]}),
    "deregister_table": lambda: catalog.deregister_table({"id": ["t"]}),
    "drop_table": lambda: catalog.drop_table({"id": ["t"]}),
    "insert": lambda: catalog.insert_into_table({"id": ["t"]}, ipc(rows([1]))),
}
if catalog.mode.value != "v1":
    writes["create_namespace"] = lambda: catalog.create_namespace({"id": ["new"]})
    writes["drop_namespace"] = lambda: catalog.drop_namespace({"id": ["empty"]})
    writes["rename"] = lambda: catalog.rename_table({"id": ["t"], "new_table_name": "u"})
    writes["root"] = lambda: catalog.create_namespace({"id": [], "mode": "overwrite"})
outcomes = {name: outcome(write) for name, write in writes.items()}
print(json.dumps({"reads": read_everything(catalog), "writes": outcomes}))
"""


def as_nobody(properties: dict[str, str]) -> dict[str, dict[str, int | None]]:
    """Run the reads and writes as a user who owns nothing: root is refused nothing."""
    command = ["setpriv", "--reuid=65534", "--clear-groups", sys.executable, "-c", AS_NOBODY]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/src", "HOME": "/nonexistent"}
    done = subprocess.run(
        [*command, json.dumps(properties)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, int | None]] = json.loads(done.stdout)
    return found


@pytest.fixture
def shared() -> Iterator[str]:
    """A folder that other users can reach; pytest's own is closed to them."""
    folder = tempfile.mkdtemp()
    os.chmod(folder, 0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(
    os.geteuid() != 0 and "CI" not in os.environ, reason="only root can become nobody"
)
@pytest.mark.stores("local")
class TestDenied:
    def test_read_only_root(self, catalog: Catalog, shared: str) -> None:
        """R12, I25: reads answer in full, every write is 15, and nothing changes."""
        catalog.root.uri = catalog.root.folder = f"{shared}/root"
        catalog.ns = catalog.open()
        populate(catalog)
        if catalog.can("namespaces"):
            catalog.namespace("empty")
        before = catalog.root.digest()
        found = as_nobody(catalog.properties())
        assert found["reads"] == missing_only(catalog.mode)
        assert set(found["writes"].values()) == {15}, found["writes"]
        assert catalog.root.digest() == before
        assert catalog.data(["t"]) == [1, 2, 3]

    def test_unreadable_root(self, catalog: Catalog, shared: str) -> None:
        """R12: 15 for reads and writes, never 18 and never "not found"."""
        catalog.root.uri = catalog.root.folder = f"{shared}/root"
        catalog.ns = catalog.open()
        populate(catalog)
        os.chmod(f"{shared}/root", 0o700)
        found = as_nobody(catalog.properties())
        free = {"describe_namespace", "namespace_exists", "snapshot", "list_namespaces"}
        free |= {"list_namespaces missing", "describe_namespace missing"}
        for name, answer in found["reads"].items():
            if catalog.mode is Mode.V1 and name in free:
                continue  # V1 needs no look at the store for these.
            if name == "namespace_exists":
                continue  # The root always exists.
            assert answer == 15, name
        assert set(found["writes"].values()) == {15}, found["writes"]

    @pytest.mark.modes(Mode.V1, Mode.COMPAT)
    @pytest.mark.parametrize("access", [0o700, 0o704])
    def test_unreadable_table(self, catalog: Catalog, shared: str, access: int) -> None:
        """R12, R7: a directory that may not be looked into is 15, not absent, and not listed."""
        catalog.root.uri = catalog.root.folder = f"{shared}/root"
        catalog.ns = catalog.open()
        populate(catalog)
        os.chmod(os.path.join(catalog.root.folder, "t.lance"), access)
        found = as_nobody(catalog.properties())
        assert found["reads"]["list_tables"] == 15
        assert found["reads"]["list_all_tables"] == 15

    def test_root_that_cannot_be_made(self, catalog: Catalog, shared: str) -> None:
        """R12: an absent root below a folder that may not be written."""
        catalog.root.uri = catalog.root.folder = f"{shared}/absent/root"
        found = as_nobody(catalog.properties())
        assert found["writes"]["create_table"] == 15
        assert found["writes"]["declare_table"] == 15
        assert found["reads"]["list_tables"] is None
        assert os.listdir(shared) == []
