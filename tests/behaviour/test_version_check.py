"""What check finds of registered versions, and what repair makes of it (I34, invariant 7)."""

from __future__ import annotations

import pytest

from lance_catalog.config import Mode
from lance_catalog.directory.managed import commit
from lance_catalog.maintenance.check import check
from lance_catalog.maintenance.findings import Kind, Problem
from lance_catalog.maintenance.repair import apply, plan
from lance_catalog.manifest import Change
from lance_catalog.storage.manifests import Naming, manifest_name
from lance_catalog.versions.registry import Registered, key_of
from tests.behaviour.catalogs import Catalog, ipc, rows

pytestmark = [pytest.mark.modes(Mode.V2, Mode.COMPAT), pytest.mark.stores("local", "s3")]

T = ["ns", "t"]
KEY = "ns$t"
#: Nobody's grace: whatever lies there is nobody's work on its way.
NOW = -3600.0


def numbers(catalog: Catalog) -> list[int]:
    return [v.version for v in catalog.list_table_versions({"id": T}).versions]


def found(catalog: Catalog) -> list[Problem]:
    return check(catalog.ns.context, grace_seconds=NOW).problems


def kinds(catalog: Catalog) -> list[str]:
    return [problem.kind for problem in found(catalog)]


def mend(catalog: Catalog) -> None:
    """Repair; nothing is left to find."""
    results = apply(catalog.ns.context, plan(catalog.ns.context, grace_seconds=NOW))
    assert [why for _, why in results if why is not None] == []
    assert found(catalog) == []


def path_of(catalog: Catalog, version: int) -> str:
    return f"{catalog.place(T)}/_versions/{manifest_name(version, Naming.V2)}"


@pytest.fixture
def managed(catalog: Catalog) -> Catalog:
    """A managed table with versions 1 to 4."""
    catalog.namespace("ns")
    catalog.enable_managed_versions()
    catalog.create(T, [1])
    for number in (2, 3, 4):
        catalog.insert_into_table({"id": T}, ipc(rows([number])))
    assert found(catalog) == []
    return catalog


def test_versions_of_others(managed: Catalog) -> None:
    """Committed without the catalog: shown at once, registered by a repair."""
    managed.root.write(managed.place(T), rows([5]), mode="append")
    assert numbers(managed) == [5, 4, 3, 2, 1]
    assert kinds(managed) == [Kind.FOREIGN_VERSIONS]
    mend(managed)
    assert numbers(managed) == [5, 4, 3, 2, 1]
    assert managed.data(T) == [1, 2, 3, 4, 5]


def test_manifests_of_deleted_versions(managed: Catalog) -> None:
    """A deletion that died after its rows: not shown, and never back by drop and undrop."""
    kept = managed.root.get(path_of(managed, 2))
    managed.batch_delete_table_versions(
        {"id": T, "ranges": [{"start_version": 2, "end_version": 3}]}
    )
    managed.root.put(path_of(managed, 2), kept)
    assert numbers(managed) == [4, 3, 1]
    managed.drop_table({"id": T})
    managed.undrop_table(T)
    assert numbers(managed) == [4, 3, 1]
    place = managed.place(T)
    managed.deregister_table({"id": T})
    managed.register_table({"id": T, "location": place})
    assert numbers(managed) == [4, 3, 1]
    assert kinds(managed) == [Kind.DELETED_VERSIONS]
    mend(managed)
    assert path_of(managed, 2) not in managed.root.paths()


def test_a_tagged_one_is_a_version_again(managed: Catalog) -> None:
    kept = managed.root.get(path_of(managed, 2))
    managed.root.dataset(managed.place(T)).tags.create("x", 2)
    managed.batch_delete_table_versions(
        {"id": T, "ranges": [{"start_version": 2, "end_version": 3}]}
    )
    managed.root.put(path_of(managed, 2), kept)
    mend(managed)
    assert numbers(managed) == [4, 3, 2, 1]


def test_rows_whose_manifests_are_gone(managed: Catalog) -> None:
    """Lance's own cleanup does not tell the catalog."""
    managed.root.dataset(managed.place(T)).cleanup_old_versions(versions=[1, 2])
    assert kinds(managed) == [Kind.LOST_VERSIONS]
    mend(managed)
    assert numbers(managed) == [4, 3]


def test_rows_of_nothing(managed: Catalog) -> None:
    row = Registered(1, Naming.V2, 1, None, 0).row("ns$gone", "gone")
    managed.ns.context.commit(lambda view: (Change(add=(row,)), None))
    assert kinds(managed) == [Kind.ORPHAN_VERSIONS]
    mend(managed)
    assert key_of("ns$gone", 1) not in managed.rows()


def test_rows_where_nothing_is_managed(catalog: Catalog) -> None:
    """Native writers fail on them."""
    catalog.create(["t"])
    row = Registered(1, Naming.V2, 1, None, 0).row("t", "t.lance")
    catalog.ns.context.commit(lambda view: (Change(add=(row,)), None))
    assert kinds(catalog) == [Kind.ORPHAN_VERSIONS]
    mend(catalog)


def unfinished(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> str:
    """Register a version whose committer dies before its manifest is in place; its staged path."""
    staged = path_of(catalog, 5) + "-0000"
    catalog.root.put(staged, catalog.root.get(path_of(catalog, 4)))

    def dies(prepared: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(commit, "publish", dies)
    request = {"id": T, "version": 5, "manifest_path": staged, "naming_scheme": "V2"}
    with pytest.raises(KeyboardInterrupt):
        catalog.create_table_version(request)
    monkeypatch.undo()
    return staged


def test_a_version_that_is_not_in_place(managed: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its staged file is nobody's to tidy up until it is."""
    staged = unfinished(managed, monkeypatch)
    assert kinds(managed) == [Kind.UNFINISHED_VERSION]
    mend(managed)
    assert numbers(managed) == [5, 4, 3, 2, 1]
    assert staged not in managed.root.paths()


def test_a_version_that_is_nowhere(managed: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never acknowledged; the one before is the latest, and its number is used again."""
    managed.root.remove(unfinished(managed, monkeypatch))
    assert kinds(managed) == [Kind.LOST_VERSIONS]
    mend(managed)
    assert numbers(managed) == [4, 3, 2, 1]
    managed.insert_into_table({"id": T}, ipc(rows([5])))
    assert numbers(managed) == [5, 4, 3, 2, 1]


def test_grace(managed: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is young may be somebody's work on its way."""
    unfinished(managed, monkeypatch)
    assert check(managed.ns.context).problems == []
