"""What a managed commit answers when something goes wrong after its row is there (invariant 2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lance_catalog import CommitOutcomeUnknownError
from lance_catalog.config import Mode
from lance_catalog.directory.managed import commit
from lance_catalog.errors import ConcurrentModificationError
from lance_catalog.maintenance.check import check
from lance_catalog.storage.manifests import Naming, manifest_name
from tests.behaviour.catalogs import Catalog, rows

pytestmark = pytest.mark.modes(Mode.V2, Mode.COMPAT)

A, B = ["a"], ["b"]


@pytest.fixture
def managed(catalog: Catalog) -> Catalog:
    """Two managed tables at version 1."""
    catalog.enable_managed_versions()
    catalog.create(A, [1])
    catalog.create(B, [1])
    return catalog


def numbers(catalog: Catalog, id: list[str]) -> list[int]:
    return [v.version for v in catalog.list_table_versions({"id": id}).versions]


def stage(catalog: Catalog, id: list[str], version: int = 2) -> dict[str, Any]:
    """Stage the latest manifest as another version; return the request for it."""
    place = catalog.place(id)
    path = f"{place}/_versions/{manifest_name(version, Naming.V2)}-staged"
    catalog.root.put(path, catalog.root.get(f"{place}/_versions/{manifest_name(1, Naming.V2)}"))
    return {"id": id, "version": version, "manifest_path": path, "naming_scheme": "V2"}


def after_the_row(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> None:
    """Do something between the commit of the rows and the manifests."""
    hit = commit.hit

    def meet(point: str) -> None:
        if point == "version.row_written":
            work()
        hit(point)

    monkeypatch.setattr(commit, "hit", meet)


def batch(catalog: Catalog) -> Any:
    entries = [stage(catalog, A), stage(catalog, B)]
    return lambda: catalog.batch_create_table_versions({"entries": entries})


def bypass(catalog: Catalog, id: list[str]) -> None:
    """Commit as a writer does that ignores the catalog."""
    catalog.root.write(catalog.place(id), rows([77]), mode="append")


class TestTheStoreFails:
    def test_before_the_manifest_is_in_place(
        self, managed: Catalog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Registered is committed: not a failure, and the next read shows it."""
        request = stage(managed, A)
        store = managed.ns.context.store

        def fails(source: str, target: str) -> bool:
            raise OSError("the cable")

        with monkeypatch.context() as patch:
            patch.setattr(store, "copy_if_absent", fails)
            with pytest.raises(CommitOutcomeUnknownError, match="next read"):
                managed.create_table_version(request)
        assert numbers(managed, A) == [2, 1]
        final = f"{managed.place(A)}/_versions/{manifest_name(2, Naming.V2)}"
        assert final in managed.root.paths()

    def test_when_tidying_up(self, managed: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
        """The version is there; what it was staged as is left for repair."""
        request = stage(managed, A)

        def fails(paths: Any) -> None:
            raise OSError("the cable")

        with monkeypatch.context() as patch:
            patch.setattr(managed.ns.context.store, "delete", fails)
            assert managed.create_table_version(request).version.version == 2
        assert numbers(managed, A) == [2, 1]
        kinds = [p.kind for p in check(managed.ns.context, grace_seconds=-3600).problems]
        assert kinds == ["stray-files"]


class TestSomebodyIgnoresTheCatalog:
    def test_one_version(self, managed: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
        """The name is taken, so theirs is the version; ours was never."""
        request = stage(managed, A)
        after_the_row(monkeypatch, lambda: bypass(managed, A))
        with pytest.raises(ConcurrentModificationError, match="exists already"):
            managed.create_table_version(request)
        assert numbers(managed, A) == [2, 1]
        assert managed.data(A) == [1, 77]
        assert managed.rows()["a$2"]["metadata"].find("staged_name") == -1

    def test_a_batch(self, managed: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
        """None of it: the other table's version is taken back in the same commit."""
        call = batch(managed)
        after_the_row(monkeypatch, lambda: bypass(managed, B))
        with pytest.raises(ConcurrentModificationError, match="exists already") as caught:
            call()
        assert not isinstance(caught.value, CommitOutcomeUnknownError)
        assert (numbers(managed, A), numbers(managed, B)) == ([1], [2, 1])
        assert (managed.data(A), managed.data(B)) == ([1], [1, 77])
        monkeypatch.undo()
        managed.create_table_version(stage(managed, A))
        assert numbers(managed, A) == [2, 1]

    def test_a_batch_at_the_last_moment(
        self, managed: Catalog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Between the last look and the manifest: nobody can tell that nothing happened."""
        call = batch(managed)
        taken = commit._is_taken

        def late(one: Any) -> bool:
            found = taken(one)
            if one.target.key == "b":
                bypass(managed, B)
            return found

        monkeypatch.setattr(commit, "_is_taken", late)
        with pytest.raises(CommitOutcomeUnknownError, match="Look at each"):
            call()
        assert (numbers(managed, A), numbers(managed, B)) == ([2, 1], [2, 1])
        assert managed.data(B) == [1, 77]
