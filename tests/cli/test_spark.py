"""``spark JOB`` as somebody types them: one on a real Spark, the others with sweeps in here."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.support import Cli, digest, run

pytest.importorskip("pyspark")

from tests.spark.job_tables import Sweeps

from lance_catalog.cli import spark_jobs


@pytest.fixture
def tables(cli: Cli) -> Cli:
    cli.ok("namespace", "create", "db")
    cli.append("db", "t", times=4)
    cli.create("top")
    return cli


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Sweeps:
    """No Spark: what a job would let executors do is done in this process."""

    @contextmanager
    def nothing(*_: Any) -> Iterator[None]:
        yield None

    monkeypatch.setattr(spark_jobs, "running_spark", nothing)
    return Sweeps(monkeypatch)


def break_data(root: Path, part: str) -> None:
    for file in root.glob(f"*{part}*/data/*"):
        file.write_bytes(b"\0" * file.stat().st_size)


def test_without_pyspark_it_says_what_to_install(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    for words in (["inventory"], ["purge"], ["index", "t", "--column", "c"]):
        ran = cli.run("-o", "json", "spark", *words)
        assert ran.code == 1 and "PySpark is not installed" in ran.error["message"]
        assert "lance-catalog[spark]" in ran.error["hint"]


def test_on_a_real_spark(tables: Cli, spark: object) -> None:
    ran = tables.run("-o", "json", "spark", "inventory")
    found = {row["text"]: row for row in ran.json}
    assert (found["db.t"]["rows"], found["db.t"]["versions"]) == (8, 4)
    # Messages are JSON as well, an object a line.
    told = [json.loads(line)["note"] for line in ran.err.splitlines()]
    assert told[0] == "looking at tables: 2 ..." and "2 tables, 11 rows" in told[-1]
    break_data(tables.root, "top")
    bad = tables.run("spark", "verify")
    assert bad.code == 1
    assert "4 of 5 fragments are whole, 1 row failed" in bad.err
    assert "reading fragments: 5 of 5" in bad.err


def test_inventory(tables: Cli, here: Sweeps) -> None:
    found = {row["text"]: row for row in tables.json("spark", "inventory")}
    assert found["db.t"]["id"] == ["db", "t"] and "table" not in found["db.t"]
    assert [line.split("\t")[:2] for line in tables.plain("spark", "inventory", "db")] == [
        ["db.t", "8"]
    ]
    assert "2 tables, 11 rows" in tables.ok("spark", "inventory").err
    assert tables.run("spark", "inventory", "nothing").code == 3


def test_compact_index_and_verify(tables: Cli, here: Sweeps, tmp_path: Path) -> None:
    before = digest(tables.root)
    plan = tables.json("spark", "compact", "--dry-run")
    assert plan["dry_run"] is True
    assert [(step["action"], step["subject"]) for step in plan["plan"]] == [("compact", "db.t")]
    assert "4 fragments, 1 task" in tables.ok("spark", "compact", "--dry-run").out
    assert digest(tables.root) == before
    (made,) = tables.json("spark", "index", "db.t", "--column", "id", "--type", "btree")
    assert (made["status"], made["index"], made["rows"]) == ("built", "id_idx", 8)
    (done,) = tables.json("spark", "compact", "db.t", "--target-rows", "100")
    assert (done["status"], done["fragments_before"], done["fragments_after"]) == (
        "compacted",
        4,
        1,
    )
    assert "nothing is small" in tables.ok("spark", "compact", "--dry-run").err
    wrong = tables.run("-o", "json", "spark", "index", "db.t", "--column", "x")
    assert (wrong.code, wrong.error["code"]) == (2, 12)
    option = ("--option", "num_partitions=1", "--type", "IVF_FLAT")
    (vector,) = tables.json("spark", "index", "db.t", "--column", "vector", *option)
    assert vector["status"] == "built"
    # pylance cannot show the transaction of a compaction that rewrote an index.
    assert "Rewrite" in tables.ok("table", "history", "db.t").out
    seen = tables.run("-o", "json", "spark", "verify")
    assert {row["status"] for row in seen.json} == {"ok"}
    assert all(len(row["checksum"]) == 32 for row in seen.json)
    earlier = tmp_path / "earlier.json"
    earlier.write_text(seen.out)
    assert tables.run("spark", "verify", "--against", str(earlier)).code == 0
    changed = [{**row, "checksum": "0" * 32} for row in seen.json]
    earlier.write_text(json.dumps(changed))
    ran = tables.run("-o", "json", "spark", "verify", "--against", str(earlier))
    assert ran.code == 1 and all("changed in place" in row["error"] for row in ran.json)
    earlier.write_text("{}")
    for file in (earlier, tmp_path / "absent.json"):
        assert tables.run("spark", "verify", "--against", str(file)).code == 2


def test_one_that_fails_is_reported_and_exit_is_1(tables: Cli, here: Sweeps) -> None:
    for manifest in tables.root.glob("*top*/_versions/*"):
        manifest.write_bytes(b"not a manifest")
    for words in (("inventory",), ("verify",), ("compact",), ("cleanup", "--keep", "1", "--yes")):
        ran = tables.run("-o", "json", "spark", *words)
        assert ran.code == 1, words
        rows = {row["text"]: row for row in ran.json}
        assert rows["top"]["status"] == "failed" and rows["top"]["error"]
        assert rows["db.t"]["error"] is None and rows["db.t"]["status"] != "failed"
    dry = tables.run("-o", "json", "spark", "compact", "--dry-run")
    assert (dry.code, dry.json["plan"][-1]["action"]) == (1, "compact: fails")


def test_cleanup_and_purge_ask_first(tables: Cli, here: Sweeps) -> None:
    tables.ok("table", "drop", "top", "--ttl", "0")
    before = digest(tables.root)
    for words in (("cleanup", "db", "--keep", "1"), ("purge",)):
        assert tables.run("spark", *words).code == 2
    plan = tables.json("spark", "purge", "--dry-run")["plan"]
    assert [step["subject"] for step in plan] == ["top"]
    (step,) = tables.json("spark", "cleanup", "--keep", "1", "--dry-run")["plan"]
    assert (step["subject"], step["detail"]) == ("db.t", "3 versions; the oldest kept is 4")
    assert digest(tables.root) == before
    (done,) = tables.json("spark", "cleanup", "db", "--keep", "1", "--yes")
    assert (done["status"], done["versions"], done["oldest_kept"]) == ("cleaned", 3, 4)
    assert "no version is old enough" in tables.ok("spark", "cleanup", "--dry-run").err
    (gone,) = tables.json("spark", "purge", "--yes")
    assert (gone["text"], gone["status"]) == ("top", "purged")
    assert "nothing" in tables.ok("spark", "purge", "--dry-run").err


def test_migrate(root: Path, here: Sweeps) -> None:
    old = Cli(root, "v1")
    old.create("a")
    before = digest(root)
    (step,) = Cli(root, "compat").json("spark", "migrate", "--dry-run")["plan"]
    assert (step["action"], step["subject"]) == ("register", "a")
    assert digest(root) == before
    (done,) = Cli(root, "compat").json("spark", "migrate")
    assert (done["text"], done["outcome"], done["status"], done["rows"]) == (
        "a",
        "registered",
        "ok",
        3,
    )
    assert "nothing to migrate" in Cli(root, "compat").ok("spark", "migrate", "--dry-run").err
    refused = old.run("-o", "json", "spark", "migrate")
    assert (refused.code, refused.error["code"]) == (1, 0)


def test_much_is_told_at_each_quarter(capsys: pytest.CaptureFixture[str]) -> None:
    class Told:
        def __init__(self) -> None:
            self.lines: list[str] = []

        @property
        def output(self) -> Any:
            return self

        def message(self, text: str) -> None:
            self.lines.append(text)

    told = Told()
    with spark_jobs._progress(told, "reading") as tell:  # type: ignore[arg-type]
        for done in range(0, 1001, 10):
            tell(done, 1000)
    assert told.lines == [
        "reading: 1000 ...",
        "reading: 250 of 1000",
        "reading: 500 of 1000",
        "reading: 750 of 1000",
        "reading: 1000 of 1000",
    ]


def test_settings_of_spark_are_checked(tables: Cli) -> None:
    assert run("--root", str(tables.root), "spark", "inventory", "--conf", "x").code == 2
    both = tables.run("spark", "inventory", "--master", "local[1]", "--remote", "sc://h:1")
    assert both.code == 2 and "not both" in both.err
