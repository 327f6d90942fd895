"""How reads stay fresh and cheap: one look each, none within the interval, no load for one row."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import lance_catalog
from lance_catalog import DirectoryNamespace
from lance_catalog.errors import LanceNamespaceError
from lance_catalog.manifest import log as manifest_log
from lance_catalog.manifest.indexed import IndexedView
from lance_catalog.manifest.log import ManifestLog
from lance_catalog.storage.instrumented import CountingStore
from lance_catalog.storage.local import LocalStore
from tests.concurrency.racing import ipc

MODES = {"v2": {"dir_listing_enabled": "false"}, "compat": {}}


@pytest.fixture(params=MODES)
def switches(request: pytest.FixtureRequest) -> dict[str, str]:
    return dict(MODES[request.param])


def counted(ns: DirectoryNamespace) -> CountingStore:
    """Put a counter between a namespace and its store."""
    counting = CountingStore(ns.context.store)
    ns.context.store = counting
    log = ManifestLog(counting)
    ns.context.log = log
    return counting


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        fake = SimpleNamespace(
            monotonic=lambda: self.now, time=lambda: self.now, sleep=lambda seconds: None
        )
        monkeypatch.setattr(manifest_log, "time", fake)


def test_within_the_interval_a_read_asks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    root = str(tmp_path)
    ns = lance_catalog.connect(root, dir_listing_enabled="false", read_consistency_interval="5")
    store = counted(ns)
    ns.create_namespace({"id": ["a"]})
    ns.namespace_exists({"id": ["a"]})
    store.reset()
    for _ in range(3):
        ns.namespace_exists({"id": ["a"]})
        ns.list_namespaces({"id": []})
    assert store.operations() == []
    other = lance_catalog.connect(root + "/../" + tmp_path.name, dir_listing_enabled="false")
    other.create_namespace({"id": ["b"]})
    assert ns.list_namespaces({"id": []}).namespaces == ["a"], "an older state was asked for"
    clock.now += 5.1
    assert ns.list_namespaces({"id": []}).namespaces == ["a", "b"]
    assert store.operations() != []


def test_own_changes_are_seen_within_the_interval(tmp_path: Path) -> None:
    ns = lance_catalog.connect(str(tmp_path), read_consistency_interval="3600")
    for number in range(3):
        ns.create_namespace({"id": [f"n{number}"]})
        assert f"n{number}" in (ns.list_namespaces({"id": []}).namespaces or [])
    ns.drop_namespace({"id": ["n0"]})
    with pytest.raises(LanceNamespaceError):
        ns.namespace_exists({"id": ["n0"]})


def test_a_change_is_validated_against_now_whatever_the_interval(tmp_path: Path) -> None:
    slow = lance_catalog.connect(
        str(tmp_path), dir_listing_enabled="false", read_consistency_interval="3600"
    )
    slow.list_namespaces({"id": []})
    slow.create_namespace({"id": ["first"]})
    other = lance_catalog.connect(f"{tmp_path}/../{tmp_path.name}", dir_listing_enabled="false")
    other.create_namespace({"id": ["a"]})
    with pytest.raises(LanceNamespaceError) as caught:
        slow.create_namespace({"id": ["a"]})
    assert int(caught.value.code) == 2


@pytest.mark.parametrize("value", ["-1", "soon", "nan"])
def test_a_malformed_interval_is_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(LanceNamespaceError) as caught:
        lance_catalog.connect(str(tmp_path), read_consistency_interval=value)
    assert int(caught.value.code) == 13


def fill(ns: DirectoryNamespace) -> None:
    ns.create_namespace({"id": ["n"], "properties": {"a": "b"}})
    ns.create_namespace({"id": ["n", "m"]})
    ns.create_table({"id": ["n", "t"], "properties": {"k": "v"}}, ipc([1, 2]))
    ns.declare_table({"id": ["n", "m", "d"]})
    ns.create_table({"id": ["r"]}, ipc([1]))
    ns.create_table({"id": ["gone"]}, ipc([1]))
    ns.drop_table({"id": ["gone"]})
    ns.rename_table({"id": ["r"], "new_table_name": "s"})


def answers(ns: DirectoryNamespace) -> dict[str, Any]:
    """Every point lookup, for ids that are there and that are not."""
    found: dict[str, Any] = {}
    ids = ["n", "n.m", "n.t", "n.m.d", "r", "s", "gone", "x", "n.x", "x.y", "n.t.z", "n$t"]
    for text in ids:
        request = {"id": text.split(".")}
        for verb in ("describe_table", "table_exists", "describe_namespace", "namespace_exists"):
            try:
                found[f"{verb} {text}"] = getattr(ns, verb)(request).model_dump()
            except LanceNamespaceError as error:
                found[f"{verb} {text}"] = (int(error.code), str(error))
    return found


def test_a_glance_answers_as_the_snapshot_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, switches: dict[str, str]
) -> None:
    root = str(tmp_path / "root")
    fill(lance_catalog.connect(root, **switches))
    expected = answers(lance_catalog.connect(root, **switches))
    monkeypatch.setattr(manifest_log, "_LARGE", 1)
    monkeypatch.setattr(manifest_log, "_GLANCES", 10_000)
    cold = lance_catalog.connect(root, **switches)
    cold.context.log = ManifestLog(cold.context.store)

    def load(*args: object) -> None:
        raise AssertionError("a lookup of one object loaded the catalog")

    monkeypatch.setattr(ManifestLog, "_advance", load)
    assert isinstance(cold.context.glance(), IndexedView)
    assert answers(cold) == expected


def test_who_goes_on_asking_gets_the_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = str(tmp_path / "root")
    fill(lance_catalog.connect(root))
    monkeypatch.setattr(manifest_log, "_LARGE", 1)
    log = ManifestLog(LocalStore(root))
    kinds = [isinstance(log.glance(), IndexedView) for _ in range(manifest_log._GLANCES + 2)]
    assert kinds == [True] * manifest_log._GLANCES + [False] * 2


def test_a_small_catalog_is_loaded_at_once(tmp_path: Path) -> None:
    root = str(tmp_path / "root")
    fill(lance_catalog.connect(root))
    assert not isinstance(ManifestLog(LocalStore(root)).glance(), IndexedView)


def test_a_glance_sees_what_the_index_does_not_cover_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = str(tmp_path / "root")
    ns = lance_catalog.connect(root, dir_listing_enabled="false")
    for number in range(5):
        ns.create_namespace({"id": [f"n{number}"]})
    monkeypatch.setattr(manifest_log, "_LARGE", 1)
    view = ManifestLog(LocalStore(root)).glance()
    assert isinstance(view, IndexedView)
    assert all(view.get(f"n{number}") is not None for number in range(5))
    assert view.get("n5") is None


def test_one_look_per_read(tmp_path: Path) -> None:
    """Issue 3: the second operation of a process reopens nothing."""
    ns = lance_catalog.connect(str(tmp_path / "root"), dir_listing_enabled="false")
    fill(ns)
    store = counted(ns)
    for _ in range(2):
        ns.describe_table({"id": ["n", "t"]})
    store.reset()
    ns.describe_table({"id": ["n", "t"]})
    ns.list_tables({"id": ["n"], "limit": 100})
    # On a disk a look is at the hint, the latest file and the one after it, all in one.
    assert store.counts() == {"unchanged": 2}
