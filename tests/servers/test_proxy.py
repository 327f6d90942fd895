"""The proxy counts what Lance and obstore send, and breaks what it is told to."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import lance
import obstore
import pyarrow as pa
import pytest
from obstore.exceptions import AlreadyExistsError

from tests.servers.fixtures import Cloud
from tests.servers.probe import put_if_absent_probe
from tests.servers.proxy import CountingProxy

pytestmark = pytest.mark.integration

Proxied = tuple[Cloud, CountingProxy]
TABLE = pa.table({"a": range(100)})


def test_obstore_requests_are_counted_by_kind(proxied: Proxied) -> None:
    (cloud, proxy), traffic = proxied, proxied[1].traffic
    store = cloud.store
    obstore.put(store, "dir/k é", b"0123456789")
    assert bytes(obstore.get(store, "dir/k é").bytes()) == b"0123456789"
    assert bytes(obstore.get_range(store, "dir/k é", start=2, end=5)) == b"234"
    assert obstore.head(store, "dir/k é")["size"] == 10
    assert [o["path"] for o in obstore.list(store, "dir").collect()] == ["dir/k é"]
    obstore.copy(store, "dir/k é", "dir/k2")
    obstore.delete(store, "dir/k é")
    counts = traffic.counts()
    assert counts.kinds == {"PUT": 1, "GET": 2, "HEAD": 1, "LIST": 1, "COPY": 1, "DELETE": 1}
    assert counts.methods == {"PUT": 2, "GET": 3, "HEAD": 1, "POST": 1}
    assert (counts.reads, counts.writes, counts.total) == (4, 3, 7)
    assert traffic.requests()[0].path.endswith("/dir/k é")
    traffic.reset()
    assert traffic.counts().total == 0
    assert proxy.endpoint != cloud.server.endpoint


def test_a_lance_read_writes_nothing_and_a_write_does(proxied: Proxied) -> None:
    cloud, proxy = proxied
    uri = cloud.uri("t.lance")
    lance.write_dataset(TABLE, uri, storage_options=cloud.options)
    assert proxy.traffic.counts().writes >= 2  # data and manifest at the least
    proxy.traffic.reset()
    assert lance.dataset(uri, storage_options=cloud.options).to_table() == TABLE
    counts = proxy.traffic.counts()
    assert counts.writes == 0
    assert counts.kinds["LIST"] >= 1
    assert counts.kinds["GET"] >= 1


def test_large_objects_pass_in_parts(proxied: Proxied) -> None:
    cloud, proxy = proxied
    body = os.urandom(24 << 20)
    obstore.put(cloud.store, "big", body, chunk_size=5 << 20)
    assert proxy.traffic.counts().kinds["PUT"] >= 5
    assert bytes(obstore.get(cloud.store, "big").bytes()) == body


def test_many_clients_at_once(proxied: Proxied) -> None:
    cloud, proxy = proxied
    assert put_if_absent_probe(cloud.store) == 1
    assert proxy.traffic.counts().kinds["PUT"] == 64
    proxy.traffic.reset()
    store = cloud.store
    obstore.put(store, "k", b"x" * 1000)
    with ThreadPoolExecutor(32) as pool:
        bodies = list(pool.map(lambda _: bytes(obstore.get(store, "k").bytes()), range(500)))
    assert set(bodies) == {b"x" * 1000}
    assert proxy.traffic.counts().kinds == {"PUT": 1, "GET": 500}


def test_planted_503_is_retried_and_never_reaches_the_store(proxied: Proxied) -> None:
    cloud, proxy = proxied
    proxy.fail_next(2, kind="PUT", path="/k")
    obstore.put(cloud.store, "k", b"1", mode="create")
    assert [r.status in (200, 201) for r in proxy.traffic.requests()] == [False, False, True]
    assert [r.faulty for r in proxy.traffic.requests()] == [True, True, False]
    assert proxy.traffic.pending() == 0


def test_faults_meet_only_what_they_match(proxied: Proxied) -> None:
    cloud, proxy = proxied
    proxy.fail_next(1, kind="LIST")
    proxy.fail_next(1, kind="PUT", path="elsewhere")
    obstore.put(cloud.store, "k", b"1")
    obstore.get(cloud.store, "k").bytes()
    assert not any(r.faulty for r in proxy.traffic.requests())
    assert proxy.traffic.pending() == 2


def test_a_dropped_reply_makes_the_winner_believe_it_lost(proxied: Proxied) -> None:
    """obstore sends a conditional put again when no reply came, and then loses to itself."""
    cloud, proxy = proxied
    proxy.drop_reply_next(1, kind="PUT")
    with pytest.raises(AlreadyExistsError):
        obstore.put(cloud.store, "k", b"mine", mode="create")
    first, second = proxy.traffic.requests()
    assert (first.status in (200, 201), first.faulty) == (True, True)
    assert (second.status in (409, 412), second.faulty) == (True, False)
    assert bytes(obstore.get(cloud.store, "k").bytes()) == b"mine"


def test_lance_heals_a_dropped_reply_to_its_commit(proxied: Proxied) -> None:
    cloud, proxy = proxied
    uri = cloud.uri("t.lance")
    lance.write_dataset(TABLE, uri, storage_options=cloud.options)
    proxy.drop_reply_next(1, kind="PUT", path="/_versions/")
    lance.write_dataset(TABLE, uri, storage_options=cloud.options, mode="append")
    assert proxy.traffic.pending() == 0
    dataset = lance.dataset(uri, storage_options=cloud.options)
    assert (dataset.version, dataset.count_rows()) == (2, 200)
