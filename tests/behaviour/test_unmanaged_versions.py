"""Versions where nobody manages them: the manifests in `_versions/` are the truth, on every store
(I30, I33–I37, O05, O07).
"""

from __future__ import annotations

from typing import Any

import lance
import pytest

from lance_catalog.config import Mode
from tests.behaviour.catalogs import STORES, Catalog, code, rows
from tests.behaviour.versioning import numbers, opened, plain, values

pytestmark = [pytest.mark.modes(Mode.V1, Mode.V2), pytest.mark.stores("local")]


@pytest.fixture(params=[True, False], ids=["V2", "V1"])
def table(catalog: Catalog, request: pytest.FixtureRequest) -> list[str]:
    """A table of three versions, whose manifests are named by one scheme or the other."""
    return make(catalog, "t", v2=request.param)


def make(catalog: Catalog, name: str, *, v2: bool = True) -> list[str]:
    location = catalog.declare_table({"id": [name]}).location
    options = catalog.root.options or None
    how: dict[str, Any] = {"storage_options": options, "enable_v2_manifest_paths": v2}
    dataset = lance.write_dataset(rows([1]), location, mode="overwrite", **how)
    for number in (2, 3):
        dataset.insert(rows([number]))
    return [name]


def folder(catalog: Catalog, table: list[str]) -> str:
    return f"{catalog.place(table)}/_versions"


def name_of(catalog: Catalog, table: list[str], version: int) -> str:
    told = catalog.describe_table_version({"id": table, "version": version}).version
    return str(told.manifest_path).rsplit("/", 1)[-1]


def stage(catalog: Catalog, table: list[str], version: int, body: bytes = b"") -> dict[str, Any]:
    """Stage a manifest; the request that makes a version of it."""
    place = folder(catalog, table)
    body = body or catalog.root.get(f"{place}/{name_of(catalog, table, 3)}")
    path = f"{place}/next.manifest-{version}"
    catalog.root.put(path, body)
    return {"id": table, "version": version, "manifest_path": path}


def delete(catalog: Catalog, table: list[str], *spans: tuple[int, int], **context: str) -> int:
    ranges = [{"start_version": a, "end_version": b} for a, b in spans]
    asked = {"id": table, "ranges": ranges, "context": context}
    return int(catalog.batch_delete_table_versions(asked).deleted_count)


def same(one: Any, other: Any) -> bool:
    """Object stores tell the time by the second when asked for one object, else finer."""
    times = [told.timestamp_millis // 1000 for told in (one, other)]
    rest = [told.model_dump(exclude={"timestamp_millis"}) for told in (one, other)]
    return times[0] == times[1] and rest[0] == rest[1]


class TestReading:
    @pytest.mark.stores(*STORES)
    @pytest.mark.modes(Mode.V2)
    def test_what_is_told_of_a_version(self, catalog: Catalog, table: list[str]) -> None:
        """The path as Lance's own object store has it, the size, a tag that is the file's own."""
        listed = catalog.list_table_versions({"id": table}).versions
        assert [one.version for one in listed] == [3, 2, 1]
        seen = set()
        for told in listed:
            described = catalog.describe_table_version({"id": table, "version": told.version})
            assert same(described.version, told)
            place = folder(catalog, table)
            assert told.manifest_path.endswith(f"{place}/{name_of(catalog, table, told.version)}")
            assert not told.manifest_path.startswith("/") and "://" not in told.manifest_path
            body = catalog.root.get(f"{place}/{name_of(catalog, table, told.version)}")
            assert told.manifest_size == len(body) > 0
            assert told.timestamp_millis and told.timestamp_millis > 1_700_000_000_000
            seen.add(told.e_tag)
        assert len(seen) == 3 and None not in seen
        assert same(catalog.describe_table_version({"id": table}).version, listed[0])

    def test_pages(self, catalog: Catalog, table: list[str]) -> None:
        page = catalog.list_table_versions({"id": table, "limit": 2})
        assert ([v.version for v in page.versions], page.page_token) == ([3, 2], "2")
        plain(catalog, table).insert(rows([4]))
        assert numbers(catalog, table, limit=2, page_token=page.page_token) == [1]
        assert numbers(catalog, table, descending=False) == [1, 2, 3, 4]
        assert numbers(catalog, table, descending=False, page_token="3") == [4]
        assert numbers(catalog, table, limit=0) == []

    def test_what_is_not_there(self, catalog: Catalog, table: list[str]) -> None:
        for version, expected in ((0, 11), (-1, 13), (4, 11), (2**62, 11)):
            asked = {"id": table, "version": version}
            assert code(catalog.describe_table_version, asked) == expected
        for call in (catalog.describe_table_version, catalog.list_table_versions):
            assert code(call, {"id": ["absent"]}) == 4
            assert code(call, {"id": table, "branch": "absent"}) == 22
            assert code(call, {"id": table, "branch": "../x"}) == 13

    def test_declared(self, catalog: Catalog) -> None:
        catalog.declare_table({"id": ["d"]})
        assert numbers(catalog, ["d"]) == []
        assert code(catalog.describe_table_version, {"id": ["d"]}) == 11


class TestCreating:
    @pytest.mark.stores(*STORES)
    @pytest.mark.modes(Mode.V2)
    def test_under_the_table_s_scheme(self, catalog: Catalog, table: list[str]) -> None:
        """I30: final in place, staging gone; a scheme may be stated, not changed (I37)."""
        before = set(catalog.root.paths(folder(catalog, table)))
        is_v1 = name_of(catalog, table, 3) == "3.manifest"
        wrong = {**stage(catalog, table, 4), "naming_scheme": "V2" if is_v1 else "V1"}
        assert code(catalog.create_table_version, wrong) == 13
        right = {**stage(catalog, table, 4), "naming_scheme": "V1" if is_v1 else "V2"}
        made = catalog.create_table_version(right).version
        assert made == catalog.describe_table_version({"id": table, "version": 4}).version
        new = set(catalog.root.paths(folder(catalog, table))) - before
        assert new == {f"{folder(catalog, table)}/{name_of(catalog, table, 4)}"}
        assert (name_of(catalog, table, 4) == "4.manifest") is is_v1

    def test_bad_input(self, catalog: Catalog, table: list[str]) -> None:
        """12 (R1) for one that exists, 14 for a gap, 13 for what is no version or not staged."""
        body = b"other bytes"
        for version, expected in ((0, 13), (-1, 13), (1, 12), (3, 12), (5, 14)):
            asked = stage(catalog, table, version, body)
            assert code(catalog.create_table_version, asked) == expected, version
        absent = {"id": table, "version": 4, "manifest_path": "absent.manifest-1"}
        assert code(catalog.create_table_version, absent) == 13
        assert code(catalog.create_table_version, {**absent, "id": ["absent"]}) == 4
        final = {**absent, "manifest_path": name_of(catalog, table, 2)}
        assert code(catalog.create_table_version, final) == 13
        torn = {**stage(catalog, table, 4), "manifest_size": 1}
        assert code(catalog.create_table_version, torn) == 13
        assert numbers(catalog, table) == [3, 2, 1]
        assert values(plain(catalog, table)) == [1, 2, 3]

    def test_several_tables(self, catalog: Catalog) -> None:
        """I33: one by one, all checked before the first."""
        one, other = make(catalog, "one"), make(catalog, "other", v2=False)
        good = [stage(catalog, one, 4), stage(catalog, other, 4)]
        bad = {"id": other, "version": 9, "manifest_path": "absent.manifest-1"}
        assert code(catalog.batch_create_table_versions, {"entries": [good[0], bad]}) == 14
        assert numbers(catalog, one) == [3, 2, 1]
        answer = catalog.batch_create_table_versions({"entries": good})
        assert [told.version for told in answer.versions] == [4, 4]
        assert name_of(catalog, one, 4).startswith("1844") and "4.m" in name_of(catalog, other, 4)

    def test_as_the_store_of_stock_lance(self, catalog: Catalog, table: list[str]) -> None:
        """A client may take us for the decider all the same: O06."""
        location = catalog.describe_table({"id": table}).location
        options = catalog.root.options or None
        parts = lance.fragment.write_fragments(
            rows([4]), location, mode="append", storage_options=options
        )
        lance.LanceDataset.commit(
            location,
            lance.LanceOperation.Append(parts),
            read_version=3,
            namespace_client=catalog.ns,
            table_id=table,
            namespace_client_managed_versioning=True,
            storage_options=options,
        )
        assert numbers(catalog, table) == [4, 3, 2, 1]
        assert values(opened(catalog, table)) == values(plain(catalog, table)) == [1, 2, 3, 4]


class TestDeleting:
    @pytest.mark.stores(*STORES)
    @pytest.mark.modes(Mode.V2)
    def test_ranges(self, catalog: Catalog, table: list[str]) -> None:
        """I36, O07: manifests go, data stays; what is missing counts only if it is asked for."""
        data = [p for p in catalog.root.paths(catalog.place(table)) if "/data/" in p]
        assert delete(catalog, table, (1, 2), (1, 2)) == 1
        assert delete(catalog, table, (1, 2)) == 0
        strict = {"lance_catalog.ignore_missing": "false"}
        ranges = [{"start_version": 1, "end_version": 3}]
        asked = {"id": table, "ranges": ranges, "context": strict}
        assert code(catalog.batch_delete_table_versions, asked) == 11
        assert numbers(catalog, table) == [3, 2]
        assert delete(catalog, table, (0, 3)) == 1
        assert numbers(catalog, table) == [3]
        left = [p for p in catalog.root.paths(catalog.place(table)) if "/data/" in p]
        assert left == data
        assert values(plain(catalog, table)) == [1, 2, 3]

    @pytest.mark.parametrize("span", [(3, 4), (1, 4), (2, -1), (0, -1)])
    def test_the_latest_stays(
        self, catalog: Catalog, table: list[str], span: tuple[int, int]
    ) -> None:
        """R10."""
        ranges = [{"start_version": span[0], "end_version": span[1]}]
        asked = {"id": table, "ranges": ranges}
        assert code(catalog.batch_delete_table_versions, asked) == 19
        assert numbers(catalog, table) == [3, 2, 1]

    @pytest.mark.parametrize("span", [(2, 1), (-1, 2), (1, -2)])
    def test_no_ranges(self, catalog: Catalog, table: list[str], span: tuple[int, int]) -> None:
        ranges = [{"start_version": span[0], "end_version": span[1]}]
        asked = {"id": table, "ranges": ranges}
        assert code(catalog.batch_delete_table_versions, asked) == 13

    def test_everything_by_force(self, catalog: Catalog, table: list[str]) -> None:
        assert delete(catalog, table, (0, -1), **{"lance_catalog.force": "true"}) == 3
        assert numbers(catalog, table) == []


class TestBranches:
    @pytest.mark.stores(*STORES)
    @pytest.mark.modes(Mode.V2)
    def test_versions_of_their_own(self, catalog: Catalog) -> None:
        table = make(catalog, "t")
        branch = plain(catalog, table).create_branch("b", 2)
        branch.insert(rows([7]))
        assert numbers(catalog, table) == [3, 2, 1]
        assert numbers(catalog, table, branch="b") == [3, 2]
        asked = {"id": table, "branch": "b"}
        told = catalog.describe_table_version({**asked, "version": 3}).version
        assert "/tree/b/_versions/" in told.manifest_path and told.e_tag
        assert same(catalog.describe_table_version(asked).version, told)
        assert code(catalog.describe_table_version, {**asked, "version": 1}) == 11
        page = catalog.list_table_versions({**asked, "limit": 1})
        assert ([v.version for v in page.versions], page.page_token) == ([3], "3")
        ranges = [{"start_version": 2, "end_version": 3}]
        answer = catalog.batch_delete_table_versions({**asked, "ranges": ranges})
        assert answer.deleted_count == 1
        assert numbers(catalog, table, branch="b") == [3]
        assert numbers(catalog, table) == [3, 2, 1]

    def test_made_of_a_staged_manifest(self, catalog: Catalog) -> None:
        table = make(catalog, "t")
        plain(catalog, table).create_branch("b")
        told = catalog.describe_table_version({"id": table, "branch": "b"}).version
        place = f"{catalog.place(table)}/tree/b/_versions"
        body = catalog.root.get(f"{place}/{told.manifest_path.rsplit('/', 1)[-1]}")
        path = f"{place}/next.manifest-4"
        catalog.root.put(path, body)
        asked = {"id": table, "branch": "b", "version": 4, "manifest_path": path}
        assert catalog.create_table_version(asked).version.version == 4
        assert numbers(catalog, table, branch="b") == [4, 3]
        assert numbers(catalog, table) == [3, 2, 1]
        assert path not in catalog.root.paths(place)
