"""``log``, ``diff``, ``table history``: what changed, when, by whom."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.cli.support import Cli, process

CHANGE = {"version", "at", "who", "action", "kind", "id", "text", "from", "detail"}


def told(cli: Cli, *args: str) -> list[tuple[str, str, str]]:
    rows = cli.json("log", *args)
    return [(row["action"], row["text"], row["detail"]) for row in rows]


def point(cli: Cli) -> str:
    """The newest version of the catalog that the log knows."""
    return str(cli.json("log")[-1]["version"])


@pytest.fixture
def managed(nested: Cli) -> Cli:
    nested.ok("versions", "enable", "--yes")
    nested.ok("namespace", "create", "prod")
    return nested


class TestLog:
    def test_who_when_and_what(self, nested: Cli) -> None:
        shell = ("--root", str(nested.root), "--mode", nested.mode)
        made = process(
            *shell, "namespace", "create", "prod", env={"LANCE_CATALOG_ACTOR": "etl@night"}
        )
        assert made.code == 0, made
        nested.ok("table", "declare", "prod.t")
        nested.ok("table", "set", "prod.t", "owner=me")
        nested.ok("namespace", "set", ".", "region=eu")
        rows = nested.json("log")
        assert all(set(row) == CHANGE for row in rows)
        assert rows[0]["who"] == "etl@night" and "@" in rows[1]["who"]
        assert rows[0]["who"] != rows[1]["who"]
        for row in rows:
            age = datetime.now(UTC) - datetime.fromisoformat(row["at"])
            assert 0 <= age.total_seconds() < 600
        assert [(r["action"], r["kind"], r["text"], r["detail"]) for r in rows] == [
            ("created", "namespace", "prod", ""),
            ("created", "table", "prod.t", ""),
            ("changed", "table", "prod.t", "owner=me"),
            ("changed", "namespace", ".", "region=eu"),
        ]
        shown = nested.ok("log")
        assert "etl@night" in shown.out and "prod.t" in shown.out
        assert len(nested.plain("log")[0].split("\t")) == 7

    def test_the_life_of_a_table(self, managed: Cli) -> None:
        managed.append("prod", "t", times=2)
        managed.ok("table", "rename", "prod.t", "prod.u")
        managed.append("prod", "u", times=2)
        managed.ok("versions", "delete", "prod.u", "1-2", "--yes")
        drop = managed.json("table", "drop", "prod.u")["drop_id"]
        managed.ok("trash", "undrop", "prod.u", "--as", "w")
        managed.ok("table", "deregister", "w")
        assert told(managed)[2:-1] == [
            ("created", "prod.t", ""),
            ("committed", "prod.t", "version 1"),
            ("committed", "prod.t", "version 2"),
            ("renamed", "prod.u", "was prod.t"),
            ("committed", "prod.u", "version 3"),
            ("committed", "prod.u", "version 4"),
            ("deleted", "prod.u", "versions 1-2"),
            ("dropped", "prod.u", drop),
            ("undropped", "w", f"was prod.u, {drop}"),
        ]
        assert told(managed)[-1][:2] == ("deregistered", "w")
        of_it = told(managed, "--table", "prod.u")
        assert [action for action, _, _ in of_it] == [
            "renamed",
            "committed",
            "committed",
            "deleted",
            "dropped",
            "undropped",
        ]
        assert managed.json("log", "--table", "prod.u")[0]["from"] == ["prod", "t"]

    def test_every_commit_once_however_rows_move(self, managed: Cli) -> None:
        """Commits merge fragments: rows that only moved are no news, and none is left out."""
        managed.append("t", times=40)
        commits = [detail for action, _, detail in told(managed) if action == "committed"]
        assert commits == [f"version {number}" for number in range(1, 41)]

    def test_the_switch_is_a_change_and_what_it_imports_is_none(self, nested: Cli) -> None:
        nested.append("t", times=2)
        before = point(nested)
        nested.ok("versions", "enable", "--yes")
        (row,) = nested.json("diff", before, point(nested))
        assert (row["action"], row["kind"], row["text"]) == ("enabled", "catalog", ".")
        nested.append("t")
        nested.ok("versions", "disable", "--yes")
        assert [(action, detail) for action, _, detail in told(nested)] == [
            ("created", ""),
            ("enabled", "managed versions"),
            ("committed", "version 3"),
            ("disabled", "managed versions"),
        ]

    def test_between_two_points(self, nested: Cli) -> None:
        for name in ("a", "b", "c"):
            nested.ok("namespace", "create", name)
        rows = nested.json("log")
        by_version = [str(row["version"]) for row in rows]
        # A time that the log tells means the very change it stands beside.
        by_time = [row["at"] for row in rows]
        for first, second, third in (by_version, by_time):
            assert [t for _, t, _ in told(nested, "--since", first)] == ["b", "c"]
            assert [t for _, t, _ in told(nested, "--until", second)] == ["a", "b"]
            between = told(nested, "--since", first, "--until", second)
            assert [t for _, t, _ in between] == ["b"]
            assert told(nested, "--since", third) == []
            assert nested.run("log", "--since", third, "--until", first).code == 2
        assert "no changes" in nested.ok("log", "--since", by_version[-1]).err

    def test_beyond_what_is_kept(self, nested: Cli) -> None:
        for name in ("a", "b", "c", "d"):
            nested.ok("namespace", "create", name)
        nested.ok("upkeep", "--keep", "0")
        for args in (
            ["log", "--since", "1"],
            ["log", "--since", "2020-01-01"],
            ["diff", "1", "2"],
            ["--as-of", "1", "namespace", "list"],
        ):
            ran = nested.run("-o", "json", *args)
            assert (ran.code, ran.error["code"]) == (3, 11)
            assert "the oldest point available is version" in ran.error["message"]
            # The way out is a command, and it is not about the point that is gone.
            assert " log` shows the changes" in ran.error["hint"]
            assert "--as-of" not in ran.error["hint"]
        nested.ok("log")

    def test_an_empty_catalog_and_v1(self, root: Path, cli: Cli) -> None:
        assert cli.json("log") == []
        assert cli.run("diff", "1", "2").code == 3
        for args in (["log"], ["diff", "1", "2"]):
            ran = Cli(root, "v1").run("-o", "json", *args)
            assert (ran.code, ran.error["code"]) == (1, 0)
            assert "--mode compat" in ran.error["hint"]

    @pytest.mark.parametrize("text", ["soon", "2026-13-01", "-1", "1.5", ""])
    def test_what_is_no_point(self, cli: Cli, text: str) -> None:
        cli.ok("namespace", "create", "a")
        for args in (["log", f"--since={text}"], ["diff", "1", "--", text]):
            ran = cli.run(*args)
            assert ran.code == 2
            assert "is no point of the past" in ran.err and "as_of" not in ran.err, ran


class TestDiff:
    def test_as_one_change(self, managed: Cli) -> None:
        managed.append("t", times=2)
        managed.ok("table", "declare", "prod.gone")
        before = point(managed)
        managed.ok("table", "rename", "t", "prod.t")
        managed.append("prod", "t", times=2)
        managed.ok("table", "set", "prod.t", "k=v")
        managed.ok("table", "drop", "prod.gone", "--purge", "--yes")
        managed.ok("namespace", "create", "new")
        after = point(managed)
        rows = managed.json("diff", before, after)
        assert all(set(row) == CHANGE - {"version", "at", "who"} for row in rows)
        assert [(r["action"], r["text"], r["detail"]) for r in rows] == [
            ("created", "new", ""),
            ("renamed", "prod.t", "was t, k=v"),
            ("dropped", "prod.gone", ""),
            ("committed", "prod.t", "versions 3-4"),
        ]
        back = managed.json("diff", after, before)
        assert [(r["action"], r["text"]) for r in back] == [
            ("created", "prod.gone"),
            ("renamed", "t"),
            ("dropped", "new"),
            ("deleted", "t"),
        ]
        assert managed.json("diff", after, after) == []
        assert "no difference" in managed.ok("diff", after, after).err

    def test_properties(self, nested: Cli) -> None:
        nested.ok("namespace", "create", "a", "--property", "x=1", "--property", "y=2")
        first = point(nested)
        nested.ok("namespace", "set", "a", "x=3", "z=4", "--unset", "y")
        (row,) = nested.json("diff", first, point(nested))
        assert (row["action"], row["text"], row["detail"]) == ("changed", "a", "x=3, z=4, -y")


class TestTableHistory:
    def events(self, cli: Cli, *args: str) -> list[tuple[str, int | None, str]]:
        rows: list[dict[str, Any]] = cli.json("table", "history", *args)
        keys = {"at", "event", "version", "rows", "catalog_version", "who", "detail"}
        assert all(set(row) == keys for row in rows)
        assert [row["at"] for row in rows] == sorted((r["at"] for r in rows), reverse=True)
        return [(row["event"], row["version"], row["detail"]) for row in rows]

    def test_versions_and_what_became_of_it(self, managed: Cli) -> None:
        managed.append("prod", "t", times=2).delete("id = 0")
        managed.ok("table", "rename", "prod.t", "u")
        managed.append("u")
        drop = managed.json("table", "drop", "u")["drop_id"]
        managed.ok("trash", "undrop", "u")
        assert self.events(managed, "u") == [
            ("undropped", None, drop),
            ("dropped", None, drop),
            ("version", 4, "Append"),
            ("renamed", None, "was prod.t"),
            ("version", 3, "Delete"),
            ("version", 2, "Append"),
            ("version", 1, "Overwrite"),
            ("created", None, ""),
        ]
        rows = managed.json("table", "history", "u")
        versions = {row["version"]: row for row in rows if row["event"] == "version"}
        assert {number: row["rows"] for number, row in versions.items()} == {1: 2, 2: 4, 3: 2, 4: 4}
        assert all(row["who"] and row["catalog_version"] for row in rows)

    def test_by_the_files_alone(self, each: Cli) -> None:
        each.append("t", times=3)
        found = [event for event in self.events(each, "t") if event[0] == "version"]
        assert found == [
            ("version", 3, "Append"),
            ("version", 2, "Append"),
            ("version", 1, "Overwrite"),
        ]

    def test_an_earlier_table_of_the_same_name_is_another(self, nested: Cli) -> None:
        nested.append("t")
        nested.ok("table", "drop", "t", "--purge", "--yes")
        nested.append("t")
        assert [event for event, _, _ in self.events(nested, "t")].count("created") == 1
        assert "purged" not in [event for event, _, _ in self.events(nested, "t")]

    def test_the_latest_or_all(self, nested: Cli) -> None:
        nested.append("t", times=4)
        some = nested.ok("table", "history", "t", "--limit", "2")
        assert "--all shows them" in some.err
        shown = [v for event, v, _ in self.events(nested, "t", "--limit", "2") if v]
        assert shown == [4, 3]
        everything = nested.ok("table", "history", "t", "--limit", "2", "--all")
        assert "--all" not in everything.err and everything.out.count("Append") == 3

    def test_a_version_that_cannot_be_read(self, managed: Cli) -> None:
        """A version that cannot be read has no operation and no rows; the rest is there."""
        managed.append("t", times=2)
        place = managed.json("table", "describe", "t")["location"].removeprefix("file://")
        for path in (Path(place) / "_versions").glob("*.manifest"):
            if path.name.startswith("18446744073709551614"):
                path.write_bytes(b"broken")
        rows = managed.json("table", "history", "t")
        first = next(row for row in rows if row["version"] == 1)
        assert (first["rows"], first["detail"]) == (None, "")
        assert next(row for row in rows if row["version"] == 2)["rows"] == 4

    def test_declared_missing_dropped(self, nested: Cli) -> None:
        nested.ok("table", "declare", "t")
        assert [event for event, _, _ in self.events(nested, "t")] == ["created"]
        assert nested.run("table", "history", "u").code == 3
        nested.ok("table", "drop", "t")
        gone = nested.run("table", "history", "t")
        assert gone.code == 3 and "trash undrop t` brings it back" in gone.err
