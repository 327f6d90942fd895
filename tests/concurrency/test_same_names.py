"""Eight processes race the same creations: one winner each, its data whole, nothing of the losers.

A checker of its own looks at the outcome; the planted bug (a gate that overwrites instead of
putting if absent) must make it speak.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import lance
import pytest

from lance_catalog.config import Mode
from lance_catalog.directory import first_version, tables
from lance_catalog.maintenance.check import check
from lance_catalog.storage.landing import Landing, Outcome
from tests.concurrency.racing import (
    Racers,
    attempt,
    flat,
    ipc,
    manifest_strays,
    open_catalog,
    rows_at,
)

#: Names raced: a fifth of the issue's hundred in `make test`, all of them in `make soak`.
SIZES = {False: 20, True: 100}
LOSERS = {2, 5, 14}
#: Racers that met, in the log or at a directory, over a whole race: fewer would not be a race.
LEAST_CONFLICTS = 10
ROWS = 5

Outcomes = list[tuple[str, int, int | None, str]]


def create(
    number: int, barrier: Any, root: str, mode: Mode, kind: str, names: list[str], planted: bool
) -> tuple[Outcomes, int]:
    """One racer: try every name; (name, racer, code, text) of each, and how often it met another.

    A conflict is a commit that was refused, or a directory that somebody took a moment before.
    """
    ns = open_catalog(root, mode)
    found: Outcomes = []
    broken = _overwriting_gate() if planted else nullcontext()
    with broken, _refusals() as refused, _meeting(barrier):
        for name in names:
            request: dict[str, Any] = {"id": [name]}
            barrier.wait()
            if kind == "namespace":
                code, text = attempt(ns.create_namespace, request)
            elif kind == "declared":
                code, text = attempt(ns.declare_table, request)
            else:
                request["properties"] = {"by": str(number)} if kind == "properties" else {}
                code, text = attempt(ns.create_table, request, ipc(own_rows(number)))
            found.append((name, number, code, text))
    log = ns.context.log
    met = len(refused) + sum("just now" in text for _, _, _, text in found)
    return found, met + (0 if log is None else log.conflicts)


def own_rows(number: int) -> list[int]:
    return list(range(number * 100, number * 100 + ROWS))


@contextmanager
def _refusals() -> Iterator[list[int]]:
    """Count the first versions that were refused: creators who met at a directory."""
    real = first_version.write_first_version
    refused: list[int] = []

    def write(*args: Any) -> Any:
        written = real(*args)
        if written is None:
            refused.append(1)
        return written

    first_version.write_first_version = write
    try:
        yield refused
    finally:
        first_version.write_first_version = real


@contextmanager
def _meeting(barrier: Any) -> Iterator[None]:
    """Let the racers meet once more where they matter: all found the name free, none took it."""
    real = tables.require_free

    def meet(*args: Any) -> None:
        real(*args)
        barrier.wait()

    tables.require_free = meet
    try:
        yield
    finally:
        tables.require_free = real


@contextmanager
def _overwriting_gate() -> Iterator[None]:
    """The planted bug: whoever comes later overwrites the version of whoever was first."""
    real = Landing.land

    def land(self: Landing, put: object, *, looked: bool = False) -> None:
        final = self.final_path(self.read_version + 1)
        staged = getattr(self, "staged", None)
        if staged:
            self.store.copy(staged[-1], final)
        else:
            assert self.body is not None
            self.store.put(final, self.body)
        self.outcome = Outcome.LANDED

    Landing.land = land  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        Landing.land = real  # type: ignore[method-assign]


def violations(root: str, mode: Mode, kind: str, outcomes: Outcomes) -> list[str]:
    """What contradicts "one winner each, whole, and nothing else"."""
    wrong = [
        f"loser {number} of {name}: {code} {text}"
        for name, number, code, text in outcomes
        if code is not None and code not in LOSERS
    ]
    winners: dict[str, list[int]] = {}
    for name, number, code, _ in outcomes:
        winners.setdefault(name, [])
        if code is None:
            winners[name].append(number)
    wrong += [f"{name}: winners {who}" for name, who in winners.items() if len(who) != 1]
    won = {name: who[0] for name, who in winners.items() if len(who) == 1}
    ns = open_catalog(root, mode)
    if kind == "namespace":
        listed = ns.list_namespaces({"id": []}).namespaces
    else:
        listed = ns.list_tables({"id": []}).tables
    wrong += [f"listed: {listed}"] if listed != sorted(winners) else []
    places = {}
    if kind != "namespace":
        for name, number in won.items():
            found = ns.describe_table({"id": [name], "load_detailed_metadata": True})
            places[name] = os.path.basename(found.location)
            wrong += _contents(root, name, places[name], kind, number, found)
    if mode is not Mode.V1:
        wrong += [f"stray {path}" for path in manifest_strays(root)]
        ids = lance.dataset(f"{root}/__manifest").to_table(["object_id"])["object_id"].to_pylist()
        wrong += [f"{key}: {n} rows" for key, n in Counter(ids).items() if n > 1]
    folders = {e.name for e in os.scandir(root)} - {"__manifest", "__claims"}
    wrong += [f"left at the root: {name}" for name in folders ^ set(places.values())]
    wrong += [str(problem) for problem in check(ns.context, grace_seconds=-3600).problems]
    return wrong


def _contents(
    root: str, name: str, place: str, kind: str, number: int, found: Any
) -> Iterator[str]:
    """The table's folder holds exactly the winner's files, and its rows are the winner's."""
    files = {
        os.path.relpath(os.path.join(folder, file), f"{root}/{place}")
        for folder, _, names in os.walk(f"{root}/{place}")
        for file in names
    }
    if kind == "declared":
        if files != {".lance-reserved"}:
            yield f"{name}: {files}"
        return
    dataset = lance.dataset(f"{root}/{place}")
    if rows_at(found.location) != own_rows(number):
        yield f"{name}: rows {rows_at(found.location)}, winner {number}"
    if kind == "properties" and found.properties != {"by": str(number)}:
        yield f"{name}: properties {found.properties}, winner {number}"
    data = {f"data/{f.path}" for part in dataset.get_fragments() for f in part.metadata.files}
    if {file for file in files if file.startswith("data/")} != data:
        yield f"{name}: data files {files}, named {data}"
    versions = [file for file in files if file.startswith("_versions/")]
    staged = [file for file in versions if not file.endswith((".manifest", ".json"))]
    manifests = [file for file in versions if file.endswith(".manifest")]
    transactions = [file for file in files if file.startswith("_transactions/")]
    wanted = 2 if kind == "properties" else 1
    if staged or len(manifests) != wanted or len(transactions) > wanted:
        yield f"{name}: {sorted(files)}"


RACES = [
    (Mode.V2, "namespace"),
    (Mode.V1, "created"),
    (Mode.V2, "created"),
    (Mode.COMPAT, "created"),
    (Mode.V1, "properties"),
    (Mode.COMPAT, "properties"),
    (Mode.V1, "declared"),
    (Mode.V2, "declared"),
    (Mode.COMPAT, "declared"),
]


@pytest.mark.parametrize(("mode", "kind"), RACES, ids=[f"{m.value}-{k}" for m, k in RACES])
def test_one_winner_each_and_nothing_of_the_losers(
    racers: Racers, tmp_path: Path, full: bool, mode: Mode, kind: str
) -> None:
    root = str(tmp_path / "root")
    names = [f"n{i:03}" for i in range(SIZES[full])]
    answers = racers.race(create, root, mode, kind, names, False)
    outcomes = flat(found for found, _ in answers)
    lost = Counter(code for _, _, code, _ in outcomes)
    conflicts = sum(count for _, count in answers)
    print(f"{mode.value} {kind}: {dict(lost)}; {conflicts} conflicts")
    wrong = violations(root, mode, kind, outcomes)
    assert not wrong, "\n".join(wrong[:20])
    assert conflicts >= LEAST_CONFLICTS


@pytest.mark.parametrize(
    ("mode", "kind"), [(Mode.V2, "namespace"), (Mode.V1, "created"), (Mode.COMPAT, "created")]
)
def test_a_gate_that_overwrites_is_caught(
    racers: Racers, tmp_path: Path, mode: Mode, kind: str
) -> None:
    root = str(tmp_path / "root")
    names = [f"n{i:03}" for i in range(10)]
    try:
        answers = racers.race(create, root, mode, kind, names, True)
    except AssertionError as error:
        print(f"the broken gate broke a racer: {error}")
        return
    found = violations(root, mode, kind, flat(found for found, _ in answers))
    print(f"{mode.value} {kind}: {len(found)} violations, for example {found[:3]}")
    assert found
