from __future__ import annotations

import pytest
from tests.cli.support import Cli, digest


def test_create_makes_parents_when_asked(nested: Cli) -> None:
    assert nested.run("namespace", "create", "prod.analytics").code == 3
    made = nested.json("namespace", "create", "prod.analytics", "-p", "--property", "owner=a=b")
    assert made["id"] == ["prod", "analytics"]
    assert nested.json("namespace", "describe", "prod.analytics")["properties"] == {"owner": "a=b"}
    assert nested.json("namespace", "describe", "prod") == {
        "id": ["prod"],
        "text": "prod",
        "properties": {},
        "namespaces": 1,
        "tables": 0,
    }


def test_create_honours_the_mode(nested: Cli) -> None:
    nested.ok("namespace", "create", "a", "--property", "k=1")
    assert nested.run("namespace", "create", "a").code == 4
    nested.ok("namespace", "create", "a", "--mode", "exist_ok", "--property", "k=2")
    assert nested.json("namespace", "describe", "a")["properties"] == {"k": "1"}
    nested.ok("namespace", "create", "a", "--mode", "overwrite", "--property", "k=2")
    assert nested.json("namespace", "describe", "a")["properties"] == {"k": "2"}
    assert nested.run("namespace", "create", "a", "--mode", "perhaps").code == 2


def test_the_root_has_properties(nested: Cli) -> None:
    nested.ok("namespace", "create", ".", "--mode", "overwrite", "--property", "team=x")
    assert nested.json("namespace", "describe", ".")["properties"] == {"team": "x"}
    assert nested.json("namespace", "describe")["id"] == []


def test_list_one_level_all_levels_and_pages(nested: Cli) -> None:
    for name in ("a.x.deep", "a.y", "b", "c"):
        nested.ok("namespace", "create", name, "--parents")
    assert nested.plain("namespace", "list") == ["a", "b", "c"]
    assert nested.plain("namespace", "list", "a") == ["a.x", "a.y"]
    assert nested.plain("namespace", "list", "-r") == ["a", "a.x", "a.x.deep", "a.y", "b", "c"]
    page = nested.ok("-o", "plain", "namespace", "list", "--limit", "2")
    assert page.out.splitlines() == ["a", "b"]
    assert "--after b goes on" in page.err
    assert nested.plain("namespace", "list", "--after", "b") == ["c"]
    assert nested.plain("namespace", "list", "-r", "--limit", "2", "--after", "a.x") == [
        "a.x.deep",
        "a.y",
    ]
    nested.ok("namespace", "create", "a-b")
    first = nested.plain("namespace", "list", "-r", "--limit", "3")
    rest = nested.plain("namespace", "list", "-r", "--after", first[-1])
    assert first + rest == ["a", "a.x", "a.x.deep", "a.y", "a-b", "b", "c"]
    assert nested.run("namespace", "list", "--limit", "1", "--all").code == 2
    assert nested.run("namespace", "list", "--limit", "0").code == 2
    assert nested.run("namespace", "list", "nowhere").code == 3


def test_drop_refuses_what_is_not_empty_and_cascades(nested: Cli) -> None:
    nested.ok("namespace", "create", "a.b", "--parents")
    nested.create("a", "b", "t")
    refused = nested.run("namespace", "drop", "a", "--yes")
    assert refused.code == 4
    assert "namespace drop a --cascade --dry-run" in refused.err
    before = digest(nested.root)
    plan = nested.json("namespace", "drop", "a", "--cascade", "--dry-run")
    assert [(step["action"], step["subject"]) for step in plan["plan"]] == [
        ("drop table", "a.b.t"),
        ("drop namespace", "a.b"),
        ("drop namespace", "a"),
    ]
    assert nested.run("namespace", "drop", "a", "--dry-run").code == 4
    assert nested.run("namespace", "drop", "a", "--cascade").code == 2
    assert digest(nested.root) == before
    assert ["to the trash" in step["detail"] for step in plan["plan"]] == [True, False, False]
    assert [step["destructive"] for step in plan["plan"]] == [False, True, True]
    done = nested.json("namespace", "drop", "a", "--cascade", "--yes")
    assert [table["text"] for table in done["tables"]] == ["a.b.t"]
    assert nested.plain("namespace", "list", "-r") == []
    assert nested.plain("table", "list", "-r") == []


def test_drop_what_is_absent(nested: Cli) -> None:
    assert nested.run("namespace", "drop", "a", "--yes").code == 3
    assert nested.json("namespace", "drop", "a", "--if-exists", "--yes")["dropped"] is False
    assert nested.json("namespace", "drop", "a", "--if-exists", "--dry-run")["plan"] == []
    assert nested.run("namespace", "drop", ".", "--yes").code == 2


def test_v1_has_the_root_only(root: object, tmp_path: object) -> None:
    v1 = Cli(tmp_path / "v1", "v1")  # type: ignore[operator]
    v1.create("t")
    assert v1.plain("namespace", "list") == []
    assert v1.json("namespace", "describe")["tables"] == 1
    for refused in (["create", "a"], ["list", "a"], ["describe", "a"], ["drop", "a", "--yes"]):
        ran = v1.run("namespace", *refused)
        assert ran.code == 1, ran
        assert "--mode compat" in ran.err


@pytest.mark.parametrize("name", ["a..b", "a.$x", "a/b", "__trash"])
def test_bad_names_are_usage(cli: Cli, name: str) -> None:
    cli.ok("namespace", "create", "a")
    ran = cli.run("namespace", "create", name)
    assert ran.code == 2, ran
    assert ran.out == ""
