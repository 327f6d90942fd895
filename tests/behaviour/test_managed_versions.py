"""Managed versions: the catalog decides which manifest is the next version of a table (I31–I36)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lance_catalog.config import Mode
from tests.behaviour.catalogs import STORES, Catalog, code, ipc, local_only, refusal, rows
from tests.behaviour.versioning import T, numbers, opened, settled, version_rows, write

pytestmark = [pytest.mark.modes(Mode.V2, Mode.COMPAT), local_only]


class TestRegistry:
    @pytest.mark.stores(*STORES)
    @pytest.mark.modes(Mode.V2)
    def test_create_and_append(self, managed: Catalog) -> None:
        """I31, I32, O06: rows first, finals in place, nothing staged is left."""
        write(managed, T, [1], "create")
        write(managed, T, [2])
        write(managed, T, [3], "overwrite")
        assert settled(managed, [3]) == 3
        assert managed.describe_table({"id": T}).managed_versioning is True
        place = managed.place(T)
        for row in version_rows(managed).values():
            told = json.loads(row["metadata"])
            assert told["manifest_path"] in managed.root.paths(place)
            assert int(told["manifest_size"]) == len(managed.root.get(told["manifest_path"]))

    @pytest.mark.stores("local", "s3")
    def test_own_operations(self, managed: Catalog) -> None:
        """Issue 5.2: what the catalog itself writes is registered too."""
        managed.create(T, [1], properties={"a": "b"})
        managed.insert_into_table({"id": T}, ipc(rows([2])))
        managed.create(T, [3], mode="overwrite")
        assert settled(managed, [3]) >= 3

    @pytest.mark.stores(*STORES)
    @pytest.mark.modes(Mode.V2)
    def test_what_is_told_of_a_version(self, managed: Catalog) -> None:
        """I34, I35, O05: a listing and a description say the same, and it is so."""
        write(managed, T, [1], "create")
        opened(managed).insert(rows([2]))
        place = managed.place(T)
        for told in managed.list_table_versions({"id": T}).versions:
            described = managed.describe_table_version({"id": T, "version": told.version}).version
            assert described == told
            name = told.manifest_path.rsplit("/", 1)[-1]
            assert told.manifest_path.endswith(f"{place}/_versions/{name}")
            body = managed.root.get(f"{place}/_versions/{name}")
            assert told.manifest_size == len(body)
            assert told.e_tag
            assert told.timestamp_millis and told.timestamp_millis > 1_700_000_000_000
        latest = managed.describe_table_version({"id": T}).version
        assert latest.version == 2
        assert code(managed.describe_table_version, {"id": T, "version": 3}) == 11
        assert code(managed.describe_table_version, {"id": ["ns", "no"], "version": 1}) == 4

    def test_metadata_of_a_version(self, managed: Catalog) -> None:
        """I34: what the committer said of it comes back; our own bookkeeping does not."""
        write(managed, T, [1], "create")
        self._commit(managed, 2, metadata={"job": "7", "staged_name": "mine", "e_tag": "x"})
        told = managed.describe_table_version({"id": T, "version": 2}).version
        assert told.metadata == {"job": "7"}
        listed = managed.list_table_versions({"id": T}).versions
        assert [one.metadata for one in listed] == [{"job": "7"}, None]

    def _commit(self, managed: Catalog, version: int, **more: Any) -> Any:
        """Register a copy of the latest manifest, as a client that speaks the interface."""
        place = managed.place(T)
        latest = managed.describe_table_version({"id": T}).version.manifest_path
        name = latest.rsplit("/", 1)[-1]
        path = f"{place}/_versions/next.manifest-{version}"
        managed.root.put(path, managed.root.get(f"{place}/_versions/{name}"))
        asked = {"id": T, "version": version, "manifest_path": path, **more}
        return managed.create_table_version(asked)

    def test_declared_and_without_versions(self, managed: Catalog) -> None:
        """I35: a declared table has none; and its first one is 1 (O05)."""
        managed.declare_table({"id": T})
        assert numbers(managed) == []
        assert code(managed.describe_table_version, {"id": T}) == 11
        assert code(managed.describe_table_version, {"id": T, "version": 1}) == 11
        write(managed, T, [1], "overwrite")
        assert settled(managed, [1]) == 1


def _name(catalog: Catalog, version: int) -> str:
    path = catalog.describe_table_version({"id": T, "version": version}).version.manifest_path
    return str(path).rsplit("/", 1)[-1]


class TestBadInput:
    def test_versions(self, managed: Catalog) -> None:
        """Issue 5 "Bad input"."""
        write(managed, T, [1], "create")
        place = managed.place(T)
        path = f"{place}/_versions/x.manifest-1"
        managed.root.put(path, b"bytes")

        def create(version: int, path: str = path, **more: Any) -> int:
            asked = {"id": T, "version": version, "manifest_path": path, **more}
            return code(managed.create_table_version, asked)

        assert create(0) == 13
        assert create(-1) == 13
        assert create(5) == 14
        error = refusal(
            managed.create_table_version, {"id": T, "version": 1, "manifest_path": path}
        )
        assert error.code == 12
        assert create(2, f"{place}/_versions/absent.manifest-1") == 13
        assert create(2, "../../etc/passwd") == 13
        assert create(2, f"{place}/_versions/{_name(managed, 1)}") == 13
        assert create(2, manifest_size=99) == 13
        assert create(2, naming_scheme="V3") == 13
        assert numbers(managed) == [1]

    def test_deletions(self, managed: Catalog) -> None:
        """R10, I36."""
        write(managed, T, [1], "create")
        for number in (2, 3, 4):
            opened(managed).insert(rows([number]))

        def delete(*spans: tuple[int, int], **context: str) -> int:
            ranges = [{"start_version": a, "end_version": b} for a, b in spans]
            asked = {"id": T, "ranges": ranges, "context": context}
            try:
                return int(managed.batch_delete_table_versions(asked).deleted_count)
            except Exception as error:  # The code is what counts.
                return -int(error.code)  # type: ignore[attr-defined]

        strict = {"lance_catalog.ignore_missing": "false"}
        assert delete((1, 5)) == -19
        assert delete((4, 5)) == -19
        assert delete((2, -1)) == -19
        assert delete((0, -1)) == -19
        assert delete((3, 2)) == -13
        assert delete((-1, 2)) == -13
        assert delete((5, 9)) == 0
        assert delete((2, 2)) == 0
        assert delete((5, 9), **strict) == -11
        assert delete((1, 2), (5, 9), **strict) == -11
        assert numbers(managed) == [4, 3, 2, 1]
        # Overlapping ranges count a version once.
        assert delete((1, 3), (2, 3), **strict) == 2
        assert delete((1, 3), **strict) == -11
        assert delete((0, 3), **strict) == 0
        assert numbers(managed) == [4, 3]
        assert managed.data(T) == [1, 2, 3, 4]
