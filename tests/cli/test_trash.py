"""The trash: what is in it, how it comes back, and what every error says of the way out."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.cli.support import MODES, Cli, digest, run, sample, stream
from tests.cli.trashing import PROTECTED, commands, in_trash, left_by_a_crash

from lance_catalog import connect


class TestList:
    def test_shows_every_drop(self, each: Cli) -> None:
        assert each.json("trash", "list") == []
        assert "nothing is in the trash" in each.ok("trash", "list").err
        location = each.create("t")
        each.create("u")
        dropped = each.json("table", "drop", "t")
        each.ok("table", "drop", "u", "--ttl", "0")
        each.create("live")
        first, second = each.json("trash", "list")
        assert (first["id"], first["text"], first["location"]) == (["t"], "t", location)
        assert first["drop_id"] == dropped["drop_id"]
        age = datetime.now(UTC) - datetime.fromisoformat(first["dropped_at"])
        assert 0 <= age.total_seconds() < 600
        assert (first["state"], first["protected"]) == ("restorable", False)
        assert (second["text"], second["state"]) == ("u", "expired")
        assert second["expires_at"] == second["dropped_at"]
        assert in_trash(each, "--expired") == ["u"]
        line = each.plain("trash", "list")[0].split("\t")
        assert line == [*(first[k] for k in ("text", "drop_id", "dropped_at", "expires_at")),
                        "restorable", "false"]  # fmt: skip
        shown = each.ok("trash", "list")
        assert "drop id" in shown.out and "trash undrop ID" in shown.err
        assert "nothing expired" not in each.ok("trash", "list", "--expired").err

    def test_below_a_namespace_that_is_gone(self, nested: Cli) -> None:
        nested.ok("namespace", "create", "a.b", "--parents")
        for name in ("t", "a.u", "a.b.v"):
            nested.ok("table", "declare", name)
            nested.ok("table", "drop", name)
        nested.ok("namespace", "drop", "a", "--cascade", "--yes")
        assert in_trash(nested) == ["a.b.v", "a.u", "t"]
        assert in_trash(nested, "a") == ["a.b.v", "a.u"]
        assert in_trash(nested, "--delimiter", "/") == ["a/b/v", "a/u", "t"]

    def test_a_purge_that_died_cannot_be_undropped(self, each: Cli) -> None:
        each.create("t")
        each.ok("table", "drop", "t")
        left_by_a_crash(each, "t")
        (row,) = each.json("trash", "list", "--expired")
        assert row["state"] == "being purged"
        refused = each.run("-o", "json", "trash", "undrop", "t")
        assert (refused.code, refused.error["code"]) == (3, 4)
        assert each.json("trash", "status", "t")["purging"] is True

    def test_protected(self, nested: Cli) -> None:
        nested.create("t", **{PROTECTED: "true"})
        nested.ok("table", "drop", "t", "--force")
        assert nested.json("trash", "list")[0]["protected"] is True


class TestUndrop:
    def test_of_two_drops_each_comes_back(self, nested: Cli) -> None:
        fresh = ("--property", "recreate=fresh")
        drops = []
        for rows in (2, 5):
            catalog = connect(str(nested.root), recreate="fresh", **MODES[nested.mode])
            catalog.create_table({"id": ["t"]}, stream(sample(rows)))
            drops.append(nested.json(*fresh, "table", "drop", "t")["drop_id"])
        assert in_trash(nested) == ["t", "t"]
        told = nested.json("trash", "undrop", "t", "--drop-id", drops[0])
        assert (told["id"], told["from"], told["drop_id"]) == (["t"], ["t"], drops[0])
        assert nested.plain("table", "count", "t") == ["2"]
        taken = nested.run("-o", "json", "trash", "undrop", "t")
        assert (taken.code, taken.error["code"]) == (4, 5)
        assert "--as" in taken.error["message"]
        done = nested.ok("trash", "undrop", "t", "--as", "second")
        assert "undropped table t as second" in done.err
        assert nested.plain("table", "count", "second") == ["5"]
        assert in_trash(nested) == []

    def test_what_is_not_there(self, each: Cli) -> None:
        each.create("t")
        for args in (["nope"], ["t"]):
            ran = each.run("-o", "json", "trash", "undrop", *args)
            assert (ran.code, ran.error["code"]) == (3, 4)
            assert "trash list` shows the dropped tables" in ran.error["hint"]
        each.ok("table", "drop", "t")
        other = each.run("-o", "json", "trash", "undrop", "t", "--drop-id", "0-0")
        assert other.error["code"] == 4
        assert each.run("trash", "undrop", ".").code == 2
        each.ok("trash", "undrop", "t")

    def test_another_name_in_v1(self, root: Path) -> None:
        v1 = Cli(root, "v1")
        v1.create("t")
        v1.ok("table", "drop", "t")
        ran = v1.run("-o", "json", "trash", "undrop", "t", "--as", "u")
        assert (ran.code, ran.error["code"]) == (1, 0)
        assert "--mode compat" in ran.error["hint"]

    def test_plain_is_the_id(self, nested: Cli) -> None:
        nested.create("t")
        nested.ok("table", "drop", "t")
        assert nested.plain("trash", "undrop", "t", "--as", "u") == ["u"]


class TestStatus:
    def test_every_state(self, each: Cli) -> None:
        assert each.json("trash", "status", "t")["state"] == "not-found"
        each.create("t")
        assert each.json("trash", "status", "t") == {
            "id": ["t"],
            "text": "t",
            "state": "exists",
            "drop_id": None,
            "dropped_at": None,
            "expires_at": None,
            "purging": False,
        }
        dropped = each.json("table", "drop", "t")
        told = each.ok("-o", "json", "trash", "status", "t")
        assert told.json["state"] == "soft-deleted"
        assert told.json["drop_id"] == dropped["drop_id"]
        assert told.json["expires_at"] == dropped["expires_at"]
        assert told.err == ""
        shown = each.ok("trash", "status", "t")
        assert "soft-deleted" in shown.out
        assert "state\tsoft-deleted" in "\n".join(each.plain("trash", "status", "t"))
        assert run(*commands(shown)[0]).code == 0
        assert each.plain("table", "list") == ["t"]


class TestWayOut:
    def test_a_dropped_table_that_is_asked_for(self, each: Cli) -> None:
        each.create("t")
        each.ok("table", "drop", "t")
        for args in (["table", "describe", "t"], ["table", "count", "t"], ["table", "drop", "t"]):
            ran = each.run(*args)
            assert ran.code == 3
            assert "trash undrop t` brings it back" in ran.err
        assert "trash" not in each.run("table", "describe", "other").err

    def test_declare_over_a_dropped_table_in_v1(self, root: Path) -> None:
        v1 = Cli(root, "v1")
        v1.create("t")
        v1.ok("table", "drop", "t")
        ran = v1.run("table", "declare", "t")
        assert ran.code == 4
        assert "_table" not in ran.err
        undrop, purge = commands(ran)
        assert undrop[-3:] == ["trash", "undrop", "t"]
        assert purge[-4:] == ["trash", "purge", "t", "--force"]
        assert run(*purge, "--yes").code == 0
        v1.ok("table", "declare", "t")

    def test_a_marker_that_nobody_can_read(self, root: Path) -> None:
        v1 = Cli(root, "v1")
        v1.create("t")
        (root / "t.deleted").write_bytes(b"\x00")
        before = digest(root)
        assert v1.plain("table", "list") == []
        found = v1.run("-o", "json", "check", "--grace", "0")
        assert found.code == 6
        assert [(row["kind"], row["subject"]) for row in found.json] == [
            ("unreadable-marker", "t.deleted")
        ]
        assert "by hand" in found.json[0]["fix"]
        for verb in (["undrop", "t"], ["purge", "t", "--force", "--yes"]):
            ran = v1.run("-o", "json", "trash", *verb)
            assert ran.error["code"] == 4
            assert "unreadable" in ran.error["message"]
        assert v1.json("trash", "purge", "--expired", "--yes") == []
        assert "nothing to repair" in v1.ok("repair", "--yes").err
        assert digest(root) == before

    def test_dropped_ids_are_completed(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        from lance_catalog.cli import completion

        monkeypatch.setattr(completion, "_SECONDS", 30)
        for name in ("users", "views"):
            cli.create(name)
        cli.ok("table", "drop", "users")

        class Given:
            params = {"root": str(cli.root)}  # noqa: RUF012

            def find_root(self) -> Given:
                return self

        assert completion.complete_dropped(Given(), "u") == ["users"]  # type: ignore[arg-type]
        assert completion.complete_dropped(Given(), "v") == []  # type: ignore[arg-type]
