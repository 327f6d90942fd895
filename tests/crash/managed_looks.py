"""What is looked at after a crash in the middle of a managed commit."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import count

from lance_catalog import DirectoryNamespace
from lance_catalog.config import Mode
from tests.concurrency.managed import disagreements, read, staged_files, write
from tests.concurrency.racing import open_catalog, rows_at
from tests.crash.managed import SCENARIOS, Seen, seen
from tests.crash.test_kill import mend

_copies = count()


@dataclass(frozen=True)
class Outcome:
    """What readers see of a scenario that nothing disturbs."""

    before: Seen
    after: Seen


@cache
def outcome_of(name: str, mode: Mode, folder: str) -> Outcome:
    root = f"{folder}/undisturbed-{name}-{mode.value}"
    ns = open_catalog(root, mode)
    SCENARIOS[name].prepare(ns)
    with copied(root, mode) as (_, copy):
        before = seen(copy)
    SCENARIOS[name].run(ns)
    return Outcome(before, seen(ns))


@contextmanager
def copied(root: str, mode: Mode) -> Iterator[tuple[str, DirectoryNamespace]]:
    """Yield a copy: nobody in this process remembers anything of it, as after a restart."""
    path = f"{root}-copy{next(_copies)}"
    shutil.copytree(root, path)
    try:
        yield path, open_catalog(path, mode)
    finally:
        shutil.rmtree(path)


def plain_readers(ns: DirectoryNamespace) -> list[str]:
    """Where those who read without the catalog contradict those who read through it."""
    wrong = []
    for name in ns.list_all_tables({"id": []}).tables:
        found = ns.describe_table({"id": [name], "check_declared": True})
        if not found.is_only_declared and rows_at(found.location) != read(ns, [name]):
            wrong.append(f"{name}: {rows_at(found.location)}, by the catalog {read(ns, [name])}")
    return wrong


def examine(root: str, ns: DirectoryNamespace, name: str, mode: Mode, outcome: Outcome) -> None:
    """After a crash; ``ns`` is of a process that slept meanwhile and knows the state before."""
    with copied(root, mode) as (_, fresh):
        now = seen(fresh)
        assert now in (outcome.before, outcome.after), f"read {now}, neither of {outcome}"
        assert plain_readers(fresh) == []
        assert seen(fresh) == now
    with copied(root, mode) as (path, fresh):
        mend(fresh)
        assert seen(fresh) == now, "a repair changed what readers see"
        assert (disagreements(path, fresh), staged_files(path)) == ([], [])
        if now != outcome.after:
            SCENARIOS[name].run(fresh)
            assert seen(fresh) == outcome.after, "run again"
    assert seen(ns) == now, "who slept sees something else"
    for number, (table, rows, _) in enumerate(now.tables):
        if rows is not None:
            write(ns, [table], [100 + number])
            assert read(ns, [table]) == [*rows, 100 + number]
    mend(ns)
    assert (disagreements(root, ns), staged_files(root)) == ([], [])
