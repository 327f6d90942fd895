"""Upkeep of ``__manifest``: what commits do bit by bit, and ``upkeep`` does at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance.namespace
import lance_namespace as ln
import pytest

from lance_catalog import DirectoryNamespace
from lance_catalog.config import DEFAULT_RETENTION_MS, Mode
from lance_catalog.errors import UnsupportedOperationError
from lance_catalog.maintenance.check import check
from lance_catalog.manifest import indices, retention
from lance_catalog.manifest import upkeep as manifest_upkeep
from lance_catalog.manifest.log import ManifestLog
from lance_catalog.manifest.own_version import OwnVersion
from lance_catalog.manifest.retention import Retention
from lance_catalog.manifest.upkeep import now_ms
from lance_catalog.storage.manifests import Naming, manifest_name, parse_manifest_name
from tests.behaviour.catalogs import Catalog, code

pytestmark = [pytest.mark.modes(Mode.V2, Mode.COMPAT)]

MEMORY_AND_CLOUD = pytest.mark.stores("memory", "s3", "azurite")
LATER = DEFAULT_RETENTION_MS + 24 * 3600 * 1000


def later() -> int:
    """A clock that is past the retention of everything written so far."""
    return now_ms() + LATER


def grow(ns: Any, count: int, prefix: str = "n") -> list[str]:
    names = [f"{prefix}{number:04}" for number in range(count)]
    for name in names:
        ns.create_namespace({"id": [name]})
    return names


def states(catalog: Catalog) -> dict[int, int]:
    """Every version by its size: 0 is a placeholder."""
    found = {}
    for path in catalog.root.paths("__manifest/_versions/"):
        parsed = parse_manifest_name(path.rsplit("/", 1)[-1])
        if parsed is not None:
            found[parsed[0]] = len(catalog.root.get(path))
    return dict(sorted(found.items()))


def live(catalog: Catalog) -> list[int]:
    return [version for version, size in states(catalog).items() if size]


def assert_whole(catalog: Catalog, names: list[str]) -> None:
    """Every version that is left can be read, nothing is stray, fresh readers see everything."""
    for version in live(catalog):
        catalog.manifest().checkout_version(version).to_table()
    ns = catalog.open()
    ns.context.log = ManifestLog(ns.context.store)
    assert ns.list_namespaces({"id": []}).namespaces == sorted(names)
    assert check(ns.context, grace_seconds=-3600).problems == []


class TestOnDemand:
    @MEMORY_AND_CLOUD
    def test_everything_at_once(self, catalog: Catalog) -> None:
        names = grow(catalog, 12)
        catalog.drop_namespace({"id": [names.pop()]})
        catalog.context.clock = later
        planned = catalog.upkeep(dry_run=True)
        assert planned.fragments_before > planned.fragments_after == 1
        assert planned.versions_removed >= 12
        before = states(catalog)
        told: list[tuple[int, int]] = []
        done = catalog.upkeep(progress=lambda *step: told.append(step))
        assert (done.fragments_before, done.fragments_after) == (planned.fragments_before, 1)
        assert done.indices_refreshed
        assert done.versions_removed >= planned.versions_removed
        assert done.files_removed >= planned.files_removed > 0
        assert done.bytes_removed >= planned.bytes_removed > 0
        assert told[-1] == (done.versions_removed, done.versions_removed)
        after = states(catalog)
        assert set(before) <= set(after), "a name is gone"
        assert len(live(catalog)) == 2
        assert len(catalog.root.paths("__manifest/data/")) <= 2
        assert_whole(catalog, names)
        again = catalog.upkeep()
        assert (again.fragments_after, again.versions_removed) == (1, 0)
        names += grow(catalog, 3, "more")
        assert_whole(catalog, names)

    def test_a_dry_run_changes_nothing(self, catalog: Catalog) -> None:
        grow(catalog, 4)
        before = catalog.root.digest()
        assert catalog.upkeep(keep=0, prune_names=True, dry_run=True).names_removed > 0
        assert catalog.root.digest() == before

    @MEMORY_AND_CLOUD
    def test_names_go_on_demand_only(self, catalog: Catalog) -> None:
        names = grow(catalog, 6)
        catalog.context.clock = later
        catalog.upkeep()
        placeholders = [version for version, size in states(catalog).items() if not size]
        assert len(placeholders) >= 5
        pruned = catalog.upkeep(prune_names=True)
        assert pruned.names_removed >= len(placeholders)
        assert 0 not in states(catalog).values()
        names += grow(catalog, 3, "more")
        assert_whole(catalog, names)

    @pytest.mark.stores("local")
    def test_only_what_ended_before_the_time(self, catalog: Catalog) -> None:
        names = grow(catalog, 10)
        latest = catalog.manifest().version
        day = 24 * 3600 * 1000
        for version in range(1, latest + 1):
            written = now_ms() - (latest - version) * day
            path = f"{catalog.root.folder}/__manifest/_versions/{_name(version)}"
            os.utime(path, ns=(written * 10**6, written * 10**6))
        catalog.upkeep(keep="3d")
        # The version that ended three days ago is the one whose successor is three days old.
        assert live(catalog)[0] == latest - 3
        assert_whole(catalog, names)

    @pytest.mark.stores("memory")
    def test_writers_that_are_always_first_do_not_keep_old_versions(
        self, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        names = grow(catalog, 6)
        catalog.context.clock = later
        monkeypatch.setattr(OwnVersion, "run", lambda attempt, build: False)
        assert code(catalog.upkeep) == 14
        assert len(live(catalog)) == 2
        assert_whole(catalog, names)

    def test_never_and_nothing(self, catalog: Catalog) -> None:
        assert catalog.upkeep().fragments_before == 0, "an upkeep of nothing makes nothing"
        assert catalog.root.paths() == []
        grow(catalog, 4)
        before = live(catalog)
        assert catalog.upkeep(keep="never").versions_removed == 0
        assert set(before) <= set(live(catalog))
        ns = catalog.open(manifest_retention="never")
        ns.context.clock = later
        assert ns.upkeep().versions_removed == 0
        assert code(catalog.upkeep, keep="soon") == 13

    def test_v1_has_none(self, catalog: Catalog) -> None:
        with pytest.raises(UnsupportedOperationError, match="manifest_enabled"):
            catalog.open(Mode.V1).upkeep()


class TestKept:
    @MEMORY_AND_CLOUD
    def test_what_a_tag_holds(self, catalog: Catalog) -> None:
        """Its version, its files, whatever the versions around it come to."""
        names = grow(catalog, 5)
        tagged = catalog.manifest().version
        rows = catalog.manifest().to_table().num_rows
        catalog.manifest().tags.create("keep", tagged)
        names += grow(catalog, 20, "more")
        catalog.context.clock = later
        catalog.upkeep()
        catalog.upkeep()
        assert live(catalog)[:-2] == [tagged]
        assert catalog.manifest().checkout_version("keep").to_table().num_rows == rows
        assert_whole(catalog, names)
        catalog.manifest().tags.delete("keep")
        assert catalog.upkeep().versions_removed == 1
        assert_whole(catalog, names)

    @pytest.mark.stores("memory")
    def test_without_asking_for_tags_their_data_goes(
        self, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The planted bug: what the test above looks for is there to be seen."""
        names = grow(catalog, 5)
        tagged = catalog.manifest().version
        catalog.manifest().tags.create("keep", tagged)
        names += grow(catalog, 20, "more")
        catalog.context.clock = later
        monkeypatch.setattr(retention, "_kept_versions", lambda dataset: set())
        catalog.upkeep()
        assert tagged not in live(catalog)
        assert_whole(catalog, names)

    @pytest.mark.stores("memory")
    def test_what_a_branch_holds(self, catalog: Catalog) -> None:
        names = grow(catalog, 5)
        version = catalog.manifest().version
        catalog.manifest().create_branch("side", version)
        names += grow(catalog, 20, "more")
        catalog.context.clock = later
        catalog.upkeep()
        assert version in live(catalog)
        side = catalog.manifest().checkout_version(("side", None))
        assert side.to_table().num_rows == 5
        assert_whole(catalog, names)

    @pytest.mark.stores("memory")
    def test_what_a_restore_brought_back(self, catalog: Catalog) -> None:
        names = grow(catalog, 3)
        old = catalog.manifest().version
        grow(catalog, 20, "undone")
        catalog.manifest().checkout_version(old).restore()
        assert catalog.namespaces() == names
        names += grow(catalog, 3, "more")
        for _ in range(2):
            Retention(catalog.context.store, catalog.context.log.uri).all(
                catalog.manifest(), older_than_ms=later()
            )
            assert_whole(catalog, names)

    @pytest.mark.stores("memory")
    @pytest.mark.parametrize("v1_names", [False, True])
    def test_versions_named_either_way(self, catalog: Catalog, v1_names: bool) -> None:
        names = grow(catalog, 2)
        if v1_names:
            table = catalog.manifest().to_table()
            store: Any = catalog.context.store
            store.delete_tree("__manifest")
            catalog.root.write("__manifest", table, enable_v2_manifest_paths=False)
        names += grow(catalog, 20, "more")
        catalog.context.log.care.clock = later
        names += grow(catalog, 20, "after")
        assert live(catalog)[0] > 16
        catalog.context.clock = later
        catalog.upkeep()
        assert len(live(catalog)) == 2
        assert_whole(catalog, names)


class TestByCommits:
    @MEMORY_AND_CLOUD
    def test_old_versions_go_bit_by_bit(self, catalog: Catalog) -> None:
        names = grow(catalog, 40)
        assert live(catalog)[0] == 1, "nothing is old yet"
        catalog.context.log.care.clock = later
        names += grow(catalog, 64, "more")
        left = live(catalog)
        assert len(left) <= 2 + 16
        assert 0 not in [states(catalog)[version] for version in left]
        assert list(states(catalog)) == list(range(1, left[-1] + 1)), "a name is gone"
        assert_whole(catalog, names)

    @pytest.mark.stores("memory")
    def test_a_new_process_finds_where_the_others_stopped(self, catalog: Catalog) -> None:
        """By a few looks, not by a listing: and goes on from there."""
        names = grow(catalog, 60)
        store = catalog.context.store
        uri = catalog.context.log.uri
        latest = catalog.manifest()
        naming = catalog.context.log._latest.naming
        first = Retention(store, uri).some(latest, naming, older_than_ms=later(), limit=30)
        assert first.versions == 30
        other = Retention(store, uri)
        looks: list[int] = []
        real = other._head

        def head(version: int, named: Any) -> Any:
            looks.append(version)
            return real(version, named)

        other._head = head  # type: ignore[method-assign]
        second = other.some(latest, naming, older_than_ms=later(), limit=5)
        assert second.versions == 5
        assert len(looks) <= 6 + 1 + 6
        looks.clear()
        assert other.some(latest, naming, older_than_ms=0, limit=5).versions == 0
        assert len(looks) == 2, "when nothing is due, two looks tell"
        assert live(catalog)[0] == 36
        assert_whole(catalog, names)

    @pytest.mark.stores("memory")
    def test_gaps_and_tags_are_stepped_over(self, catalog: Catalog) -> None:
        names = grow(catalog, 40)
        catalog.manifest().tags.create("keep", 3)
        for version in (1, 2, 7, 8):
            catalog.root.remove(f"__manifest/_versions/{_name(version)}")
        log = catalog.context.log
        ours = Retention(log.store, log.uri)
        for _ in range(10):
            ours.some(catalog.manifest(), log._latest.naming, older_than_ms=later(), limit=8)
        latest = catalog.manifest().version
        assert live(catalog) == [3, latest - 1, latest]
        assert 7 not in states(catalog)
        assert_whole(catalog, names)

    @pytest.mark.stores("memory")
    def test_reads_do_nothing_of_it(self, catalog: Catalog) -> None:
        grow(catalog, 20)
        catalog.context.log.care.clock = later
        before = catalog.root.digest()
        for _ in range(40):
            catalog.namespaces()
        assert catalog.root.digest() == before

    @pytest.mark.stores("memory")
    def test_a_failure_is_no_failure_of_the_commit(
        self, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        grow(catalog, 20)
        catalog.context.log.care.clock = later

        def fail(*args: Any, **more: Any) -> Any:
            raise OSError("no")

        monkeypatch.setattr(Retention, "some", fail)
        monkeypatch.setattr(indices, "is_due", fail)
        names = grow(catalog, 20, "more")
        assert set(names) <= set(catalog.namespaces())

    @pytest.mark.stores("memory")
    def test_two_at_once_are_as_good_as_one(
        self, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The other one does all of it between our reading a version and deleting its files."""
        names = grow(catalog, 30)
        log = catalog.context.log
        latest, naming = catalog.manifest(), log._latest.naming
        real = type(log.store).delete
        armed = [True]

        def delete(store: Any, paths: Any) -> None:
            if armed:
                armed.clear()
                other = Retention(log.store, log.uri)
                other.some(latest, naming, older_than_ms=later(), limit=100)
            real(store, paths)

        monkeypatch.setattr(type(log.store), "delete", delete)
        Retention(log.store, log.uri).some(latest, naming, older_than_ms=later(), limit=100)
        assert not armed
        assert len(live(catalog)) == 2
        assert_whole(catalog, names)


class TestIndices:
    @pytest.mark.stores("memory")
    def test_a_refused_refresh_leaves_nothing(
        self, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whoever was first, ours or native: no index, no transaction, no staged manifest."""
        names = grow(catalog, 5)
        log = catalog.context.log
        for other in (_ours(catalog), _native(catalog)):
            dataset = log.dataset()
            names.append(other())
            before = set(catalog.root.paths("__manifest/"))
            assert indices.is_incomplete(dataset)
            assert not indices.refresh(log.store, log.uri, dataset, log._latest.naming)
            assert set(catalog.root.paths("__manifest/")) == before
        real = OwnVersion._commit

        def late(attempt: OwnVersion, gate: Any, operation: Any) -> bool:
            names.append(_ours(catalog)())
            before.update(catalog.root.paths("__manifest/_versions/"))
            before.update(catalog.root.paths("__manifest/_transactions/"))
            before.update(catalog.root.paths("__manifest/data/"))
            return real(attempt, gate, operation)

        monkeypatch.setattr(OwnVersion, "_commit", late)
        before = set(catalog.root.paths("__manifest/"))
        dataset = log.dataset()
        assert not indices.refresh(log.store, log.uri, dataset, log._latest.naming)
        assert set(catalog.root.paths("__manifest/")) == before
        assert_whole(catalog, names)

    @MEMORY_AND_CLOUD
    def test_a_refresh_is_one_version_and_covers_everything(self, catalog: Catalog) -> None:
        names = grow(catalog, 5)
        log = catalog.context.log
        for _ in range(2):
            names += grow(catalog, 2, f"more{len(names)}")
            version = log.dataset().version
            assert indices.refresh(log.store, log.uri, log.dataset(), log._latest.naming)
            manifest = catalog.manifest()
            assert manifest.version == version + 1
            assert not indices.is_incomplete(manifest)
            assert [len(index.segments) for index in manifest.describe_indices()] == [1, 1, 1]
            for name in (names[0], names[-1]):
                found = manifest.to_table(filter=f"object_id = '{name}'")
                assert found.num_rows == 1
            plan = manifest.scanner(filter="object_id = 'n0000'").explain_plan()
            assert "object_id_btree" in plan
        assert_whole(catalog, names)

    @pytest.mark.stores("memory")
    def test_rows_that_moved_are_found(self, catalog: Catalog) -> None:
        """Merging takes rows out of fragments that the index covers, and a refresh takes note."""
        names = grow(catalog, 10)
        catalog.upkeep(keep="never")
        names += grow(catalog, 40, "more")
        catalog.upkeep(keep="never")
        manifest = catalog.manifest()
        assert not indices.is_incomplete(manifest)
        for name in names:
            assert manifest.to_table(filter=f"object_id = '{name}'").num_rows == 1, name

    @pytest.mark.stores("memory")
    def test_an_index_of_another_kind_is_replaced(self, catalog: Catalog) -> None:
        grow(catalog, 3)
        catalog.manifest().create_scalar_index(
            "object_id", "BITMAP", name="object_id_btree", replace=True
        )
        catalog.namespace("x")
        log = catalog.context.log
        assert indices.refresh(log.store, log.uri, log.dataset(), log._latest.naming)
        kinds = {i.name: i.index_type.upper() for i in catalog.manifest().describe_indices()}
        assert kinds["object_id_btree"] == "BTREE"

    @pytest.mark.stores("memory")
    def test_when_it_is_due(self, catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
        """A few rows outside do not matter, nor a small share of many; readers agree."""
        grow(catalog, 3)
        catalog.upkeep(keep="never")
        names = grow(catalog, 8, "more")
        for unindexed, due in ((len(names), False), (len(names) - 1, True)):
            monkeypatch.setattr(indices, "_UNINDEXED", unindexed)
            assert indices.is_due(catalog.manifest()) is due
            assert manifest_upkeep.is_indexed(catalog.manifest()) is not due
        monkeypatch.setattr(indices, "_SHARE", 1)
        assert not indices.is_due(catalog.manifest())


def _name(version: int) -> str:
    return manifest_name(version, Naming.V2)


def _ours(catalog: Catalog) -> Callable[[], str]:
    def write() -> str:
        ns = catalog.open()
        ns.context.log = ManifestLog(ns.context.store)
        name = f"other{len(ns.list_namespaces({'id': []}).namespaces)}"
        ns.create_namespace({"id": [name]})
        return name

    return write


def _native(catalog: Catalog) -> Callable[[], str]:
    def write() -> str:
        root = Path(catalog.root.folder or "")
        peer = lance.namespace.DirectoryNamespace(root=str(root))
        peer.create_namespace(ln.CreateNamespaceRequest(id=["native"]))
        return "native"

    return write


def test_commits_keep_what_the_property_says(tmp_path: Path) -> None:
    """One log per root, process and retention."""
    kept = DirectoryNamespace(root=str(tmp_path), manifest_retention="never")
    short = DirectoryNamespace(root=str(tmp_path), manifest_retention="1h")
    assert kept.context.log is not short.context.log
    assert (kept.context.log.care.keep_ms, short.context.log.care.keep_ms) == (None, 3_600_000)
    kept.context.log.care.clock = later
    grow(kept, 40)
    assert all(path.stat().st_size for path in (tmp_path / "__manifest/_versions").iterdir())
    short.context.log.care.clock = lambda: now_ms() + 2 * 3_600_000
    grow(short, 20, "more")
    assert not all(path.stat().st_size for path in (tmp_path / "__manifest/_versions").iterdir())
