"""Operations on managed versions, each from a known state: what the crash tests run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from lance_catalog import DirectoryNamespace
from lance_catalog.config import Mode
from lance_catalog.directory.deregistered import deregistered
from lance_catalog.directory.managed import batch, commit
from tests.concurrency.managed import numbers, read, stage, table, write
from tests.concurrency.racing import ipc, open_catalog, rows_at

Run = Callable[[DirectoryNamespace], object]
A, B, C, D = ["a"], ["b"], ["c"], ["d"]


@dataclass(frozen=True)
class Scenario:
    """An operation, and how the state before it is made."""

    name: str
    prepare: Run
    run: Run


class Seen(NamedTuple):
    """What readers see: of each table its rows (None: declared) and versions; what is hidden.

    Of that the rows that it would come back with.
    """

    managed: bool
    tables: tuple[tuple[str, tuple[int, ...] | None, tuple[int, ...]], ...]
    hidden: tuple[tuple[str, tuple[int, ...]], ...]


def seen(ns: DirectoryNamespace) -> Seen:
    """Read everything through the catalog, as a stock reader does."""
    found = []
    for name in ns.list_all_tables({"id": []}).tables:
        versions = tuple(numbers(ns, [name]))
        declared = ns.describe_table({"id": [name], "check_declared": True}).is_only_declared
        rows = None if declared else tuple(read(ns, [name]))
        found.append((name, rows, versions))
    places = [(one.names, one.location) for one in deregistered(ns.context)]
    places += [(one.id, one.location) for one in ns.list_dropped_tables()]
    uri = ns.context.store.uri_of
    hidden = sorted((names[0], tuple(rows_at(uri(place)))) for names, place in places)
    return Seen(ns.managed_versions_status().managed, tuple(found), tuple(hidden))


# States.


def _plain(ns: DirectoryNamespace) -> None:
    for name in "abc":
        ns.create_table({"id": [name]}, ipc([0]))
        ns.insert_into_table({"id": [name]}, ipc([1]))


def _managed(ns: DirectoryNamespace) -> None:
    _plain(ns)
    ns.enable_managed_versions()


_mortal = threading.Lock()


class Died(BaseException):
    """In the place of a kill, where the process has to go on."""


@contextmanager
def dying_before_publishing() -> Iterator[None]:
    """Whoever commits versions inside dies when the rows are written."""

    mine = threading.current_thread()

    def hit(point: str) -> None:
        if point == "version.row_written" and threading.current_thread() is mine:
            raise Died
        real(point)

    # One at a time: each puts back what it found.
    with _mortal:
        real = commit.hit
        commit.hit = batch.hit = hit
        try:
            yield
        except Died:
            pass
        finally:
            commit.hit = batch.hit = real


def _left(run: Run) -> Run:
    """A managed catalog in which a committer died once its rows were written."""

    def prepare(ns: DirectoryNamespace) -> None:
        _managed(ns)
        with dying_before_publishing():
            run(ns)

    return prepare


def _dropped(ns: DirectoryNamespace) -> None:
    _managed(ns)
    drop(ns)


# Operations.


def append(ns: DirectoryNamespace) -> object:
    return write(ns, A, [9])


def by_hand(ns: DirectoryNamespace) -> object:
    return ns.create_table_version(stage(ns, A, [2]))


def three_at_once(ns: DirectoryNamespace) -> object:
    entries = [stage(ns, one, [2]) for one in (A, B, C)]
    return ns.batch_create_table_versions({"entries": entries})


def mixed(ns: DirectoryNamespace) -> object:
    operations: list[dict[str, Any]] = [
        {"declare_table": {"id": D}},
        {"create_table_version": stage(ns, A, [2])},
        {"delete_table_versions": {"id": B, "ranges": [_span(1, 2)]}},
        {"deregister_table": {"id": C}},
    ]
    return ns.batch_commit_tables({"operations": operations})


def transaction(ns: DirectoryNamespace) -> object:
    """Two versions of one table, one of another, a new table, and one that goes."""
    with ns.transaction() as tx:
        tx.write(A, table([2]))
        tx.write(A, table([3]))
        tx.write(B, table([2]))
        tx.write(D, table([5]), "create")
        tx.deregister(C)
    return tx


def _span(start: int, end: int) -> dict[str, int]:
    return {"start_version": start, "end_version": end}


def delete(ns: DirectoryNamespace) -> object:
    return ns.batch_delete_table_versions({"id": A, "ranges": [_span(1, 2)]})


def delete_below(ns: DirectoryNamespace) -> object:
    """Everything but the version that its committer left."""
    return ns.batch_delete_table_versions({"id": A, "ranges": [_span(1, 3)]})


def cleanup(ns: DirectoryNamespace) -> object:
    return ns.cleanup_table_versions(A, older_than=0, keep=1)


def look(ns: DirectoryNamespace) -> object:
    return [numbers(ns, one) for one in (A, B, C)]


def look_at_a_snapshot(ns: DirectoryNamespace) -> object:
    now = ns.snapshot()
    return [now.table_version(one) for one in (A, B, C)]


def rename(ns: DirectoryNamespace) -> object:
    return ns.rename_table({"id": A, "new_table_name": "e"})


def drop(ns: DirectoryNamespace) -> object:
    return ns.drop_table({"id": A})


def undrop(ns: DirectoryNamespace) -> object:
    return ns.undrop_table(A)


def versions_of_one(ns: DirectoryNamespace) -> object:
    """Several versions of one table, by one commit."""
    with ns.transaction() as tx:
        for number in (2, 3, 4, 5):
            tx.write(A, table([number]))
        tx.write(B, table([2]))
    return tx


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("append", _managed, append),
        Scenario("by hand", _managed, by_hand),
        Scenario("three at once", _managed, three_at_once),
        Scenario("mixed", _managed, mixed),
        Scenario("transaction", _managed, transaction),
        Scenario("versions of one", _managed, versions_of_one),
        Scenario("delete", _managed, delete),
        Scenario("cleanup", _managed, cleanup),
        Scenario("enable", _plain, lambda ns: ns.enable_managed_versions()),
        Scenario("disable", _managed, lambda ns: ns.disable_managed_versions()),
        # What a committer left is finished by whoever comes next.
        Scenario("read what was left", _left(three_at_once), look),
        Scenario("read many that were left", _left(versions_of_one), look),
        Scenario("snapshot of what was left", _left(versions_of_one), look_at_a_snapshot),
        Scenario("append to what was left", _left(by_hand), append),
        Scenario("append to many that were left", _left(versions_of_one), append),
        Scenario("delete below what was left", _left(by_hand), delete_below),
        Scenario("rename what was left", _left(by_hand), rename),
        Scenario("drop what was left", _left(three_at_once), drop),
        Scenario("undrop", _dropped, undrop),
        Scenario(
            "disable what was left",
            _left(versions_of_one),
            lambda ns: ns.disable_managed_versions(),
        ),
    )
}


def main(root: str, name: str, mode: str) -> None:
    """Run one, in a process that may be killed."""
    SCENARIOS[name].run(open_catalog(root, Mode(mode)))
