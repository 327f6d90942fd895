"""Writers beside those who move their managed table, switch the catalog, or ignore it.

Whoever appends goes on as far as the table is there; what was acknowledged is there in the end,
no number is registered twice, and rows and files agree.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lance_catalog import DirectoryNamespace
from lance_catalog.config import Mode
from tests.concurrency.appending import Crew, Job, Said
from tests.concurrency.batches import until
from tests.concurrency.managed import disagreements, location, managed_catalog
from tests.concurrency.racing import open_catalog
from tests.concurrency.victims import Victim
from tests.crash.test_kill import mend

#: How often the table goes through all of it, or the catalog is switched, or so many appends.
CYCLES, SWITCHES, APPENDS = {False: 2, True: 60}, {False: 3, True: 100}, {False: 40, True: 2000}


def _drop(ns: DirectoryNamespace) -> None:
    ns.drop_table({"id": ["t"]})


def _undrop(ns: DirectoryNamespace) -> None:
    ns.undrop_table(["t"])


def _undrop_as_another(ns: DirectoryNamespace) -> None:
    ns.undrop_table(["t"], as_id=["u"])


def _rename(ns: DirectoryNamespace) -> None:
    ns.rename_table({"id": ["t"], "new_table_name": "u"})


def _rename_back(ns: DirectoryNamespace) -> None:
    ns.rename_table({"id": ["u"], "new_table_name": "t"})


def _deregister(ns: DirectoryNamespace) -> None:
    ns.deregister_table({"id": ["t"]})


MOVES: list[Callable[[DirectoryNamespace], None]] = [
    *(_drop, _undrop, _rename, _rename_back, _drop, _undrop_as_another, _rename_back),
]


@pytest.fixture
def crew(idle: list[Victim], tmp_path: Path) -> Crew:
    """To be filled in: where it works is known in the test."""
    return Crew(idle, lambda number: Job("", Mode.V2, number + 1, str(tmp_path), ()))


def progress(crew: Crew, done: int, more: int = 2) -> int:
    """Wait until the writers have acknowledged some more; how many that makes."""
    until(lambda: len(crew.said().done) >= done + more, "the writers got stuck")
    return len(crew.said().done)


def judge(root: str, mode: Mode, said: Said, tables: list[str]) -> None:
    print(f"{len(said.done)} acknowledged, {said.refused} refused, failed {dict(said.failed)}")
    ns = open_catalog(root, mode)
    wrong = said.violations(ns, tables)
    mend(ns)
    wrong += said.violations(ns, tables) + disagreements(root, ns)
    assert not wrong, "\n".join(wrong[:20])


@pytest.mark.parametrize("mode", [Mode.V2, pytest.param(Mode.COMPAT, marks=pytest.mark.soak)])
def test_beside_moves(tmp_path: Path, full: bool, crew: Crew, mode: Mode) -> None:
    root = str(tmp_path / "root")
    ns = managed_catalog(root, mode, ["t"])
    # A move takes longer than an append: without turns two writers on a fast disk starve it.
    crew.jobs = lambda number: Job(root, mode, number + 1, str(tmp_path), ("t", "u"), turns=True)
    try:
        crew.begin(2)
        done = progress(crew, 0)
        for _ in range(CYCLES[full]):
            for move in MOVES:
                move(ns)
                if ns.list_tables({"id": []}).tables:
                    done = progress(crew, done)
            place = location(ns, ["t"])
            _deregister(ns)
            ns.register_table({"id": ["t"], "location": place.rpartition("/")[2]})
            done = progress(crew, done)
        said = crew.stop()
    finally:
        crew.end()
    judge(root, mode, said, ["t"])
    assert sum(said.failed.values()) >= 2, "nobody noticed that the table moved"


@pytest.mark.parametrize("mode", [Mode.COMPAT, pytest.param(Mode.V2, marks=pytest.mark.soak)])
def test_beside_switching(tmp_path: Path, full: bool, crew: Crew, mode: Mode) -> None:
    root = str(tmp_path / "root")
    ns = managed_catalog(root, mode, ["a", "b"])
    crew.jobs = lambda number: Job(root, mode, number + 1, str(tmp_path), ("a", "b"))
    try:
        crew.begin(2)
        done = progress(crew, 0)
        for _ in range(SWITCHES[full]):
            ns.disable_managed_versions()
            done = progress(crew, done, 4)
            ns.enable_managed_versions()
            done = progress(crew, done, 4)
        said = crew.stop()
    finally:
        crew.end()
    judge(root, mode, said, ["a", "b"])


def test_beside_a_foreign_writer(tmp_path: Path, full: bool, crew: Crew) -> None:
    """Two writers through the catalog and one that ignores it."""
    root, appends = str(tmp_path / "root"), APPENDS[full]
    managed_catalog(root, Mode.V2, ["t"])
    # It is several times as fast as the others, so that they would hardly get a turn beside it.
    terms = [("foreign", appends // 2), ("managed", 1 << 19), ("managed", 1 << 19)]
    crew.jobs = lambda number: Job(
        *(root, Mode.V2, number + 1, str(tmp_path), ("t",)),
        kind=terms[number][0],
        limit=terms[number][1],
    )
    try:
        crew.begin(3)
        progress(crew, 0, appends)
        said = crew.stop()
    finally:
        crew.end()
    judge(root, Mode.V2, said, ["t"])
    foreign = len(Said.of([crew.everyone[0].log]).done)
    print(f"{foreign} of them without the catalog")
    assert min(foreign, len(said.done) - foreign) >= appends // 10
    assert said.refused >= 1
