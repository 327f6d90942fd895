"""Versions of a table as files: list, describe, create, delete; alone and under stock Lance."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lance
import lance_namespace as ln
import pyarrow as pa
import pytest
from lance.namespace import DirectoryNamespace

from lance_catalog import errors
from lance_catalog.config import Mode, Settings
from lance_catalog.directory import table_versions
from lance_catalog.directory.context import Context
from lance_catalog.storage.local import LocalStore
from lance_catalog.storage.manifests import Naming, manifest_name
from lance_catalog.storage.port import ObjectInfo
from lance_catalog.versions import (
    check_version,
    create_version,
    delete_versions,
    describe_version,
    list_versions,
)

T = "t.lance"
RACERS = 8


def rows(count: int) -> pa.Table:
    return pa.table({"x": list(range(count))})


def make(root: Path, versions: int, *, v2: bool = True, name: str = T) -> lance.LanceDataset:
    """Write a table of so many versions, one row each."""
    for number in range(versions):
        lance.write_dataset(
            rows(1),
            str(root / name),
            mode="append" if number else "create",
            enable_v2_manifest_paths=v2,
        )
    return lance.dataset(str(root / name))


def stage(root: Path, data: bytes, name: str = "staged.manifest-1", folder: str = T) -> str:
    """Put a staged manifest beside the final ones; return its path as Lance would give it."""
    path = root / folder / "_versions" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return str(path).lstrip("/")


def manifest(root: Path, version: int, naming: Naming = Naming.V2) -> Path:
    return root / T / "_versions" / manifest_name(version, naming)


def names(root: Path, folder: str = T) -> set[str]:
    found = {path.name for path in (root / folder / "_versions").iterdir()}
    return found - {"latest_version_hint.json"}


def digest(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def numbers(found: list[ln.TableVersion]) -> list[int]:
    return [version.version for version in found]


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(str(tmp_path))


@pytest.fixture(params=[True, False], ids=["V2", "V1"])
def v2(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


# List.


def test_list_is_latest_first_unless_asked_otherwise(
    tmp_path: Path, store: LocalStore, v2: bool
) -> None:
    make(tmp_path, 4, v2=v2)
    assert numbers(list_versions(store, T)[0]) == [4, 3, 2, 1]
    assert numbers(list_versions(store, T, descending=True)[0]) == [4, 3, 2, 1]
    assert numbers(list_versions(store, T, descending=False)[0]) == [1, 2, 3, 4]


def test_list_tells_path_size_tag_and_time(tmp_path: Path, store: LocalStore, v2: bool) -> None:
    make(tmp_path, 2, v2=v2)
    naming = Naming.V2 if v2 else Naming.V1
    for version in list_versions(store, T)[0]:
        file = manifest(tmp_path, version.version, naming)
        assert version.manifest_path == str(file).lstrip("/")
        assert version.manifest_size == file.stat().st_size
        assert version.timestamp_millis == file.stat().st_mtime_ns // 1_000_000
        assert version.e_tag
        assert describe_version(store, T, version.version) == version


def test_manifest_path_is_native_s(tmp_path: Path) -> None:
    root = tmp_path / "a b%20ü#1"
    make(root, 1)
    open_native: Any = DirectoryNamespace
    native = open_native(root=str(root), manifest_enabled="false")
    theirs = native.list_table_versions(ln.ListTableVersionsRequest(id=["t"])).versions[0]
    ours = list_versions(LocalStore(str(root)), T)[0][0]
    assert ours.manifest_path == theirs.manifest_path
    assert ours.manifest_size == theirs.manifest_size
    assert ours.timestamp_millis == theirs.timestamp_millis


@pytest.mark.parametrize("descending", [None, True, False])
def test_pages_are_complete_at_every_size(
    tmp_path: Path, store: LocalStore, v2: bool, descending: bool | None
) -> None:
    make(tmp_path, 7, v2=v2)
    expected = [1, 2, 3, 4, 5, 6, 7] if descending is False else [7, 6, 5, 4, 3, 2, 1]
    for limit in range(1, 9):
        seen: list[int] = []
        pages = 0
        token: str | None = None
        while True:
            page, token = list_versions(
                store, T, descending=descending, limit=limit, page_token=token
            )
            seen += numbers(page)
            pages += 1
            if token is None:
                break
        assert (seen, pages) == (expected, -(-7 // limit)), limit


def test_a_page_token_outlives_its_version(tmp_path: Path, store: LocalStore) -> None:
    make(tmp_path, 5)
    page, token = list_versions(store, T, limit=2)
    assert (numbers(page), token) == ([5, 4], "4")
    manifest(tmp_path, 4).unlink()
    lance.write_dataset(rows(1), str(tmp_path / T), mode="append")
    assert numbers(list_versions(store, T, limit=9, page_token=token)[0]) == [3, 2, 1]


def test_limits_that_are_none_or_nothing(tmp_path: Path, store: LocalStore) -> None:
    make(tmp_path, 2)
    assert list_versions(store, T, limit=0) == ([], None)
    assert numbers(list_versions(store, T, limit=-1)[0]) == [2, 1]
    assert numbers(list_versions(store, T, page_token="")[0]) == [2, 1]
    for token in ("x", "-1", "1.0", "²"):
        with pytest.raises(errors.InvalidInputError, match="page_token"):
            list_versions(store, T, page_token=token)


def test_what_is_no_version_is_not_listed(tmp_path: Path, store: LocalStore) -> None:
    make(tmp_path, 3)
    manifest(tmp_path, 2).write_bytes(b"")
    for name in (
        "5.manifest-abc",
        manifest_name(6, Naming.V2) + "-abc",
        "0.manifest",
        "99999999999999999999.manifest",
        "d9223372036854775809.manifest",
        "junk",
    ):
        stage(tmp_path, b"x", name)
    assert numbers(list_versions(store, T)[0]) == [3, 1]
    with pytest.raises(errors.TableVersionNotFoundError):
        describe_version(store, T, 2)


def test_a_declared_table_has_no_versions(tmp_path: Path, store: LocalStore) -> None:
    (tmp_path / T).mkdir()
    (tmp_path / T / ".lance-reserved").write_bytes(b"reserved")
    assert list_versions(store, T) == ([], None)
    for version in (None, 1):
        with pytest.raises(errors.TableVersionNotFoundError):
            describe_version(store, T, version)


def test_a_stale_hint_fools_nobody(tmp_path: Path, store: LocalStore) -> None:
    dataset = make(tmp_path, 4)
    dataset.tags.create("keep", 1)
    (tmp_path / T / "_versions" / "latest_version_hint.json").write_text('{"version":1}')
    for version in (2, 3):
        manifest(tmp_path, version).unlink()
    assert numbers(list_versions(store, T, limit=1)[0]) == [4]
    assert describe_version(store, T).version == 4
    path = stage(tmp_path, b"another lineage")
    with pytest.raises(errors.ConcurrentModificationError):
        create_version(store, T, 2, path)


def test_describe(tmp_path: Path, store: LocalStore, v2: bool) -> None:
    make(tmp_path, 3, v2=v2)
    assert describe_version(store, T).version == 3
    assert describe_version(store, T, None).version == 3
    assert describe_version(store, T, 2).version == 2
    for missing in (0, -1, 4, 2**63, 2**64):
        with pytest.raises(errors.TableVersionNotFoundError) as caught:
            describe_version(store, T, missing)
        assert caught.value.code == 11


# Branches.


def test_branches_have_versions_of_their_own(tmp_path: Path, store: LocalStore) -> None:
    dataset = make(tmp_path, 2)
    branch = dataset.create_branch("feature/a")
    lance.write_dataset(rows(1), branch, mode="append")
    dataset.create_branch("plain", 1)
    assert numbers(list_versions(store, T, branch="feature/a")[0]) == [3, 2]
    assert numbers(list_versions(store, T, branch="plain")[0]) == [1]
    assert numbers(list_versions(store, T, branch="main")[0]) == [2, 1]
    assert numbers(list_versions(store, T, branch="")[0]) == [2, 1]
    latest = describe_version(store, T, branch="feature/a")
    assert latest.version == 3
    assert "/tree/feature/a/_versions/" in latest.manifest_path
    with pytest.raises(errors.TableVersionNotFoundError):
        describe_version(store, T, 1, "feature/a")


def test_a_missing_branch_is_22(tmp_path: Path, store: LocalStore) -> None:
    make(tmp_path, 1).create_branch("feature/a")
    calls: list[Callable[[], object]] = [
        lambda: list_versions(store, T, branch="feature"),
        lambda: describe_version(store, T, None, "nope"),
        lambda: describe_version(store, T, 1, "nope"),
        lambda: delete_versions(store, T, [(1, 2)], branch="nope"),
    ]
    for call in calls:
        with pytest.raises(errors.TableBranchNotFoundError) as caught:
            call()
        assert caught.value.code == 22


@pytest.mark.parametrize("branch", ["..", "../..", "a/../b", "/a", "a/", "a//b", ".", "a\\b", "\0"])
def test_a_branch_cannot_lead_out_of_the_table(
    tmp_path: Path, store: LocalStore, branch: str
) -> None:
    make(tmp_path, 2)
    before = digest(tmp_path)
    calls: list[Callable[[], object]] = [
        lambda: list_versions(store, T, branch=branch),
        lambda: describe_version(store, T, 1, branch),
        lambda: create_version(store, T, 3, "x", branch=branch),
        lambda: delete_versions(store, T, [(1, 2)], branch=branch),
    ]
    for call in calls:
        with pytest.raises(errors.InvalidInputError):
            call()
    assert digest(tmp_path) == before


# Create.


def test_create_finalizes_under_the_table_s_scheme(
    tmp_path: Path, store: LocalStore, v2: bool
) -> None:
    """Lance reads what we finalized: version 2 of a twin, moved over."""
    make(tmp_path, 1, v2=v2)
    twin = make(tmp_path, 1, v2=v2, name="twin.lance")
    naming = Naming.V2 if v2 else Naming.V1
    twin.update_config({"made": "elsewhere"})
    data = (tmp_path / "twin.lance" / "_versions" / manifest_name(2, naming)).read_bytes()
    for file in (tmp_path / "twin.lance" / "data").iterdir():
        file.rename(tmp_path / T / "data" / file.name)
    path = stage(tmp_path, data)
    made = create_version(store, T, 2, path, manifest_size=len(data))
    assert made == describe_version(store, T, 2)
    assert made.manifest_path == str(manifest(tmp_path, 2, naming)).lstrip("/")
    assert names(tmp_path) == {manifest_name(1, naming), manifest_name(2, naming)}
    reopened = lance.dataset(str(tmp_path / T))
    assert reopened.version == 2
    assert reopened.config()["made"] == "elsewhere"
    assert reopened.count_rows() == 1


def test_the_first_version(tmp_path: Path, store: LocalStore) -> None:
    (tmp_path / T).mkdir()
    with pytest.raises(errors.ConcurrentModificationError):
        create_version(store, T, 7, stage(tmp_path, b"one"))
    create_version(store, T, 1, stage(tmp_path, b"one"), naming_scheme="V1")
    assert names(tmp_path) == {"1.manifest"}
    create_version(store, T, 2, stage(tmp_path, b"two"))
    assert names(tmp_path) == {"1.manifest", "2.manifest"}


@pytest.mark.parametrize("scheme", ["V9", ""])
def test_an_unknown_scheme_is_13(tmp_path: Path, store: LocalStore, scheme: str) -> None:
    with pytest.raises(errors.InvalidInputError, match="naming_scheme"):
        create_version(store, T, 1, stage(tmp_path, b"one"), naming_scheme=scheme)


def test_schemes_are_not_mixed(tmp_path: Path, store: LocalStore, v2: bool) -> None:
    make(tmp_path, 1, v2=v2)
    path = stage(tmp_path, b"two")
    before = digest(tmp_path)
    with pytest.raises(errors.InvalidInputError, match="scheme"):
        create_version(store, T, 2, path, naming_scheme="V1" if v2 else "V2")
    assert digest(tmp_path) == before
    create_version(store, T, 2, path, naming_scheme="v2" if v2 else "v1")


def test_same_bytes_again_is_success_again(tmp_path: Path, store: LocalStore) -> None:
    make(tmp_path, 1)
    first = create_version(store, T, 2, stage(tmp_path, b"two"))
    assert create_version(store, T, 2, stage(tmp_path, b"two", "again.manifest-2")) == first
    assert len(names(tmp_path)) == 2


def test_other_bytes_are_refused(tmp_path: Path, store: LocalStore) -> None:
    make(tmp_path, 1)
    create_version(store, T, 2, stage(tmp_path, b"two"))
    with pytest.raises(errors.TableVersionAlreadyExistsError) as caught:
        create_version(store, T, 2, stage(tmp_path, b"other"))
    assert caught.value.code == 12
    assert isinstance(caught.value, errors.ConcurrentModificationError)
    assert manifest(tmp_path, 2).read_bytes() == b"two"
    # The refused one can never land: it is gone too.
    assert len(names(tmp_path)) == 2
    # Nothing staged, but the version is there: put-if-not-exists says so.
    with pytest.raises(errors.TableVersionAlreadyExistsError):
        create_version(store, T, 2, "gone.manifest-1")


def test_a_gap_is_14_and_may_be_tried_again(tmp_path: Path, store: LocalStore) -> None:
    make(tmp_path, 2)
    path = stage(tmp_path, b"four")
    before = digest(tmp_path)
    with pytest.raises(errors.ConcurrentModificationError) as caught:
        create_version(store, T, 4, path)
    assert caught.value.code == 14
    assert digest(tmp_path) == before
    create_version(store, T, 3, stage(tmp_path, b"three", "other.manifest-3"))
    assert create_version(store, T, 4, path).version == 4


def test_the_past_is_closed(tmp_path: Path, store: LocalStore) -> None:
    make(tmp_path, 3)
    manifest(tmp_path, 2).unlink()
    with pytest.raises(errors.ConcurrentModificationError) as caught:
        create_version(store, T, 2, stage(tmp_path, b"two"))
    assert caught.value.code == 14
    assert names(tmp_path) == {manifest_name(v, Naming.V2) for v in (1, 3)}


def test_a_placeholder_keeps_its_name_taken(tmp_path: Path, store: LocalStore) -> None:
    make(tmp_path, 3)
    manifest(tmp_path, 2).write_bytes(b"")
    with pytest.raises(errors.TableVersionAlreadyExistsError):
        create_version(store, T, 2, stage(tmp_path, b"two"))
    assert manifest(tmp_path, 2).read_bytes() == b""


def test_nothing_staged_is_13(tmp_path: Path, store: LocalStore) -> None:
    make(tmp_path, 1)
    with pytest.raises(errors.InvalidInputError, match="staged"):
        create_version(store, T, 2, "nowhere.manifest-1")
    with pytest.raises(errors.InvalidInputError, match="staged"):
        create_version(store, T, 2, stage(tmp_path, b""))
    with pytest.raises(errors.InvalidInputError, match="bytes"):
        create_version(store, T, 2, stage(tmp_path, b"two"), manifest_size=4)
    for version in (0, -1):
        with pytest.raises(errors.InvalidInputError, match="from 1"):
            create_version(store, T, version, stage(tmp_path, b"two"))
    assert numbers(list_versions(store, T)[0]) == [1]


def test_only_the_name_of_a_staged_path_counts(tmp_path: Path, store: LocalStore) -> None:
    make(tmp_path, 1)
    elsewhere = tmp_path / "elsewhere.manifest-1"
    elsewhere.write_bytes(b"not yours")
    for path in (str(elsewhere), f"{T}/_versions/../../elsewhere.manifest-1", elsewhere.name):
        with pytest.raises(errors.InvalidInputError):
            create_version(store, T, 2, path)
        assert elsewhere.read_bytes() == b"not yours"
    stage(tmp_path, b"two", "two.manifest-1")
    create_version(store, T, 2, "/some/%20where/else/two.manifest-1")
    assert manifest(tmp_path, 2).read_bytes() == b"two"


@pytest.mark.parametrize(
    "path",
    [
        "",
        "x/",
        "x/..",
        "x/.",
        "a\0b",
        "1.manifest",
        f"{2**64 - 2}.manifest",
        "latest_version_hint.json",
    ],
)
def test_what_must_not_be_consumed_as_staged(tmp_path: Path, store: LocalStore, path: str) -> None:
    make(tmp_path, 1)
    before = digest(tmp_path)
    with pytest.raises(errors.InvalidInputError):
        create_version(store, T, 2, path)
    assert digest(tmp_path) == before


def test_check_says_what_create_would_and_writes_nothing(tmp_path: Path, store: LocalStore) -> None:
    make(tmp_path, 2)
    path = stage(tmp_path, b"bytes")
    before = digest(tmp_path)
    check_version(store, T, 3, path)
    for version, kind in (
        (2, errors.TableVersionAlreadyExistsError),
        (4, errors.ConcurrentModificationError),
        (0, errors.InvalidInputError),
    ):
        with pytest.raises(kind):
            check_version(store, T, version, path)
    assert digest(tmp_path) == before


def test_a_branch_starts_at_its_parent_s_number(tmp_path: Path, store: LocalStore) -> None:
    make(tmp_path, 2)
    folder = f"{T}/tree/feature/a"
    create_version(store, T, 2, stage(tmp_path, b"b2", folder=folder), branch="feature/a")
    with pytest.raises(errors.ConcurrentModificationError):
        create_version(store, T, 4, stage(tmp_path, b"b4", folder=folder), branch="feature/a")
    create_version(store, T, 3, stage(tmp_path, b"b3", folder=folder), branch="feature/a")
    assert numbers(list_versions(store, T, branch="feature/a")[0]) == [3, 2]
    assert numbers(list_versions(store, T)[0]) == [2, 1]


# Create, raced.


class Meeting(LocalStore):
    """Lets every racer come as far as the put before any of them puts."""

    def __init__(self, path: str, parties: int) -> None:
        super().__init__(path)
        self.barrier = threading.Barrier(parties, timeout=30)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self.barrier.wait()
        return super().put_if_absent(path, data)


class Unguarded(Meeting):
    """The planted bug: looks, then puts."""

    def put_if_absent(self, path: str, data: bytes) -> bool:
        absent = self.head(path) is None
        self.barrier.wait()
        if absent:
            self.put(path, data)
        return absent


def race(root: Path, store: Meeting, version: int) -> tuple[list[int], int]:
    """Race eight creators of one version; return the winners and the number of conflicts."""

    def create(racer: int) -> int | None:
        path = stage(root, b"by %d" % racer, f"racer-{racer}.manifest-{version}")
        try:
            create_version(store, T, version, path)
        except errors.TableVersionAlreadyExistsError:
            return None
        return racer

    with ThreadPoolExecutor(RACERS) as pool:
        outcomes = list(pool.map(create, range(RACERS)))
    winners = [racer for racer in outcomes if racer is not None]
    return winners, len(outcomes) - len(winners)


def test_of_eight_creators_one_wins(tmp_path: Path) -> None:
    make(tmp_path, 1)
    store = Meeting(str(tmp_path), RACERS)
    conflicts = 0
    for version in range(2, 12):
        winners, lost = race(tmp_path, store, version)
        conflicts += lost
        assert len(winners) == 1
        assert manifest(tmp_path, version).read_bytes() == b"by %d" % winners[0]
    print(f"conflicts: {conflicts}")
    assert conflicts == 10 * (RACERS - 1)
    assert names(tmp_path) == {manifest_name(v, Naming.V2) for v in range(1, 12)}


def test_the_race_catches_a_store_without_the_guard(tmp_path: Path) -> None:
    make(tmp_path, 1)
    winners, _ = race(tmp_path, Unguarded(str(tmp_path), RACERS), 2)
    assert len(winners) > 1


def test_two_schemes_cannot_both_make_the_first_version(tmp_path: Path) -> None:
    store = Meeting(str(tmp_path), 2)
    for attempt in range(10):
        directory = f"t{attempt}.lance"

        def create(scheme: str, directory: str = directory) -> bool:
            path = stage(tmp_path, scheme.encode(), f"{scheme}.manifest-x", directory)
            try:
                create_version(store, directory, 1, path, naming_scheme=scheme)
            except errors.ConcurrentModificationError:
                return False
            return True

        with ThreadPoolExecutor(2) as pool:
            acknowledged = sum(pool.map(create, ["V1", "V2"]))
        assert acknowledged <= 1
        assert len(list_versions(store, directory)[0]) == acknowledged


class Interrupted(LocalStore):
    """Lets something happen between our listing and our put, or between our put and our look."""

    before_put: Callable[[], None] = staticmethod(lambda: None)
    after_put: Callable[[], None] = staticmethod(lambda: None)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self.before_put()
        try:
            return super().put_if_absent(path, data)
        finally:
            self.after_put()


def test_a_clean_up_behind_us_does_no_harm(tmp_path: Path) -> None:
    make(tmp_path, 2)
    store = Interrupted(str(tmp_path))
    store.after_put = manifest(tmp_path, 2).unlink
    assert create_version(store, T, 3, stage(tmp_path, b"three")).version == 3


def test_no_version_is_acknowledged_in_the_past(tmp_path: Path) -> None:
    """Others go ahead and a clean-up frees our number, all between our listing and our put."""
    make(tmp_path, 2)
    store = Interrupted(str(tmp_path))

    def others() -> None:
        for _ in range(2):
            lance.write_dataset(rows(1), str(tmp_path / T), mode="append")
        for version in (1, 2, 3):
            manifest(tmp_path, version).unlink()

    store.before_put = others
    with pytest.raises(errors.CommitOutcomeUnknownError):
        create_version(store, T, 3, stage(tmp_path, b"three"))
    assert numbers(list_versions(store, T)[0]) == [4]


# Delete.


def test_delete_ranges(tmp_path: Path, store: LocalStore, v2: bool) -> None:
    make(tmp_path, 7, v2=v2)
    data = {name for name in digest(tmp_path) if "/_versions/" not in name}
    assert delete_versions(store, T, []) == 0
    assert delete_versions(store, T, [(3, 3)]) == 0
    assert delete_versions(store, T, [(2, 3)]) == 1
    assert delete_versions(store, T, [(2, 5), (4, 6)]) == 3
    assert delete_versions(store, T, [(2, 6), (50, 60)]) == 0
    assert numbers(list_versions(store, T)[0]) == [7, 6, 1]
    assert delete_versions(store, T, [(0, 7)]) == 2
    assert numbers(list_versions(store, T)[0]) == [7]
    assert {name for name in digest(tmp_path) if "/_versions/" not in name} == data
    assert lance.dataset(str(tmp_path / T)).count_rows() == 7


@pytest.mark.parametrize("span", [(3, 4), (0, 4), (1, 99), (2, -1), (3, -1), (0, -1), (1, -1)])
def test_the_latest_version_stays(tmp_path: Path, store: LocalStore, span: tuple[int, int]) -> None:
    make(tmp_path, 3)
    before = digest(tmp_path)
    for ranges in ([span], [(1, 2), span]):
        with pytest.raises(errors.InvalidTableStateError) as caught:
            delete_versions(store, T, ranges)
        assert caught.value.code == 19
    assert digest(tmp_path) == before


def test_force_is_for_everything_only(tmp_path: Path, store: LocalStore) -> None:
    make(tmp_path, 3)
    for span in ((1, 4), (2, -1), (0, 99)):
        with pytest.raises(errors.InvalidTableStateError):
            delete_versions(store, T, [span], force=True)
    manifest(tmp_path, 2).write_bytes(b"")
    data = {name for name in digest(tmp_path) if "/_versions/" not in name}
    assert delete_versions(store, T, [(0, -1)], force=True) == 2
    assert names(tmp_path) == set()
    assert {name for name in digest(tmp_path) if "/_versions/" not in name} == data
    assert delete_versions(store, T, [(0, -1)]) == 0


@pytest.mark.parametrize("span", [(-1, 2), (3, 2), (1, -2), (-5, -3), (-1, -1)])
def test_what_is_no_range(tmp_path: Path, store: LocalStore, span: tuple[int, int]) -> None:
    make(tmp_path, 3)
    with pytest.raises(errors.InvalidInputError):
        delete_versions(store, T, [span], force=True)
    assert numbers(list_versions(store, T)[0]) == [3, 2, 1]


def test_missing_versions_are_named_before_anything_is_deleted(
    tmp_path: Path, store: LocalStore
) -> None:
    make(tmp_path, 6)
    manifest(tmp_path, 1).unlink()
    manifest(tmp_path, 4).write_bytes(b"")
    before = digest(tmp_path)
    for ranges, missing in (
        ([(1, 3)], 1),
        ([(2, 3), (3, 6)], 4),
        ([(4, 5)], 4),
        ([(7, 2**62)], 7),
        ([(8, -1)], 8),
    ):
        with pytest.raises(errors.TableVersionNotFoundError, match=f"version {missing};"):
            delete_versions(store, T, ranges, ignore_missing=False)
    assert digest(tmp_path) == before
    # From 0 is from the oldest there is.
    assert delete_versions(store, T, [(0, 4)], ignore_missing=False) == 2
    # A placeholder is not a version: it stays, and is not counted.
    assert delete_versions(store, T, [(4, 6)]) == 1
    assert manifest(tmp_path, 4).read_bytes() == b""


def test_missing_versions_of_a_declared_table(tmp_path: Path, store: LocalStore) -> None:
    (tmp_path / T).mkdir()
    assert delete_versions(store, T, [(1, 3), (0, 5)]) == 0
    assert delete_versions(store, T, [(0, 5), (2, 2)], ignore_missing=False) == 0
    with pytest.raises(errors.TableVersionNotFoundError, match="version 1;"):
        delete_versions(store, T, [(1, 3)], ignore_missing=False)


def test_both_names_of_a_version_go_and_count_once(tmp_path: Path, store: LocalStore) -> None:
    make(tmp_path, 3)
    manifest(tmp_path, 2, Naming.V1).write_bytes(manifest(tmp_path, 2).read_bytes())
    assert numbers(list_versions(store, T)[0]) == [3, 2, 1]
    assert delete_versions(store, T, [(2, 3)]) == 1
    assert names(tmp_path) == {manifest_name(v, Naming.V2) for v in (1, 3)}


def test_delete_on_a_branch_leaves_main(tmp_path: Path, store: LocalStore) -> None:
    branch = make(tmp_path, 2).create_branch("b")
    for _ in range(2):
        lance.write_dataset(rows(1), branch, mode="append")
        branch = lance.dataset(str(tmp_path / T)).checkout_version(("b", None))
    assert numbers(list_versions(store, T, branch="b")[0]) == [4, 3, 2]
    assert delete_versions(store, T, [(0, 4)], branch="b") == 2
    with pytest.raises(errors.InvalidTableStateError):
        delete_versions(store, T, [(4, 5)], branch="b")
    assert numbers(list_versions(store, T)[0]) == [2, 1]


# The operations of the interface, and stock Lance on top of them.


class Tables(ln.LanceNamespace):
    """The least a namespace can be: ``<root>/<name>.lance``, versions through us."""

    def __init__(self, store: LocalStore) -> None:
        self.store = store
        self.calls: list[str] = []
        self.refused: list[str] = []
        self.on_create: Iterator[Callable[[], object]] = iter(())

    def locate(self, table_id: list[str] | None) -> tuple[LocalStore, str]:
        if not table_id:
            raise errors.InvalidInputError("a table id is needed")
        if not os.path.isdir(f"{self.store.path}/{table_id[0]}.lance"):
            raise errors.TableNotFoundError(f"no table {table_id}")
        return self.store, f"{table_id[0]}.lance"

    def managed(self, table_id: list[str] | None, branch: str | None = None) -> None:
        """Files alone tell here."""

    @property
    def context(self) -> Context:
        return Context(Settings(self.store.path, Mode.V1), self.store)

    def namespace_id(self) -> str:
        return "tables"

    def declare_table(self, request: Any) -> ln.DeclareTableResponse:
        self.calls.append("declare_table")
        name = request["id"][0] if isinstance(request, Mapping) else request.id[0]
        os.mkdir(f"{self.store.path}/{name}.lance")
        return ln.DeclareTableResponse(
            location=self.store.uri_of(f"{name}.lance"), managed_versioning=True
        )

    def describe_table(self, request: Any) -> ln.DescribeTableResponse:
        _, directory = self.locate(request.id)
        return ln.DescribeTableResponse(
            location=self.store.uri_of(directory), managed_versioning=True
        )

    def deregister_table(self, request: Any) -> ln.DeregisterTableResponse:
        self.calls.append("deregister_table")
        return ln.DeregisterTableResponse()

    def list_table_versions(self, request: Any) -> ln.ListTableVersionsResponse:
        return table_versions.list_table_versions(self, request)

    def describe_table_version(self, request: Any) -> ln.DescribeTableVersionResponse:
        return table_versions.describe_table_version(self, request)

    def create_table_version(self, request: Any) -> ln.CreateTableVersionResponse:
        self.calls.append("create_table_version")
        next(self.on_create, lambda: None)()
        try:
            return table_versions.create_table_version(self, request)
        except errors.LanceNamespaceError as error:
            self.refused.append(type(error).__name__)
            raise

    def write(self, table: pa.Table, mode: str, **options: Any) -> lance.LanceDataset:
        return lance.write_dataset(
            table, namespace_client=self, table_id=["t"], mode=mode, **options
        )

    def open(self) -> lance.LanceDataset:
        return lance.dataset(namespace_client=self, table_id=["t"])


@pytest.fixture
def tables(store: LocalStore) -> Tables:
    return Tables(store)


def test_stock_lance_creates_and_appends(tmp_path: Path, tables: Tables, v2: bool) -> None:
    tables.write(rows(1), "create", enable_v2_manifest_paths=v2)
    tables.write(rows(2), "append")
    assert tables.open().count_rows() == 3
    assert lance.dataset(str(tmp_path / T)).count_rows() == 3
    naming = Naming.V2 if v2 else Naming.V1
    assert names(tmp_path) == {manifest_name(v, naming) for v in (1, 2)}
    assert tables.calls.count("create_table_version") == 2


def test_stock_lance_rebases_two_appends_of_one_version(tmp_path: Path, tables: Tables) -> None:
    """The second asks for the number that the first takes while it asks; nothing is lost."""
    tables.write(rows(1), "create")
    uri = str(tmp_path / T)
    tables.on_create = iter([lambda: lance.write_dataset(rows(10), uri, mode="append")])
    tables.write(rows(100), "append")
    assert tables.refused == ["TableVersionAlreadyExistsError"]
    assert tables.open().count_rows() == 111
    assert lance.dataset(uri).count_rows() == 111
    # The refused manifest is gone from the folder.
    assert names(tmp_path) == {manifest_name(v, Naming.V2) for v in (1, 2, 3)}


def test_stock_lance_sees_a_real_conflict(tmp_path: Path, tables: Tables) -> None:
    tables.write(rows(3), "create")
    uri = str(tmp_path / T)
    tables.on_create = iter([lambda: lance.write_dataset(rows(5), uri, mode="overwrite")])
    with pytest.raises(OSError, match=r"conflict|incompatible"):
        tables.write(rows(100), "append")
    assert lance.dataset(uri).count_rows() == 5


def test_stock_lance_branches_tags_compacts_and_restores(tmp_path: Path, tables: Tables) -> None:
    tables.write(rows(2), "create")
    tables.write(rows(2), "append")
    dataset = tables.open()
    branch = dataset.create_branch("feature/a")
    lance.write_dataset(rows(1), branch, mode="append")
    assert numbers(list_versions(tables.store, T, branch="feature/a")[0]) == [3, 2]
    dataset = tables.open()
    dataset.tags.create("first", 1)
    dataset.optimize.compact_files()
    old: Any = tables.open().checkout_version("first")
    old.restore()
    assert tables.open().count_rows() == 2
    assert tables.refused == []


def test_concurrent_stock_appends_lose_nothing(tmp_path: Path, store: LocalStore) -> None:
    writers = [Tables(store) for _ in range(4)]
    writers[0].write(rows(1), "create")
    together = threading.Barrier(4, timeout=60)

    def append(tables: Tables) -> int:
        # All four ask for version 2, so that three are refused for certain.
        tables.on_create = iter([together.wait])
        for _ in range(6):
            tables.write(rows(1), "append")
        return len(tables.refused)

    with ThreadPoolExecutor(4) as pool:
        conflicts = sum(pool.map(append, writers))
    print(f"conflicts: {conflicts}")
    assert conflicts >= 3
    assert writers[0].open().count_rows() == 25
    assert numbers(list_versions(store, T)[0]) == list(range(25, 0, -1))
    assert len(names(tmp_path)) == 25


def test_requests_may_be_models_or_dicts(tmp_path: Path, tables: Tables) -> None:
    make(tmp_path, 3)
    page = tables.list_table_versions(ln.ListTableVersionsRequest(id=["t"], limit=2))
    assert (numbers(page.versions), page.page_token) == ([3, 2], "2")
    page = tables.list_table_versions({"id": ["t"], "page_token": "2", "branch": "main"})
    assert (numbers(page.versions), page.page_token) == ([1], None)
    assert tables.describe_table_version({"id": ["t"]}).version.version == 3
    with pytest.raises(errors.TableNotFoundError):
        tables.list_table_versions({"id": ["no"]})
    with pytest.raises(errors.InvalidInputError, match="version"):
        tables.create_table_version({"id": ["t"], "manifest_path": "x"})


def test_controls_of_a_deletion(tmp_path: Path, tables: Tables) -> None:
    make(tmp_path, 3)
    everything = [{"start_version": 0, "end_version": -1}]
    delete = table_versions.batch_delete_table_versions
    with pytest.raises(errors.InvalidTableStateError):
        delete(tables, {"id": ["t"], "ranges": everything})
    with pytest.raises(errors.InvalidInputError, match="force"):
        delete(tables, {"id": ["t"], "ranges": everything, "force": "perhaps"})
    one = {"id": ["t"], "ranges": [{"start_version": 1, "end_version": 2}]}
    assert delete(tables, one).deleted_count == 1
    assert delete(tables, one).deleted_count == 0
    with pytest.raises(errors.TableVersionNotFoundError):
        delete(tables, {**one, "ignore_missing": False})
    context = {"lance_catalog.force": "true"}
    request = ln.BatchDeleteTableVersionsRequest.model_validate(
        {"id": ["t"], "ranges": everything, "context": context}
    )
    assert delete(tables, request).deleted_count == 2


def entry(root: Path, table: str, version: int, data: bytes) -> dict[str, Any]:
    path = stage(root, data, f"{version}.manifest-x", f"{table}.lance")
    return {"id": [table], "version": version, "manifest_path": path}


def test_batch_create(tmp_path: Path, tables: Tables) -> None:
    make(tmp_path, 1)
    make(tmp_path, 2, name="u.lance")
    entries = [
        entry(tmp_path, "t", 2, b"t2"),
        entry(tmp_path, "u", 3, b"u3"),
        {**entry(tmp_path, "t", 3, b"t3"), "branch": "main"},
    ]
    made = table_versions.batch_create_table_versions(tables, {"entries": entries})
    assert numbers(made.versions) == [2, 3, 3]
    assert numbers(list_versions(tables.store, T)[0]) == [3, 2, 1]


def test_batch_create_checks_all_before_the_first(tmp_path: Path, tables: Tables) -> None:
    make(tmp_path, 1)
    make(tmp_path, 2, name="u.lance")
    good = entry(tmp_path, "t", 2, b"t2")
    for bad, kind in (
        ({**good, "id": ["no"]}, errors.TableNotFoundError),
        (entry(tmp_path, "u", 2, b"u2"), errors.TableVersionAlreadyExistsError),
        (entry(tmp_path, "u", 9, b"u9"), errors.ConcurrentModificationError),
        ({**entry(tmp_path, "u", 3, b"u3"), "manifest_path": "none"}, errors.InvalidInputError),
    ):
        before = digest(tmp_path)
        with pytest.raises(kind):
            table_versions.batch_create_table_versions(tables, {"entries": [good, bad]})
        assert digest(tmp_path) == before


def test_a_batch_that_fails_half_way_says_so(tmp_path: Path, tables: Tables) -> None:
    make(tmp_path, 1)
    entries = [entry(tmp_path, "t", 2, b"t2"), entry(tmp_path, "t", 4, b"t4")]
    with pytest.raises(errors.ConcurrentModificationError, match=r"2 of 2.*the 1 before it have"):
        table_versions.batch_create_table_versions(tables, {"entries": entries})
    assert numbers(list_versions(tables.store, T)[0]) == [2, 1]


def test_batch_commit(tmp_path: Path, tables: Tables) -> None:
    make(tmp_path, 3)
    make(tmp_path, 1, name="u.lance")
    context = {"lance_catalog.ignore_missing": "false"}
    operations = [
        {"declare_table": {"id": ["new"]}},
        {"create_table_version": entry(tmp_path, "t", 4, b"t4")},
        {
            "delete_table_versions": {
                "id": ["t"],
                "ranges": [{"start_version": 1, "end_version": 4}],
                "context": context,
            }
        },
        {"deregister_table": {"id": ["u"]}},
    ]
    request = ln.BatchCommitTablesRequest.model_validate({"operations": operations})
    done = table_versions.batch_commit_tables(tables, request).results
    assert done[0].declare_table is not None
    assert done[0].declare_table.location == (tmp_path / "new.lance").as_uri()
    assert done[1].create_table_version is not None
    assert done[1].create_table_version.version is not None
    assert done[1].create_table_version.version.version == 4
    assert done[2].delete_table_versions is not None
    assert done[2].delete_table_versions.deleted_count == 3
    assert done[3].deregister_table is not None
    assert numbers(list_versions(tables.store, T)[0]) == [4]
    assert tables.calls == ["declare_table", "deregister_table"]


def test_batch_commit_checks_all_before_the_first(tmp_path: Path, tables: Tables) -> None:
    make(tmp_path, 3)
    declare = {"declare_table": {"id": ["new"]}}
    last = {"id": ["t"], "ranges": [{"start_version": 3, "end_version": 4}]}
    gone = {"id": ["t"], "ranges": [{"start_version": 9, "end_version": 10}]}
    deregister = {"deregister_table": {"id": ["t"]}}
    cases: list[tuple[list[dict[str, Any]], type[Exception]]] = [
        ([{}], errors.InvalidInputError),
        ([{**declare, **deregister}], errors.InvalidInputError),
        ([{"declare_table": {}}], errors.InvalidInputError),
        ([{"declare_table": {"id": ["t"]}}], errors.TableAlreadyExistsError),
        ([declare], errors.TableAlreadyExistsError),
        ([{"deregister_table": {"id": ["no"]}}], errors.TableNotFoundError),
        ([deregister, deregister], errors.TableNotFoundError),
        ([{"delete_table_versions": last}], errors.InvalidTableStateError),
        (
            [{"delete_table_versions": {**gone, "ignore_missing": False}}],
            errors.TableVersionNotFoundError,
        ),
        (
            [{"create_table_version": {"id": ["t"], "version": 9, "manifest_path": "x"}}],
            errors.ConcurrentModificationError,
        ),
    ]
    before = digest(tmp_path)
    for operations, kind in cases:
        with pytest.raises(kind):
            table_versions.batch_commit_tables(tables, {"operations": [declare, *operations]})
        assert tables.calls == []
        assert digest(tmp_path) == before


def test_a_failing_store_is_reported_as_ours(tmp_path: Path, store: LocalStore) -> None:
    class Full(LocalStore):
        def list_level(self, prefix: str = "") -> Any:
            raise OSError(28, "No space left on device")

        def head(self, path: str) -> ObjectInfo | None:
            raise PermissionError(13, "denied")

    full = Full(str(tmp_path))
    with pytest.raises(errors.ServiceUnavailableError):
        list_versions(full, T)
    with pytest.raises(errors.PermissionDeniedError):
        describe_version(full, T, 1)
