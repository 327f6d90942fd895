"""The storage port: local disk and an object store behave alike; roots; wrappers for tests."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.store import MemoryStore

from lance_catalog.errors import (
    InvalidInputError,
    PermissionDeniedError,
    UnsupportedOperationError,
)
from lance_catalog.storage import Store, open_store
from lance_catalog.storage.capabilities import require_put_if_absent
from lance_catalog.storage.cloud import CloudStore, _split_options
from lance_catalog.storage.instrumented import WRITES, CountingStore, FaultyStore
from lance_catalog.storage.local import LocalStore
from lance_catalog.storage.port import Content, Names, check_path

ODD = ["a b", "ü", "😀", "%41", "a#1", "a%", "it's", "a$b", "x#123", "~", "a?b", "a+b"]


def memory_cloud() -> CloudStore:
    """The object-store adapter on obstore's own memory store."""
    store = CloudStore("s3://bucket/prefix", {"region": "x"})
    store._store = MemoryStore()
    return store


@pytest.fixture(params=["local", "cloud", "counting", "faulty"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "cloud":
        yield memory_cloud()
        return
    local = LocalStore(str(tmp_path / "root"))
    wrap: dict[str, Any] = {"local": lambda s: s, "counting": CountingStore, "faulty": FaultyStore}
    yield wrap[request.param](local)


class TestPort:
    def test_put_get_head(self, store: Store) -> None:
        """Issue 2.3: whole objects, over whatever is there; None for what is not."""
        assert store.get("a/b") is None
        assert store.head("a/b") is None
        store.put("a/b", b"one")
        store.put("a/b", b"three")
        assert store.get("a/b") == b"three"
        info = store.head("a/b")
        assert info is not None
        assert (info.path, info.size) == ("a/b", 5)
        assert info.modified_ms > 1_600_000_000_000
        assert info.e_tag

    def test_put_if_absent(self, store: Store) -> None:
        """C09: once."""
        assert store.put_if_absent("x", b"1") is True
        assert store.put_if_absent("x", b"2") is False
        assert store.get("x") == b"1"

    def test_put_if_absent_has_one_winner(self, store: Store) -> None:
        """C09: of many callers exactly one wins."""
        barrier = threading.Barrier(16)
        wins: list[int] = []

        def run(number: int) -> None:
            barrier.wait()
            if store.put_if_absent("x", str(number).encode()):
                wins.append(number)

        threads = [threading.Thread(target=run, args=(n,)) for n in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(wins) == 1
        assert store.get("x") == str(wins[0]).encode()

    def test_copies(self, store: Store) -> None:
        """Issue 2.3: copy overwrites, copy_if_absent does not."""
        store.put("d/a", b"1")
        store.put("d/b", b"2")
        store.copy("d/a", "d/c")
        assert store.copy_if_absent("d/b", "d/c") is False
        assert store.get("d/c") == b"1"
        assert store.copy_if_absent("d/b", "d/e") is True
        assert store.get("d/e") == b"2"
        with pytest.raises(FileNotFoundError):
            store.copy("gone", "x")

    def test_listing(self, store: Store) -> None:
        """Issue 2.3: one level with folders and objects; a tree; absent is empty."""
        for path in ("a", "b/c", "b/d/e", "bb/x"):
            store.put(path, b"1")
        level = store.list_level()
        assert sorted(level.folders) == ["b", "bb"]
        assert [info.path for info in level.objects] == ["a"]
        level = store.list_level("b")
        assert level.folders == ["d"]
        assert [info.path for info in level.objects] == ["b/c"]
        assert sorted(info.path for info in store.list_tree("b")) == ["b/c", "b/d/e"]
        assert store.list_level("gone").folders == []
        assert list(store.list_tree("gone")) == []
        assert store.any_object("b")
        assert not store.any_object("gone")
        # An object is nothing below itself.
        assert not store.any_object("a")
        assert list(store.list_tree("a")) == []

    def test_list_first_is_in_order(self, store: Store) -> None:
        """Issue 2.3: at least the first names of a level."""
        assert store.list_first("v") == []
        for name in ("c", "a", "b"):
            store.put(f"v/{name}", b"1")
        assert store.list_first("v")[0].path == "v/a"

    def test_names_of_the_root(self, store: Store) -> None:
        """R7: names only, of one level; an absent root is empty."""
        assert store.list_root() == Names()
        for path in ("a", "b/c", "b/d/e", "bb/x"):
            store.put(path, b"1")
        names = store.list_root()
        assert sorted(names.folders) == ["b", "bb"]
        assert names.objects == ["a"]

    def test_a_sample_is_all_or_full(self, store: Store) -> None:
        """R7: fewer than asked for are all there are."""
        assert store.sample(5) == []
        paths = ["a", "b/c", "b/d/e", "bb/x"]
        for path in paths:
            store.put(path, b"1")
        assert sorted(store.sample(5)) == paths
        assert len(store.sample(3)) == 3
        assert set(store.sample(3)) < set(paths)

    def test_looks_into_folders(self, store: Store) -> None:
        """C02: exact, whether one of the likely objects is there or not; in the order asked."""
        store.put("likely/v/hint", b"")
        store.put("other/likely", b"")
        store.put("any/x/y/z", b"")
        store.put("marked/mark", b"")
        store.put("marked/v/hint", b"")
        store.put("deep/mark/x", b"")
        store.put("file", b"")
        asked = ["marked", "likely", "gone", "other", "any", "deep", "likely", "marked"]
        expected = [
            Content.MARKED,
            Content.FILES,
            Content.NOTHING,
            Content.FILES,
            Content.FILES,
            Content.FILES,
            Content.FILES,
            Content.MARKED,
        ]
        assert store.look_into(asked, "mark", ("v/hint", "likely")) == expected
        assert store.look_into(asked, "mark") == expected
        assert store.look_into([], "mark") == []

    @pytest.mark.parametrize("name", ODD)
    def test_odd_names_are_exact(self, store: Store, name: str) -> None:
        """R9: names as they are, never encoded twice, never taken for another."""
        store.put(f"{name}/{name}", name.encode())
        assert store.get(f"{name}/{name}") == name.encode()
        assert store.list_level().folders == [name]
        assert [info.path for info in store.list_level(name).objects] == [f"{name}/{name}"]
        assert [info.path for info in store.list_tree(name)] == [f"{name}/{name}"]
        store.delete_tree(name)
        assert store.list_level().folders == []

    def test_deletes(self, store: Store) -> None:
        """Issue 2.3: many, some of them gone already; a tree and only that tree."""
        for path in ("t/a", "t/b/c", "tt/x", "y"):
            store.put(path, b"12")
        store.delete(["y", "gone", "t/gone"])
        assert store.get("y") is None
        seen: list[tuple[int, int]] = []
        assert store.delete_tree("t", lambda count, size: seen.append((count, size))) == 2
        assert seen[-1] == (2, 4)
        assert store.get("tt/x") == b"12"
        assert store.delete_tree("t") == 0

    @pytest.mark.parametrize(
        "path", ["", "/", "/etc", "..", "../x", "a/../b", "a//b", "a/", "./a", ".", "a\0b"]
    )
    def test_paths_that_leave_the_root(self, store: Store, path: str) -> None:
        """Invariant 4: the last line of defence, for every operation that takes a path."""
        with pytest.raises(ValueError, match="not a path"):
            check_path(path)
        for call in (
            lambda: store.get(path),
            lambda: store.head(path),
            lambda: store.put(path, b""),
            lambda: store.put_if_absent(path, b""),
            lambda: store.delete([path]),
            lambda: store.delete_tree(path),
            lambda: store.uri_of(path),
            lambda: list(store.list_tree(path)),
            lambda: store.prune(path),
        ):
            with pytest.raises((ValueError, OSError)):
                call()

    def test_the_probe_leaves_nothing(self, store: Store) -> None:
        """Issue 2.3: put-if-absent is safe here, and finding out costs no object."""
        assert store.probe_put_if_absent() is None
        require_put_if_absent(store)
        assert store.list_level().folders == []
        assert store.list_level().objects == []


class TestLocal:
    def test_building_does_no_io(self, tmp_path: Path) -> None:
        """Invariant 2."""
        LocalStore(str(tmp_path / "absent"))
        assert os.listdir(tmp_path) == []

    def test_links_are_never_followed_by_a_delete(self, tmp_path: Path) -> None:
        """Invariant 4: what lies behind a link is not below the root."""
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "precious").write_text("x")
        root = tmp_path / "root"
        (root / "t").mkdir(parents=True)
        (root / "t" / "link").symlink_to(outside)
        (root / "linked").symlink_to(outside)
        store = LocalStore(str(root))
        store.delete_tree("t")
        store.delete_tree("linked")
        assert (outside / "precious").read_text() == "x"
        assert os.listdir(root) == []

    def test_prune_stops_at_what_holds_something(self, tmp_path: Path) -> None:
        """Invariant 2: empty folders only, and never above the root."""
        store = LocalStore(str(tmp_path / "root"))
        store.put("a/b/c/x", b"")
        store.put("a/y", b"")
        store.delete(["a/b/c/x"])
        store.prune("a/b/c")
        assert sorted(os.listdir(tmp_path / "root" / "a")) == ["y"]
        store.delete(["a/y"])
        store.prune("a")
        assert os.listdir(tmp_path / "root") == []

    def test_a_failed_write_leaves_no_staging(self, tmp_path: Path) -> None:
        """Invariant 2: a refused put-if-absent removes what it staged."""
        store = LocalStore(str(tmp_path))
        store.put("x", b"1")
        assert store.put_if_absent("x", b"2") is False
        assert os.listdir(tmp_path) == ["x"]

    def test_uris_are_quoted_for_lance(self, tmp_path: Path) -> None:
        """C13: Lance opens exactly that path."""
        store = LocalStore("/a b/ü#%")
        assert store.uri == "file:///a%20b/%C3%BC%23%25"
        assert store.uri_of("x$y/z") == store.uri + "/x$y/z"

    def test_move_aside(self, tmp_path: Path) -> None:
        """Invariant 4: in one step; False when there is nothing."""
        store = LocalStore(str(tmp_path))
        store.put("t/x", b"1")
        assert store.move_aside("t", "__trash/id/data") is True
        assert store.get("__trash/id/data/x") == b"1"
        assert store.move_aside("t", "__trash/other/data") is False


class TestCloud:
    def test_a_store_that_overwrites_is_found_out(self) -> None:
        """Issue 2 "Bad input": the probe writes twice; 0, and the probe's object is gone."""
        store = memory_cloud()

        def overwrite(path: str, data: bytes) -> bool:
            store.put(path, data)
            return True

        store.put_if_absent = overwrite  # type: ignore[method-assign]
        with pytest.raises(UnsupportedOperationError, match="overwrote") as caught:
            require_put_if_absent(store)
        assert caught.value.code == 0
        assert list(obstore.list(store._store).collect()) == []

    def test_a_store_that_cannot_is_found_out(self) -> None:
        """Issue 2 "Bad input": it answers that it does not know conditional writes."""
        store = memory_cloud()

        def cannot(path: str, data: bytes) -> bool:
            raise UnsupportedOperationError("no conditional writes")

        store.put_if_absent = cannot  # type: ignore[method-assign]
        with pytest.raises(UnsupportedOperationError, match="no conditional writes"):
            require_put_if_absent(store)

    def test_own_retry_is_no_rival(self) -> None:
        """Invariant 3: the same bytes under the name are ours."""
        store = memory_cloud()
        store.put("x", b"unique")
        assert store.put_if_absent("x", b"unique") is True
        assert store.put_if_absent("x", b"other") is False

    def test_paths_no_store_takes_are_absent(self) -> None:
        """R9: a lookup of a control character is a miss, not a crash."""
        store = memory_cloud()
        for path in ("a\tb", "x\n/y", "\x7f"):
            assert store.get(path) is None
            assert store.head(path) is None
            assert list(store.list_tree(path)) == []
            assert store.list_level(path).folders == []
            assert not store.any_object(path)

    def test_options_are_split(self) -> None:
        """C14: client options apart, names in any case, what obstore does not know left out."""
        config, client = _split_options(
            "s3://b",
            {
                "AWS_ACCESS_KEY_ID": "a",
                "aws_endpoint": "http://x",
                "region": "eu",
                "allow_http": "true",
                "timeout": "5s",
                "lance_only_option": "1",
            },
        )
        assert config == {"aws_access_key_id": "a", "aws_endpoint": "http://x", "region": "eu"}
        assert client == {"allow_http": True, "timeout": "5s"}
        config, client = _split_options(
            "az://c", {"account_name": "a", "azure_endpoint": "http://x", "allow_http": "false"}
        )
        assert config == {"account_name": "a", "azure_endpoint": "http://x"}
        assert client == {"allow_http": False}

    def test_lance_gets_the_options_as_they_were_given(self) -> None:
        """C14: for Lance and for our own requests alike."""
        options = {"region": "eu", "allow_http": "true", "lance_only_option": "1"}
        assert CloudStore("s3://b/p/", options).lance_options == options
        assert CloudStore("s3://b/p/", options).uri == "s3://b/p"


class TestRoots:
    def test_paths_and_uris(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """C13: absolute, relative to the working directory, file URIs, quoted or not."""
        monkeypatch.chdir(tmp_path)
        here = f"file://{tmp_path}"
        assert open_store(str(tmp_path), {}).uri == here
        assert open_store(".", {}).uri == here
        assert open_store("x/../", {}).uri == here
        assert open_store("sub", {}).uri == f"{here}/sub"
        assert open_store(f"file://{tmp_path}", {}).uri == here
        assert open_store(f"FILE://localhost{tmp_path}/", {}).uri == here
        assert open_store("file:///a%20b", {}).uri == "file:///a%20b"
        assert open_store("/a%20b", {}).uri == "file:///a%2520b"
        assert open_store("file:///a#b?c", {}).uri == "file:///a%23b%3Fc"

    def test_object_stores(self) -> None:
        """C13: s3, gs, az; without any request."""
        for uri in ("s3://bucket/prefix", "gs://bucket/prefix", "az://container/prefix"):
            options = {"account_name": "x"} if uri.startswith("az") else {}
            store = open_store(uri + "/", options)
            assert isinstance(store, CloudStore)
            assert store.uri == uri
            assert store.remote
            assert store.uri_of("a b/#") == f"{uri}/a%20b/%23"

    def test_bad_roots_are_13(self) -> None:
        """C13: an unknown scheme, or no bucket."""
        for root in ("ftp://x/y", "s3://", "gs:///", "http://x", "file://data/x", "abfss://c@a/x"):
            with pytest.raises(InvalidInputError) as caught:
                open_store(root, {})
            assert caught.value.code == 13

    def test_a_missing_slash_is_pointed_out(self) -> None:
        """C13: file://data/x is the folder /x of the machine data."""
        with pytest.raises(InvalidInputError, match=r"host 'data'.*'file:///data/x'"):
            open_store("file://data/x", {})

    def test_home(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """C13: ~ is the home folder; other names that begin so are names."""
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.chdir("/")
        assert open_store("~", {}).uri == f"file://{tmp_path}"
        assert open_store("~/x", {}).uri == f"file://{tmp_path}/x"
        assert open_store("./~/x", {}).uri == "file:///~/x"
        assert open_store("~root", {}).uri == "file:///~root"

    def test_spellings_that_lance_does_not_open(self) -> None:
        """C13: are turned into the one it does."""
        account = {"account_name": "x"}
        for given, opened in (
            ("s3a://b/p", "s3://b/p"),
            ("azure://c/p", "az://c/p"),
            ("ADL://c/p", "az://c/p"),
            ("abfs://c@a.dfs.core.windows.net/p", "abfss://c@a.dfs.core.windows.net/p"),
        ):
            assert open_store(given, {} if given.startswith("s3") else account).uri == opened

    def test_azure_without_an_account_is_13(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """C13, C14: and the names that help are those in the message."""
        monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
        with pytest.raises(InvalidInputError) as caught:
            open_store("az://c/x", {})
        option, variable = "azure_storage_account_name", "AZURE_STORAGE_ACCOUNT_NAME"
        assert f"storage.{option}" in str(caught.value) and variable in str(caught.value)
        assert open_store("az://c/x", {option: "a"}).uri == "az://c/x"
        assert open_store("abfss://c@a.dfs.core.windows.net/x", {}).remote
        monkeypatch.setenv(variable, "a")
        assert open_store("az://c/x", {}).uri == "az://c/x"

    def test_options_no_store_takes_are_13_without_their_values(self) -> None:
        """C14: the option is named, and what may be a secret is not shown, chained or not."""
        with pytest.raises(InvalidInputError, match=r"<storage\.service_account>") as caught:
            open_store("gs://b/x", {"service_account": '{"private_key": "hunter2"}'})
        assert "hunter2" not in str(caught.value)
        assert caught.value.__cause__ is None and caught.value.__suppress_context__

    def test_memory_is_shared_by_name(self) -> None:
        """C13: within this process."""
        first = open_store("memory://unit-a", {})
        assert open_store("memory://unit-a", {}) is first
        assert open_store("memory://unit-b", {}) is not first
        first.put("x", b"1")
        assert open_store("memory://unit-b", {}).get("x") is None
        first.delete(["x"])


class TestInstruments:
    def test_counting(self, tmp_path: Path) -> None:
        """Issue 2.3: what was asked, in order; writes apart."""
        store = CountingStore(LocalStore(str(tmp_path)))
        store.get("x")
        store.put("x", b"1")
        store.list_level()
        store.delete(["x", "y"])
        assert store.operations() == [
            ("get", "x"),
            ("put", "x"),
            ("list_level", ""),
            ("delete", "x y"),
        ]
        assert store.writes() == [("put", "x"), ("delete", "x y")]
        assert store.counts()["get"] == 1
        store.reset()
        assert store.operations() == []

    def test_every_operation_of_the_port_is_counted(self, tmp_path: Path) -> None:
        """Testing 7: an operation that is not passed through the counter would not be seen."""
        missing = [
            name
            for name, member in vars(Store).items()
            if callable(member)
            and not name.startswith("_")
            and name not in vars(CountingStore.__mro__[1])
        ]
        assert missing == []
        assert set(vars(Store)) >= WRITES

    def test_faults_before_and_after(self, tmp_path: Path) -> None:
        """Issue 2.3: as often as planned, on the paths that were meant."""
        store = FaultyStore(LocalStore(str(tmp_path)))
        store.fail("put", PermissionDeniedError("no"), path="secret", times=2)
        store.put("open", b"1")
        for _ in range(2):
            with pytest.raises(PermissionDeniedError):
                store.put("secret/x", b"1")
        assert store.get("secret/x") is None
        assert store.pending() == 0
        store.put("secret/x", b"1")
        store.fail("put_if_absent", TimeoutError(), after=True)
        with pytest.raises(TimeoutError):
            store.put_if_absent("late", b"1")
        assert store.get("late") == b"1"

    def test_a_store_without_put_if_absent(self, tmp_path: Path) -> None:
        """Issue 2 "Bad input": said once, remembered."""
        store = FaultyStore(LocalStore(str(tmp_path)), no_put_if_absent="old server")
        for _ in range(2):
            with pytest.raises(UnsupportedOperationError, match="old server"):
                require_put_if_absent(store)
