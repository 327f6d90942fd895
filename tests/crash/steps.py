"""What the scenarios are made of: one operation each, on the table ``t`` unless it says so."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from lance_catalog import DirectoryNamespace
from lance_catalog.config import Mode
from lance_catalog.directory.edge import operation
from lance_catalog.directory.migration import migrate as migrate_catalog
from lance_catalog.errors import TableNotFoundError
from lance_catalog.manifest.log import ManifestLog
from tests.concurrency.batches import together
from tests.concurrency.racing import ipc, open_catalog

T = {"id": ["t"]}

Run = Callable[[DirectoryNamespace], object]


def create(ns: DirectoryNamespace) -> object:
    return ns.create_table(T, ipc([1, 2]))


def create_with_properties(ns: DirectoryNamespace) -> object:
    return ns.create_table({"id": ["t"], "properties": {"a": "b"}}, ipc([1, 2]))


def declare(ns: DirectoryNamespace) -> object:
    return ns.declare_table(T)


def deregister(ns: DirectoryNamespace) -> object:
    return ns.deregister_table(T)


def register(ns: DirectoryNamespace) -> object:
    return ns.register_table({"id": ["t"], "location": "t.lance"})


def rename(ns: DirectoryNamespace) -> object:
    return ns.rename_table({"id": ["t"], "new_table_name": "u"})


# Undo: drop, undrop, purge, and creations where a dropped table is.


def drop(ns: DirectoryNamespace) -> object:
    return ns.drop_table(T)


def drop_for_now(ns: DirectoryNamespace) -> object:
    """A drop whose time to live has passed already: for the next sweep."""
    return ns.drop_table(T, ttl=0)


def drop_and_purge(ns: DirectoryNamespace) -> object:
    return ns.drop_table(T, purge=True)


def undrop(ns: DirectoryNamespace) -> object:
    return ns.undrop_table(["t"])


def undrop_as_another(ns: DirectoryNamespace) -> object:
    return ns.undrop_table(["t"], as_id=["u"])


def _older_of_two(ns: DirectoryNamespace) -> str:
    """The earlier drop; once it has ended, the other is not meant."""
    drops = ns.list_dropped_tables()
    if len(drops) < 2:
        raise TableNotFoundError("the earlier drop has ended")
    return drops[-1].drop_id


def undrop_the_oldest(ns: DirectoryNamespace) -> object:
    return ns.undrop_table(["t"], drop_id=_older_of_two(ns))


def purge(ns: DirectoryNamespace) -> object:
    return ns.purge_table(["t"], force=True)


def purge_the_oldest(ns: DirectoryNamespace) -> object:
    return ns.purge_table(["t"], force=True, drop_id=_older_of_two(ns))


def sweep(ns: DirectoryNamespace) -> object:
    report = ns.purge_tables()
    for _, error in report.failed:
        raise error
    return report


def create_over(ns: DirectoryNamespace) -> object:
    return ns.create_table(T, ipc([3, 4]))


def create_over_with_properties(ns: DirectoryNamespace) -> object:
    return ns.create_table({"id": ["t"], "properties": {"c": "d"}}, ipc([3, 4]))


def create_fresh(ns: DirectoryNamespace) -> object:
    return ns.create_table({"id": ["t"], "context": {"lance_catalog.recreate": "fresh"}}, ipc([5]))


# Namespaces.


def make_space(ns: DirectoryNamespace) -> object:
    ns.create_namespace({"id": ["n"]})
    ns.create_table({"id": ["n", "t"]}, ipc([3]))
    return ns.create_table({"id": ["n", "u"]}, ipc([4]))


def make_namespace(ns: DirectoryNamespace) -> object:
    return ns.create_namespace({"id": ["n"]})


def drop_space(ns: DirectoryNamespace) -> object:
    return ns.drop_namespace({"id": ["n"], "behavior": "cascade"})


def drop_space_and_purge(ns: DirectoryNamespace) -> object:
    return ns.drop_namespace({"id": ["n"], "behavior": "cascade"}, purge=True)


# Other writers, migration, upkeep, and commits that meet.


def by_v1(ns: DirectoryNamespace) -> object:
    store: Any = ns.context.store
    return open_catalog(store.path, Mode.V1).create_table(T, ipc([1, 2]))


def hidden_by_native(ns: DirectoryNamespace) -> object:
    """A table that another implementation deregistered: its nested marker alone."""
    store: Any = ns.context.store
    open_catalog(store.path, Mode.V1).create_table({"id": ["hid"]}, ipc([5]))
    return store.put("hid.lance/.lance-deregistered", b"reserved")


def dropped_by_v1(ns: DirectoryNamespace) -> object:
    """A table that only its marker tells of: dropped by a V1 client."""
    by_v1(ns)
    store: Any = ns.context.store
    return open_catalog(store.path, Mode.V1).drop_table(T)


def migrate(ns: DirectoryNamespace) -> object:
    # A function, not a method: its callers have an edge of their own.
    return operation(migrate_catalog)(ns.context)


def upkeep(ns: DirectoryNamespace) -> object:
    # Every version but the newest two, whatever the clock says.
    return ns.upkeep(keep=0)


def create_refused_once(ns: DirectoryNamespace) -> object:
    """Another writer commits between our look and our commit, once."""
    store: Any = ns.context.store
    alias = store.path + "-alias"
    os.path.lexists(alias) or os.symlink(store.path, alias)
    other = open_catalog(alias, ns.mode)
    real = ManifestLog._attempt
    left = [True]

    def attempt(self: ManifestLog, *args: Any) -> Any:
        if left:
            left.clear()
            other.create_namespace({"id": ["between"], "mode": "exist_ok"})
        return real(self, *args)

    ManifestLog._attempt = attempt  # type: ignore[method-assign]
    try:
        return make_namespace(ns)
    finally:
        ManifestLog._attempt = real  # type: ignore[method-assign]


def batch(ns: DirectoryNamespace) -> object:
    """Three changes of three threads, one version: all of them are there afterwards, or none."""

    def space(*names: str) -> Run:
        return lambda ns: ns.create_namespace({"id": list(names)})

    runs = [space("batch"), space("batch", "child"), space("another")]
    answers = together(ns, [partial(run, ns) for run in runs])
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return answers
