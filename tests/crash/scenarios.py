"""Operations that pass fail points, each from a known state: what the crash tests run.

``python -m tests.crash.scenarios <root> <scenario>`` runs one, in a process that may be killed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from lance_catalog import DirectoryNamespace
from lance_catalog.config import Mode
from lance_catalog.directory.edge import operation
from lance_catalog.directory.migration import migrate
from lance_catalog.errors import LanceNamespaceError
from lance_catalog.manifest.log import ManifestLog
from tests.concurrency.batches import together
from tests.concurrency.racing import ipc, open_catalog, rows_at

T = {"id": ["t"]}
HERE = {"id": ["t"], "location": "t.lance"}

Run = Callable[[DirectoryNamespace], object]
#: Everything a reader sees: namespaces, and rows by table id (None: declared).
Seen = tuple[tuple[str, ...], tuple[tuple[str, tuple[int, ...] | None], ...]]


@dataclass(frozen=True)
class Scenario:
    """An operation in a mode: how the state before it is made, and itself."""

    name: str
    mode: Mode
    prepare: Run
    run: Run

    def open(self, root: str) -> DirectoryNamespace:
        return open_catalog(root, self.mode)


def _settle(ns: DirectoryNamespace) -> None:
    """What every state begins with: another table, and indices that are made already."""
    ns.create_table({"id": ["other"]}, ipc([7, 8]))
    ns.declare_table({"id": ["more"]})


def _with(*steps: Run) -> Run:
    def prepare(ns: DirectoryNamespace) -> None:
        _settle(ns)
        for step in steps:
            step(ns)

    return prepare


def _create(ns: DirectoryNamespace) -> object:
    return ns.create_table(T, ipc([1, 2]))


def _create_with_properties(ns: DirectoryNamespace) -> object:
    return ns.create_table({"id": ["t"], "properties": {"a": "b"}}, ipc([1, 2]))


def _declare(ns: DirectoryNamespace) -> object:
    return ns.declare_table(T)


def _drop(ns: DirectoryNamespace) -> object:
    return ns.drop_table(T)


def _deregister(ns: DirectoryNamespace) -> object:
    return ns.deregister_table(T)


def _register(ns: DirectoryNamespace) -> object:
    return ns.register_table(HERE)


def _rename(ns: DirectoryNamespace) -> object:
    return ns.rename_table({"id": ["t"], "new_table_name": "u"})


def _make_space(ns: DirectoryNamespace) -> object:
    ns.create_namespace({"id": ["n"]})
    return ns.create_table({"id": ["n", "t"]}, ipc([3]))


def _make_namespace(ns: DirectoryNamespace) -> object:
    return ns.create_namespace({"id": ["n"]})


def _drop_space(ns: DirectoryNamespace) -> object:
    return ns.drop_namespace({"id": ["n"], "behavior": "cascade"})


def _by_v1(ns: DirectoryNamespace) -> object:
    store: Any = ns.context.store
    return open_catalog(store.path, Mode.V1).create_table(T, ipc([1, 2]))


def _hidden_by_native(ns: DirectoryNamespace) -> object:
    """A table that another implementation deregistered: its nested marker alone."""
    store: Any = ns.context.store
    open_catalog(store.path, Mode.V1).create_table({"id": ["hid"]}, ipc([5]))
    return store.put("hid.lance/.lance-deregistered", b"reserved")


def _migrate(ns: DirectoryNamespace) -> object:
    # A function, not a method: its callers have an edge of their own.
    return operation(migrate)(ns.context)


def _upkeep(ns: DirectoryNamespace) -> object:
    # Every version but the newest two, whatever the clock says.
    return ns.upkeep(keep=0)


def _create_refused_once(ns: DirectoryNamespace) -> object:
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
        return _make_namespace(ns)
    finally:
        ManifestLog._attempt = real  # type: ignore[method-assign]


def _batch(ns: DirectoryNamespace) -> object:
    """Three changes of three threads, one version: all of them are there afterwards, or none."""

    def create(*names: str) -> Run:
        return lambda ns: ns.create_namespace({"id": list(names)})

    runs = [create("batch"), create("batch", "child"), create("another")]
    answers = together(ns, [partial(run, ns) for run in runs])
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return answers


def _all() -> list[Scenario]:
    found = []

    def add(name: str, modes: tuple[Mode, ...], prepare: Run, run: Run) -> None:
        found.extend(Scenario(f"{mode.value}-{name}", mode, prepare, run) for mode in modes)

    every, rows = (Mode.V1, Mode.V2, Mode.COMPAT), (Mode.V2, Mode.COMPAT)
    add("create", every, _with(), _create)
    add("drop", every, _with(_create), _drop)
    add("declare", every, _with(), _declare)
    add("deregister", every, _with(_create), _deregister)
    add("register", (Mode.V1, Mode.COMPAT), _with(_create, _deregister), _register)
    add("refused", rows, _with(), _create_refused_once)
    add("migrate", (Mode.COMPAT,), _with(_by_v1), _migrate)
    add("migrate hidden", every, _with(_hidden_by_native), _migrate)
    add("drop directory", (Mode.COMPAT,), _with(_by_v1), _drop)
    add("deregister directory", (Mode.COMPAT,), _with(_by_v1), _deregister)
    add("create with properties", every, _with(), _create_with_properties)
    add("create over declared", every, _with(_declare), _create)
    add("drop deregistered", every, _with(_create, _deregister), _drop)
    add("rename", rows, _with(_create), _rename)
    add("create namespace", rows, _with(), _make_namespace)
    add("drop namespace", rows, _with(_make_space), _drop_space)
    add("batch", rows, _with(), _batch)
    add("upkeep", rows, _with(_create, _make_namespace), _upkeep)
    add("first of all", rows, lambda ns: None, _make_namespace)
    return found


SCENARIOS = {scenario.name: scenario for scenario in _all()}


def seen(ns: DirectoryNamespace) -> Seen:
    """What a reader sees, all of it opened."""
    tables: list[tuple[str, tuple[int, ...] | None]] = []
    for key in ns.list_all_tables({"id": []}).tables:
        found = ns.describe_table({"id": key.split("$"), "check_declared": True})
        rows = None if found.is_only_declared else tuple(rows_at(found.location))
        tables.append((key, rows))
    spaces = () if ns.mode is Mode.V1 else tuple(ns.list_namespaces({"id": []}).namespaces)
    return tuple(name for name in spaces if name != "between"), tuple(tables)


def code_of(run: Run, ns: DirectoryNamespace) -> int | None:
    try:
        run(ns)
    except LanceNamespaceError as error:
        return int(error.code)
    return None


if __name__ == "__main__":
    chosen = SCENARIOS[sys.argv[2]]
    chosen.run(chosen.open(sys.argv[1]))
