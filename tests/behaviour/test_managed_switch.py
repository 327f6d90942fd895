"""Turning managed versions on and off (I32)."""

from __future__ import annotations

import pytest

from lance_catalog.config import Mode
from lance_catalog.maintenance.check import check
from tests.behaviour.catalogs import STORES, Catalog, code, ipc, local_only, rows
from tests.behaviour.versioning import T, numbers, opened, settled, version_rows


@pytest.mark.modes(Mode.V2, Mode.COMPAT)
@local_only
class TestSwitch:
    @pytest.mark.modes(Mode.V2)
    @pytest.mark.stores(*STORES)
    def test_on_and_off(self, catalog: Catalog) -> None:
        """I32: existing versions are registered; off again, natives find no row of theirs."""
        catalog.namespace("ns")
        catalog.create(T, [1])
        catalog.insert_into_table({"id": T}, ipc(rows([2])))
        assert not catalog.managed_versions_status().managed
        report = catalog.enable_managed_versions()
        assert (report.tables, report.versions, report.changed) == (1, 2, True)
        assert not catalog.enable_managed_versions().changed
        assert settled(catalog, [1, 2]) == 2
        opened(catalog).insert(rows([3]))
        report = catalog.disable_managed_versions()
        assert (report.versions, report.changed) == (3, True)
        assert version_rows(catalog) == {}
        assert catalog.describe_table({"id": T}).managed_versioning is None
        assert catalog.data(T) == [1, 2, 3]
        assert numbers(catalog) == [3, 2, 1]
        assert check(catalog.context, grace_seconds=-60).problems == []

    def test_handles_across_the_switch(self, catalog: Catalog) -> None:
        """Issue 5.2: who opened before it is behind our back afterwards, and loses nothing."""
        catalog.namespace("ns")
        catalog.create(T, [1])
        before = opened(catalog)
        catalog.enable_managed_versions()
        during = opened(catalog)
        before.insert(rows([2]))
        assert set(version_rows(catalog)) == {"ns$t$1"}
        during.insert(rows([3]))
        assert settled(catalog, [1, 2, 3]) == 3
        catalog.disable_managed_versions()
        # Its client has no say any more, and answers it as one that has not.
        during.insert(rows([4]))
        before.insert(rows([5]))
        assert catalog.data(T) == [1, 2, 3, 4, 5]
        catalog.enable_managed_versions()
        assert settled(catalog, [1, 2, 3, 4, 5]) == 5


@pytest.mark.modes(Mode.V1)
@local_only
def test_v1_has_no_managed_versions(catalog: Catalog) -> None:
    """Issue 5 "Bad input": 0, and nothing is written."""
    catalog.create(["t"], [1])
    before = catalog.root.digest()
    for call in (
        catalog.enable_managed_versions,
        catalog.disable_managed_versions,
        catalog.managed_versions_status,
        catalog.transaction,
    ):
        assert code(call) == 0
    assert catalog.root.digest() == before
