"""Does a store's put-if-absent let exactly one of many writers win?"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import obstore
from obstore.exceptions import AlreadyExistsError
from obstore.store import ObjectStore

PutIfAbsent = Callable[[ObjectStore, str, bytes], None]
"""Put, or raise AlreadyExistsError."""


def conditional_put(store: ObjectStore, key: str, body: bytes) -> None:
    obstore.put(store, key, body, mode="create")


def put_if_absent_probe(
    store: ObjectStore, writers: int = 64, *, put: PutIfAbsent = conditional_put
) -> int:
    """Race ``writers`` threads on one new key; how many were told that they won.

    Threads, not processes: obstore lets go of the GIL for the request, and it is the server's
    atomicity that is asked about, not the client's. ``put`` is there so that a test can hand in a
    broken one and see that the probe notices.
    """
    key = f"probe/{uuid.uuid4().hex}"
    start = threading.Barrier(writers)

    def write(number: int) -> bytes | None:
        body = b"writer %d" % number
        start.wait()
        try:
            put(store, key, body)
        except AlreadyExistsError:
            return None
        return body

    with ThreadPoolExecutor(writers) as pool:
        outcomes = list(pool.map(write, range(writers)))
    winners = [body for body in outcomes if body is not None]

    # A server that says "won" to one and keeps another's bytes is broken in a worse way.
    stored = bytes(obstore.get(store, key).bytes())
    obstore.delete(store, key)
    if winners and stored not in winners:
        message = f"the store holds {stored!r}, whose writer was told that it lost"
        raise AssertionError(message)
    return len(winners)
