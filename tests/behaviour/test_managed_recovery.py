"""Versions from behind the catalog's back, and of committers that died: found and taken in."""

from __future__ import annotations

import json
from typing import Any

import lance
import pytest

from lance_catalog.config import Mode
from tests.behaviour.catalogs import STORES, Catalog, code, rows
from tests.behaviour.versioning import (
    T,
    numbers,
    opened,
    plain,
    settled,
    values,
    version_rows,
    write,
)

pytestmark = [pytest.mark.modes(Mode.V2), pytest.mark.stores("local", "s3")]


class TestBehindOurBack:
    @pytest.mark.stores(*STORES)
    @pytest.mark.modes(Mode.V2, Mode.COMPAT)
    def test_is_seen_and_taken_in(self, managed: Catalog) -> None:
        """Issue 5.2: a writer that ignores the flag loses nothing, and blocks nobody."""
        write(managed, T, [1], "create")
        plain(managed).insert(rows([2]))
        assert numbers(managed) == [2, 1]
        assert values(opened(managed)) == [1, 2]
        assert set(version_rows(managed)) == {"ns$t$1"}
        opened(managed).insert(rows([3]))
        assert settled(managed, [1, 2, 3]) == 3

    def test_commit_without_the_flag(self, managed: Catalog) -> None:
        """What lance-ray does: the client is given, that it decides is not (facts §4)."""
        write(managed, T, [1], "create")
        ready = opened(managed)
        options = managed.root.options or None
        location = managed.describe_table({"id": T}).location
        for number in (2, 3):
            parts = lance.fragment.write_fragments(
                rows([number]), location, storage_options=options, mode="append"
            )
            lance.LanceDataset.commit(
                location,
                lance.LanceOperation.Append(parts),
                read_version=number - 1,
                namespace_client=managed.ns,
                table_id=T,
                storage_options=options,
            )
        assert set(version_rows(managed)) == {"ns$t$1"}
        assert numbers(managed) == [3, 2, 1]
        assert managed.describe_table_version({"id": T, "version": 2}).version.version == 2
        assert values(opened(managed, version=2)) == [1, 2]
        # A handle that knows of neither: its commit takes both in.
        ready.insert(rows([4]))
        assert settled(managed, [1, 2, 3, 4]) == 4

    def test_before_anything_is_registered(self, managed: Catalog) -> None:
        """A table whose every version came behind our back."""
        location = managed.declare_table({"id": T}).location
        options = managed.root.options or None
        lance.write_dataset(rows([1]), location, storage_options=options)
        lance.dataset(location, storage_options=options).insert(rows([2]))
        assert version_rows(managed) == {}
        assert numbers(managed) == [2, 1]
        assert managed.snapshot().open_table(T).count_rows() == 2
        opened(managed).insert(rows([3]))
        assert settled(managed, [1, 2, 3]) == 3

    def test_what_was_deleted_stays_deleted(self, managed: Catalog) -> None:
        """Issue 5.2: a file that a crash left of a deleted version is garbage."""
        write(managed, T, [1], "create")
        for number in range(3):
            opened(managed).insert(rows([number]))
        path = json.loads(version_rows(managed)["ns$t$2"]["metadata"])["manifest_path"]
        body = managed.root.get(path)
        ranges = [{"start_version": 1, "end_version": 3}]
        assert managed.batch_delete_table_versions({"id": T, "ranges": ranges}).deleted_count == 2
        assert path not in managed.root.paths()
        managed.root.put(path, body)
        assert numbers(managed) == [4, 3]
        assert code(managed.describe_table_version, {"id": T, "version": 2}) == 11
        opened(managed).insert(rows([9]))
        assert numbers(managed) == [5, 4, 3]

    @pytest.mark.stores("local")
    def test_every_version_deleted(self, managed: Catalog) -> None:
        """R10, O06: by force; and no number is ever used twice."""
        write(managed, T, [1], "create")
        opened(managed).insert(rows([2]))
        asked = {
            "id": T,
            "ranges": [{"start_version": 0, "end_version": -1}],
            "context": {"lance_catalog.force": "true"},
        }
        old = json.loads(version_rows(managed)["ns$t$2"]["metadata"])["manifest_path"]
        body = managed.root.get(old)
        assert managed.batch_delete_table_versions(asked).deleted_count == 2
        assert (numbers(managed), version_rows(managed)) == ([], {})
        managed.root.put(old, body)
        assert numbers(managed) == []
        staged_path = f"{managed.place(T)}/_versions/x.manifest-1"
        managed.root.put(staged_path, body)
        again = {"id": T, "version": 2, "manifest_path": staged_path}
        assert code(managed.create_table_version, again) == 12
        assert managed.create_table_version({**again, "version": 3}).version.version == 3
        assert numbers(managed) == [3]


class TestDeadCommitters:
    def test_a_lost_answer_is_no_loss(
        self, managed: Catalog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """I31: Lance asks what became of its version, and that puts it in place."""
        from lance_catalog.directory.managed import commit

        write(managed, T, [1], "create")
        with monkeypatch.context() as patch:
            patch.setattr(commit, "publish", _die)
            opened(managed).insert(rows([2]))
        assert settled(managed, [1, 2]) == 2
        opened(managed).insert(rows([3]))
        assert settled(managed, [1, 2, 3]) == 3

    @pytest.mark.stores("local")
    @pytest.mark.parametrize("look", ["list", "describe", "open", "snapshot", "commit"])
    def test_every_look_puts_it_in_place(self, managed: Catalog, look: str) -> None:
        """I35: whoever comes next, the plain reader sees it afterwards."""
        write(managed, T, [1], "create")
        ready = opened(managed)
        opened(managed).insert(rows([2]))
        final, body = _taken_back(managed, 2)
        assert plain(managed).latest_version == 1
        looks: dict[str, Any] = {
            "list": lambda: numbers(managed, limit=1),
            "describe": lambda: managed.describe_table_version({"id": T, "version": 2}),
            "open": lambda: opened(managed),
            "snapshot": lambda: managed.snapshot().open_table(T),
            "commit": lambda: ready.insert(rows([3])),
        }
        looks[look]()
        assert managed.root.get(final) == body
        assert plain(managed).latest_version == (3 if look == "commit" else 2)
        assert managed.data(T) == ([1, 2, 3] if look == "commit" else [1, 2])


def _taken_back(catalog: Catalog, version: int) -> tuple[str, bytes]:
    """Leave a version as its committer would who died right after the row was written."""
    told = json.loads(version_rows(catalog)[f"ns$t${version}"]["metadata"])
    final = told["manifest_path"]
    body = catalog.root.get(final)
    catalog.root.put(f"{final.rpartition('/')[0]}/{told['staged_name']}", body)
    catalog.root.remove(final)
    return final, body


def _die(*_: Any) -> Any:
    raise OSError("died")
