"""Migration from V1: every table directory gets a row, once, and nothing moves (C20)."""

from __future__ import annotations

import pytest

from lance_catalog.config import Mode
from lance_catalog.directory import migration
from lance_catalog.directory.migration import migrate
from lance_catalog.maintenance.check import check
from tests.behaviour.catalogs import Catalog, rows

pytestmark = pytest.mark.modes(Mode.COMPAT, Mode.V2)


def old_tables(catalog: Catalog, count: int) -> list[str]:
    names = [f"t{number:02d}" for number in range(count)]
    for number, name in enumerate(names):
        catalog.root.write(f"{name}.lance", rows([number]))
    return names


class TestMigrate:
    def test_afterwards_the_manifest_alone_shows_the_same(self, catalog: Catalog) -> None:
        """C20: with dir_listing_enabled=false every table is there, with its data."""
        names = old_tables(catalog, 3)
        v1 = catalog.open(Mode.V1)
        v1.declare_table({"id": ["declared"]})
        before = v1.list_tables({"id": []}).tables
        report = migrate(catalog.context)
        assert sorted(report.registered) == sorted([*names, "declared"]) == sorted(before)
        v2 = catalog.open(Mode.V2)
        assert v2.list_tables({"id": []}).tables == before
        for number, name in enumerate(names):
            assert catalog.place([name]) == f"{name}.lance"
            assert catalog.data([name]) == [number]

    def test_a_dry_run_changes_nothing(self, catalog: Catalog) -> None:
        """C20: it tells exactly what the run does."""
        old_tables(catalog, 2)
        before = catalog.root.digest()
        told = migrate(catalog.context, dry_run=True)
        assert catalog.root.digest() == before
        assert told.registered == migrate(catalog.context).registered == ["t00", "t01"]

    def test_again_is_nothing_more(self, catalog: Catalog) -> None:
        """C20: idempotent; what came since is added."""
        old_tables(catalog, 2)
        migrate(catalog.context)
        before = catalog.root.digest()
        again = migrate(catalog.context)
        assert (again.registered, again.already) == ([], ["t00", "t01"])
        assert catalog.root.digest() == before
        catalog.root.write("later.lance", rows([1]))
        assert migrate(catalog.context).registered == ["later"]

    def test_goes_on_where_it_stopped(
        self, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """C20: resumable; each batch is a commit of its own, and progress tells of each."""
        names = old_tables(catalog, 5)
        monkeypatch.setattr(migration, "_BATCH", 2)
        seen: list[tuple[int, int]] = []

        def stop_after_one(done: int, total: int) -> None:
            seen.append((done, total))
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            migrate(catalog.context, progress=stop_after_one)
        assert seen == [(2, 5)]
        assert catalog.open(Mode.V2).list_tables({"id": []}).tables == names[:2]
        report = migrate(catalog.context, progress=lambda done, total: seen.append((done, total)))
        assert (report.already, report.registered) == (names[:2], names[2:])
        assert seen == [(2, 5), (2, 3), (3, 3)]

    def test_what_cannot_be_is_told_and_left_alone(self, catalog: Catalog) -> None:
        """C20, R9: a name with the delimiter has no row; a hidden table stays hidden."""
        old_tables(catalog, 2)
        catalog.root.write("a$b.lance", rows([9]))
        catalog.open(Mode.V1).deregister_table({"id": ["t00"]})
        report = migrate(catalog.context)
        assert report.registered == ["t01"]
        assert [name for name, _ in report.skipped] == ["a$b"]
        assert catalog.tables() == ["t01"]

    def test_a_taken_name_is_told(self, catalog: Catalog) -> None:
        """C20, O01: the manifest's object keeps its name."""
        catalog.namespace("t00")
        old_tables(catalog, 1)
        report = migrate(catalog.context)
        assert report.registered == []
        assert "namespace" in report.skipped[0][1]


@pytest.mark.modes(Mode.V2, Mode.COMPAT)
def test_what_markers_hide_goes_to_the_trash(catalog: Catalog) -> None:
    """S13, S12: dropped and deregistered in V1, undone in V2 without its directory listing."""
    v1 = Catalog(Mode.V1, catalog.kind, catalog.root)
    for name in ("dropped", "out", "live"):
        v1.create([name], [1], properties={"name": name})
    v1.drop_table({"id": ["dropped"]}, ttl="9d")
    v1.deregister_table({"id": ["out"]})
    expires = v1.table_status(["dropped"]).expires_at_ms
    dry = migrate(catalog.context, dry_run=True)
    assert (dry.trashed, dry.registered) == (["dropped", "out"], ["live"])
    assert migrate(catalog.context).trashed == ["dropped", "out"]
    assert migrate(catalog.context).trashed == []
    v2 = Catalog(Mode.V2, catalog.kind, catalog.root)
    assert v2.tables() == ["live"]
    assert v2.table_status(["dropped"]).expires_at_ms == expires
    v2.undrop_table(["dropped"])
    v2.register_table({"id": ["out"], "location": "out.lance"})
    assert v2.describe_table({"id": ["dropped"]}).properties == {"name": "dropped"}
    assert v2.tables() == v1.tables() == ["dropped", "live", "out"]
    assert check(catalog.context, grace_seconds=-60).problems == []
