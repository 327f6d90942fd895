"""Failures say what to do next, in words that can be typed here."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.support import Cli, run

from lance_catalog.cli.wording import in_cli_words


@pytest.mark.parametrize(
    ("args", "name"),
    [
        (["namespace", "list", "--mode", "v2"], "--mode"),
        (["table", "list", "--property", "commit_timeout=5"], "--property"),
        (["namespace", "--root", "x", "list"], "--root"),
    ],
)
def test_a_global_option_in_the_wrong_place(cli: Cli, args: list[str], name: str) -> None:
    ran = cli.run(*args)
    assert ran.code == 2
    assert f"hint: {name} is a global option: put it before the noun" in ran.err
    assert "Possible options" not in ran.err


def test_a_mode_of_the_catalog_where_a_verb_has_its_own(cli: Cli) -> None:
    for args in (["namespace", "create", "a"], ["table", "register", "t", "t.lance"]):
        ran = cli.run(*args, "--mode", "v2")
        assert ran.code == 2
        assert "before the noun" in ran.err


def test_a_table_where_a_namespace_belongs(each: Cli) -> None:
    each.ok("table", "declare", "t")
    for verb in (["namespace", "describe"], ["namespace", "list"], ["table", "list"]):
        ran = each.run(*verb, "t")
        assert ran.code != 0
        assert "error: 't' is a table, not a namespace" in ran.err
        assert "table describe t`" in ran.err


def test_a_table_that_only_its_directory_tells_of(root: Path) -> None:
    Cli(root, "v1").create("t")
    ran = Cli(root, "compat").run("namespace", "describe", "t")
    assert "'t' is a table, not a namespace" in ran.err


def test_a_namespace_where_a_table_belongs(nested: Cli) -> None:
    nested.ok("namespace", "create", "a")
    ran = nested.run("table", "describe", "a")
    assert ran.code == 3
    assert "'a' is a namespace" in ran.err
    assert "table list a`" in ran.err


def test_v1_lacks_it_and_another_mode_has_it(root: Path) -> None:
    v1 = Cli(root, "v1")
    v1.create("t")
    for args in (["namespace", "create", "a"], ["table", "rename", "t", "u"], ["upkeep"]):
        ran = v1.run(*args)
        assert ran.code == 1
        assert "hint: repeat it with `--mode compat` before the noun" in ran.err
        assert "create_namespace" not in ran.err and "Set manifest_enabled" not in ran.err


def test_missing_parents(nested: Cli) -> None:
    ran = nested.run("namespace", "create", "x.y.z")
    assert ran.code == 3
    assert "namespace create x.y.z --parents` makes the missing ones too" in ran.err
    # A root is shown in hints so that they can be pasted.
    assert str(nested.root) in ran.err


def test_create_tells_what_it_did(nested: Cli) -> None:
    assert "created namespace a" in nested.ok("namespace", "create", "a").err
    there = nested.ok("namespace", "create", "a", "--mode", "exist_ok")
    assert "exists already" in there.err and "created" not in there.err
    replaced = nested.ok("namespace", "create", "a", "--mode", "overwrite")
    assert "exists already; replaced its properties" in replaced.err
    assert nested.json("namespace", "create", "b", "--mode", "ExistOk")["created"] is True
    assert nested.json("namespace", "create", "b", "--mode", "exist_ok")["created"] is False
    refused = nested.run("namespace", "create", "b")
    assert refused.code == 4
    assert "--mode exist_ok takes it as it is" in refused.err


@pytest.mark.parametrize("mode", ["create", "exist_ok", "overwrite"])
def test_an_empty_id_is_not_the_root(cli: Cli, mode: str) -> None:
    ran = cli.run("namespace", "create", "", "--mode", mode, "--property", "k=v")
    assert ran.code == 2
    assert "typed as '.'" in ran.err
    assert cli.json("namespace", "describe")["properties"] == {}


def test_an_empty_list_says_where_else_to_look(nested: Cli) -> None:
    nested.ok("namespace", "create", "a")
    nested.ok("table", "declare", "a.t")
    note = "no tables here; --recursive looks below"
    assert note in nested.ok("table", "list").err
    assert nested.ok("table", "list", "-q").err == ""
    assert nested.ok("table", "list", "-o", "json").err == ""
    assert note not in nested.ok("table", "list", "a").err


def test_what_is_missing_of_a_table(each: Cli) -> None:
    each.create("t")
    ran = each.run("table", "describe", "t", "--version", "99")
    assert ran.code == 3
    assert "no version 99; the latest is 1" in ran.err
    assert "list_table_versions" not in ran.err
    assert "table describe t` shows the latest version" in ran.err


def test_no_names_of_calls(each: Cli) -> None:
    each.ok("table", "declare", "t")
    (each.root / "empty").mkdir()
    for args in (
        ["table", "count", "t"],
        ["table", "declare", "t"],
        ["table", "register", "u", "empty"],
        ["table", "register", "u", "u.lance"],
        ["namespace", "create", "."],
        ["table", "describe", "a.b.c"],
    ):
        ran = each.run(*args)
        assert ran.code != 0
        assert "_table" not in ran.err and "_namespace" not in ran.err, ran
        assert " mode exist_ok" not in ran.err and " mode overwrite" not in ran.err, ran


@pytest.mark.parametrize(
    ("library", "here"),
    [
        ("drop_namespace: V1 lacks it. Set manifest_enabled=true.", "V1 lacks it"),
        (
            "a; drop them, or drop it with behavior cascade.",
            "a; drop them, or drop it with --cascade.",
        ),
        ("use register_table for it", "use `table register` for it"),
        ("table 'drop_table' is there", "table 'drop_table' is there"),
        ("'a.drop_table' and 'my_drop_table'", "'a.drop_table' and 'my_drop_table'"),
        ("two\nlines", "two lines"),
        ("x is live: `lance-catalog table drop x` first", "x is live"),
        ("x runs; force purges it now (`lance-catalog trash purge x`), and then", "x runs"),
        ("it is protected (p). force it (--force).", "it is protected (p)"),
        (
            "it is protected (p). `lance-catalog table set x --unset p` ends that, or force it.",
            "it is protected (p)",
        ),
    ],
)
def test_words(library: str, here: str) -> None:
    assert in_cli_words(library) == here


def test_a_home_and_a_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "c").mkdir()
    assert "does not exist" not in run("--root", "~/c", "table", "list").err
    assert f"{tmp_path}/d does not exist" in run("--root", "~/d", "table", "list").err
    assert "does not exist" not in run("--root", f"file://localhost{tmp_path}/c", "check").err
    assert run("--root", "file://c/d", "table", "list").code == 2
    assert "does not exist" not in run("--root", "memory://cli", "table", "list").err
