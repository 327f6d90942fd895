"""Dropping tables and namespaces into the trash."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.cli.support import Cli, run
from tests.cli.trashing import commands, in_trash


class TestDrop:
    def test_prints_the_command_that_undoes_it(self, each: Cli) -> None:
        location = each.create("it's a t")
        ran = each.ok("table", "drop", "it's a t")
        assert ran.out == ""
        soon = (datetime.now(UTC) + timedelta(days=7)).strftime("%Y-%m-%d")
        assert f"until {soon}" in ran.err
        (back,) = commands(ran)
        assert each.plain("table", "list") == []
        assert run(*back).code == 0
        assert each.plain("table", "count", "it's a t") == ["3"]
        assert each.json("table", "describe", "it's a t")["location"] == location

    def test_names_that_look_like_something_else(self, nested: Cli) -> None:
        for name in ("v1.2", "-dash", "--as"):
            nested.create(name)
            (back,) = commands(nested.ok("--delimiter", "/", "table", "drop", "--", name))
            assert run(*back).code == 0, back
            assert nested.json("--delimiter", "/", "table", "count", "--", name)["count"] == 3

    def test_json_tells_the_drop_and_the_deadline(self, each: Cli) -> None:
        location = each.create("t")
        told = each.json("table", "drop", "t", "--ttl", "3d")
        assert told["location"] == location
        assert (told["dropped"], told["purged"]) == (True, False)
        left = datetime.fromisoformat(told["expires_at"]) - datetime.now(UTC)
        assert timedelta(days=2, hours=23) < left <= timedelta(days=3)
        (row,) = each.json("trash", "list")
        assert (row["drop_id"], row["expires_at"]) == (told["drop_id"], told["expires_at"])
        each.ok("trash", "undrop", "t")
        never = each.run("-o", "json", "table", "drop", "t", "--ttl", "never")
        assert never.json["expires_at"] is None
        assert each.plain("table", "drop", "t", "--if-exists") == ["t"]

    def test_never_expires(self, cli: Cli) -> None:
        cli.create("t")
        assert "never expires" in cli.ok("table", "drop", "t", "--ttl", "never").err
        assert "never expires" in cli.run("trash", "purge", "t", "--yes").err

    def test_bad_options(self, cli: Cli) -> None:
        cli.create("t")
        assert cli.run("table", "drop", "t", "--ttl", "soon").code == 2
        both = cli.run("table", "drop", "t", "--ttl", "1d", "--purge", "--yes")
        assert both.code == 2
        assert "exclude each other" in both.err
        assert cli.plain("table", "list") == ["t"]

    def test_options_beat_the_property(self, cli: Cli) -> None:
        purges = ("--property", "drop_behavior=purge")
        for option in (["--no-purge"], ["--ttl", "1d"]):
            cli.create("t")
            assert cli.json(*purges, "table", "drop", "t", *option)["purged"] is False
            cli.ok("trash", "purge", "t", "--force", "--yes")


class TestCascade:
    def test_says_what_went_to_the_trash_and_how_it_comes_back(self, nested: Cli) -> None:
        nested.ok("namespace", "create", "a.b", "--parents")
        nested.create("a", "b", "t")
        nested.create("a", "u")
        ran = nested.ok("namespace", "drop", "a", "--cascade", "--yes", "--ttl", "2d")
        assert "2 tables are in the trash, until " in ran.err
        listed, made, back = commands(ran)
        assert run(*listed, "-o", "plain").out.count("\n") == 2
        refused = run(*back, "-o", "json")
        assert (refused.code, refused.error["code"]) == (3, 1)
        assert "namespace create a.b --parents" in refused.error["hint"]
        assert run(*made).code == 0
        assert run(*back).code == 0
        assert nested.plain("table", "list", "-r") == ["a.b.t"]
        assert in_trash(nested) == ["a.u"]
        nested.ok("trash", "undrop", "a.u", "--as", "u")
        assert nested.plain("table", "count", "u") == ["3"]

    def test_json_has_each_table(self, nested: Cli) -> None:
        nested.ok("namespace", "create", "a")
        nested.create("a", "old")
        nested.ok("table", "drop", "a.old")
        nested.create("a", "t")
        told = nested.json("namespace", "drop", "a", "--cascade", "--yes")
        (table,) = told["tables"]
        assert (table["id"], told["dropped"]) == (["a", "t"], True)
        rows = {row["drop_id"]: row for row in nested.json("trash", "list")}
        assert rows[table["drop_id"]]["expires_at"] == table["expires_at"]

    def test_purge_leaves_nothing(self, nested: Cli) -> None:
        nested.ok("namespace", "create", "a")
        location = nested.create("a", "t")
        plan = nested.json("namespace", "drop", "a", "--cascade", "--purge", "--dry-run")["plan"]
        assert plan[0]["destructive"] is True and "deletes" in plan[0]["detail"]
        told = nested.json("namespace", "drop", "a", "--cascade", "--purge", "--yes")
        assert told["tables"] == []
        assert in_trash(nested) == []
        assert not Path(location.removeprefix("file://")).exists()
