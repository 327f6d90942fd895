"""V1 and compatibility mode on one root: one arbiter for each hiding, and nobody's rows are lost.

The rule, and why: docs/explanation/lifecycle.md, "Both on one root".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lance_catalog import TableState
from lance_catalog.config import Mode
from lance_catalog.directory import places
from lance_catalog.directory.context import Context
from lance_catalog.maintenance.check import check
from lance_catalog.maintenance.repair import apply, plan
from tests.behaviour.catalogs import Catalog, Root, code, refusal

pytestmark = pytest.mark.modes(Mode.COMPAT)

T = {"id": ["t"]}
#: Later than any drop: a sweep with this time takes all that it may take.
EVER = 1 << 53
#: Nobody's grace: whatever looks left over is.
NOW = -3600.0

Call = Callable[[Catalog], Any]

#: What a V1 client is answered where the manifest has a dropped table.
OVER_DROPPED: dict[str, tuple[Call, int]] = {
    "undrop": (lambda v1: v1.undrop_table(["t"]), 19),
    "purge": (lambda v1: v1.purge_table(["t"], force=True), 19),
    "purge-dry": (lambda v1: v1.purge_table(["t"], force=True, dry_run=True), 19),
    "create": (lambda v1: v1.create(["t"], [9]), 19),
    "overwrite": (lambda v1: v1.create(["t"], [9], mode="overwrite"), 19),
    "exist_ok": (lambda v1: v1.create(["t"], [9], mode="exist_ok"), 19),
    "redeclare": (lambda v1: v1.open(v1_redeclare="purge").declare_table(T), 19),
    "declare": (lambda v1: v1.declare_table(T), 5),
    "register": (lambda v1: v1.register_table({**T, "location": "t.lance"}), 13),
    "drop": (lambda v1: v1.drop_table(T), 4),
    "drop-purge": (lambda v1: v1.drop_table(T, purge=True), 4),
    "deregister": (lambda v1: v1.deregister_table(T), 4),
}

#: The same where the manifest has a deregistered table.
OVER_DEREGISTERED: dict[str, tuple[Call, int]] = {
    "register": (lambda v1: v1.register_table({**T, "location": "t.lance"}), 19),
    "register-properties": (
        lambda v1: v1.register_table({**T, "location": "t.lance", "properties": {"a": "b"}}),
        19,
    ),
    "drop": (lambda v1: v1.drop_table(T), 19),
    "drop-purge": (lambda v1: v1.drop_table(T, purge=True), 19),
    "create": (lambda v1: v1.create(["t"], [9]), 5),
    "overwrite": (lambda v1: v1.create(["t"], [9], mode="overwrite"), 5),
    "redeclare": (lambda v1: v1.open(v1_redeclare="purge").declare_table(T), 5),
    "undrop": (lambda v1: v1.undrop_table(["t"]), 4),
    "purge": (lambda v1: v1.purge_table(["t"], force=True), 4),
}


@pytest.fixture
def v1(catalog: Catalog) -> Catalog:
    return Catalog(Mode.V1, catalog.kind, catalog.root)


class Died(BaseException):
    """A process that is not there any more: nothing of ours catches it."""


def kept(root: Root) -> dict[str, bytes]:
    """Every file, with what is in it."""
    return {path: root.get(path) for path in root.paths()}


def refused(catalog: Catalog, v1: Catalog, call: Call, wanted: int) -> None:
    """It is, nothing on the store changes, and 19 says where it can be done."""
    before = kept(catalog.root)
    error = refusal(call, v1)
    assert int(error.code) == wanted, error
    assert ("manifest_enabled=true" in str(error)) == (wanted == 19), error
    assert kept(catalog.root) == before


class TestHiddenByTheManifest:
    """S12: the trash row decides, and V1 does not."""

    @pytest.mark.parametrize("verb", OVER_DROPPED)
    def test_dropped(self, catalog: Catalog, v1: Catalog, verb: str) -> None:
        catalog.create(["t"])
        catalog.drop_table(T, ttl=0)
        refused(catalog, v1, *OVER_DROPPED[verb])
        for one in (v1, catalog):
            assert one.table_status(["t"]).state is TableState.SOFT_DELETED
        catalog.undrop_table(["t"])
        assert catalog.data(["t"]) == v1.data(["t"]) == [1, 2, 3]

    @pytest.mark.parametrize("verb", OVER_DEREGISTERED)
    def test_deregistered(self, catalog: Catalog, v1: Catalog, verb: str) -> None:
        catalog.create(["t"])
        catalog.deregister_table(T)
        refused(catalog, v1, *OVER_DEREGISTERED[verb])
        answer = catalog.register_table({**T, "location": "t.lance"})
        assert not answer.properties
        assert catalog.data(["t"]) == v1.data(["t"]) == [1, 2, 3]

    @pytest.mark.parametrize("verb", ["create", "redeclare", "purge", "undrop"])
    def test_declared_and_dropped(self, catalog: Catalog, v1: Catalog, verb: str) -> None:
        """Without data there is nothing to keep, but the name is the manifest's all the same."""
        catalog.declare_table(T)
        catalog.drop_table(T, ttl=0)
        refused(catalog, v1, *OVER_DROPPED[verb])
        catalog.undrop_table(["t"])
        assert catalog.tables() == v1.tables() == ["t"]

    @pytest.mark.parametrize("verb", ["create", "purge", "undrop"])
    def test_dropped_under_another_name(self, catalog: Catalog, v1: Catalog, verb: str) -> None:
        """R8: by its place, for that is all that V1 knows of it."""
        catalog.create(["t"])
        catalog.rename_table({**T, "new_table_name": "u"})
        catalog.drop_table({"id": ["u"]}, ttl=0)
        refused(catalog, v1, *OVER_DROPPED[verb])
        catalog.undrop_table(["u"])
        assert catalog.data(["u"]) == v1.data(["t"]) == [1, 2, 3]

    def test_sweep(self, catalog: Catalog, v1: Catalog) -> None:
        """S05: it passes by what is not its own, and takes what is; nothing failed."""
        catalog.create(["t"])
        catalog.drop_table(T, ttl=0)
        v1.create(["own"])
        v1.drop_table({"id": ["own"]}, ttl=0)
        assert [one.id for one in v1.list_purgable_tables()] == [("own",)]
        for time in (None, EVER):
            told = v1.purge_tables(deleted_before=time, dry_run=True)
            assert [one.table.id for one in told.purged] == [("own",)]
        before = kept(catalog.root)
        report = v1.purge_tables()
        assert ([one.table.id for one in report.purged], report.failed) == ([("own",)], [])
        later = v1.purge_tables(deleted_before=EVER, force=True)
        assert (later.purged, later.failed) == ([], [])
        mine = {path: data for path, data in before.items() if not path.startswith("own.")}
        assert kept(catalog.root) == mine
        catalog.undrop_table(["t"])
        assert catalog.data(["t"]) == [1, 2, 3]

    def test_purged_by_name(self, catalog: Catalog, v1: Catalog) -> None:
        """Asked for by its name, it is a failure and not silence."""
        catalog.create(["t"])
        catalog.drop_table(T, ttl=0)
        before = kept(catalog.root)
        report = v1.purge_tables([["t"]], force=True)
        assert [int(error.code) for _, error in report.failed] == [19]
        assert kept(catalog.root) == before

    def test_purged_by_those_who_may(self, catalog: Catalog, v1: Catalog) -> None:
        """Then V1 is free to create, and the manifest finds that table as any other of V1."""
        catalog.create(["t"])
        catalog.drop_table(T, ttl=0)
        assert code(v1.create, ["t"], [9]) == 19
        catalog.purge_table(["t"])
        v1.create(["t"], [9])
        assert catalog.data(["t"]) == v1.data(["t"]) == [9]


class TestHiddenByAMarker:
    """What V1 hides: its markers decide, and no V1 client deletes what a row stands for."""

    def test_drop_of_a_live_row(self, catalog: Catalog, v1: Catalog) -> None:
        catalog.create(["t"])
        v1.drop_table(T, ttl=0)
        assert (v1.tables(), catalog.tables()) == ([], ["t"])
        assert catalog.data(["t"]) == [1, 2, 3]
        refused(catalog, v1, lambda v1: v1.purge_table(["t"], force=True), 19)
        report = v1.purge_tables(deleted_before=EVER, force=True)
        assert (report.purged, report.failed) == ([], [])
        v1.undrop_table(["t"])
        assert v1.data(["t"]) == catalog.data(["t"]) == [1, 2, 3]
        v1.drop_table(T)
        v1.create(["t"], [9])
        assert v1.data(["t"]) == catalog.data(["t"]) == [9]

    def test_drop_and_purge_of_a_live_row(self, catalog: Catalog, v1: Catalog) -> None:
        catalog.create(["t"])
        refused(catalog, v1, lambda v1: v1.drop_table(T, purge=True), 19)
        assert v1.data(["t"]) == catalog.data(["t"]) == [1, 2, 3]

    def test_both_drop(self, catalog: Catalog, v1: Catalog) -> None:
        """The manifest's drop comes on top of the marker's: from then on it decides."""
        catalog.create(["t"])
        v1.drop_table(T)
        catalog.drop_table(T)
        refused(catalog, v1, *OVER_DROPPED["undrop"])
        catalog.undrop_table(["t"])
        assert v1.data(["t"]) == catalog.data(["t"]) == [1, 2, 3]

    def test_deregistered_by_v1_what_is_in_the_trash(self, catalog: Catalog, v1: Catalog) -> None:
        """A drop that died before its marker; V1 takes the table for its own, to keep for ever."""
        catalog.create(["t"])
        catalog.drop_table(T, ttl=0)
        catalog.root.remove("t.lance/.lance-deregistered")
        catalog.root.remove("t.deleted")
        v1.deregister_table(T)
        before = kept(catalog.root)
        error = refusal(catalog.purge_table, ["t"])
        assert (int(error.code), "trash undrop" in str(error)) == (19, True), error
        assert [int(error.code) for _, error in catalog.purge_tables().failed] == [19]
        assert kept(catalog.root) == before
        catalog.undrop_table(["t"])
        assert catalog.data(["t"]) == v1.data(["t"]) == [1, 2, 3]
        catalog.drop_table(T, ttl=0)
        catalog.purge_table(["t"])
        assert catalog.root.paths("t.") == []


class TestUpkeep:
    """V1's `check` and `repair` look at the root as it is, its manifest included."""

    def repair(self, v1: Catalog) -> list[str]:
        """Mend all that is found; what it was."""
        steps = plan(v1.context, grace_seconds=NOW)
        assert [why for _, why in apply(v1.context, steps) if why is not None] == []
        assert check(v1.context, grace_seconds=NOW).problems == []
        return [step.kind for step in steps]

    def test_tables_of_the_manifest(self, catalog: Catalog, v1: Catalog) -> None:
        """A declared table in a hashed directory looks like a leftover to who sees no rows."""
        catalog.namespace("ns")
        for name in ("live", "dropped", "out"):
            catalog.create([name])
            catalog.create(["ns", name])
            catalog.declare_table({"id": ["ns", f"declared {name}"]})
        for home in ([], ["ns"]):
            catalog.drop_table({"id": [*home, "dropped"]}, ttl=0)
            catalog.deregister_table({"id": [*home, "out"]})
        catalog.drop_table({"id": ["ns", "declared dropped"]}, ttl=0)
        catalog.deregister_table({"id": ["ns", "declared out"]})
        before = kept(catalog.root)
        assert self.repair(v1) == []
        assert kept(catalog.root) == before

    def test_creation_that_died_before_its_release(
        self, catalog: Catalog, v1: Catalog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its row is there, and so is the marker that hid its directory until then."""
        with monkeypatch.context() as patch:
            patch.setattr(places, "_release", lambda *args: None)
            catalog.create(["t"])
            catalog.declare_table({"id": ["u"]})
        assert v1.tables() == []
        assert self.repair(v1) == ["unfinished-register"] * 2
        assert v1.tables() == catalog.tables() == ["t", "u"]
        assert catalog.data(["t"]) == [1, 2, 3]

    def test_drop_that_died_before_its_markers(self, catalog: Catalog, v1: Catalog) -> None:
        catalog.create(["t"])
        catalog.drop_table(T, ttl=0)
        catalog.root.remove("t.lance/.lance-deregistered")
        catalog.root.remove("t.deleted")
        assert v1.tables() == ["t"]
        assert self.repair(v1) == ["missing-marker"]
        assert v1.tables() == []
        catalog.undrop_table(["t"])
        assert catalog.data(["t"]) == [1, 2, 3]

    @pytest.mark.parametrize("first", ["repair", "undo"])
    @pytest.mark.parametrize("verb", ["undrop", "purge", "redeclare", "register", "drop"])
    def test_v1_client_that_died_before_its_look(
        self,
        catalog: Catalog,
        v1: Catalog,
        monkeypatch: pytest.MonkeyPatch,
        verb: str,
        first: str,
    ) -> None:
        """It leaves a claim beside a marker that is not its own to end: in nobody's way."""
        out = verb in ("register", "drop")
        catalog.create(["t"])
        (catalog.deregister_table if out else catalog.drop_table)(T)
        looks: list[bool] = []

        def look(*args: Any) -> None:
            looks.append(bool(catalog.root.paths("__claims")))
            if looks[-1]:
                raise Died

        with monkeypatch.context() as patch:
            patch.setattr(Context, "_require_no_row", look)
            with pytest.raises(Died):
                (OVER_DEREGISTERED if out else OVER_DROPPED)[verb][0](v1)
        assert looks == [False, True]
        if first == "repair":
            assert self.repair(v1) == ["stale-claim"]
        if out:
            catalog.register_table({**T, "location": "t.lance"})
        else:
            catalog.undrop_table(["t"])
        assert catalog.data(["t"]) == [1, 2, 3]
        self.repair(v1)
        assert v1.data(["t"]) == [1, 2, 3]
        assert not catalog.root.paths("__claims")
