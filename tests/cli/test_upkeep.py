from __future__ import annotations

from pathlib import Path

from tests.cli.support import Cli, at_terminal, digest

FIELDS = {
    "fragments_before",
    "fragments_after",
    "indices_refreshed",
    "versions_removed",
    "files_removed",
    "bytes_removed",
    "names_removed",
}


def _grown(cli: Cli, count: int = 6) -> Cli:
    for number in range(count):
        cli.ok("namespace", "create", f"n{number}")
    return cli


def _placeholders(root: Path) -> int:
    versions = (root / "__manifest/_versions").glob("*.manifest")
    return sum(path.stat().st_size == 0 for path in versions)


def test_upkeep_tells_what_it_did(nested: Cli) -> None:
    _grown(nested)
    before = digest(nested.root)
    plan = nested.json("upkeep", "--keep", "0", "--dry-run")
    assert plan["dry_run"] is True
    assert {step["action"] for step in plan["plan"]} == {"merge", "complete", "remove"}
    assert digest(nested.root) == before
    kept = nested.json("upkeep")
    assert set(kept) == FIELDS
    assert (kept["fragments_after"], kept["versions_removed"]) == (1, 0)
    done = nested.json("upkeep", "--keep", "0")
    assert done["versions_removed"] >= 6
    assert done["files_removed"] > 0
    assert done["bytes_removed"] > 0
    assert _placeholders(nested.root) == done["versions_removed"]
    assert "nothing to do" in nested.ok("upkeep", "--keep", "never", "--dry-run").err
    assert nested.plain("namespace", "list") == [f"n{number}" for number in range(6)]
    nested.ok("check", "--grace", "0")


def test_pruning_names_warns_and_asks(nested: Cli) -> None:
    _grown(nested)
    nested.ok("upkeep", "--keep", "0")
    before = digest(nested.root)
    refused = nested.run("upkeep", "--keep", "0", "--prune-names")
    assert refused.code == 2
    assert "--yes" in refused.err
    plan = nested.json("upkeep", "--keep", "0", "--prune-names", "--dry-run")["plan"]
    assert "native writers" in plan[-1]["detail"]
    assert digest(nested.root) == before
    asked = at_terminal(
        "--root", str(nested.root), "--mode", nested.mode, "upkeep", "--prune-names", answer="n"
    )
    assert asked.code == 1
    assert "Stop native writers" in asked.err
    assert digest(nested.root) == before
    done = nested.json("upkeep", "--keep", "0", "--prune-names", "--yes")
    assert done["names_removed"] >= 6
    assert _placeholders(nested.root) == 0
    nested.ok("check", "--grace", "0")


def test_mistakes_are_told(root: Path, cli: Cli) -> None:
    assert Cli(root, "v1").run("upkeep").code == 1
    assert cli.run("upkeep", "--keep", "soon").code == 2
    assert "no manifest yet" in cli.ok("upkeep").err
    assert not root.exists() or not list(root.iterdir())
