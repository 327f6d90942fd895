"""Rounds of commits on several managed tables at once, with somebody who comes in between.

Every round appends its number to each of the tables, by one commit: it must be in all of them or
in none. The conflict comes exactly where it hurts: after everything was looked at, or after the
rows were written.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import lance

from lance_catalog import DirectoryNamespace
from lance_catalog.config import Mode
from lance_catalog.directory.managed import batch, commit
from lance_catalog.directory.managed.target import TakenBackError
from lance_catalog.errors import (
    CommitOutcomeUnknownError,
    LanceNamespaceError,
    TableNotFoundError,
    TableVersionNotFoundError,
)
from tests.concurrency.managed import location, stage, table, write
from tests.concurrency.racing import PATIENCE, ipc, open_catalog

TABLES = ("a", "b", "c")
#: Rows of those who come in between begin here.
OTHERS = 1 << 20


class Round(NamedTuple):
    """What became of one round."""

    number: int
    how: str
    conflict: str
    #: None: acknowledged, -1: nobody knows.
    code: int | None
    text: str


# How the tables are changed together.


def _transaction(ns: DirectoryNamespace, number: int) -> None:
    with ns.transaction() as tx:
        for name in TABLES:
            tx.write([name], table([number]))


def _batch_create(ns: DirectoryNamespace, number: int) -> None:
    entries = [stage(ns, [name], [number]) for name in TABLES]
    ns.batch_create_table_versions({"entries": entries})


def _batch_commit(ns: DirectoryNamespace, number: int) -> None:
    asked = [{"create_table_version": stage(ns, [name], [number])} for name in TABLES]
    declared = {"declare_table": {"id": [f"n{number}"]}}
    ns.batch_commit_tables({"operations": [declared, *asked]})


HOW: dict[str, Callable[[DirectoryNamespace, int], None]] = {
    "transaction": _transaction,
    "batch create": _batch_create,
    "batch commit": _batch_commit,
}


# Who comes in between, always at the second table.


def _append(other: DirectoryNamespace, number: int) -> None:
    write(other, ["b"], [OTHERS + number])


def _insert(other: DirectoryNamespace, number: int) -> None:
    other.insert_into_table({"id": ["b"]}, ipc([OTHERS + number]))


def _foreign(other: DirectoryNamespace, number: int) -> None:
    lance.write_dataset(table([OTHERS + number]), location(other, ["b"]), mode="append")


def _rename(other: DirectoryNamespace, number: int) -> None:
    other.rename_table({"id": ["b"], "new_table_name": "elsewhere"})


def _drop(other: DirectoryNamespace, number: int) -> None:
    other.drop_table({"id": ["b"]})


def _delete(other: DirectoryNamespace, number: int) -> None:
    last = other.list_table_versions({"id": ["b"], "limit": 1}).versions[0].version
    other.batch_delete_table_versions(
        {"id": ["b"], "ranges": [{"start_version": 1, "end_version": last}]}
    )


CONFLICTS: dict[str, Callable[[DirectoryNamespace, int], None] | None] = {
    "nobody": None,
    "append": _append,
    "insert": _insert,
    "foreign": _foreign,
    "rename": _rename,
    "drop": _drop,
    "delete": _delete,
}
WINDOWS = ("version.staged", "version.row_written")


def _restore(other: DirectoryNamespace) -> None:
    """Bring the second table back to where it was."""
    names = other.list_tables({"id": []}).tables
    if "elsewhere" in names:
        other.rename_table({"id": ["elsewhere"], "new_table_name": "b"})
    elif "b" not in names:
        other.undrop_table(["b"])


@contextmanager
def between(window: str, run: Callable[[], None] | None) -> Iterator[None]:
    """Run something the first time the step is passed."""
    real = commit.hit
    left = [run]

    def hit(point: str) -> None:
        if point == window and left[0] is not None:
            now, left[0] = left[0], None
            now()
        real(point)

    commit.hit = batch.hit = hit
    try:
        yield
    finally:
        commit.hit = batch.hit = real


def write_rounds(
    root: str, mode: Mode, rounds: int, folder: str, one_by_one: bool = False
) -> list[Round]:
    """The writer: every way to change tables together, with every conflict in every window."""
    ns = open_catalog(root, mode)
    # Another path to the same place: somebody else, with a memory of its own.
    os.path.lexists(f"{root}-alias") or os.symlink(root, f"{root}-alias")
    other = open_catalog(f"{root}-alias", mode)
    found: list[Round] = []
    with _one_by_one(folder) if one_by_one else _nothing():
        for number in range(1, rounds + 1):
            how = list(HOW)[number % len(HOW)]
            # Every other round is undisturbed, so that readers have something to see.
            turn = (number // 2) % len(CONFLICTS) if number % 2 else 0
            conflict = list(CONFLICTS)[turn]
            run = CONFLICTS[conflict]
            window = WINDOWS[(number // (2 * len(CONFLICTS))) % 2]
            code, text = None, ""
            with between(window, run and (lambda run=run, n=number: run(other, n))):
                try:
                    HOW[how](ns, number)
                except CommitOutcomeUnknownError as error:
                    code, text = -1, str(error)
                except LanceNamespaceError as error:
                    code, text = int(error.code), str(error)
            _restore(other)
            found.append(Round(number, how, f"{conflict} at {window}", code, text))
            Path(f"{folder}/rounds").write_text(str(number), encoding="utf-8")
    Path(f"{folder}/stop").touch()
    return found


@contextmanager
def _nothing() -> Iterator[None]:
    yield


@contextmanager
def _one_by_one(folder: str) -> Iterator[None]:
    """The planted bug: a batch that is several commits; a reader has time to come in between."""
    real = commit.create

    def create(ctx: Any, wanted: Any) -> Any:
        made = []
        for one in wanted:
            made += real(ctx, [one])
            _wait_for_readers(folder)
        return made

    commit.create = create
    try:
        yield
    finally:
        commit.create = real


def _wait_for_readers(folder: str) -> None:
    seen = {path: path.read_text(encoding="utf-8") for path in Path(folder).glob("looks*")}
    end = time.monotonic() + PATIENCE
    while any(path.read_text(encoding="utf-8") == text for path, text in seen.items()):
        assert time.monotonic() < end, "the readers sleep"
        time.sleep(0.001)


class Read(NamedTuple):
    """What a reader saw: how often it looked, how many states, which rounds were not whole."""

    looks: int
    states: int
    partial: set[int]
    wrong: list[str]
    #: What was read when something was missing: the versions of the catalog and of the tables.
    notes: list[str]


def read_rounds(root: str, mode: Mode, folder: str, pinned: bool) -> Read:
    """A reader, until there is a file ``stop``."""
    ns = open_catalog(root, mode)
    looks, states, wrong, notes = 0, set(), [], []
    partial: set[int] = set()
    stop, counter = Path(f"{folder}/stop"), Path(f"{folder}/looks{int(pinned)}")
    while not stop.exists():
        opened: list[str] = []
        try:
            seen = _pinned(ns, stop, counter, opened) if pinned else _in_order(ns, opened)
        except (LanceNamespaceError, ValueError, OSError) as error:
            # The second table is away for a moment in some of the rounds; versions were taken back,
            # or deleted after somebody chose them.
            if not (isinstance(error, _MAY_BE) or _deleted(error)):
                wrong.append(f"{type(error).__name__}: {error}")
            continue
        looks += 1
        if not pinned:
            counter.write_text(str(looks), encoding="utf-8")
        states.add(tuple(sorted(seen["a"])))
        for name in ("b", "c"):
            missing = seen["a"] - seen[name]
            # Who has read the first one may find more in those read later, never less.
            missing |= seen[name] - seen["a"] if pinned else set()
            partial |= missing
            notes += [f"{sorted(missing)} of {name}, pinned {pinned}: {opened}"] if missing else []
    return Read(looks, len(states), partial, wrong, notes)


_MAY_BE = (TableNotFoundError, TakenBackError, TableVersionNotFoundError)


def _deleted(error: Exception) -> bool:
    """Whether stock Lance came too late: between its two looks versions were deleted."""
    return (
        isinstance(error, ValueError) and "_versions/" in str(error) and "not found" in str(error)
    )


def _pinned(
    ns: DirectoryNamespace, stop: Path, counter: Path, opened: list[str]
) -> dict[str, set[int]]:
    """All tables of one snapshot, others having committed since the first was read."""
    now = ns.snapshot()
    seen = {"a": _rounds(now.open_table(["a"]), opened)}
    counter.write_text(str(time.monotonic_ns()), encoding="utf-8")
    end = time.monotonic() + PATIENCE
    while ns.snapshot().version == now.version and not stop.exists():
        assert time.monotonic() < end, "the writer sleeps"
        time.sleep(0.0005)
    opened.append(f"catalog {now.version}, later {ns.snapshot().version}")
    return seen | {name: _rounds(now.open_table([name]), opened) for name in ("b", "c")}


def _in_order(ns: DirectoryNamespace, opened: list[str]) -> dict[str, set[int]]:
    found = {}
    for name in TABLES:
        opened.append(f"catalog {ns.snapshot().version}")
        found[name] = _rounds(lance.dataset(namespace_client=ns, table_id=[name]), opened)
    return found


def _rounds(dataset: Any, opened: list[str]) -> set[int]:
    opened.append(f"table {dataset.version}")
    return {row for row in dataset.to_table()["g"].to_pylist() if 0 < row < OTHERS}
