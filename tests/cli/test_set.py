"""Setting properties, and what a protected table or namespace refuses."""

from __future__ import annotations

import pytest
from tests.cli.support import Cli, digest, run
from tests.cli.trashing import PROTECTED, commands, in_trash


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
