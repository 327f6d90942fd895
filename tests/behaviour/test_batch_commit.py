"""Batches on managed tables, of versions or of mixed operations: one commit or nothing (I33)."""

from __future__ import annotations

from typing import Any

import pytest

from lance_catalog.config import Mode
from tests.behaviour.catalogs import STORES, Catalog, code, rows
from tests.behaviour.versioning import T, numbers, opened, version_rows, write

pytestmark = [pytest.mark.modes(Mode.V2), pytest.mark.stores("local")]

A, B = ["ns", "a"], ["ns", "b"]


@pytest.fixture
def pair(managed: Catalog) -> Catalog:
    """Two tables of two versions."""
    for table in (A, B):
        write(managed, table, [1], "create")
        opened(managed, table).insert(rows([2]))
    return managed


def stage(catalog: Catalog, id: list[str], version: int) -> dict[str, Any]:
    """Stage a copy of a table's latest manifest; the request that makes a version of it."""
    place = catalog.place(id)
    latest = catalog.describe_table_version({"id": id}).version.manifest_path.rsplit("/", 1)[-1]
    path = f"{place}/_versions/next.manifest-{version}"
    catalog.root.put(path, catalog.root.get(f"{place}/_versions/{latest}"))
    return {"id": id, "version": version, "manifest_path": path}


def deletion(id: list[str], start: int, end: int) -> dict[str, Any]:
    return {"id": id, "ranges": [{"start_version": start, "end_version": end}]}


class TestCreate:
    @pytest.mark.stores(*STORES)
    def test_all_in_one_commit(self, pair: Catalog) -> None:
        before = pair.snapshot().version
        entries = [stage(pair, A, 3), stage(pair, B, 3)]
        answer = pair.batch_create_table_versions({"entries": entries})
        assert [one.version for one in answer.versions] == [3, 3]
        assert pair.snapshot().version == before + 1
        assert (numbers(pair, A), numbers(pair, B)) == ([3, 2, 1], [3, 2, 1])

    def test_several_of_one_table(self, pair: Catalog) -> None:
        entries = [stage(pair, A, 3), stage(pair, A, 4), stage(pair, B, 3)]
        pair.batch_create_table_versions({"entries": entries})
        assert (numbers(pair, A), numbers(pair, B)) == ([4, 3, 2, 1], [3, 2, 1])

    @pytest.mark.parametrize(
        ("bad", "expected"), [({"version": 2}, 12), ({"version": 9}, 14), ({"version": 0}, 13)]
    )
    def test_or_nothing(self, pair: Catalog, bad: dict[str, Any], expected: int) -> None:
        before = pair.snapshot().version
        entries = [stage(pair, A, 3), {**stage(pair, B, 3), **bad}]
        for order in (entries, entries[::-1]):
            assert code(pair.batch_create_table_versions, {"entries": order}) == expected
        assert (numbers(pair, A), numbers(pair, B)) == ([2, 1], [2, 1])
        assert pair.snapshot().version == before

    def test_missing_staging_table_or_branch(self, pair: Catalog) -> None:
        good = stage(pair, A, 3)
        for bad, expected in (
            ({"id": B, "version": 3, "manifest_path": "no.manifest-1"}, 13),
            ({"id": ["ns", "no"], "version": 1, "manifest_path": "x.manifest-1"}, 4),
            ({**stage(pair, B, 3), "branch": "b"}, 13),
        ):
            assert code(pair.batch_create_table_versions, {"entries": [good, bad]}) == expected
        assert numbers(pair, A) == [2, 1]


class TestMixed:
    @pytest.mark.stores("local", "s3")
    def test_all_of_it(self, pair: Catalog) -> None:
        """Declared, versions made and deleted, deregistered: by one version of the manifest."""
        before = pair.snapshot().version
        operations: list[dict[str, Any]] = [
            {"declare_table": {"id": T, "properties": {"a": "b"}}},
            {"create_table_version": stage(pair, A, 3)},
            {"delete_table_versions": deletion(A, 1, 2)},
            {"deregister_table": {"id": B}},
        ]
        answer = pair.batch_commit_tables({"operations": operations})
        results = answer.results
        assert results[0].declare_table.location == pair.describe_table({"id": T}).location
        assert results[1].create_table_version.version.version == 3
        assert results[2].delete_table_versions.deleted_count == 1
        assert results[3].deregister_table.id == B
        assert pair.snapshot().version == before + 1
        assert pair.tables(["ns"]) == ["a", "t"]
        assert numbers(pair, A) == [3, 2]
        assert set(version_rows(pair)) == {"ns$a$2", "ns$a$3"}
        assert pair.describe_table({"id": T}).properties == {"a": "b"}

    @pytest.mark.parametrize(
        ("kind", "request_", "expected"),
        [
            ("create_table_version", {"id": A, "version": 9, "manifest_path": "x"}, 14),
            ("delete_table_versions", deletion(A, 1, 5), 19),
            ("delete_table_versions", deletion(["ns", "no"], 1, 2), 4),
            ("deregister_table", {"id": ["ns", "no"]}, 4),
            ("declare_table", {"id": A}, 5),
            ("declare_table", {"id": ["no", "t"]}, 1),
        ],
    )
    def test_or_nothing(
        self, pair: Catalog, kind: str, request_: dict[str, Any], expected: int
    ) -> None:
        before, version = set(pair.root.paths()), pair.snapshot().version
        good: list[dict[str, Any]] = [
            {"declare_table": {"id": T}},
            {"delete_table_versions": deletion(B, 1, 2)},
            {"deregister_table": {"id": B}},
        ]
        operations = [*good, {kind: request_}]
        assert code(pair.batch_commit_tables, {"operations": operations}) == expected
        assert pair.tables(["ns"]) == ["a", "b"]
        assert numbers(pair, B) == [2, 1]
        assert pair.snapshot().version == version
        assert set(pair.root.paths()) == before

    def test_an_operation_of_two_kinds_or_none(self, pair: Catalog) -> None:
        both = {"declare_table": {"id": T}, "deregister_table": {"id": B}}
        assert code(pair.batch_commit_tables, {"operations": [both]}) == 13
        assert code(pair.batch_commit_tables, {"operations": [{}]}) == 13
        assert pair.tables(["ns"]) == ["a", "b"]
