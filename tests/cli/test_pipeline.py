"""``pipeline validate`` and ``plan``: no Spark runs. ``run`` is in tests/spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.cli.support import Cli, run

from lance_catalog.cli import pipeline as commands
from lance_catalog.cli.output import Steps

FILE = """\
[pipeline]
name = "shop"
[variables]
day = "monday"
[sources.orders]
files = "/data/${day}/*.parquet"
[sources.idle]
table = "prod.idle"
[steps.clean]
sql = "select * from orders where amount >= 0"
[targets.orders]
table = "prod.orders"
from = "clean"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "shop.toml"
    path.write_text(FILE)
    return path


def test_a_valid_file_needs_no_root(file: Path) -> None:
    ran = run("pipeline", "validate", str(file))
    assert ran.code == 0 and ran.out == ""
    assert "is valid: 2 sources, 1 step, 1 target" in ran.err
    assert run("-o", "json", "pipeline", "validate", str(file)).json == []


def test_mistakes_are_listed_with_line_and_key(file: Path) -> None:
    file.write_text(FILE.replace("from orders", "from ordrs").replace('"clean"', '"clen"'))
    ran = run("-o", "json", "pipeline", "validate", str(file))
    assert ran.code == 2
    assert [(row["line"], row["key"]) for row in ran.json] == [
        (10, "steps.clean.sql"),
        (13, "targets.orders.from"),
    ]
    plain = run("-o", "plain", "pipeline", "validate", str(file)).out.splitlines()
    assert plain[1].startswith("13\ttargets.orders.from\tno source or step 'clen'")
    # The other verbs say the same, and do nothing.
    for verb in ("plan", "run"):
        refused = run("-o", "json", "--root", "/nowhere", "pipeline", verb, str(file))
        assert (refused.code, refused.error["code"]) == (2, 13)
        assert "line 10, steps.clean.sql" in refused.error["message"]


def test_with_a_root_its_tables_are_looked_for(cli: Cli, file: Path) -> None:
    ran = cli.run("-o", "json", "pipeline", "validate", str(file))
    assert ran.code == 2
    assert [row["key"] for row in ran.json] == ["targets.orders.table", "sources.idle.table"]
    cli.ok("namespace", "create", "prod")
    cli.create("prod", "idle")
    assert cli.json("pipeline", "validate", str(file)) == []


def test_the_plan_shows_the_graph(file: Path) -> None:
    ran = run("-o", "json", "pipeline", "plan", str(file), "--set", "day=friday")
    assert [(row["kind"], row["name"], row["inputs"]) for row in ran.json] == [
        ("source", "orders", []),
        ("source", "idle", []),
        ("step", "clean", ["orders"]),
        ("target", "orders", ["clean"]),
    ]
    assert ran.json[0]["does"] == "read files /data/friday/*.parquet"
    assert [row["needed"] for row in ran.json] == [True, False, True, True]
    shown = run("pipeline", "plan", str(file))
    assert "create prod.orders" in shown.out
    assert "no target needs source idle" in shown.err


def test_variables(file: Path) -> None:
    wrong = run("-o", "json", "pipeline", "plan", str(file), "--set", "dya=friday")
    assert wrong.code == 2 and "did you mean 'day'" in wrong.error["message"]
    assert run("pipeline", "plan", str(file), "--set", "day").code == 2


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    ran = run("-o", "json", "pipeline", "plan", str(tmp_path / "x.toml"))
    assert (ran.code, ran.error["code"]) == (2, 13)
    assert "No such file" in ran.error["message"]


def test_a_run_needs_a_root(file: Path) -> None:
    pytest.importorskip("pyspark")
    ran = run("-o", "json", "pipeline", "run", str(file))
    assert ran.code == 2 and "no root" in ran.error["message"]


def test_a_rejected_run_shows_the_rows_and_exits_1(
    cli: Cli, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark")
    from lance_catalog.spark.pipeline import Failed, Pipeline, RunReport

    @contextmanager
    def nothing(*_: Any) -> Iterator[None]:
        yield None

    def rejected(self: Pipeline, *_: Any, **__: Any) -> RunReport:
        bad = Failed("orders", "amount >= 0", "1 of 9 rows fail", 1, 9, [{"id": 4, "amount": -1}])
        made = RunReport("shop", "monday", "d", datetime.now(UTC), "me", "rejected")
        made.failures.append(bad)
        return made

    monkeypatch.setattr(commands, "running_spark", nothing)
    monkeypatch.setattr(Pipeline, "run", rejected)
    ran = cli.run("pipeline", "run", str(file))
    assert ran.code == 1
    assert "nothing was published: 1 expectation failed (job id monday)" in ran.err
    assert '[{"id": 4, "amount": -1}]' in ran.out and "amount >= 0" in ran.out


def test_secrets_are_not_planned(file: Path) -> None:
    file.write_text(FILE.replace("amount >= 0", "t = '${token}'"))
    for output in ("table", "json", "plain"):
        ran = run("-o", output, "pipeline", "plan", str(file), "--set", "token=hunter22")
        assert ran.code == 0 and "hunter22" not in ran.out + ran.err and "********" in ran.out


def test_steps_are_told_in_plain_lines_or_move() -> None:
    lines: list[str] = []
    plain = Steps(lines.append)
    plain.begin("read files", aloud=False)
    plain.end("read files: 0.1 s")
    plain.begin("publish", aloud=True)
    plain.end("publish: 2.0 s")
    assert lines == ["read files: 0.1 s", "publish ...", "publish: 2.0 s"]
    moving: list[str] = []
    shown = Steps(lines.append, moving.append)
    shown.begin("publish", aloud=True)
    assert moving == ["publish"] and len(lines) == 3
