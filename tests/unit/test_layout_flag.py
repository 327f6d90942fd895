"""The layout flag on an object store without a server: obstore's own memory behind the adapter.

Declared tables need no Lance, so all of V1 but their data runs here. With real stores, data and
native beside us: tests/behaviour/test_v1_listing.py.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import obstore
import pytest
from obstore.store import MemoryStore

from lance_catalog import DirectoryNamespace
from lance_catalog.directory.layout_flag import FLAG
from lance_catalog.directory.migration import migrate
from lance_catalog.lifecycle import markers
from lance_catalog.maintenance.check import check
from lance_catalog.storage.cloud import CloudStore
from lance_catalog.storage.instrumented import CountingStore
from lance_catalog.storage.port import Content

NESTED = ".lance-deregistered"
RESERVED = ".lance-reserved"


class Bucket:
    """A bucket in memory; every handle on it is a process of its own."""

    def __init__(self) -> None:
        self.memory = MemoryStore()

    def store(self) -> CountingStore:
        inner = CloudStore("s3://bucket/prefix", {"region": "x"})
        inner._store = self.memory
        return CountingStore(inner)

    def open(self, store: CountingStore | None = None) -> DirectoryNamespace:
        chosen = store or self.store()
        return DirectoryNamespace.with_store(chosen, root=chosen.uri, manifest_enabled="false")

    def put(self, *paths: str) -> None:
        for path in paths:
            obstore.put(self.memory, path, b"reserved")

    def paths(self) -> set[str]:
        return {str(meta["path"]) for meta in obstore.list(self.memory).collect()}

    def tables(self) -> list[str]:
        return list(self.open().list_tables({"id": []}).tables)


@pytest.fixture
def bucket() -> Bucket:
    return Bucket()


class TestCreation:
    def test_the_first_declaration_brings_the_flag(self, bucket: Bucket) -> None:
        """R7: after the table, and by no later one."""
        store = bucket.store()
        ns = bucket.open(store)
        ns.declare_table({"id": ["a"]})
        puts = [path for done, path in store.operations() if done == "put_if_absent"]
        assert puts == [f"a.lance/{RESERVED}", FLAG]
        store.reset()
        ns.declare_table({"id": ["b"]})
        assert FLAG not in [path for _, path in store.operations()]
        assert store.counts()["sample"] == 0

    def test_a_root_with_a_table_is_left_without(self, bucket: Bucket) -> None:
        """R7: whoever began it; asked once."""
        bucket.put(f"z.lance/{RESERVED}", f"z.lance/{NESTED}")
        store = bucket.store()
        ns = bucket.open(store)
        ns.declare_table({"id": ["a"]})
        ns.declare_table({"id": ["b"]})
        assert FLAG not in bucket.paths()
        assert store.counts()["sample"] == 1
        assert bucket.tables() == ["a", "b"]

    @pytest.mark.parametrize("path", ["x.lance", "x", "folder/y.lance/z", "x.deleted"])
    def test_other_things_are_no_tables(self, bucket: Bucket, path: str) -> None:
        """R7: a file that is called like a table, a folder below another."""
        bucket.put(path)
        bucket.open().declare_table({"id": ["a"]})
        assert FLAG in bucket.paths()

    def test_a_page_of_other_things_leaves_doubt(self, bucket: Bucket) -> None:
        """R7: then the level is listed, and a table behind the page is found."""
        bucket.put(*(f"0{number:04d}/x" for number in range(1000)), f"t.lance/{RESERVED}")
        bucket.open().declare_table({"id": ["u"]})
        assert FLAG not in bucket.paths()
        other = Bucket()
        other.put(*(f"0{number:04d}/x" for number in range(1000)))
        other.open().declare_table({"id": ["u"]})
        assert FLAG in other.paths()

    def test_two_that_are_first(self, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
        """R7: both see an empty root; both write the same flag, and both tables are listed."""
        from lance_catalog.directory import layout_flag

        meeting = threading.Barrier(2)
        real = layout_flag._is_without_tables

        def both(store: Any) -> bool:
            answer = real(store)
            meeting.wait(60)
            return answer

        monkeypatch.setattr(layout_flag, "_is_without_tables", both)
        threads = [
            threading.Thread(target=bucket.open().declare_table, args=({"id": [name]},))
            for name in ("a", "b")
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert FLAG in bucket.paths()
        assert bucket.tables() == ["a", "b"]


class TestListing:
    def test_names_alone(self, bucket: Bucket) -> None:
        """R7, S02: the flagged root is listed once; the other one is looked into."""
        bucket.put(*(f"t{number}.lance/{RESERVED}" for number in range(5)), "t3.deleted")
        store = bucket.store()
        ns = bucket.open(store)
        expected = ["t0", "t1", "t2", "t4"]
        assert ns.list_tables({"id": []}).tables == expected
        asked = " ".join(f"{name}.lance" for name in expected)
        assert store.operations() == [("list_root", ""), ("look_into", asked)]
        store.reset()
        bucket.put(FLAG)
        assert ns.list_tables({"id": []}).tables == expected
        assert store.operations() == [("list_root", "")]

    def test_a_folder_called_like_the_flag_is_none(self, bucket: Bucket) -> None:
        """R7: only the object counts."""
        bucket.put(f"{FLAG}/x", f"t.lance/{RESERVED}", f"t.lance/{NESTED}")
        assert bucket.tables() == []

    def test_describe_looks_at_the_nested_marker(self, bucket: Bucket) -> None:
        """R7: exact always, for one more request."""
        bucket.put(FLAG, f"t.lance/{RESERVED}", f"t.lance/{NESTED}")
        assert bucket.tables() == ["t"]
        with pytest.raises(Exception, match="not found") as caught:
            bucket.open().describe_table({"id": ["t"]})
        assert caught.value.code == 4  # type: ignore[attr-defined]

    def test_looks_are_in_order(self, bucket: Bucket) -> None:
        """C02: many at a time, each answer to its own question."""
        for number in range(40):
            name = ("x", NESTED, None)[number % 3]
            if name is not None:
                bucket.put(f"f{number}/{name}")
        found = bucket.store().look_into([f"f{number}" for number in range(40)], NESTED)
        by_turn = (Content.FILES, Content.MARKED, Content.NOTHING)
        assert found == [by_turn[number % 3] for number in range(40)]


class TestMigrate:
    def test_markers_first_the_flag_last(self, bucket: Bucket) -> None:
        """R7: in this order, and nothing else is written."""
        for name in ("a", "b", "c"):
            bucket.put(f"{name}.lance/{RESERVED}")
        bucket.put(f"a.lance/{NESTED}", f"c.lance/{NESTED}")
        store = bucket.store()
        report = migrate(bucket.open(store).context)
        assert (report.hidden, report.flagged) == (["a", "c"], True)
        writes = [done for done in store.writes() if done[0] != "probe_put_if_absent"]
        assert writes == [("put_if_absent", path) for path in ("a.deleted", "c.deleted", FLAG)]
        assert bucket.tables() == ["b"]
        assert check(bucket.open().context, grace_seconds=-60).problems == []

    def test_a_name_that_is_being_created_waits(self, bucket: Bucket) -> None:
        """R7: a marker that will go again is none; no flag until the next run."""
        bucket.put(f"a.lance/{RESERVED}", f"a.lance/{NESTED}", f"b.lance/{RESERVED}")
        ns = bucket.open()
        creating = b'{"deleted_at_ms":1,"drop_id":"x","state":"creating"}'
        real = markers.lift

        def late(store: Any, name: str, *rest: Any) -> bool:
            store.put(f"{name}.deleted", creating)
            return real(store, name, *rest)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(markers, "lift", late)
            report = migrate(ns.context)
        assert [name for name, _ in report.skipped] == ["a"]
        assert (report.hidden, report.flagged) == ([], False)
        assert FLAG not in bucket.paths()
        obstore.delete(bucket.memory, "a.deleted")
        report = migrate(ns.context)
        assert (report.hidden, report.flagged) == (["a"], True)

    @pytest.mark.parametrize("after", ["look", "put"])
    @pytest.mark.parametrize("verb", ["register", "drop"])
    def test_ended_by_somebody_meanwhile(self, bucket: Bucket, verb: str, after: str) -> None:
        """R7, I24: acknowledged stays acknowledged: registered is visible, dropped leaves nothing.

        ``after`` is where the migration stands when the other begins and ends.
        """
        bucket.put(f"t.lance/{RESERVED}", f"t.lance/{NESTED}")
        other = bucket.open()

        def end() -> None:
            if verb == "register":
                other.register_table({"id": ["t"], "location": "t.lance"})
            else:
                other.drop_table({"id": ["t"]}, purge=True)

        with pytest.MonkeyPatch.context() as patch:
            _during_lift(patch, after, end)
            report = migrate(bucket.open().context)
        assert report.hidden == []
        assert bucket.tables() == (["t"] if verb == "register" else [])
        kept = {f"t.lance/{RESERVED}"} if verb == "register" else set()
        assert {path for path in bucket.paths() if path.startswith("t.")} == kept
        assert check(bucket.open().context, grace_seconds=-60).problems == []

    def test_a_registration_under_way_takes_the_new_marker_too(self, bucket: Bucket) -> None:
        """R7, I24: it claimed the hiding before the migration marked it: one hiding, one end."""
        bucket.put(f"t.lance/{RESERVED}", f"t.lance/{NESTED}")
        real = markers.claim

        def slow(*args: Any, **how: Any) -> Any:
            won = real(*args, **how)
            assert migrate(bucket.open().context).hidden == ["t"]
            return won

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(markers, "claim", slow)
            bucket.open().register_table({"id": ["t"], "location": "t.lance"})
        assert bucket.tables() == ["t"]
        assert {path for path in bucket.paths() if path.startswith("t.")} == {f"t.lance/{RESERVED}"}


def _during_lift(patch: pytest.MonkeyPatch, after: str, run: Callable[[], None]) -> None:
    """Run something once, when a lift has looked, or has put its marker."""
    left = [run]

    def once() -> None:
        if left:
            left.pop()()

    if after == "put":
        patch.setattr(markers, "hit", lambda point: point == "marker.lifted" and once())
        return
    real = CountingStore.put_if_absent

    def put_if_absent(self: CountingStore, path: str, data: bytes) -> bool:
        if path == "t.deleted":
            once()
        return real(self, path, data)

    patch.setattr(CountingStore, "put_if_absent", put_if_absent)
