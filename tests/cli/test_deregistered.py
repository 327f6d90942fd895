"""``table list --deregistered``: whatever register can bring back is listed, in every mode."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from tests.cli.support import Cli


def listed(cli: Cli, *args: str) -> list[str]:
    return [row["text"] for row in cli.json("table", "list", "--deregistered", *args)]


def test_what_was_deregistered_is_listed_until_it_is_back_or_gone(each: Cli) -> None:
    location = each.create("t")
    each.create("stays")
    assert listed(each) == []
    each.ok("table", "deregister", "t")
    (row,) = each.json("table", "list", "--deregistered")
    assert (row["id"], row["text"], row["location"]) == (["t"], "t", location)
    age = datetime.now(UTC) - datetime.fromisoformat(row["deregistered_at"])
    assert 0 <= age.total_seconds() < 600
    (line,) = each.plain("table", "list", "--deregistered")
    assert line.split("\t") == ["t", location, row["deregistered_at"]]
    shown = each.ok("table", "list", "--deregistered")
    assert "deregistered" in shown.out and "table register ID LOCATION" in shown.err
    each.ok("table", "register", "t", row["location"])
    assert listed(each) == []
    each.ok("table", "deregister", "t")
    each.ok("table", "drop", "t", "--yes")
    assert listed(each) == []
    assert "no deregistered tables" in each.ok("table", "list", "--deregistered").err


def test_ids_below_a_namespace_even_when_it_is_gone(nested: Cli) -> None:
    nested.ok("namespace", "create", "a.b", "--parents")
    for name in ("t", "a.u", "a.b.v"):
        nested.ok("table", "declare", name)
        nested.ok("table", "deregister", name)
    assert listed(nested) == ["a.b.v", "a.u", "t"]
    assert listed(nested, "a.b") == ["a.b.v"]
    nested.ok("namespace", "drop", "a", "--cascade", "--yes")
    assert listed(nested, "a") == ["a.b.v", "a.u"]
    assert listed(nested, "--delimiter", "/") == ["a/b/v", "a/u", "t"]


def test_a_name_that_was_free_again_comes_twice(nested: Cli) -> None:
    for _ in range(2):
        nested.ok("table", "declare", "t")
        nested.ok("table", "deregister", "t")
    rows = nested.json("table", "list", "--deregistered")
    assert [row["text"] for row in rows] == ["t", "t"]
    assert len({row["location"] for row in rows}) == 2


@pytest.mark.parametrize("mode", ["v1", "compat"])
def test_what_another_implementation_hid(root: Path, mode: str) -> None:
    Cli(root, "v1").create("t")
    (root / "t.lance" / ".lance-deregistered").write_bytes(b"reserved")
    assert listed(Cli(root, mode)) == ["t"]
    assert listed(Cli(root, "v2")) == []
    # A marker with no data behind it, and one that nobody can read, bring nothing back.
    (root / "gone.deleted").write_bytes(b"x")
    assert listed(Cli(root, mode)) == ["t"]


def test_a_row_and_its_markers_are_one_table(cli: Cli) -> None:
    cli.create("t")
    cli.ok("table", "deregister", "t")
    assert (cli.root / "t.deleted").exists()
    for mode in ("v1", "v2", "compat"):
        assert listed(Cli(cli.root, mode)) == ["t"]


def test_a_marker_that_does_not_tell_when(root: Path) -> None:
    v1 = Cli(root, "v1")
    v1.create("t")
    (root / "t.deleted").write_bytes(b'{"deleted_at_ms": 1e300, "state": "deregistered"}')
    (row,) = v1.json("table", "list", "--deregistered")
    assert row["deregistered_at"] is None
    assert v1.plain("table", "list", "--deregistered")[0].endswith("\t")
    # Without a state it is a drop; one that nobody can read is neither.
    (root / "t.deleted").write_bytes(b'{"deleted_at_ms": 1e300}')
    assert listed(v1) == []
    (row,) = v1.json("trash", "list")
    assert (row["dropped_at"], row["expires_at"], row["state"]) == (None, None, "restorable")
    (root / "t.deleted").write_bytes(b"")
    assert listed(v1) == [] and v1.json("trash", "list") == []


def test_repair_tells_the_id_of_an_orphan_and_the_list_has_it(nested: Cli) -> None:
    nested.ok("namespace", "create", "prod")
    lance.write_dataset(pa.table({"n": [1]}), nested.root / "0123456789abcdef_prod$docs")
    found = nested.run("-o", "json", "check", "--grace", "0").json
    assert "table list --deregistered" in found[0]["fix"]
    (step,) = nested.json("repair", "--dry-run", "--grace", "0")["plan"]
    assert step["detail"].endswith("under the id prod.docs")
    done = nested.ok("repair", "--yes", "--grace", "0")
    assert "under the id prod.docs" in done.out
    assert "table list --deregistered" in done.err
    (row,) = nested.json("table", "list", "--deregistered")
    assert row["id"] == ["prod", "docs"]
    nested.ok("table", "register", row["text"], row["location"])
    assert nested.plain("table", "count", "prod.docs") == ["1"]


def test_it_lists_everything_or_refuses(cli: Cli) -> None:
    for option in (["--limit", "1"], ["--after", "a"]):
        ran = cli.run("table", "list", "--deregistered", *option)
        assert ran.code == 2
        assert "--deregistered lists everything" in ran.err
