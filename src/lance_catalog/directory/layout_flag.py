"""The layout flag: a root whose listing alone tells which V1 tables are visible (R7).

In a root with the flag every deregistered table has its root-level marker, so on an object store
one listing of the root is enough. It is seen in that very listing, and only its name counts: a
layout that means something else will have another name. Without it, as in every root that another
implementation began, each table is looked into.

Written once: by the creation that makes the first table of a root, and by ``migrate``. A table
that another implementation deregisters later (a nested marker only) is listed until ``migrate`` or
``repair`` gives it its marker at the root; ``describe`` and ``exists`` are exact always.
"""

from __future__ import annotations

import json
import logging
import threading
import weakref
from typing import Final

from lance_catalog.config import Mode
from lance_catalog.directory.context import Context
from lance_catalog.errors import LanceNamespaceError, storage_errors
from lance_catalog.lifecycle.locations import SUFFIX, v1_name
from lance_catalog.storage.port import Store

__all__ = ["FLAG", "begins_root", "write", "write_after_creation"]

log = logging.getLogger(__name__)

#: No implementation takes it for a table: it is a file, and does not end in ``.lance``.
FLAG: Final = ".lance-catalog-layout"
_BODY: Final = json.dumps(
    {
        "format": 1,
        "meaning": "Every hidden table <name>.lance of this folder has a file <name>.deleted "
        "beside it, so a listing of this folder alone tells which tables are visible.",
        "written_by": "lance-catalog",
    }
).encode()
#: One page of a listing; what follows it is asked for only when the page leaves doubt.
_PAGE: Final = 1000

#: Stores whose root is known to have the flag, or to have been begun without it.
_settled: weakref.WeakSet[Store] = weakref.WeakSet()
_lock = threading.Lock()


def begins_root(ctx: Context, place: str) -> bool:
    """Whether a table about to be created makes the first V1 directory of its root.

    Asked on object stores only, once per process: on local disk listings are exact in any case,
    and the question would cost every first creation a listing of the root.
    """
    store = ctx.store
    if not store.remote or ctx.mode is Mode.V2 or v1_name(place) is None:
        return False
    with _lock:
        if store in _settled:
            return False
    try:
        with storage_errors("looking for the first table"):
            first = _is_without_tables(store)
    except LanceNamespaceError as error:
        # Credentials may be confined to the table's own prefix: no reason to refuse it.
        log.info("%s stays without its layout flag: %s", store.uri, error)
        return False
    if not first:
        _settle(store)
    return first


def _is_without_tables(store: Store) -> bool:
    paths = store.sample(_PAGE)
    if FLAG in paths or any(map(_in_table, paths)):
        return False
    if len(paths) < _PAGE:
        return True
    # A page of other things: a manifest with many versions, tables of namespaces.
    root = store.list_root()
    return FLAG not in root.objects and not any(name.endswith(SUFFIX) for name in root.folders)


def _in_table(path: str) -> bool:
    folder, below, _ = path.partition("/")
    return bool(below) and folder.endswith(SUFFIX)


def write_after_creation(ctx: Context) -> None:
    """Write the flag now that the first table is there; without it the root is only slower."""
    try:
        with storage_errors("writing the layout flag"):
            write(ctx.store)
    except LanceNamespaceError as error:
        log.warning(
            "the table is created, but listings of %s look into every table until "
            "`lance-catalog migrate`: %s",
            ctx.store.uri,
            error,
        )


def write(store: Store) -> None:
    """Write the flag; whose is there already stays."""
    store.put_if_absent(FLAG, _BODY)
    _settle(store)


def _settle(store: Store) -> None:
    with _lock:
        _settled.add(store)
