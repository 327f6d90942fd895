from __future__ import annotations

import pytest
from tests.cli.support import Cli, at_terminal, digest, process


def test_drop_shows_a_plan_and_changes_nothing(each: Cli) -> None:
    location = each.create("t")
    before = digest(each.root)
    plan = each.json("table", "drop", "t", "--dry-run")
    assert plan["dry_run"] is True
    (step,) = plan["plan"]
    assert (step["action"], step["subject"], step["destructive"]) == ("drop table", "t", False)
    assert location in step["detail"] and "to the trash" in step["detail"]
    assert "deletes" not in step["detail"]
    (step,) = each.json("table", "drop", "t", "--purge", "--dry-run")["plan"]
    assert step["destructive"] is True
    assert f"deletes {location}: " in step["detail"] and "files" in step["detail"]
    assert digest(each.root) == before


def test_only_what_cannot_be_undone_needs_yes_without_a_terminal(each: Cli) -> None:
    each.create("t")
    before = digest(each.root)
    ran = each.run("table", "drop", "t", "--purge")
    assert ran.code == 2
    assert "--yes" in ran.err
    by_property = each.run("--property", "drop_behavior=purge", "table", "drop", "t")
    assert by_property.code == 2, by_property
    assert digest(each.root) == before
    assert each.json("table", "drop", "t")["dropped"] is True
    assert each.plain("table", "list") == []
    each.ok("trash", "undrop", "t")
    gone = each.json("table", "drop", "t", "--purge", "--yes")
    assert (gone["dropped"], gone["purged"], gone["expires_at"]) == (True, True, None)
    assert each.json("trash", "status", "t")["state"] == "not-found"
    assert not (each.root / "t.lance").exists()


def test_drop_what_is_absent(each: Cli) -> None:
    assert each.run("table", "drop", "t", "--yes").code == 3
    assert each.run("table", "drop", "t", "--dry-run").code == 3
    assert each.json("table", "drop", "t", "--yes", "--if-exists")["dropped"] is False
    assert each.json("table", "drop", "t", "--dry-run", "--if-exists")["plan"] == []
    nothing = each.ok("table", "drop", "t", "--if-exists")
    assert "nothing to do" in nothing.err


def test_drop_of_a_deregistered_table(each: Cli) -> None:
    location = each.create("t")
    each.ok("table", "deregister", "t")
    before = digest(each.root)
    (step,) = each.json("table", "drop", "t", "--dry-run")["plan"]
    assert step["action"] == "drop deregistered table"
    assert location in step["detail"]
    assert digest(each.root) == before
    each.ok("table", "drop", "t")
    again = each.run("table", "drop", "t")
    assert again.code == 3
    assert "it is in the trash: " in again.err
    each.ok("trash", "undrop", "t")
    assert each.plain("table", "count", "t") == ["3"]


def test_a_terminal_is_asked_for_the_name(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.create("t")
    before = digest(cli.root)
    args = ["--root", str(cli.root), "-o", "plain", "table", "drop", "t", "--purge"]
    refused = at_terminal(*args, answer="yes")
    assert refused.code == 1, refused
    assert "Type t to go on:" in refused.err
    assert "deletes file://" in refused.err
    assert "nothing was changed" in refused.err
    assert refused.out == ""
    assert digest(cli.root) == before
    assert "\x1b[" in refused.err
    monkeypatch.setenv("NO_COLOR", "1")
    agreed = at_terminal(*args, answer="t")
    assert "\x1b[" not in agreed.err
    assert agreed.code == 0, agreed
    assert agreed.out == "t\n"
    assert cli.plain("table", "list") == []


def test_a_pipe_is_not_a_terminal(cli: Cli) -> None:
    cli.ok("namespace", "create", "a")
    ran = process("--root", str(cli.root), "namespace", "drop", "a", stdin="a\n")
    assert ran.code == 2, ran
    assert ran.out == ""
    assert cli.plain("namespace", "list") == ["a"]
