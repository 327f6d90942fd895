from __future__ import annotations

import json
from typing import Any

import pytest
from tests.cli.support import Cli, run

from lance_catalog.cli.output import Format, Output, visible
from lance_catalog.cli.results import Details, Done, Listing, Plan, Result, Step, Value

RESULTS: list[Result] = [
    Listing(rows=[{"a": "x", "b": 1}], columns=("a", "b"), plain=("b", "a")),
    Details(fields={"id": ["p"], "text": "p", "n": None, "d": {"k": "v"}, "l": [{"name": "c"}]}),
    Value(name="count", value=3),
    Done(message="made it", fields={"id": "p"}),
    Plan(title="Dropping", steps=[Step("drop", "p", "all of it")]),
]


@pytest.mark.parametrize("result", RESULTS, ids=lambda r: type(r).__name__)
@pytest.mark.parametrize("format", list(Format))
def test_every_result_in_every_format(
    result: Result, format: Format, capsys: pytest.CaptureFixture[str]
) -> None:
    Output(format).result(result)
    out, err = capsys.readouterr()
    if format is Format.JSON:
        json.loads(out)
    if isinstance(result, Done):
        assert (out == "") is (format is Format.TABLE)
        assert err == ("made it\n" if format is Format.TABLE else "")
    else:
        assert out.endswith("\n")
        assert err == ""


def test_plain_is_tab_separated(capsys: pytest.CaptureFixture[str]) -> None:
    for result in RESULTS:
        Output(Format.PLAIN).result(result)
    assert capsys.readouterr().out.splitlines() == [
        "1\tx",
        "id\tp",
        "n\t",
        "d.k\tv",
        "l.c",
        "3",
        "p",
        "drop\tp\tall of it",
    ]


def test_notes_and_messages_go_to_stderr_and_quiet_drops_them(cli: Cli) -> None:
    made = cli.ok("namespace", "create", "a")
    assert made.out == ""
    assert "namespace a" in made.err
    assert cli.ok("--quiet", "namespace", "create", "b").err == ""
    assert cli.ok("namespace", "create", "c", "-q").err == ""
    failed = cli.run("-q", "namespace", "create", "c")
    assert failed.err.startswith("error: ")
    assert cli.ok("table", "list", "-q").out == ""
    assert cli.json("table", "list") == []


def test_a_missing_root_is_pointed_out(cli: Cli) -> None:
    ran = cli.ok("-o", "plain", "table", "list")
    assert ran.out == ""
    assert "does not exist yet" in ran.err
    assert not cli.root.exists()


def test_control_characters_are_spelled_out() -> None:
    assert visible("a\x1b[2Jb\n\u202ec\udcff") == "a\\x1b[2Jb\\n\\u202ec\\udcff"
    assert visible("é 🏳️\u200d🌈") == "é 🏳️\u200d🌈"


def test_streams_that_cannot_hold_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    import io
    import sys

    result = Listing(rows=[{"a": "🦀\udcff"}], columns=("a",), plain=("a",))
    seen: dict[Format, str] = {}
    for shape in Format:
        raw = io.BytesIO()
        stream = io.TextIOWrapper(raw, encoding="latin-1")
        monkeypatch.setattr(sys, "stdout", stream)
        Output(shape).result(result)
        stream.flush()
        seen[shape] = raw.getvalue().decode("latin-1")
    assert json.loads(seen[Format.JSON]) == [{"a": "🦀\udcff"}]
    assert "\\U0001f980" in seen[Format.PLAIN]
    assert "\\U0001f980" in seen[Format.TABLE]


def test_nothing_is_cut_in_a_pipe(cli: Cli) -> None:
    long = "n" * 190
    cli.ok("namespace", "create", long)
    assert long in cli.ok("namespace", "list").out.splitlines()


def test_global_options_work_on_both_sides(cli: Cli) -> None:
    cli.ok("namespace", "create", "a")
    before: Any = run("--root", str(cli.root), "-o", "json", "namespace", "list").json
    after: Any = run("namespace", "list", "-o", "json", "--root", str(cli.root)).json
    assert before == after != []


def test_version_and_help() -> None:
    assert run("--version").out.startswith("lance-catalog 0.")
    assert run("--help").code == 0
    assert run("table").code == 2
    assert run().code == 2
