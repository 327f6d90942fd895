"""``--as-of``: the catalog is read as it was, and never changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.cli.support import Cli, digest
from tests.cli.test_docs import commands

#: What reads the past; everything else is refused.
READS = {
    "namespace list",
    "namespace describe",
    "table list",
    "table describe",
    "table count",
    "table head",
    "versions list",
    "versions describe",
    "config show",
}


def now(cli: Cli) -> str:
    return str(cli.json("log")[-1]["version"])


@pytest.fixture
def changed(nested: Cli) -> tuple[Cli, str]:
    """A catalog, and the point before all of it changed."""
    nested.ok("versions", "enable", "--yes")
    nested.ok("namespace", "create", "prod.eu", "--parents")
    nested.append("prod", "t", times=2)
    nested.ok("table", "set", "prod.t", "owner=then")
    point = now(nested)
    nested.ok("table", "set", "prod.t", "owner=now")
    nested.append("prod", "t")
    nested.ok("table", "rename", "prod.t", "prod.u")
    nested.ok("table", "declare", "prod.later")
    nested.ok("namespace", "drop", "prod.eu", "--yes")
    return nested, point


def test_namespaces_tables_properties_and_data(changed: tuple[Cli, str]) -> None:
    cli, point = changed
    assert cli.plain("--as-of", point, "namespace", "list", "-r") == ["prod", "prod.eu"]
    assert cli.plain("namespace", "list", "-r") == ["prod"]
    assert cli.plain("--as-of", point, "table", "list", "prod") == ["prod.t"]
    assert cli.plain("table", "list", "-r", "--all", "--as-of", point) == ["prod.t"]
    assert cli.json("--as-of", point, "namespace", "describe", "prod")["tables"] == 1
    then = cli.json("--as-of", point, "table", "describe", "prod.t")
    assert (then["version"], then["properties"]) == (2, {"owner": "then"})
    assert cli.plain("--as-of", point, "table", "count", "prod.t") == ["4"]
    assert cli.plain("--as-of", point, "table", "count", "prod.t", "--version", "1") == ["2"]
    assert cli.plain("table", "count", "prod.u") == ["6"]
    rows = cli.plain("--as-of", point, "table", "head", "prod.t", "-c", "id")
    assert len(rows) == 4
    listed = cli.json("--as-of", point, "versions", "list", "prod.t")
    assert [row["version"] for row in listed] == [2, 1]
    assert cli.json("--as-of", point, "versions", "describe", "prod.t")["version"] == 2
    assert cli.run("--as-of", point, "versions", "describe", "prod.t", "3").code == 3
    assert cli.json("versions", "describe", "prod.u")["version"] == 3


def test_a_time_as_the_log_tells_it(changed: tuple[Cli, str]) -> None:
    cli, point = changed
    at = next(row["at"] for row in cli.json("log") if str(row["version"]) == point)
    assert cli.plain("--as-of", at, "table", "list", "prod") == ["prod.t"]


def test_from_the_environment(changed: tuple[Cli, str], monkeypatch: pytest.MonkeyPatch) -> None:
    cli, point = changed
    monkeypatch.setenv("LANCE_CATALOG_AS_OF", point)
    assert cli.plain("table", "list", "prod") == ["prod.t"]
    assert f"property.as_of\t{point}\tenvironment" in cli.plain("config", "show")
    assert cli.run("table", "drop", "prod.t").code == 2
    monkeypatch.delenv("LANCE_CATALOG_AS_OF")
    assert cli.plain("--property", f"as_of={point}", "table", "list", "prod") == ["prod.t"]


def test_data_where_versions_were_not_managed(nested: Cli) -> None:
    nested.append("t")
    point = now(nested)
    nested.append("t")
    nested.ok("namespace", "create", "a")
    counted = nested.ok("--as-of", point, "table", "count", "t")
    assert counted.out.strip() == "4" and "what is shown of them is today's" in counted.err
    listed = nested.ok("--as-of", point, "versions", "list", "t")
    assert "today's" in listed.err and "today's" not in nested.ok("versions", "list", "t").err
    assert nested.ok("table", "count", "t").err == ""


def test_a_table_whose_data_came_later(nested: Cli) -> None:
    nested.ok("versions", "enable", "--yes")
    nested.ok("table", "declare", "t")
    point = now(nested)
    for _ in range(2):
        shown = nested.json("--as-of", point, "table", "describe", "t")
        assert (shown["declared"], shown["version"], shown["schema"]) == (True, None, [])
        ran = nested.run("-o", "json", "--as-of", point, "table", "count", "t")
        assert (ran.code, ran.error["code"]) == (1, 19)
        assert "had no data yet" in ran.error["message"]
        nested.append("t")
    assert nested.json("table", "describe", "t")["version"] == 2


def _arguments(command: Any) -> list[str]:
    needed = [p for p in command.params if p.required]
    given = ["x" for p in needed if p.param_type_name == "argument"]
    return given + [word for p in needed if p.opts[0].startswith("-") for word in (p.opts[0], "x")]


@pytest.mark.parametrize("before", [True, False])
def test_whatever_else_is_refused(changed: tuple[Cli, str], before: bool) -> None:
    """Every verb there is, so that a new one cannot be forgotten."""
    cli, point = changed
    untouched = digest(cli.root)
    seen = set()
    for name, command in commands():
        if name in READS:
            continue
        words = [*name.split(), *_arguments(command), "--yes"]
        words = ["--as-of", point, *words] if before else [*words, "--as-of", point]
        ran = cli.run("-o", "json", *words)
        assert (ran.code, ran.error["code"]) == (2, 13), (name, ran)
        assert f"{name} does not go with --as-of" in ran.error["message"]
        seen.add(name)
    assert {"table drop", "namespace create", "trash purge", "repair", "versions enable"} <= seen
    hidden = cli.run("--as-of", point, "table", "list", "--deregistered")
    assert hidden.code == 2
    assert digest(cli.root) == untouched


def test_hints_stay_in_the_past(changed: tuple[Cli, str]) -> None:
    cli, point = changed
    cli.ok("table", "drop", "prod.u")
    missing = cli.run("--as-of", point, "table", "describe", "prod.u")
    assert missing.code == 3
    assert f"--as-of {point} table list . --recursive` shows the tables there were" in missing.err
    nowhere = cli.run("--as-of", point, "table", "list", "other")
    assert nowhere.code == 3
    assert "namespace list . --recursive` shows the namespaces there were" in nowhere.err
    assert "create" not in nowhere.err and "undrop" not in missing.err


def test_mistakes(root: Path, cli: Cli) -> None:
    assert cli.run("--as-of", "1", "table", "list").code == 3
    cli.ok("namespace", "create", "a")
    wrong = cli.run("--as-of", "soon", "table", "list")
    assert wrong.code == 2 and "'soon' is no point of the past" in wrong.err
    ahead = cli.run("-o", "json", "--as-of", "99", "table", "list")
    assert (ahead.code, ahead.error["code"]) == (3, 11)
    v1 = Cli(root, "v1").run("-o", "json", "--as-of", "1", "table", "list")
    assert (v1.code, v1.error["code"]) == (2, 13)
