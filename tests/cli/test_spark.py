"""``spark JOB`` and ``pipeline run`` as somebody types them, on one Spark session."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.cli.support import Cli, digest, run

pytest.importorskip("pyspark")

from tests.spark.conftest import spark  # noqa: F401 - the session that the commands find


@pytest.fixture
def tables(cli: Cli, spark: object) -> Cli:  # noqa: F811
    cli.ok("namespace", "create", "db")
    cli.append("db", "t", times=4)
    cli.create("top")
    return cli


def break_data(root: Path, part: str) -> None:
    for file in root.glob(f"*{part}*/data/*"):
        file.write_bytes(b"\0" * file.stat().st_size)


def test_without_pyspark_it_says_what_to_install(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    for words in (["inventory"], ["purge"], ["index", "t", "--column", "c"]):
        ran = cli.run("-o", "json", "spark", *words)
        assert ran.code == 1 and "PySpark is not installed" in ran.error["message"]
        assert "lance-catalog[spark]" in ran.error["hint"]


def test_inventory(tables: Cli) -> None:
    found = {row["text"]: row for row in tables.json("spark", "inventory")}
    assert (found["db.t"]["rows"], found["db.t"]["versions"]) == (8, 4)
    assert found["db.t"]["id"] == ["db", "t"] and "table" not in found["db.t"]
    assert [line.split("\t")[:2] for line in tables.plain("spark", "inventory", "db")] == [
        ["db.t", "8"]
    ]
    assert "2 tables, 11 rows" in tables.ok("spark", "inventory").err
    assert tables.run("spark", "inventory", "nothing").code == 3


def test_compact_index_and_verify(tables: Cli) -> None:
    (done,) = tables.json("spark", "compact", "db.t", "--target-rows", "100")
    assert (done["status"], done["fragments_before"], done["fragments_after"]) == (
        "compacted",
        4,
        1,
    )
    (made,) = tables.json("spark", "index", "db.t", "--column", "id", "--type", "btree")
    assert (made["status"], made["index"], made["rows"]) == ("built", "id_idx", 8)
    wrong = tables.run("-o", "json", "spark", "index", "db.t", "--column", "x")
    assert (wrong.code, wrong.error["code"]) == (2, 12)
    option = ("--option", "num_partitions=1", "--type", "IVF_FLAT")
    (vector,) = tables.json("spark", "index", "db.t", "--column", "vector", *option)
    assert vector["status"] == "built"
    seen = tables.json("spark", "verify")
    assert {row["status"] for row in seen} == {"ok"}
    assert all(len(row["checksum"]) == 32 for row in seen)


def test_one_that_fails_is_reported_and_exit_is_1(tables: Cli) -> None:
    break_data(tables.root, "top")
    ran = tables.run("-o", "json", "spark", "verify")
    assert ran.code == 1
    assert {row["text"]: row["status"] for row in ran.json} == {"db.t": "ok", "top": "failed"}
    assert "1 row failed" in tables.run("spark", "verify", "top").err


def test_cleanup_and_purge_ask_first(tables: Cli) -> None:
    tables.ok("table", "drop", "top", "--ttl", "0")
    before = digest(tables.root)
    for words in (("cleanup", "db", "--keep", "1"), ("purge",)):
        assert tables.run("spark", *words).code == 2
    plan = tables.json("spark", "purge", "--dry-run")["plan"]
    assert [step["subject"] for step in plan] == ["top"]
    assert digest(tables.root) == before
    (done,) = tables.json("spark", "cleanup", "db", "--keep", "1", "--yes")
    assert (done["status"], done["versions"], done["oldest_kept"]) == ("cleaned", 3, 4)
    (gone,) = tables.json("spark", "purge", "--yes")
    assert (gone["text"], gone["status"]) == ("top", "purged")
    assert "nothing" in tables.ok("spark", "purge", "--dry-run").err


def test_migrate(root: Path, spark: object) -> None:  # noqa: F811
    old = Cli(root, "v1")
    old.create("a")
    (done,) = Cli(root, "compat").json("spark", "migrate")
    assert (done["text"], done["outcome"], done["status"], done["rows"]) == (
        "a",
        "registered",
        "ok",
        3,
    )
    refused = old.run("-o", "json", "spark", "migrate")
    assert (refused.code, refused.error["code"]) == (1, 0)


def test_settings_of_spark_are_checked(tables: Cli) -> None:
    assert run("--root", str(tables.root), "spark", "inventory", "--conf", "x").code == 2
    both = tables.run("spark", "inventory", "--master", "local[1]", "--remote", "sc://h:1")
    assert both.code == 2 and "not both" in both.err
