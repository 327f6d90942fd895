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

# Other tools' spellings, and the one that Lance opens.
_SAME: Final = {"s3a": "s3", "azure": "az", "adl": "az", "abfs": "abfss"}
_CLOUD: Final = ("s3", "gs", "az", "abfss", *_SAME)
SCHEMES: Final = ("file", "memory", *_CLOUD)

_memory: dict[str, LocalStore] = {}
_memory_lock = threading.Lock()


def open_store(root: str, options: Mapping[str, str]) -> Store:
    """Return the store of a root: a URI, an absolute path, or a path from the working directory.

    ``~`` and ``~/x`` are below the user's home, as a shell would have it: programs and profiles
    pass them on as they are.
    """
    scheme, found, rest = root.partition("://")
    if not found:
        home = root == "~" or root.startswith("~/")
        path = os.path.expanduser(root) if home else root
        return LocalStore(os.path.abspath(path), options)
    scheme = scheme.lower()
    if scheme == "file":
        # file:///data and file://localhost/data are the same folder.
        parts = urlsplit(root.replace("#", "%23").replace("?", "%3F"))
        if parts.netloc.lower() not in ("", "localhost"):
            # Most often a slash is missing, and the first folder was taken for the host.
            raise InvalidInputError(
                f"root '{root}' names the host '{parts.netloc}', and a folder of another machine "
                f"cannot be opened; for a folder of this one write three slashes: 'file:///{rest}'"
            )
        path = unquote(parts.path)
        return LocalStore(os.path.normpath(path or "/"), options)
    if scheme == "memory":
        return _memory_store(rest)
    if scheme in _CLOUD:
        if rest.strip("/") == "":
            raise InvalidInputError(f"root '{root}' names no bucket or container")
        return CloudStore(f"{_SAME.get(scheme, scheme)}://{rest.rstrip('/')}", options)
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
