"""Purging the trash: one table, or all whose time has come."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.cli.support import Cli, at_terminal, digest, process
from tests.cli.trashing import PROTECTED, in_trash, left_by_a_crash

from lance_catalog import DirectoryNamespace
from lance_catalog.errors import PermissionDeniedError


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
