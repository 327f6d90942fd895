"""``trash list|undrop|purge|status``, ``set``, and what drops say about the way back."""

from __future__ import annotations

import shlex
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.cli.support import MODES, Cli, Ran, at_terminal, digest, process, run, sample, stream

from lance_catalog import DirectoryNamespace, connect
from lance_catalog.errors import PermissionDeniedError

PROTECTED = "lance_catalog.protected"


def commands(ran: Ran) -> list[list[str]]:
    """The commands in backquotes, or on a line of their own, as a shell would split them."""
    quoted = ran.err.split("`")[1::2]
    lines = [line for line in ran.err.splitlines() if line.startswith("  ")]
    found = [shlex.split(text) for text in [*quoted, *lines] if "lance-catalog " in text]
    return [words[1:] for words in found]


def in_trash(cli: Cli, *args: str) -> list[str]:
    return [row["text"] for row in cli.json("trash", "list", *args)]


def left_by_a_crash(cli: Cli, name: str) -> None:
    """A purge that died right after it claimed: its claim has not lapsed yet."""
    args = ["--root", str(cli.root), "--mode", cli.mode, "trash", "purge", name, "--force", "--yes"]
    died = process(*args, env={"LANCE_CATALOG_FAILPOINTS": "purge.claimed=kill"})
    assert died.code == -9, died


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


class TestList:
    def test_shows_every_drop(self, each: Cli) -> None:
        assert each.json("trash", "list") == []
        assert "nothing is in the trash" in each.ok("trash", "list").err
        location = each.create("t")
        each.create("u")
        dropped = each.json("table", "drop", "t")
        each.ok("table", "drop", "u", "--ttl", "0")
        each.create("live")
        first, second = each.json("trash", "list")
        assert (first["id"], first["text"], first["location"]) == (["t"], "t", location)
        assert first["drop_id"] == dropped["drop_id"]
        age = datetime.now(UTC) - datetime.fromisoformat(first["dropped_at"])
        assert 0 <= age.total_seconds() < 600
        assert (first["state"], first["protected"]) == ("restorable", False)
        assert (second["text"], second["state"]) == ("u", "expired")
        assert second["expires_at"] == second["dropped_at"]
        assert in_trash(each, "--expired") == ["u"]
        line = each.plain("trash", "list")[0].split("\t")
        assert line == [*(first[k] for k in ("text", "drop_id", "dropped_at", "expires_at")),
                        "restorable", "false"]  # fmt: skip
        shown = each.ok("trash", "list")
        assert "drop id" in shown.out and "trash undrop ID" in shown.err
        assert "nothing expired" not in each.ok("trash", "list", "--expired").err

    def test_below_a_namespace_that_is_gone(self, nested: Cli) -> None:
        nested.ok("namespace", "create", "a.b", "--parents")
        for name in ("t", "a.u", "a.b.v"):
            nested.ok("table", "declare", name)
            nested.ok("table", "drop", name)
        nested.ok("namespace", "drop", "a", "--cascade", "--yes")
        assert in_trash(nested) == ["a.b.v", "a.u", "t"]
        assert in_trash(nested, "a") == ["a.b.v", "a.u"]
        assert in_trash(nested, "--delimiter", "/") == ["a/b/v", "a/u", "t"]

    def test_a_purge_that_died_cannot_be_undropped(self, each: Cli) -> None:
        each.create("t")
        each.ok("table", "drop", "t")
        left_by_a_crash(each, "t")
        (row,) = each.json("trash", "list", "--expired")
        assert row["state"] == "being purged"
        refused = each.run("-o", "json", "trash", "undrop", "t")
        assert (refused.code, refused.error["code"]) == (3, 4)
        assert each.json("trash", "status", "t")["purging"] is True

    def test_protected(self, nested: Cli) -> None:
        nested.create("t", **{PROTECTED: "true"})
        nested.ok("table", "drop", "t", "--force")
        assert nested.json("trash", "list")[0]["protected"] is True


class TestUndrop:
    def test_of_two_drops_each_comes_back(self, nested: Cli) -> None:
        fresh = ("--property", "recreate=fresh")
        drops = []
        for rows in (2, 5):
            catalog = connect(str(nested.root), recreate="fresh", **MODES[nested.mode])
            catalog.create_table({"id": ["t"]}, stream(sample(rows)))
            drops.append(nested.json(*fresh, "table", "drop", "t")["drop_id"])
        assert in_trash(nested) == ["t", "t"]
        told = nested.json("trash", "undrop", "t", "--drop-id", drops[0])
        assert (told["id"], told["from"], told["drop_id"]) == (["t"], ["t"], drops[0])
        assert nested.plain("table", "count", "t") == ["2"]
        taken = nested.run("-o", "json", "trash", "undrop", "t")
        assert (taken.code, taken.error["code"]) == (4, 5)
        assert "--as" in taken.error["message"]
        done = nested.ok("trash", "undrop", "t", "--as", "second")
        assert "undropped table t as second" in done.err
        assert nested.plain("table", "count", "second") == ["5"]
        assert in_trash(nested) == []

    def test_what_is_not_there(self, each: Cli) -> None:
        each.create("t")
        for args in (["nope"], ["t"]):
            ran = each.run("-o", "json", "trash", "undrop", *args)
            assert (ran.code, ran.error["code"]) == (3, 4)
            assert "trash list` shows the dropped tables" in ran.error["hint"]
        each.ok("table", "drop", "t")
        other = each.run("-o", "json", "trash", "undrop", "t", "--drop-id", "0-0")
        assert other.error["code"] == 4
        assert each.run("trash", "undrop", ".").code == 2
        each.ok("trash", "undrop", "t")

    def test_another_name_in_v1(self, root: Path) -> None:
        v1 = Cli(root, "v1")
        v1.create("t")
        v1.ok("table", "drop", "t")
        ran = v1.run("-o", "json", "trash", "undrop", "t", "--as", "u")
        assert (ran.code, ran.error["code"]) == (1, 0)
        assert "--mode compat" in ran.error["hint"]

    def test_plain_is_the_id(self, nested: Cli) -> None:
        nested.create("t")
        nested.ok("table", "drop", "t")
        assert nested.plain("trash", "undrop", "t", "--as", "u") == ["u"]


class TestStatus:
    def test_every_state(self, each: Cli) -> None:
        assert each.json("trash", "status", "t")["state"] == "not-found"
        each.create("t")
        assert each.json("trash", "status", "t") == {
            "id": ["t"],
            "text": "t",
            "state": "exists",
            "drop_id": None,
            "dropped_at": None,
            "expires_at": None,
            "purging": False,
        }
        dropped = each.json("table", "drop", "t")
        told = each.ok("-o", "json", "trash", "status", "t")
        assert told.json["state"] == "soft-deleted"
        assert told.json["drop_id"] == dropped["drop_id"]
        assert told.json["expires_at"] == dropped["expires_at"]
        assert told.err == ""
        shown = each.ok("trash", "status", "t")
        assert "soft-deleted" in shown.out
        assert "state\tsoft-deleted" in "\n".join(each.plain("trash", "status", "t"))
        assert run(*commands(shown)[0]).code == 0
        assert each.plain("table", "list") == ["t"]


class TestPurge:
    def test_one_by_its_id(self, each: Cli) -> None:
        location = Path(each.create("t").removeprefix("file://"))
        drop_id = each.json("table", "drop", "t")["drop_id"]
        before = digest(each.root)
        early = each.run("-o", "json", "trash", "purge", "t", "--yes")
        assert (early.code, early.error["code"]) == (1, 19)
        assert "trash purge t --force" in early.error["hint"]
        assert each.run("trash", "purge", "t", "--dry-run").code == 1
        unasked = each.run("trash", "purge", "t", "--force")
        assert unasked.code == 2 and "--yes" in unasked.err
        plan = each.json("trash", "purge", "t", "--force", "--dry-run")
        assert plan["dry_run"] is True
        (step,) = plan["plan"]
        assert (step["action"], step["subject"], step["destructive"]) == ("purge", "t", True)
        assert "objects" in step["detail"]
        assert digest(each.root) == before
        (row,) = each.json("trash", "purge", "t", "--force", "--yes")
        assert (row["outcome"], row["id"], row["drop_id"]) == ("purged", ["t"], drop_id)
        assert row["objects"] > 2 and row["bytes"] > 100
        assert not location.exists()
        assert in_trash(each) == []
        again = each.run("-o", "json", "trash", "purge", "t", "--force", "--yes")
        assert (again.code, again.error["code"]) == (3, 4)
        each.ok("check", "--grace", "0")

    def test_text(self, cli: Cli) -> None:
        cli.create("t")
        cli.ok("table", "drop", "t", "--ttl", "0")
        done = cli.ok("trash", "purge", "t", "--yes")
        assert done.out.startswith("outcome") and "purged" in done.out
        assert "purged 1: " in done.err

    def test_what_may_not_be_purged(self, each: Cli) -> None:
        each.create("t")
        before = digest(each.root)
        for force in ([], ["--force"]):
            live = each.run("-o", "json", "trash", "purge", "t", "--yes", *force)
            assert (live.code, live.error["code"]) == (1, 19)
            assert "table drop t` drops it first" in live.error["hint"]
            unknown = each.run("-o", "json", "trash", "purge", "nope", "--yes", *force)
            assert (unknown.code, unknown.error["code"]) == (3, 4)
        assert digest(each.root) == before

    def test_of_several_all_or_none_are_refused(self, each: Cli) -> None:
        for name in ("a", "b"):
            each.create(name)
            each.ok("table", "drop", name)
        each.create("live")
        refused = each.run("-o", "json", "trash", "purge", "a", "live", "--force", "--yes")
        assert refused.error["code"] == 19
        assert in_trash(each) == ["a", "b"]
        rows = each.json("trash", "purge", "a", "b", "a", "--force", "--yes")
        assert [(row["outcome"], row["text"]) for row in rows] == [("purged", "a"), ("purged", "b")]
        assert in_trash(each) == []

    def test_one_of_two_drops(self, cli: Cli) -> None:
        drops = []
        for _ in range(2):
            cli.ok("table", "declare", "t")
            drops.append(cli.json("table", "drop", "t")["drop_id"])
        cli.ok("trash", "purge", "t", "--drop-id", drops[0], "--force", "--yes")
        (row,) = cli.json("trash", "list")
        assert row["drop_id"] == drops[1]

    @pytest.mark.parametrize(
        "args",
        [
            [],
            ["t", "--expired"],
            ["--expired", "--drop-id", "x"],
            ["t", "u", "--drop-id", "x"],
            ["t", "--older-than", "3d"],
            ["--older-than", "3d"],
            ["--expired", "--older-than", "soon"],
            ["--expired", "--older-than", "never"],
            ["."],
        ],
    )
    def test_what_does_not_go_together(self, cli: Cli, args: list[str]) -> None:
        ran = cli.run("trash", "purge", *args, "--yes")
        assert ran.code == 2, ran
        assert ran.out == ""

    def test_a_terminal_is_asked(self, cli: Cli) -> None:
        cli.create("t")
        cli.ok("table", "drop", "t", "--ttl", "0")
        before = digest(cli.root)
        root = ["--root", str(cli.root), "-o", "plain", "trash", "purge"]
        refused = at_terminal(*root, "t", answer="y")
        assert refused.code == 1 and "Type t to go on:" in refused.err, refused
        refused = at_terminal(*root, "--expired", answer="n")
        assert refused.code == 1 and "Go on? [y/N]" in refused.err, refused
        assert "nothing comes back" in refused.err and "objects" in refused.err
        assert digest(cli.root) == before
        agreed = at_terminal(*root, "--expired", answer="y")
        assert agreed.code == 0, agreed
        assert agreed.out.startswith("purged\tt\t")


class TestSweep:
    def test_takes_what_has_expired_and_nothing_else(self, each: Cli) -> None:
        for name, ttl in (("a", "0"), ("b", "7d"), ("c", "0")):
            each.create(name)
            each.ok("table", "drop", name, "--ttl", ttl)
        before = digest(each.root)
        plan = each.json("trash", "purge", "--expired", "--dry-run")["plan"]
        assert [step["subject"] for step in plan] == ["a", "c"]
        assert each.run("trash", "purge", "--expired").code == 2
        assert each.json("trash", "purge", "--expired", "--older-than", "1h", "--dry-run") == {
            "dry_run": True,
            "plan": [],
        }
        assert each.json("trash", "purge", "--expired", "--older-than", "1h", "--yes") == []
        assert digest(each.root) == before
        rows = each.json("trash", "purge", "--expired", "--older-than", "0", "--yes")
        assert [(row["outcome"], row["text"]) for row in rows] == [("purged", "a"), ("purged", "c")]
        assert in_trash(each) == ["b"]
        again = each.ok("trash", "purge", "--expired")
        assert "nothing to purge" in again.err
        each.ok("check", "--grace", "0")

    def test_older_than_does_not_overrule_the_time_to_live(self, cli: Cli) -> None:
        cli.create("t")
        cli.ok("table", "drop", "t", "--ttl", "7d")
        assert cli.json("trash", "purge", "--expired", "--older-than", "0", "--yes") == []
        assert in_trash(cli) == ["t"]

    def test_from_many_hosts_at_once(self, each: Cli) -> None:
        names = [f"t{number}" for number in range(6)]
        for name in names:
            each.create(name)
            each.ok("table", "drop", name, "--ttl", "0")
        args = ["--root", str(each.root), "--mode", each.mode, "-o", "json"]
        sweep = [*args, "trash", "purge", "--expired", "--yes"]
        with ThreadPoolExecutor(3) as pool:
            ran = list(pool.map(lambda _: process(*sweep), range(3)))
        assert [one.code for one in ran] == [0, 0, 0], ran
        outcomes: list[Any] = [row for one in ran for row in one.json]
        assert {row["outcome"] for row in outcomes} <= {"purged", "gone", "left"}
        assert sorted(r["text"] for r in outcomes if r["outcome"] == "purged") == names
        assert in_trash(each) == []
        each.ok("check", "--grace", "0")

    def test_leaves_to_another_what_it_is_at(self, each: Cli) -> None:
        each.create("t")
        each.ok("table", "drop", "t")
        left_by_a_crash(each, "t")
        (row,) = each.json("trash", "purge", "--expired", "--yes")
        assert row["outcome"] == "left"
        assert "deleting its data" in row["why"]
        alone = each.run("-o", "json", "trash", "purge", "t", "--force", "--yes")
        assert (alone.code, alone.error["code"]) == (4, 14)

    def test_keeps_the_protected(self, each: Cli) -> None:
        each.create("t", **{PROTECTED: "true"})
        each.ok("table", "drop", "t", "--force", "--ttl", "0")
        dry = each.json("trash", "purge", "--expired", "--dry-run")["plan"]
        assert (dry[0]["action"], dry[0]["destructive"]) == ("purge: kept", False)
        kept = each.ok("-o", "json", "trash", "purge", "--expired", "--yes")
        assert [row["outcome"] for row in kept.json] == ["kept"]
        assert "1 kept because they are protected" in kept.err
        alone = each.run("-o", "json", "trash", "purge", "t", "--yes")
        assert (alone.code, alone.error["code"]) == (1, 19)
        assert alone.error["hint"] == "--force deletes it all the same"
        (row,) = each.json("trash", "purge", "--expired", "--force", "--yes")
        assert row["outcome"] == "purged"

    def test_a_failure_is_told_and_stops_no_other(
        self, cli: Cli, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("a", "b"):
            cli.create(name)
            cli.ok("table", "drop", name, "--ttl", "0")
        purge_table = DirectoryNamespace.purge_table

        def refused(self: DirectoryNamespace, id: Any, **given: Any) -> Any:
            if tuple(id) == ("a",) and not given["dry_run"]:
                raise PermissionDeniedError("the store said no")
            return purge_table(self, id, **given)

        monkeypatch.setattr(DirectoryNamespace, "purge_table", refused)
        ran = cli.run("-o", "json", "trash", "purge", "--expired", "--yes")
        assert ran.code == 1
        assert [row["outcome"] for row in ran.json] == ["failed", "purged"]
        assert ran.json[0]["why"] == "the store said no"
        cli.create("b")
        cli.ok("table", "drop", "b", "--ttl", "0")
        several = cli.run("-o", "json", "trash", "purge", "a", "b", "--yes")
        assert several.code == 1
        assert [row["outcome"] for row in several.json] == ["failed", "purged"]
        assert cli.run("trash", "purge", "a", "--yes").code == 5


class TestSet:
    def test_a_table(self, each: Cli) -> None:
        each.create("t", owner="me")
        told = each.json("table", "set", "t", "team=a=b", "empty=", "--unset", "owner")
        assert told["properties"] == {"team": "a=b", "empty": ""}
        assert each.json("table", "describe", "t")["properties"] == told["properties"]
        assert "team=a=b" in each.ok("table", "set", "t", "k=v").err
        assert each.run("table", "set", "nope", "k=v").code == 3

    def test_a_namespace_and_the_root(self, nested: Cli) -> None:
        nested.ok("namespace", "create", "a", "--property", "k=1")
        told = nested.json("namespace", "set", "a", "j=2", "--unset", "k")
        assert told["properties"] == {"j": "2"}
        assert nested.json("namespace", "set", ".", "x=y")["properties"] == {"x": "y"}
        assert nested.json("namespace", "describe")["properties"] == {"x": "y"}
        assert nested.run("namespace", "set", "", "x=y").code == 2
        assert nested.run("namespace", "set", "nope", "x=y").code == 3

    @pytest.mark.parametrize(
        "args",
        [[], ["novalue"], ["=v"], ["k=1", "k=2"], ["k=1", "--unset", "k"], ["lance_catalog.x=1"],
         [f"{PROTECTED}=perhaps"]],
    )  # fmt: skip
    def test_bad_input(self, cli: Cli, args: list[str]) -> None:
        cli.create("t")
        cli.ok("namespace", "create", "n")
        for noun, name in (("table", "t"), ("namespace", "n")):
            ran = cli.run(noun, "set", name, *args)
            assert ran.code == 2, ran

    def test_protected_until_it_is_unset_or_forced(self, each: Cli) -> None:
        each.create("t")
        each.ok("table", "set", "t", f"{PROTECTED}=true")
        before = digest(each.root)
        for args in ([], ["--dry-run"], ["--purge", "--yes"]):
            ran = each.run("-o", "json", "table", "drop", "t", *args)
            assert (ran.code, ran.error["code"]) == (1, 19)
            assert "protected" in ran.error["message"] and "--force" in ran.error["hint"]
        assert digest(each.root) == before
        (unset,) = commands(each.run("table", "drop", "t"))
        assert run(*unset).code == 0
        each.ok("table", "drop", "t")
        each.ok("trash", "undrop", "t")
        each.ok("table", "set", "t", f"{PROTECTED}=true")
        each.ok("table", "drop", "t", "--force")

    def test_a_protected_table_holds_its_namespaces(self, nested: Cli) -> None:
        nested.ok("namespace", "create", "a.b", "--parents")
        nested.create("a", "b", "t")
        nested.ok("table", "set", "a.b.t", f"{PROTECTED}=true")
        refused = nested.run("namespace", "drop", "a", "--cascade", "--yes")
        assert refused.code == 1
        assert "'a.b.t'" in refused.err
        (unset,) = commands(refused)
        assert unset[-4:] == ["set", "a.b.t", "--unset", PROTECTED]
        assert nested.run("namespace", "drop", "a", "--cascade", "--dry-run").code == 1
        assert run(*unset).code == 0
        nested.ok("namespace", "set", "a.b", f"{PROTECTED}=true")
        refused = nested.run("namespace", "drop", "a", "--cascade", "--yes")
        assert commands(refused)[0][-5:] == ["namespace", "set", "a.b", "--unset", PROTECTED]
        nested.ok("namespace", "drop", "a", "--cascade", "--yes", "--force")
        assert in_trash(nested) == ["a.b.t"]


class TestWayOut:
    def test_a_dropped_table_that_is_asked_for(self, each: Cli) -> None:
        each.create("t")
        each.ok("table", "drop", "t")
        for args in (["table", "describe", "t"], ["table", "count", "t"], ["table", "drop", "t"]):
            ran = each.run(*args)
            assert ran.code == 3
            assert "trash undrop t` brings it back" in ran.err
        assert "trash" not in each.run("table", "describe", "other").err

    def test_declare_over_a_dropped_table_in_v1(self, root: Path) -> None:
        v1 = Cli(root, "v1")
        v1.create("t")
        v1.ok("table", "drop", "t")
        ran = v1.run("table", "declare", "t")
        assert ran.code == 4
        assert "_table" not in ran.err
        undrop, purge = commands(ran)
        assert undrop[-3:] == ["trash", "undrop", "t"]
        assert purge[-4:] == ["trash", "purge", "t", "--force"]
        assert run(*purge, "--yes").code == 0
        v1.ok("table", "declare", "t")

    def test_a_marker_that_nobody_can_read(self, root: Path) -> None:
        v1 = Cli(root, "v1")
        v1.create("t")
        (root / "t.deleted").write_bytes(b"\x00")
        before = digest(root)
        assert v1.plain("table", "list") == []
        found = v1.run("-o", "json", "check", "--grace", "0")
        assert found.code == 6
        assert [(row["kind"], row["subject"]) for row in found.json] == [
            ("unreadable-marker", "t.deleted")
        ]
        assert "by hand" in found.json[0]["fix"]
        for verb in (["undrop", "t"], ["purge", "t", "--force", "--yes"]):
            ran = v1.run("-o", "json", "trash", *verb)
            assert ran.error["code"] == 4
            assert "unreadable" in ran.error["message"]
        assert v1.json("trash", "purge", "--expired", "--yes") == []
        assert "nothing to repair" in v1.ok("repair", "--yes").err
        assert digest(root) == before

    def test_dropped_ids_are_completed(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        from lance_catalog.cli import completion

        monkeypatch.setattr(completion, "_SECONDS", 30)
        for name in ("users", "views"):
            cli.create(name)
        cli.ok("table", "drop", "users")

        class Given:
            params = {"root": str(cli.root)}  # noqa: RUF012

            def find_root(self) -> Given:
                return self

        assert completion.complete_dropped(Given(), "u") == ["users"]  # type: ignore[arg-type]
        assert completion.complete_dropped(Given(), "v") == []  # type: ignore[arg-type]
