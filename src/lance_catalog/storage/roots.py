"""The root a user names → the store that serves it (C13, C14). No I/O."""

from __future__ import annotations

import atexit
import os
import tempfile
import threading
import uuid
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote, urlsplit

from lance_catalog.errors import InvalidInputError
from lance_catalog.storage.cloud import CloudStore
from lance_catalog.storage.local import LocalStore
from lance_catalog.storage.port import Store

__all__ = ["SCHEMES", "open_store"]

_CLOUD: Final = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "adl")
SCHEMES: Final = ("file", "memory", *_CLOUD)

_memory: dict[str, LocalStore] = {}
_memory_lock = threading.Lock()


def open_store(root: str, options: Mapping[str, str]) -> Store:
    """Return the store of a root: a URI, an absolute path, or a path from the working directory."""
    scheme, found, rest = root.partition("://")
    if not found:
        return LocalStore(os.path.abspath(root), options)
    scheme = scheme.lower()
    if scheme == "file":
        # file:///data and file://localhost/data are the same folder.
        path = unquote(urlsplit(root.replace("#", "%23").replace("?", "%3F")).path)
        return LocalStore(os.path.normpath(path or "/"), options)
    if scheme == "memory":
        return _memory_store(rest)
    if scheme in _CLOUD:
        if rest.strip("/") == "":
            raise InvalidInputError(f"root '{root}' names no bucket or container")
        return CloudStore(f"{scheme}://{rest.rstrip('/')}", options)
    raise InvalidInputError(
        f"root '{root}': scheme '{scheme}' is not one of {', '.join(SCHEMES)}; "
        "for a folder give its path"
    )


def _memory_store(name: str) -> Store:
    """Return the store of ``memory://<name>``: shared in this process, gone when it ends.

    Lance's own memory store cannot be shared, not even between two opens of one dataset, so a
    folder that lives in memory where the system has one stands in (decision 0002).
    """
    with _memory_lock:
        store = _memory.get(name)
        if store is None:
            base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir()
            store = LocalStore(os.path.join(base, f"lance-catalog-memory-{uuid.uuid4().hex}"))
            atexit.register(store.remove_all)
            _memory[name] = store
        return store
