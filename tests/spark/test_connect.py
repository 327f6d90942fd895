"""Spark Connect: everything of ours through a server, from a client that has no JVM."""

from __future__ import annotations

import json
import os
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

from lance_catalog import DirectoryNamespace
from lance_catalog.errors import InvalidInputError, UnsupportedOperationError
from lance_catalog.spark.session import session
from tests.servers.fetch import SPARK_CONNECT, NotFetchedError
from tests.spark.cluster import ConnectServer, Orders, environment
from tests.spark.driver import Driver, DriverEndedError
from tests.spark.tables import column, created, mended, opened, strays

PIPELINE = """\
[pipeline]
name = "shop"
[variables]
raw = "?"
[sources.events]
files = "${raw}/*.parquet"
[steps.big]
sql = "select * from events where id >= 105"
cache = true
[steps.small]
sql = "select * from events where id < 105"
[targets.big]
table = "db.big"
from = "big"
[targets.big.expectations]
not_null = ["id"]
unique = ["id"]
[targets.small]
table = "db.small"
from = "small"
"""


@pytest.fixture(scope="module")
def packages() -> str:
    """The folder of what Connect needs besides PySpark."""
    try:
        return str(SPARK_CONNECT.path().parents[1])
    except NotFetchedError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def server() -> Iterator[ConnectServer]:
    with ConnectServer({}) as made:
        yield made


@pytest.fixture
def packages_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is here; and where somebody has them too."""
    monkeypatch.setitem(sys.modules, "pyspark.sql.connect.session", None)


Client = Callable[..., Driver]


@pytest.fixture(scope="module")
def client(
    server: ConnectServer, packages: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Client]:
    made: list[Driver] = []

    def start(**more: str) -> Driver:
        home = tmp_path_factory.mktemp("client")
        path = os.pathsep.join([environment()["PYTHONPATH"], packages])
        # Whatever looked for a Java here would find none.
        inherited = {"PYTHONPATH": path, "JAVA_HOME": "", "PATH": "", **more}
        given = {"remote": server.url}
        made.append(Driver(home, given, inherited, "tests.spark.connected"))
        return made[-1]

    yield start
    for one in made:
        one.close()


@pytest.mark.integration
@pytest.mark.parametrize("everything", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_everything_through_a_server(client: Client, tmp_path: Path, everything: bool) -> None:
    """One test, so that there is one server; soak has streams, pipelines and jobs, too."""
    catalog = DirectoryNamespace(root=str(tmp_path / "root"))
    for name in ("db", "one"):
        catalog.create_namespace({"id": [name]})
    catalog.enable_managed_versions()
    with closing(client()) as driver:

        def ask(do: str, **given: Any) -> Any:
            return driver.ask(do, root=str(tmp_path / "root"), **given)

        module, version, alone = ask("what")
        assert module.startswith("pyspark.sql.connect") and version.startswith("4.") and alone
        _reads_and_writes(ask, catalog)
        _exactly_once(ask, catalog, tmp_path, everything)
        if everything:
            _pipelines_and_jobs(ask, catalog, tmp_path)
        orders = Orders(tmp_path / "orders")
        with closing(client(**orders.environment())) as other:
            _a_client_dies(ask, other, orders, catalog)
    mended(catalog)
    assert strays(catalog, ["one", "v"]) == set()


def _a_client_dies(
    ask: Callable[..., Any], other: Driver, orders: Orders, catalog: DirectoryNamespace
) -> None:
    """And before that it meets what this one attached."""
    root = catalog.context.settings.root
    query = "select count(*) from {}one.v"
    taken = other.ask("sql", root=root, query=query.format(""), namespace="one")
    assert taken["code"] == 5
    apart = {"namespace": "one", "prefix": "other"}
    names, counted = other.ask("sql", root=root, query=query.format("other_"), **apart)
    assert "other_one.v" in names and counted == [[8]]
    assert ask("select", query=query.format("")) == [[8]]
    work = {"job": "killed", "table": "t_append"}
    orders.give("job.landed", "kill")
    other.tell("append", root=root, **work)
    with pytest.raises(DriverEndedError):
        other.answer()
    assert ask("append", **work) == {"repeated": True, "rows": 20, "version": 3}
    assert len(column(catalog, ["db", "t_append"], "id")) == 150


def _reads_and_writes(ask: Callable[..., Any], catalog: DirectoryNamespace) -> None:
    query = "select id, array(float(id), float(0)) as v, 'n' || id as name from range(0, 8, 1, 2)"
    made = ask("put", query=query, table="one.v", mode="create", vectors={"v": 2})
    assert (made["rows"], made["version"], made["repeated"]) == (8, 1, False)
    assert ask("put", query=query, table="one.v", mode="create")["code"] == 5
    assert ask("put", query=query, table="one.v", mode="ignore")["version"] is None
    assert ask("rows", table="one.v", columns=["id"], filter="id > 5") == [[6], [7]]
    near = {"column": "v", "q": [4.9, 0.0], "k": 2}
    found = ask("rows", table="one.v", columns=["id"], nearest=near)
    assert [row[0] for row in found] == [4, 5]
    assert len(ask("rows", table="one.v", limit=3)) == 3
    assert ask("count", table="one.v", filter="id < 3") == 3
    more = query.replace("0, 8", "6, 10")
    assert ask("put", query=more, table="one.v", mode="append", vectors={"v": 2})["version"] == 2
    assert ask("put", query=more, table="one.v", mode="merge", keys=["id"])["version"] == 3
    names, counted = ask("sql", query="select count(*), max(id) from one.v", namespace="one")
    assert names == ["one.v"] and counted == [[10, 9]]
    assert ask("put", query=query, table="one.v", mode="overwrite", vectors={"v": 2})["rows"] == 8
    assert ask("rows", table="one.v", columns=["id"], version=1, filter="id = 7") == [[7]]
    # What a task refuses comes back as our error, with the column.
    wrong = ask("put", query="select 1L as id, array(float(1)) as v, 'n' as name", table="one.v",
                mode="append")  # fmt: skip
    assert wrong["code"] == 20 and "'v'" in wrong["error"]
    assert ask("rows", table="db.absent")["code"] == 4
    assert column(catalog, ["one", "v"], "id") == list(range(8))
    mended(catalog)
    assert strays(catalog, ["one", "v"]) == set()


def _exactly_once(
    ask: Callable[..., Any], catalog: DirectoryNamespace, home: Path, streams: bool
) -> None:
    files = home / "in"
    files.mkdir()
    new = pa.table({"id": pa.array(range(100, 120), pa.int64())})
    pa.parquet.write_table(new, files / "a.parquet", row_group_size=10)
    streamed = home / "stream"
    streamed.mkdir()
    (streamed / "a.json").write_text("".join(json.dumps(row) + "\n" for row in new.to_pylist()))
    base = list(range(110))
    verbs = ["append", "merge", "ingest", "publish", *(["direct", "stream"] if streams else [])]
    for verb in verbs:
        name = f"t_{verb}"
        created(catalog, ["db", name], pa.table({"id": pa.array(base, pa.int64())}))
        given = {
            "job": f"job-{verb}",
            "table": name,
            "new": f"u_{verb}",
            "files": str(streamed if verb == "stream" else files),
            "checkpoint": str(home / "checkpoint"),
        }
        for _ in range(2):
            answer = ask(verb, **given)
            assert answer is None or "error" not in answer, answer
        expected = {"merge": list(range(120)), "publish": list(range(100, 120))}
        wanted = expected.get(verb, sorted([*base, *range(100, 120)]))
        assert column(catalog, ["db", name], "id") == wanted, verb
        assert opened(catalog, ["db", name]).version == 2
        assert strays(catalog, ["db", name]) == set()
    assert column(catalog, ["db", "u_publish"], "id") == list(range(100, 120))
    if not streams:
        return
    created(catalog, ["db", "copied"], new.slice(0, 0))
    copied = {"table": "db.t_merge", "to": "db.copied", "checkpoint": str(home / "copying")}
    for _ in range(2):
        assert ask("copy", **copied) is None
        assert column(catalog, ["db", "copied"], "id") == list(range(120))


def _pipelines_and_jobs(ask: Callable[..., Any], catalog: DirectoryNamespace, home: Path) -> None:
    file = home / "pipeline.toml"
    file.write_text(PIPELINE)
    for expected in ("published", "repeated"):
        status, made, progress = ask("pipeline", file=str(file), job="run", raw=str(home / "in"))
        assert status == expected and made == {"big": [15, 1], "small": [5, 1]}
        assert progress or expected == "repeated"
    tables, told = ask("inventory")
    found = {name: (status, rows) for name, status, rows in tables}
    assert found["db.t_merge"] == ("ok", 120) and found["db.small"] == ("ok", 5)
    assert told == [len(tables), len(tables)]
    assert {status for _, status in ask("verify")} == {"ok"}


def test_without_its_packages(packages_missing: None) -> None:
    with pytest.raises(UnsupportedOperationError, match=r"pyspark\[connect\]"):
        session(remote="sc://127.0.0.1:1")


def test_beside_a_session_of_this_process(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    module: Any = types.ModuleType("pyspark.sql.connect.session")
    module.SparkSession = SparkSession
    monkeypatch.setitem(sys.modules, "pyspark.sql.connect.session", module)
    with pytest.raises(InvalidInputError, match="stop"):
        session(remote="sc://127.0.0.1:1")


@pytest.mark.parametrize("how", ["config", "environment"])
def test_a_server_by_configuration(
    packages_missing: None, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    config = {}
    if how == "config":
        config = {"spark.remote": "sc://127.0.0.1:1"}
        with pytest.raises(InvalidInputError, match="not both"):
            session(master="local[1]", config=config)
    else:
        monkeypatch.setenv("SPARK_REMOTE", "sc://127.0.0.1:1")
    with pytest.raises(UnsupportedOperationError, match="Connect"):
        session(config=config)
