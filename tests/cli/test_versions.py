"""``versions``: the switch, and versions listed, described, deleted and cleaned up."""

from __future__ import annotations

from pathlib import Path

import lance
import pytest
from tests.cli.support import Cli, at_terminal, digest

VERSION = {"version", "at", "manifest_size", "manifest_path", "e_tag", "metadata"}


def numbers(cli: Cli, *args: str) -> list[int]:
    return [int(line.split("\t")[0]) for line in cli.plain("versions", "list", *args)]


@pytest.fixture(params=["v1", "compat", "managed"])
def table(request: pytest.FixtureRequest, root: Path) -> Cli:
    """A table ``t`` with the versions 1 to 6: by its files alone, and managed."""
    cli = Cli(root, "v1" if request.param == "v1" else "compat")
    if request.param == "managed":
        cli.ok("versions", "enable", "--yes")
    cli.append("t", times=6)
    return cli


class TestSwitch:
    def test_it_says_what_fails_from_now_on_and_asks(self, nested: Cli) -> None:
        nested.create("t")
        before = digest(nested.root)
        refused = nested.run("versions", "enable")
        assert refused.code == 2
        assert "makes native writers of this catalog fail" in refused.err
        plan = nested.json("versions", "enable", "--dry-run")["plan"]
        assert [step["action"] for step in plan] == ["register", "switch on"]
        assert "native writers of this catalog fail" in plan[1]["detail"]
        shell = ("--root", str(nested.root), "--mode", nested.mode, "versions")
        asked = at_terminal(*shell, "enable", answer="n")
        assert asked.code == 1
        assert "From now on native writers of this catalog fail" in asked.err
        assert digest(nested.root) == before
        done = at_terminal(*shell, "enable", answer="y")
        assert done.code == 0
        assert "managed versions are on: 1 version of 1 table registered" in done.err
        assert nested.json("versions", "status")["managed"] is True

    def test_on_and_on_again(self, nested: Cli) -> None:
        nested.create("t")
        on = {"managed": True, "tables": 1, "versions": 1}
        assert nested.json("versions", "enable", "--yes") == {**on, "changed": True}
        # Nothing to decide, so nothing is asked.
        assert nested.json("versions", "enable") == {**on, "changed": False}
        assert "on already" in nested.ok("versions", "enable", "--dry-run").err
        assert nested.json("versions", "status") == on
        assert nested.plain("versions", "enable") == ["true"]

    def test_off_says_what_goes_and_asks(self, nested: Cli) -> None:
        nested.ok("versions", "enable", "--yes")
        nested.append("t", times=3)
        before = digest(nested.root)
        refused = nested.run("versions", "disable")
        assert refused.code == 2 and "removes the register" in refused.err
        plan = nested.json("versions", "disable", "--dry-run")["plan"]
        assert [step["subject"] for step in plan] == ["managed versions", "3 versions"]
        assert "native writers work again" in plan[0]["detail"]
        assert digest(nested.root) == before
        off = {"managed": False, "changed": True, "tables": 1, "versions": 3}
        assert nested.json("versions", "disable", "--yes") == off
        assert nested.json("versions", "status") == {"managed": False, "tables": 1, "versions": 0}
        assert "off already" in nested.ok("versions", "disable").err
        assert "off already" in nested.ok("versions", "disable", "--dry-run").err
        # The tables and their versions are as they were.
        assert numbers(nested, "t") == [3, 2, 1]
        assert nested.plain("table", "count", "t") == ["6"]

    @pytest.mark.parametrize("verb", ["enable", "disable", "status"])
    def test_v1_has_no_switch(self, root: Path, verb: str) -> None:
        ran = Cli(root, "v1").run("-o", "json", "versions", verb, "--yes")
        assert (ran.code, ran.error["code"]) == (1, 0)
        assert "--mode compat" in ran.error["hint"]


class TestLooking:
    def test_pages_in_both_orders(self, table: Cli) -> None:
        assert numbers(table, "t") == [6, 5, 4, 3, 2, 1]
        assert numbers(table, "t", "--ascending") == [1, 2, 3, 4, 5, 6]
        page = table.ok("versions", "list", "t", "--limit", "4")
        assert "--page-token 3 goes on" in page.err
        assert numbers(table, "t", "--limit", "4", "--page-token", "3") == [2, 1]
        assert numbers(table, "t", "--ascending", "--limit", "2", "--page-token", "3") == [4, 5]
        rows = table.json("versions", "list", "t")
        assert all(set(row) == VERSION for row in rows)
        assert [row["at"] for row in rows] == sorted((r["at"] for r in rows), reverse=True)

    def test_one_version(self, table: Cli) -> None:
        found = table.json("versions", "describe", "t", "2")
        assert set(found) == {"id", "text", *VERSION}
        manifest = Path("/") / found["manifest_path"]
        assert manifest.stat().st_size == found["manifest_size"]
        assert table.json("versions", "describe", "t")["version"] == 6

    @pytest.mark.parametrize("number", ["7", "0"])
    def test_one_that_is_not_there(self, table: Cli, number: str) -> None:
        ran = table.run("-o", "json", "versions", "describe", "t", number)
        assert (ran.code, ran.error["code"]) == (3, 11)
        assert "versions list t` shows those there are" in ran.error["hint"]
        assert "list_table_versions" not in ran.error["message"]

    def test_a_declared_table_has_none(self, cli: Cli) -> None:
        cli.ok("table", "declare", "t")
        assert cli.json("versions", "list", "t") == []
        assert "only declared" in cli.ok("versions", "list", "t").err
        assert cli.run("versions", "describe", "t").code == 3

    def test_mistakes(self, table: Cli) -> None:
        assert table.run("versions", "list", "u").code == 3
        assert table.run("versions", "list", "t", "--page-token", "x").code == 2
        assert table.run("versions", "list", "t", "--limit", "0").code == 2


class TestDelete:
    @pytest.mark.parametrize(
        ("ranges", "left"),
        [
            (["3"], [6, 5, 4, 2, 1]),
            (["2-4"], [6, 5, 1]),
            (["0-3"], [6, 5, 4]),
            (["1", "3-4", "4-5"], [6, 2]),
            (["9-12"], [6, 5, 4, 3, 2, 1]),
        ],
    )
    def test_ranges_hold_both_ends(self, table: Cli, ranges: list[str], left: list[int]) -> None:
        done = table.json("versions", "delete", "t", *ranges, "--yes")
        assert done == {"id": ["t"], "text": "t", "deleted": 6 - len(left)}
        assert numbers(table, "t") == left
        assert table.plain("table", "count", "t") == ["12"]

    def test_the_plan_comes_first(self, table: Cli) -> None:
        before = digest(table.root)
        plan = table.json("versions", "delete", "t", "1-2", "4", "--dry-run")["plan"]
        assert [step["detail"] for step in plan] == ["versions 1 to 2", "version 4"]
        refused = table.run("versions", "delete", "t", "1-2")
        assert refused.code == 2 and "--yes" in refused.err
        assert digest(table.root) == before
        assert table.json("versions", "delete", "t", "9", "--dry-run")["plan"] == []
        # Nothing goes, so nothing is asked.
        assert table.json("versions", "delete", "t", "9")["deleted"] == 0

    def test_what_is_missing(self, table: Cli) -> None:
        table.ok("versions", "delete", "t", "2", "--yes")
        for args in (["1-3"], ["2"]):
            ran = table.run("versions", "delete", "t", *args, "--no-ignore-missing", "--yes")
            assert ran.code == 3 and "no version 2" in ran.err
        assert numbers(table, "t") == [6, 5, 4, 3, 1]
        gone = table.json("versions", "delete", "t", "1-3", "--ignore-missing", "--yes")
        assert gone["deleted"] == 2

    def test_the_latest_stays(self, table: Cli) -> None:
        for dry in ([], ["--dry-run"]):
            ran = table.run("-o", "json", "versions", "delete", "t", "5-6", "--yes", *dry)
            assert (ran.code, ran.error["code"]) == (1, 19)
            assert ran.error["message"] == "version 6 is the latest, which stays"
        assert numbers(table, "t") == [6, 5, 4, 3, 2, 1]

    def test_all_only_by_force(self, table: Cli) -> None:
        ran = table.run("-o", "json", "versions", "delete", "t", "all", "--yes")
        assert (ran.code, ran.error["code"]) == (1, 19)
        assert "context" not in ran.error["message"] and "--force" in ran.error["hint"]
        assert table.json("versions", "delete", "t", "all", "--force", "--yes")["deleted"] == 6
        assert numbers(table, "t") == []

    def test_all_is_asked_for_by_its_id(self, table: Cli) -> None:
        shell = ("--root", str(table.root), "--mode", table.mode, "versions", "delete", "t")
        asked = at_terminal(*shell, "all", "--force", answer="y")
        assert asked.code == 1 and "Type t to go on" in asked.err
        assert len(numbers(table, "t")) == 6
        assert at_terminal(*shell, "1-2", answer="y").code == 0
        assert numbers(table, "t") == [6, 5, 4, 3]

    def test_what_is_no_range(self, table: Cli) -> None:
        for text in ("0", "0-0", "3-2", "x", "1-", "-1", "1.5", "1-2-3", ""):
            ran = table.run("versions", "delete", "t", "--yes", "--", "1", text)
            assert ran.code == 2 and "no range of versions" in ran.err, text
        assert len(numbers(table, "t")) == 6


class TestCleanup:
    def test_by_count(self, table: Cli) -> None:
        table.append("u", times=2)
        before = digest(table.root)
        plan = table.json("versions", "cleanup", "--keep", "2", "--dry-run")["plan"]
        assert [(step["subject"], step["detail"]) for step in plan] == [
            ("t", "4 versions; the oldest kept is 5")
        ]
        refused = table.run("versions", "cleanup", "--keep", "2")
        assert refused.code == 2 and "--yes" in refused.err
        assert digest(table.root) == before
        rows = table.json("versions", "cleanup", "--keep", "2", "--yes")
        assert [(r["outcome"], r["text"], r["versions"], r["oldest_kept"]) for r in rows] == [
            ("cleaned", "t", 4, 5),
            ("nothing old", "u", 0, 1),
        ]
        assert all(
            set(row)
            == {"outcome", "id", "text", "versions", "bytes", "oldest_kept", "tagged", "why"}
            for row in rows
        )
        assert rows[0]["bytes"] > 0
        assert numbers(table, "t") == [6, 5] and numbers(table, "u") == [2, 1]
        assert table.plain("table", "count", "t") == ["12"]
        table.ok("check", "--grace", "0")

    def test_of_one_table_by_age(self, table: Cli) -> None:
        table.append("u", times=2)
        # Nothing is older than fourteen days, which is the default.
        assert "no version is old enough" in table.ok("versions", "cleanup", "--dry-run").err
        done = table.ok("versions", "cleanup", "t", "--older-than", "0", "--yes")
        assert "removed 5 versions of 1 table" in done.err
        assert numbers(table, "t") == [6] and numbers(table, "u") == [2, 1]

    def test_what_a_tag_holds_stays(self, table: Cli) -> None:
        location = table.json("table", "describe", "t")["location"]
        lance.dataset(location).tags.create("first", 2)
        done = table.ok("versions", "cleanup", "t", "--keep", "1", "--yes")
        assert "1 kept because a tag or a branch holds them" in done.err
        assert numbers(table, "t") == [6, 2]

    def test_a_table_that_fails_does_not_stop_the_others(self, table: Cli) -> None:
        table.append("broken")
        place = Path(table.json("table", "describe", "broken")["location"].removeprefix("file://"))
        (manifest,) = (place / "_versions").glob("*.manifest")
        manifest.write_bytes(b"no manifest")
        ran = table.run("-o", "json", "versions", "cleanup", "--keep", "1", "--yes")
        assert ran.code == 1
        assert [(row["text"], row["outcome"]) for row in ran.json] == [
            ("t", "cleaned"),
            ("broken", "failed"),
        ]
        assert ran.json[1]["why"] and "1 table failed" in ran.err
        plan = table.json("versions", "cleanup", "--keep", "1", "--dry-run")["plan"]
        assert [step["action"] for step in plan] == ["clean up: fails"]

    def test_mistakes(self, table: Cli) -> None:
        assert table.run("versions", "cleanup", "u", "--yes").code == 3
        assert table.run("versions", "cleanup", "--keep", "0", "--yes").code == 2
        for age in ("soon", "never"):
            ran = table.run("versions", "cleanup", "--older-than", age, "--yes")
            assert ran.code == 2 and "traceback" not in ran.err.lower()
        assert len(numbers(table, "t")) == 6
