"""Old versions go, with what only they use; the registry in step (retention by age and count)."""

from __future__ import annotations

from typing import Any

import pytest

from lance_catalog import failpoints
from lance_catalog.config import Mode
from lance_catalog.directory.managed import cleanup
from lance_catalog.errors import LanceNamespaceError
from lance_catalog.maintenance.check import check
from lance_catalog.maintenance.repair import apply, plan
from tests.behaviour.catalogs import Catalog, code, ipc, rows

#: Lance does the work; one store tells as much as two.
pytestmark = pytest.mark.stores("local", "s3")
T = ["t"]
DAY = 24 * 3600 * 1000


def numbers(catalog: Catalog, id: list[str] = T) -> list[int]:
    return [v.version for v in catalog.list_table_versions({"id": id}).versions]


def filled(catalog: Catalog, count: int = 6, id: list[str] = T) -> None:
    catalog.create(id, [1])
    for number in range(2, count + 1):
        catalog.insert_into_table({"id": id}, ipc(rows([number])))


def plain(catalog: Catalog) -> Any:
    return catalog.root.dataset(catalog.place(T))


def later(catalog: Catalog, ms: int) -> None:
    """Let time pass."""
    clock = catalog.ns.context.clock
    catalog.ns.context.clock = lambda: clock() + ms


class Rules:
    """What holds where versions are files alone, and where the catalog manages them."""

    def test_by_count(self, kept: Catalog) -> None:
        filled(kept)
        report = kept.cleanup_table_versions(T, keep=2)
        assert [(t.id, t.versions, t.oldest_kept) for t in report.tables] == [(("t",), 4, 5)]
        assert report.tables[0].bytes
        assert numbers(kept) == [6, 5]
        assert [v["version"] for v in plain(kept).versions()] == [5, 6]
        assert kept.data(T) == [1, 2, 3, 4, 5, 6]

    def test_by_age(self, kept: Catalog) -> None:
        filled(kept, 3)
        assert kept.cleanup_table_versions(T, older_than="1d").tables[0].versions == 0
        later(kept, 2 * DAY)
        assert kept.cleanup_table_versions(T, older_than="3d").tables[0].versions == 0
        assert kept.cleanup_table_versions(T, older_than="1d").tables[0].versions == 2
        assert numbers(kept) == [3]

    def test_by_both(self, kept: Catalog) -> None:
        """What goes is old by both rules."""
        filled(kept)
        assert kept.cleanup_table_versions(T, older_than="1d", keep=2).tables[0].versions == 0
        later(kept, 2 * DAY)
        assert kept.cleanup_table_versions(T, older_than="1d", keep=4).tables[0].versions == 2
        assert numbers(kept) == [6, 5, 4, 3]

    def test_two_weeks_when_nothing_is_said(self, kept: Catalog) -> None:
        filled(kept, 3)
        later(kept, 13 * DAY)
        assert kept.cleanup_table_versions().tables[0].versions == 0
        later(kept, 2 * DAY)
        assert kept.cleanup_table_versions().tables[0].versions == 2

    def test_data_of_old_versions_goes(self, kept: Catalog) -> None:
        filled(kept, 2)
        kept.ns.create_table({"id": T, "mode": "overwrite"}, ipc(rows([9])))
        before = kept.root.paths(f"{kept.place(T)}/data")
        assert kept.cleanup_table_versions(T, keep=1).tables[0].versions == 2
        assert len(kept.root.paths(f"{kept.place(T)}/data")) < len(before)
        assert kept.data(T) == [9]

    def test_a_dry_run_changes_nothing(self, kept: Catalog) -> None:
        filled(kept)
        before = kept.root.digest()
        report = kept.cleanup_table_versions(keep=1, dry_run=True)
        assert report.dry_run
        found = [(t.versions, t.oldest_kept, t.bytes) for t in report.tables]
        assert found == [(5, 6, None)]
        assert kept.root.digest() == before

    def test_tags_hold(self, kept: Catalog) -> None:
        filled(kept)
        plain(kept).tags.create("release", 2)
        plain(kept).create_branch("side", 4)
        report = kept.cleanup_table_versions(T, keep=1)
        assert [(t.versions, t.oldest_kept, t.tagged) for t in report.tables] == [(3, 2, 2)]
        assert numbers(kept) == [6, 4, 2]
        assert plain(kept).checkout_version("release").count_rows() == 2

    def test_every_table(self, kept: Catalog) -> None:
        names = [["a"], ["b"], ["declared"]]
        for table in names[:2]:
            filled(kept, 3, table)
        kept.declare_table({"id": ["declared"]})
        told: list[tuple[Any, int, int]] = []
        report = kept.cleanup_table_versions(keep=1, progress=lambda *one: told.append(one))
        found = [(t.id, t.versions, t.oldest_kept) for t in report.tables]
        assert found == [(("a",), 2, 3), (("b",), 2, 3), (("declared",), 0, None)]
        assert told == [((name[0],), number, 3) for number, name in enumerate(names, 1)]
        assert report.failed == []

    @pytest.mark.parametrize(
        "how", [{"keep": 0}, {"keep": True}, {"older_than": "soon"}, {"older_than": "never"}]
    )
    def test_bad_rules(self, kept: Catalog, how: dict[str, Any]) -> None:
        filled(kept, 2)
        assert code(kept.cleanup_table_versions, T, **how) == 13
        assert numbers(kept) == [2, 1]

    def test_an_unknown_table(self, kept: Catalog) -> None:
        assert code(kept.cleanup_table_versions, ["nothing"]) == 4


class TestFiles(Rules):
    @pytest.fixture
    def kept(self, catalog: Catalog) -> Catalog:
        return catalog


@pytest.mark.modes(Mode.V2, Mode.COMPAT)
class TestManaged(Rules):
    @pytest.fixture
    def kept(self, catalog: Catalog) -> Catalog:
        catalog.enable_managed_versions()
        return catalog


@pytest.mark.modes(Mode.V2, Mode.COMPAT)
class TestRegistry:
    def test_a_stock_cleanup_is_caught_up_with(self, catalog: Catalog) -> None:
        """Lance's own cleanup does not tell the catalog; its rows go with the next of ours."""
        catalog.enable_managed_versions()
        filled(catalog, 4)
        plain(catalog).cleanup_old_versions(versions=[1, 2])
        assert catalog.cleanup_table_versions(T, keep=100).tables[0].versions == 2
        assert numbers(catalog) == [4, 3]

    @pytest.mark.parametrize("step", ["version.cleanup_forgotten", "version.cleanup_deleted"])
    def test_one_that_dies(
        self, catalog: Catalog, step: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Rows first: what is left half done, the next one or a repair ends."""
        catalog.enable_managed_versions()
        filled(catalog, 4)
        monkeypatch.setattr(failpoints, "_plan", {step: ("raise", 1)})
        monkeypatch.setattr(failpoints, "_hits", {})
        with pytest.raises(LanceNamespaceError, match=step):
            catalog.cleanup_table_versions(T, keep=2)
        assert numbers(catalog) == [4, 3]
        results = apply(catalog.ns.context, plan(catalog.ns.context, grace_seconds=-3600))
        assert [why for _, why in results if why is not None] == []
        assert check(catalog.ns.context, grace_seconds=-3600).problems == []
        assert numbers(catalog) == [4, 3]
        assert [v["version"] for v in plain(catalog).versions()] == [3, 4]

    def test_a_tag_that_comes_in_between(
        self, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Lance keeps what is tagged; so its row comes back."""
        catalog.enable_managed_versions()
        filled(catalog, 4)

        def tag(point: str) -> None:
            if point == "version.cleanup_forgotten":
                plain(catalog).tags.create("late", 2)

        monkeypatch.setattr(cleanup, "hit", tag)
        report = catalog.cleanup_table_versions(T, keep=1)
        assert [t.versions for t in report.tables] == [2]
        assert numbers(catalog) == [4, 2]
