"""Operations that pass fail points, each from a known state: what the crash tests run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from lance_catalog import DirectoryNamespace
from lance_catalog.config import Mode
from lance_catalog.errors import LanceNamespaceError
from lance_catalog.lifecycle.claims import LEASE_MS
from tests.concurrency.racing import ipc, open_catalog, rows_at
from tests.crash import steps
from tests.crash.steps import Run

#: Id, rows (None: declared) and properties.
Table = tuple[str, tuple[int, ...] | None, tuple[tuple[str, str], ...]]
Tables = tuple[Table, ...]


class Seen(NamedTuple):
    """Everything a reader sees, and what can be undropped with the rows it would come back with.

    A drop that is being purged, or whose time has passed, does not count: it may go at any moment.
    """

    namespaces: tuple[str, ...]
    tables: Tables
    trash: Tables


@dataclass(frozen=True)
class Scenario:
    """An operation in a mode: how the state before it is made, and itself.

    ``between`` leads from the state before to one that a crash may leave as well. ``again``: it
    can be run again after a crash without a repair, once the lease of the claims has passed.
    """

    name: str
    mode: Mode
    prepare: Run
    run: Run
    between: Run | None = None
    again: bool = False
    settings: dict[str, str] = field(default_factory=dict)

    def open(self, root: str) -> DirectoryNamespace:
        return open_catalog(root, self.mode, **self.settings)


def _with(*parts: Run) -> Run:
    def prepare(ns: DirectoryNamespace) -> None:
        # What every state begins with: another table, and indices that are made already.
        ns.create_table({"id": ["other"]}, ipc([7, 8]))
        ns.declare_table({"id": ["more"]})
        for part in parts:
            part(ns)

    return prepare


EVERY, ROWS, COMPAT = tuple(Mode), (Mode.V2, Mode.COMPAT), (Mode.COMPAT,)


def _plain() -> Iterator[tuple[str, tuple[Mode, ...], Run, Run]]:
    yield "create", EVERY, _with(), steps.create
    yield "drop", EVERY, _with(steps.create), steps.drop
    yield "declare", EVERY, _with(), steps.declare
    yield "deregister", EVERY, _with(steps.create), steps.deregister
    hidden = _with(steps.create, steps.deregister)
    yield "register", (Mode.V1, Mode.COMPAT), hidden, steps.register
    yield "refused", ROWS, _with(), steps.create_refused_once
    yield "migrate", COMPAT, _with(steps.by_v1), steps.migrate
    yield "migrate hidden", EVERY, _with(steps.hidden_by_native), steps.migrate
    yield "migrate dropped", COMPAT, _with(steps.dropped_by_v1), steps.migrate
    yield "deregister directory", COMPAT, _with(steps.by_v1), steps.deregister
    yield "create with properties", EVERY, _with(), steps.create_with_properties
    yield "create over declared", EVERY, _with(steps.declare), steps.create
    yield "rename", ROWS, _with(steps.create), steps.rename
    yield "create namespace", ROWS, _with(), steps.make_namespace
    yield "batch", ROWS, _with(), steps.batch
    yield "upkeep", ROWS, _with(steps.create, steps.make_namespace), steps.upkeep
    yield "first of all", ROWS, lambda ns: None, steps.make_namespace


def _undo() -> Iterator[tuple[str, tuple[Mode, ...], Run, Run]]:
    """What begins or ends a drop: none of it needs a repair to be run again."""
    there, gone = _with(steps.create), _with(steps.create, steps.drop)
    by_directory = _with(steps.by_v1, steps.drop)
    yield "drop directory", COMPAT, _with(steps.by_v1), steps.drop
    yield "drop deregistered", EVERY, _with(steps.create, steps.deregister), steps.drop
    yield "drop namespace", ROWS, _with(steps.make_space), steps.drop_space
    yield "drop and purge", EVERY, there, steps.drop_and_purge
    yield "drop and purge directory", COMPAT, _with(steps.by_v1), steps.drop_and_purge
    yield "drop and purge namespace", ROWS, _with(steps.make_space), steps.drop_space_and_purge
    yield "undrop", EVERY, gone, steps.undrop
    yield "undrop directory", COMPAT, by_directory, steps.undrop
    yield "undrop as another", ROWS, gone, steps.undrop_as_another
    yield "undrop directory as another", COMPAT, by_directory, steps.undrop_as_another
    twice = _with(steps.create, steps.drop, steps.create_fresh, steps.drop)
    yield "undrop by drop id", ROWS, twice, steps.undrop_the_oldest
    yield "undrop declared", EVERY, _with(steps.declare, steps.drop), steps.undrop
    yield "purge", EVERY, gone, steps.purge
    yield "purge directory", COMPAT, by_directory, steps.purge
    yield "purge by drop id", ROWS, twice, steps.purge_the_oldest
    yield "purge expired", EVERY, _with(steps.create, steps.drop_for_now), steps.sweep
    yield "revive", EVERY, gone, steps.create_over
    yield "revive directory", COMPAT, by_directory, steps.create_over
    had = _with(steps.create_with_properties, steps.drop)
    yield "revive with properties", EVERY, had, steps.create_over_with_properties
    yield "revive without properties", EVERY, had, steps.create_over
    yield "declare over dropped", ROWS, gone, steps.declare
    yield "create over dropped declared", ROWS, _with(steps.declare, steps.drop), steps.create_over
    yield "fresh over dropped", ROWS, gone, steps.create_fresh


def _all() -> Iterator[Scenario]:
    for name, modes, prepare, run in _plain():
        yield from (Scenario(f"{mode.value}-{name}", mode, prepare, run) for mode in modes)
    for name, modes, prepare, run in _undo():
        for mode in modes:
            yield Scenario(f"{mode.value}-{name}", mode, prepare, run, again=True)
    # Two steps in V1: the dropped table is deleted, then its name is taken.
    for name, there, run, settings in (
        ("create over dropped declared", steps.declare, steps.create_over, {}),
        ("declare over dropped", steps.create, steps.declare, {"v1_redeclare": "purge"}),
    ):
        prepare = _with(there, steps.drop)
        yield Scenario(f"v1-{name}", Mode.V1, prepare, run, steps.purge, settings=settings)


SCENARIOS = {scenario.name: scenario for scenario in _all()}


def seen(scenario: Scenario, root: str) -> Seen:
    """What a reader sees, all of it opened; what is in the trash is undropped in a copy."""
    ns = scenario.open(root)
    listed = ns.list_all_tables({"id": []}).tables
    tables = tuple(_table(ns, key, key.split("$")) for key in listed)
    spaces = () if ns.mode is Mode.V1 else tuple(ns.list_namespaces({"id": []}).namespaces)
    trash: Tables = ()
    if ns.list_dropped_tables():
        with later(scenario, root) as copy:
            trash = _undropped(copy)
    return Seen(tuple(name for name in spaces if name != "between"), tables, trash)


def _table(ns: DirectoryNamespace, key: str, names: list[str]) -> Table:
    found = ns.describe_table({"id": names, "check_declared": True})
    rows = None if found.is_only_declared else tuple(rows_at(found.location))
    return key, rows, tuple(sorted((found.properties or {}).items()))


@contextmanager
def later(scenario: Scenario, root: str) -> Iterator[DirectoryNamespace]:
    """Yield a copy of a catalog, so late that nobody alive can hold an old claim."""
    copy = f"{root}-later"
    shutil.copytree(root, copy, symlinks=True)
    try:
        ns = scenario.open(copy)
        now = ns.context.clock
        ns.context.clock = lambda: now() + LEASE_MS
        yield ns
    finally:
        shutil.rmtree(copy)


def _undropped(ns: DirectoryNamespace) -> Tables:
    found: list[Table] = []
    for number, one in enumerate(ns.list_dropped_tables()):
        expired = one.expires_at_ms is not None and one.expires_at_ms <= ns.context.clock()
        if one.purging or expired:
            continue
        names = list(one.id)
        try:
            ns.undrop_table(names, drop_id=one.drop_id)
        except LanceNamespaceError as error:
            # Its name was taken since, or its namespace is gone.
            if error.code not in (1, 5):
                raise
            names = [f"back{number}"]
            ns.undrop_table(one.id, as_id=names, drop_id=one.drop_id)
        found.append(_table(ns, "$".join(one.id), names))
    return tuple(found)


def code_of(run: Run, ns: DirectoryNamespace) -> int | None:
    try:
        run(ns)
    except LanceNamespaceError as error:
        return int(error.code)
    return None


def main(root: str, name: str) -> None:
    """Run one, in a process that may be killed."""
    SCENARIOS[name].run(SCENARIOS[name].open(root))
