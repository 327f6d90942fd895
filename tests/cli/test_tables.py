from __future__ import annotations

import os
from datetime import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from tests.cli.support import Cli, stream

from lance_catalog import connect


def test_declare_list_describe(each: Cli) -> None:
    location = each.json("table", "declare", "t")["location"]
    assert location.startswith("file://")
    assert each.plain("table", "list") == ["t"]
    told = each.json("table", "describe", "t")
    assert (told["declared"], told["version"], told["schema"]) == (True, None, [])
    assert told["location"] == location
    assert each.run("table", "declare", "t").code == 4
    count = each.run("table", "count", "t")
    assert count.code == 1
    assert "no data yet" in count.err


def test_declare_with_properties_and_a_location(nested: Cli) -> None:
    made = nested.json("table", "declare", "t", "--property", "k=v", "--location", "here/t")
    assert made["location"].endswith("/here/t")
    assert nested.json("table", "describe", "t")["properties"] == {"k": "v"}
    assert nested.run("table", "declare", "u", "--location", "../out").code == 2


def test_describe_tells_location_version_schema_properties(each: Cli) -> None:
    location = each.create("t", owner="me")
    told = each.json("table", "describe", "t")
    assert told["id"] == ["t"]
    assert told["location"] == location
    assert told["declared"] is False
    # Properties are written as a version of their own.
    assert told["version"] == 2
    assert told["properties"] == {"owner": "me"}
    assert told["schema"][2] == {
        "name": "vector",
        "type": "fixed_size_list<float32>[16]",
        "nullable": True,
    }
    text = each.ok("table", "describe", "t").out
    assert "vector fixed_size_list<float32>[16] nullable" in text
    assert "owner: me" in text
    assert each.json("table", "describe", "t", "--version", "1")["version"] == 1
    assert each.run("table", "describe", "t", "--version", "7").code == 3


def test_list_recursively_and_in_pages(nested: Cli) -> None:
    nested.ok("namespace", "create", "a.b", "--parents")
    for name in ("t1", "t2", "a.t3", "a.b.t4"):
        nested.ok("table", "declare", name)
    assert nested.plain("table", "list") == ["t1", "t2"]
    assert nested.plain("table", "list", "a.b") == ["a.b.t4"]
    everything = nested.plain("table", "list", "-r")
    assert sorted(everything) == ["a.b.t4", "a.t3", "t1", "t2"]
    assert nested.plain("table", "list", "a", "-r") == ["a.b.t4", "a.t3"]
    paged = nested.plain("table", "list", "-r", "--limit", "2")
    paged += nested.plain("table", "list", "-r", "--after", paged[-1])
    assert paged == everything
    assert nested.run("table", "list", "nowhere").code == 3


def test_list_of_v1_names_with_the_stored_delimiter(root: object) -> None:
    v1 = Cli(root, "v1")  # type: ignore[arg-type]
    v1.ok("table", "declare", "a$b")
    assert v1.json("table", "list", "-r")[0]["id"] == ["a$b"]


def test_deregister_and_register(each: Cli) -> None:
    each.create("t")
    gone = each.ok("table", "deregister", "t")
    assert "table register t file://" in gone.err
    assert gone.out == ""
    assert each.plain("table", "list") == []
    assert each.run("table", "deregister", "t").code == 3
    place = "t.lance" if each.mode != "v2" else _folder(each)
    each.ok("table", "register", "t", place)
    assert each.plain("table", "count", "t") == ["3"]
    assert each.run("table", "register", "u", "../elsewhere").code == 2
    assert each.run("table", "register", "u", "__manifest").code == 2


def _folder(cli: Cli) -> str:
    return next(name for name in os.listdir(cli.root) if name.endswith("_t"))


def test_rename_within_and_across_namespaces(nested: Cli) -> None:
    nested.ok("namespace", "create", "a")
    nested.create("t")
    nested.ok("table", "rename", "t", "u")
    assert nested.json("table", "rename", "u", "a.v")["id"] == ["a", "v"]
    assert nested.plain("table", "list", "-r") == ["a.v"]
    nested.ok("table", "rename", "a.v", "back")
    assert nested.plain("table", "list", "-r") == ["back"]
    assert nested.plain("table", "count", "back") == ["3"]
    assert nested.run("table", "rename", "nope", "x").code == 3
    missing = nested.run("table", "rename", "back", "nowhere.x")
    assert missing.code == 3
    assert "namespace create nowhere --parents" in missing.err
    nested.ok("table", "declare", "taken")
    assert nested.run("table", "rename", "back", "taken").code == 4


def test_rename_in_v1_says_what_to_do(root: object) -> None:
    v1 = Cli(root, "v1")  # type: ignore[arg-type]
    v1.create("t")
    ran = v1.run("table", "rename", "t", "u")
    assert ran.code == 1
    assert "--mode compat" in ran.err


def test_count_and_head(each: Cli) -> None:
    each.create("t", rows=12)
    assert each.json("table", "count", "t") == {"count": 12}
    assert each.plain("table", "count", "t", "--filter", "id >= 10") == ["2"]
    rows = each.json("table", "head", "t")
    assert len(rows) == 10
    assert rows[1] == {"id": 1, "text": "row 1", "vector": [1.0] * 16}
    shown = each.ok("table", "head", "t", "-n", "2").out
    assert "[1, 1, 1, 1, … 16 values]" in shown
    assert len(shown.splitlines()) == 3
    assert shown.split()[:3] == ["id", "text", "vector"]
    assert each.plain("table", "head", "t", "-n", "1", "-c", "text", "-c", "id") == ["row 0\t0"]
    assert each.json("table", "head", "t", "--filter", "id = 5")[0]["id"] == 5
    for wrong in (
        ["count", "t", "--filter", "nope = 1"],
        ["count", "t", "--filter", "(("],
        ["head", "t", "-n", "0"],
        ["head", "t", "-c", "nope"],
        ["count", "."],
    ):
        ran = each.run("table", *wrong)
        assert ran.code == 2, ran
        assert ran.err.startswith("error: ")


def test_head_writes_every_type_as_json(cli: Cli) -> None:
    table = pa.table(
        {
            "nan": pa.array([float("nan")]),
            "infinite": pa.array([float("-inf")]),
            "bytes": pa.array([b"\x00\xff"]),
            "time": pa.array([datetime(2024, 1, 2, 3, 4, 5)], pa.timestamp("us")),
            "fine": pa.array([1], pa.timestamp("ns")),
            "far": pa.array([2**62], pa.timestamp("s")),
            "decimal": pa.array([Decimal("1.20")], pa.decimal128(5, 2)),
            "struct": pa.array([{"a": [1, None]}]),
            "none": pa.array([None], pa.int32()),
            "text": pa.array(["tab\t[red]\x1b[31m"]),
        }
    )
    catalog = connect(str(cli.root))
    catalog.create_table({"id": ["t"]}, stream(table))
    (row,) = cli.json("table", "head", "t")
    assert row["nan"] == "nan"
    assert row["infinite"] == "-inf"
    assert row["bytes"] == "AP8="
    assert row["time"] == "2024-01-02T03:04:05"
    assert row["decimal"] == "1.20"
    assert row["struct"] == {"a": [1, None]}
    assert row["none"] is None
    assert row["text"] == "tab\t[red]\x1b[31m"
    for shape in ("table", "plain"):
        out = cli.ok("-o", shape, "table", "head", "t").out
        assert "\x1b" not in out
        assert "tab\\t[red]\\x1b[31m" in out
    schema = {c["name"]: c["type"] for c in cli.json("table", "describe", "t")["schema"]}
    assert schema["decimal"] == "decimal128(5, 2)"
    assert schema["struct"] == "struct<a: list<int64>>"


@pytest.mark.parametrize(
    ("name", "delimiter"),
    [
        ('it\'s "quoted"', "."),
        ("with space", "."),
        ("emoji 🦀 名", "."),
        ("100%#?&", "."),
        ("') OR 1=1 --", "."),
        ("[bold]markup", "."),
        ("dots.in.name", "/"),
        ("dots.and::colons", "//"),
        ("é", "."),
        ("e\u0301", "."),
        ("-leading-dash", "."),
    ],
)
def test_odd_names_round_trip(nested: Cli, name: str, delimiter: str) -> None:
    typed = delimiter.join(["ns", name])
    nested.ok("namespace", "create", "ns")
    nested.ok("table", "declare", "ns" + delimiter + "decoy", "--delimiter", delimiter)
    nested.ok("--delimiter", delimiter, "table", "declare", "--", typed)
    nested.ok("--delimiter", delimiter, "namespace", "create", "--", name)
    rows = nested.json("--delimiter", delimiter, "table", "list", "ns")
    assert [row["id"] for row in rows] == sorted([["ns", "decoy"], ["ns", name]])
    assert typed in nested.plain("--delimiter", delimiter, "table", "list", "-r")
    assert nested.json("table", "describe", typed, "--delimiter", delimiter)["id"] == ["ns", name]
    assert ["ns"] in [row["id"] for row in nested.json("namespace", "list")]
    assert [name] in [row["id"] for row in nested.json("namespace", "list")]
    assert name in nested.ok("--delimiter", delimiter, "table", "list", "ns").out
    nested.ok("table", "drop", typed, "--delimiter", delimiter, "--yes")
    assert nested.plain("table", "list", "ns") == ["ns.decoy"]


def test_a_name_that_holds_the_delimiter_is_pointed_out(cli: Cli) -> None:
    cli.ok("--delimiter", "/", "table", "declare", "a.b")
    ran = cli.ok("-o", "plain", "table", "list")
    assert ran.out == "a.b\n"
    assert "another --delimiter" in ran.err
    wrong = cli.run("table", "describe", "a.b")
    assert wrong.code == 3
    hint = cli.run("--delimiter", "/", "table", "declare", "a.b").err
    assert "--delimiter / table describe a.b" in hint
