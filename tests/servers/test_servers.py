"""The servers do what the integration tests rely on."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path

import lance
import obstore
import pyarrow as pa
import pytest
from obstore.exceptions import (
    AlreadyExistsError,
    PermissionDeniedError,
    PreconditionError,
)
from obstore.store import AzureStore, ObjectStore, S3Store

from tests.servers.azure import AzuriteServer
from tests.servers.fixtures import Cloud, start_or_skip
from tests.servers.probe import put_if_absent_probe
from tests.servers.process import LOOPBACK, ServerFailedError, wait_until
from tests.servers.s3 import REGION, S3Server

pytestmark = pytest.mark.integration

ROUNDS = 5
WRITERS = 64


def test_exactly_one_writer_wins(cloud: Cloud) -> None:
    winners = [put_if_absent_probe(cloud.store, WRITERS) for _ in range(ROUNDS)]
    conflicts = ROUNDS * WRITERS - sum(winners)
    print(f"put-if-absent: {ROUNDS} rounds of {WRITERS}, winners {winners}, {conflicts} conflicts")
    assert winners == [1] * ROUNDS


def test_the_probe_notices_a_put_that_is_not_atomic(cloud: Cloud) -> None:
    """The planted bug: look, then put. If this shows one winner, the probe does not race."""

    def look_then_put(store: ObjectStore, key: str, body: bytes) -> None:
        try:
            obstore.head(store, key)
        except FileNotFoundError:
            obstore.put(store, key, body)
        else:
            raise AlreadyExistsError(key)

    winners = [put_if_absent_probe(cloud.store, WRITERS, put=look_then_put) for _ in range(ROUNDS)]
    print(f"look-then-put: {ROUNDS} rounds of {WRITERS}, winners {winners}")
    assert max(winners) > 1


def test_conditional_update(cloud: Cloud) -> None:
    store = cloud.store
    first = obstore.put(store, "k", b"1", mode="create")["e_tag"]
    obstore.put(store, "k", b"2", mode={"e_tag": first})
    with pytest.raises(PreconditionError):
        obstore.put(store, "k", b"3", mode={"e_tag": first})
    assert bytes(obstore.get(store, "k").bytes()) == b"2"


def test_lance_round_trip(cloud: Cloud) -> None:
    uri, options = cloud.uri("dir/t.lance"), cloud.options
    # Random bytes, since Lance would compress others; enough of them for a multipart upload.
    blobs = pa.table({"a": range(24), "b": [os.urandom(1 << 20) for _ in range(24)]})
    lance.write_dataset(blobs, uri, storage_options=options)
    lance.write_dataset(blobs, uri, storage_options=options, mode="append")
    dataset = lance.dataset(uri, storage_options=options)
    assert dataset.version == 2
    assert dataset.to_table() == pa.concat_tables([blobs, blobs])
    assert lance.dataset(uri, version=1, storage_options=options).count_rows() == 24


def test_the_same_options_serve_obstore(cloud: Cloud) -> None:
    kind = S3Store if isinstance(cloud.server, S3Server) else AzureStore
    store = kind(cloud.bucket, config=cloud.options)  # type: ignore[arg-type]
    obstore.put(store, "k", b"1", mode="create")
    with pytest.raises(AlreadyExistsError):
        obstore.put(store, "k", b"2", mode="create")


def test_the_store_can_go_to_another_process(cloud: Cloud) -> None:
    store = pickle.loads(pickle.dumps(cloud.server.store(cloud.bucket, prefix="p")))
    obstore.put(store, "k", b"1")
    assert [item["path"] for item in obstore.list(cloud.store).collect()] == ["p/k"]


def test_a_bucket_policy_denies_writes(s3_server: S3Server) -> None:
    """How the tests of denied access get a reader who may not write."""
    s3_server.create_bucket("read-only")
    obstore.put(s3_server.store("read-only"), "k", b"1")
    statement = {
        "Effect": "Allow",
        "Principal": {"AWS": ["*"]},
        "Action": ["s3:GetObject", "s3:ListBucket", "s3:GetBucketLocation"],
        "Resource": ["arn:aws:s3:::read-only", "arn:aws:s3:::read-only/*"],
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]}).encode()
    assert s3_server.request("PUT", "/read-only", {"policy": ""}, policy).status == 204
    anonymous = S3Store(
        "read-only",
        config={
            "endpoint": s3_server.endpoint,
            "region": REGION,
            "skip_signature": True,
        },
        client_options={"allow_http": True},
    )
    assert bytes(obstore.get(anonymous, "k").bytes()) == b"1"
    with pytest.raises(PermissionDeniedError):
        obstore.put(anonymous, "k2", b"1", mode="create")


def _group_is_gone(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def _refuses(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex((LOOPBACK, port)) != 0


@pytest.mark.parametrize("kind", [S3Server, AzuriteServer])
@pytest.mark.parametrize("raises", [False, True])
def test_the_server_is_stopped_after_exit(
    kind: type[S3Server | AzuriteServer], raises: bool
) -> None:
    with suppress(KeyboardInterrupt), ExitStack() as stack:
        server = start_or_skip(kind(), stack)
        group, port, scratch = server.pid, server.port, server.scratch
        assert not _group_is_gone(group)
        assert not _refuses(port)
        if raises:
            raise KeyboardInterrupt
    assert _group_is_gone(group)
    assert _refuses(port)
    assert not scratch.exists()


@pytest.mark.skipif(
    shutil.which("setpriv") is None and os.environ.get("CI") != "true",
    reason="setpriv is not on PATH",
)
def test_the_server_does_not_outlive_a_killed_test_run(s3_server: S3Server, tmp_path: Path) -> None:
    """``s3_server`` only for its skip: a server of the child's own is the subject."""
    script = (
        "from tests.servers.s3 import S3Server\n"
        "with S3Server() as server:\n"
        "    print(server.port, flush=True)\n"
        "    input()\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script],
        env={**os.environ, "TMPDIR": str(tmp_path)},  # a killed run leaves its data behind
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with child:
        assert child.stdout is not None
        port = int(child.stdout.readline())
        assert not _refuses(port)
        child.kill()
    assert wait_until(lambda: _refuses(port), 10)


def test_a_server_that_dies_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    server = S3Server()
    monkeypatch.setattr(
        server, "_command", lambda data: (["sh", "-c", "echo no such luck; exit 3"], {})
    )
    with pytest.raises(ServerFailedError, match="no such luck"), server:
        pass
    with pytest.raises(RuntimeError, match="not running"):
        _ = server.pid
