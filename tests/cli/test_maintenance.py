from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.cli.support import Cli, digest


@pytest.fixture
def old(root: Path) -> Cli:
    """A root with two tables made by V1, seen in compatibility mode."""
    v1 = Cli(root, "v1")
    v1.create("a")
    v1.create("b")
    return Cli(root, "compat")


@pytest.mark.parametrize("by", ["v2", "compat"])
def test_migrate_with_a_dry_run_first(old: Cli, by: str) -> None:
    before = digest(old.root)
    rows = old.json("migrate", "--dry-run")
    assert [(row["outcome"], row["name"]) for row in rows] == [
        ("would register", "a"),
        ("would register", "b"),
    ]
    assert digest(old.root) == before
    v2 = Cli(old.root, "v2")
    assert v2.plain("table", "list") == []
    told = (v2 if by == "v2" else old).ok("migrate")
    assert "registered 2" in told.err
    assert v2.plain("table", "list") == ["a", "b"]
    assert [row["outcome"] for row in old.json("migrate")] == ["already", "already"]


def _deregistered_by_native(root: Path, name: str) -> None:
    (root / f"{name}.lance" / ".lance-deregistered").write_bytes(b"reserved")


def test_migrate_in_v1(old: Cli) -> None:
    """R7: markers at the root, then the layout flag; a dry run says so and changes nothing."""
    v1 = Cli(old.root, "v1")
    _deregistered_by_native(old.root, "a")
    before = digest(old.root)
    dry = v1.run("-o", "json", "migrate", "--dry-run")
    assert dry.json == [{"outcome": "would hide", "name": "a", "why": ""}]
    assert "would have marked 1" in dry.err
    assert "would have written the layout flag" in dry.err
    assert digest(old.root) == before
    assert v1.json("migrate") == [{"outcome": "hidden", "name": "a", "why": ""}]
    assert (old.root / "a.deleted").exists()
    assert (old.root / ".lance-catalog-layout").exists()
    assert not (old.root / "__manifest").exists()
    again = v1.ok("migrate")
    assert "nothing to migrate" in again.err
    assert v1.plain("table", "list") == ["b"]


@pytest.mark.parametrize("healer", [("repair", "--yes"), ("migrate",)], ids=["repair", "migrate"])
def test_deregistered_by_another_in_a_flagged_root(old: Cli, healer: tuple[str, ...]) -> None:
    """R7: found by check, healed by either."""
    v1 = Cli(old.root, "v1")
    v1.ok("migrate")
    v1.ok("check", "--grace", "0")
    _deregistered_by_native(old.root, "a")
    found = v1.run("-o", "json", "check", "--grace", "0")
    assert found.code == 6
    assert [(row["kind"], row["subject"]) for row in found.json] == [("unlisted-marker", "a.lance")]
    v1.ok(*healer)
    assert (old.root / "a.deleted").exists()
    v1.ok("check", "--grace", "0")
    v1.ok("table", "register", "a", "a.lance")
    assert v1.plain("table", "list") == ["a", "b"]


def test_migrate_tells_what_it_skips(old: Cli) -> None:
    Cli(old.root, "v1").create("x$y")
    skipped = [row for row in old.json("migrate") if row["outcome"] == "skipped"]
    assert [row["name"] for row in skipped] == ["x$y"]
    assert "--mode v1" in skipped[0]["why"]
    told = Cli(old.root, "v2").run("-o", "json", "check").json
    assert [(row["kind"], row["subject"]) for row in told] == [("unmigrated-table", "x$y.lance")]
    assert "migrate skips it" in told[0]["fix"] and "copy the table" in told[0]["fix"]


def test_check_tells_of_tables_that_migrate_would_register(old: Cli) -> None:
    told = Cli(old.root, "v2").run("-o", "json", "check").json
    assert {row["fix"] for row in told} == {"`lance-catalog migrate` registers it"}


def test_check_finds_nothing_in_a_sound_catalog(each: Cli) -> None:
    each.create("t")
    before = digest(each.root)
    ran = each.ok("check", "--grace", "0")
    assert ran.out == ""
    assert "no problems" in ran.err
    assert each.json("check") == []
    assert digest(each.root) == before


def _damaged(cli: Cli) -> Cli:
    """A row whose data somebody deleted by hand."""
    location = cli.create("t")
    shutil.rmtree(location.removeprefix("file://"))
    return cli


def test_check_exits_with_6(nested: Cli) -> None:
    _damaged(nested)
    before = digest(nested.root)
    ran = nested.run("-o", "json", "check", "--grace", "0")
    assert ran.code == 6, ran
    assert {"kind", "subject", "detail", "fix"} <= set(ran.json[0])
    assert any("t" in row["subject"] for row in ran.json)
    assert "repair --dry-run" in ran.err
    assert nested.run("check").code == 6
    assert digest(nested.root) == before


def test_repair_in_v1(root: Path) -> None:
    v1 = Cli(root, "v1")
    v1.create("t")
    v1.ok("table", "deregister", "t")
    (root / "t.lance" / ".lance-deregistered").unlink()
    found = v1.run("check")
    assert found.code == 6
    assert "--mode v1 repair --dry-run" in found.err
    before = digest(root)
    assert len(v1.json("repair", "--dry-run")["plan"]) == 1
    assert digest(root) == before
    assert v1.json("repair", "--yes")[0]["outcome"] == "done"
    v1.ok("check")


def test_repair_plans_asks_and_applies(nested: Cli) -> None:
    _damaged(nested)
    before = digest(nested.root)
    plan = nested.json("repair", "--dry-run", "--grace", "0")["plan"]
    assert plan
    refused = nested.run("repair", "--grace", "0")
    assert refused.code == 2
    assert "--yes" in refused.err
    assert digest(nested.root) == before
    done = nested.json("repair", "--grace", "0", "--yes")
    assert {row["outcome"] for row in done} == {"done"}
    assert nested.run("check", "--grace", "0").code == 0
    again = nested.ok("repair", "--grace", "0")
    assert "nothing to repair" in again.err


def test_a_repair_that_fails_is_an_error(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    from lance_catalog.maintenance import repair

    _damaged(cli)

    def apply(ctx: object, actions: list[object], progress: object = None) -> object:
        return [(action, "the store said no") for action in actions]

    monkeypatch.setattr(repair, "apply", apply)
    ran = cli.run("-o", "json", "repair", "--yes", "--grace", "0")
    assert ran.code == 1
    assert {row["why"] for row in ran.json} == {"the store said no"}


def test_relocate_moves_one_table(cli: Cli) -> None:
    """R8: offline, behind a warning; a plan first."""
    cli.ok("table", "declare", "t")
    before = digest(cli.root)
    plan = cli.json("repair", "--relocate", "t", "--dry-run")["plan"]
    assert "t.lance ->" in plan[0]["detail"]
    refused = cli.run("repair", "--relocate", "t")
    assert refused.code == 2
    assert digest(cli.root) == before
    moved = cli.json("repair", "--relocate", "t", "--yes")
    assert moved["location"] == cli.json("table", "describe", "t")["location"]
    assert not moved["location"].endswith("t.lance")
    again = cli.run("repair", "--relocate", "t", "--yes")
    assert again.code == 2
    assert "V2 path already" in again.err
