"""Create, drop, rename, deregister, register and read on few names: some order explains it all.

Every creation carries a generation id that reads return, so a stale or lost write has no order to
hide in. Rename couples two names, so the model holds the names of a group together; groups are
small (facts: users-and-tests §4.3).
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from lance_catalog.config import Mode
from lance_catalog.errors import CommitOutcomeUnknownError, LanceNamespaceError
from lance_catalog.maintenance.check import check
from lance_catalog.manifest.batcher import Batcher, Ticket
from lance_catalog.manifest.log import ManifestLog
from tests.concurrency.histories import Operation, linearizable
from tests.concurrency.racing import Racers, flat, ipc, open_catalog

CLIENTS = 6
NAMES = ("t", "u")
#: (groups, operations of each client in each group): at most 400 operations a group.
SIZES = {False: (4, 25), True: (60, 60)}
LEAST_CONFLICTS = 20

#: Live tables (name, generation) and hidden ones (name it had, generation).
State = tuple[frozenset[tuple[str, int]], frozenset[tuple[str, int]]]
#: What a table without properties would answer; no state explains it.
UNKNOWN = -1
EMPTY: State = (frozenset(), frozenset())


def step(state: State, call: Operation) -> Iterator[State]:
    """The states an operation leads to, given what it answered: the specification."""
    live, hidden = dict(state[0]), state[1]
    name, code = call.names[0], call.answer

    def become(tables: dict[str, int], aside: frozenset[tuple[str, int]] = hidden) -> State:
        return frozenset(tables.items()), aside

    gone = {key: value for key, value in live.items() if key != name}
    if call.verb == "create":
        if code is None and name not in live:
            yield become({**live, name: call.generation})
        elif code == 5 and name in live:
            yield state
    elif call.verb == "drop":
        if code is None and name in live:
            yield become(gone)
        elif code is None:
            # A deregistered table can be dropped by the id it had.
            for one in hidden:
                if one[0] == name:
                    yield become(live, hidden - {one})
        elif code == 4 and name not in live:
            yield state
    elif call.verb == "rename":
        to = call.names[1]
        if code is None and name in live and to not in live:
            yield become({**gone, to: live[name]})
        elif (code == 4 and name not in live) or (code == 5 and name in live and to in live):
            yield state
    elif call.verb == "deregister":
        if code == 4 and name not in live:
            yield state
        elif isinstance(code, tuple) and name in live and code[0] == live[name]:
            yield become(gone, hidden | {(name, live[name])})
    elif call.verb == "register":
        brought = code[0] if isinstance(code, tuple) else call.generation
        former = [one for one in hidden if one[1] == brought]
        if isinstance(code, tuple) and former and name not in live:
            yield become({**live, name: brought}, hidden - set(former))
        elif (code == 5 and name in live) or (code == 13 and not former):
            yield state
    elif call.verb == "read":
        found = isinstance(code, tuple) and name in live and code[0] == live[name]
        if found or (code == 4 and name not in live):
            yield state


def client(
    number: int,
    barrier: Any,
    root: str,
    mode: Mode,
    nested: bool,
    group: str,
    size: int,
    planted: bool,
) -> tuple[list[Operation], int, list[str]]:
    """One client: its history, the conflicts it met, what it could not explain."""
    ns = open_catalog(root, mode)
    log = ns.context.log
    # The log of the last group may still be there, with what it met.
    before = 0 if log is None else log.conflicts
    # A str seeds alike in every process, a hash of it would not.
    chance = random.Random(f"{group}{number}")
    aside: list[tuple[int, str]] = []
    history: list[Operation] = []
    strange: list[str] = []

    def place(name: str) -> list[str]:
        return [group, name] if nested else [group + name]

    def generation_of(properties: dict[str, str] | None) -> int:
        return int((properties or {}).get("generation", UNKNOWN))

    def perform(verb: str, names: tuple[str, ...], generation: int, where: str) -> Any:
        request: dict[str, Any] = {"id": place(names[0])}
        if verb == "create":
            request["properties"] = {"generation": str(generation)}
            ns.create_table(request, ipc([generation]))
        elif verb == "drop":
            ns.drop_table(request)
        elif verb == "rename":
            ns.rename_table({**request, "new_table_name": place(names[1])[-1]})
        elif verb == "deregister":
            done = ns.deregister_table(request)
            found = generation_of(done.properties)
            aside.append((found, str(done.location)))
            return (found,)
        elif verb == "register":
            # By place: dropped by its old id meanwhile, the place may hold another table now.
            return (generation_of(ns.register_table({**request, "location": where}).properties),)
        else:
            return (generation_of(ns.describe_table(request).properties),)
        return None

    barrier.wait()
    with _rebasing() if planted else nullcontext():
        for turn in range(size):
            verb = chance.choice(["create"] * 4 + ["drop", "rename", "rename", "read", "read"])
            verb = chance.choice([verb] * 5 + ["deregister"])
            generation, where = number * 10_000 + turn, ""
            if aside and chance.random() < 0.5:
                verb = "register"
                generation, where = aside.pop()
            names = tuple(chance.sample(NAMES, 2 if verb == "rename" else 1))
            began = time.monotonic_ns()
            ended: int | None = None
            try:
                answer = perform(verb, names, generation, where)
                ended = time.monotonic_ns()
            except CommitOutcomeUnknownError:
                answer = None
            except LanceNamespaceError as error:
                ended = time.monotonic_ns()
                answer = int(error.code)
                if answer == 14:
                    # Nothing was done, it says; if that is a lie, others' answers show it.
                    continue
                if answer == 18:
                    strange.append(f"{verb} {names}: {error}")
            history.append(Operation(number, verb, names, generation, answer, began, ended))
    return history, 0 if log is None else log.conflicts - before, strange


@contextmanager
def _rebasing() -> Iterator[None]:
    """The planted bug: what was validated at N lands on whatever is the latest, as in Lance."""
    real = ManifestLog._attempt

    def attempt(self: ManifestLog, view: Any, change: Any) -> bool:
        landed = real(self, view, change)
        while not landed and not change.remove:
            landed = real(self, self.snapshot(), change)
        return landed

    ManifestLog._attempt = attempt  # type: ignore[method-assign]
    try:
        yield
    finally:
        ManifestLog._attempt = real  # type: ignore[method-assign]


def _history(
    racers: Racers,
    root: str,
    mode: Mode,
    nested: bool,
    group: str,
    size: int,
    *,
    planted: bool,
) -> tuple[list[Operation], int, list[str]]:
    if nested:
        open_catalog(root, mode).create_namespace({"id": [group]})
    answers = racers.race(client, root, mode, nested, group, size, planted, count=CLIENTS)
    calls: list[Operation] = flat(part for part, _, _ in answers)
    assert len(calls) <= 400
    return calls, sum(met for _, met, _ in answers), flat(odd for _, _, odd in answers)


@pytest.mark.parametrize(
    ("mode", "nested"),
    [(Mode.V2, True), (Mode.V2, False), (Mode.COMPAT, True), (Mode.COMPAT, False)],
    ids=["v2-nested", "v2-root", "compat-nested", "compat-root"],
)
def test_some_order_explains_every_answer(
    racers: Racers, tmp_path: Path, full: bool, mode: Mode, nested: bool
) -> None:
    root = str(tmp_path / "root")
    groups, size = SIZES[full]
    verdicts: Counter[bool | None] = Counter()
    answers: Counter[str] = Counter()
    conflicts = unknown = total = 0
    for number in range(groups):
        calls, met, strange = _history(
            racers, root, mode, nested, f"g{number}", size, planted=False
        )
        assert strange == []
        conflicts += met
        total += len(calls)
        unknown += sum(call.ended is None for call in calls)
        for call in calls:
            answers[f"{call.verb}:{'ok' if not isinstance(call.answer, int) else call.answer}"] += 1
        verdict = linearizable(calls, EMPTY, step)
        assert verdict is not False, "\n".join(map(str, sorted(calls, key=lambda one: one.began)))
        verdicts[verdict] += 1
    print(f"{mode.value}: {total} operations, {conflicts} conflicts, {dict(verdicts)}")
    print(dict(sorted(answers.items())))
    assert check(open_catalog(root, mode).context, grace_seconds=-3600).problems == []
    assert conflicts >= LEAST_CONFLICTS
    # An order that could not be decided, or an outcome that nobody knows, is no proof.
    assert verdicts[None] == 0
    assert unknown * 100 <= total


@pytest.mark.parametrize("mode", [Mode.V2, Mode.COMPAT], ids=["v2", "compat"])
def test_threads_that_share_batches_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Mode
) -> None:
    """Group commit: the order of a batch is one of the orders that explain every answer."""
    root = str(tmp_path / "root")
    batches: Counter[int] = Counter()
    real = Batcher._take

    def take(self: Batcher) -> list[Ticket]:
        batch = real(self)
        batches[len(batch)] += 1
        return batch

    monkeypatch.setattr(Batcher, "_take", take)
    for number in range(4):
        group = f"g{number}"
        open_catalog(root, mode).create_namespace({"id": [group]})
        barrier = threading.Barrier(CLIENTS)
        with ThreadPoolExecutor(CLIENTS) as pool:
            answers = [
                future.result()
                for future in [
                    pool.submit(client, n, barrier, root, mode, True, group, 25, False)
                    for n in range(CLIENTS)
                ]
            ]
        assert flat(odd for _, _, odd in answers) == []
        calls: list[Operation] = flat(part for part, _, _ in answers)
        assert linearizable(calls, EMPTY, step) is True
    print(f"{mode.value}: batches {dict(sorted(batches.items()))}")
    assert any(size > 1 for size in batches), "nothing was batched: this test shows nothing"
    assert check(open_catalog(root, mode).context, grace_seconds=-3600).problems == []


def test_commits_that_rebase_are_caught(racers: Racers, tmp_path: Path) -> None:
    root = str(tmp_path / "root")
    verdicts = []
    for number in range(8):
        calls, met, _ = _history(racers, root, Mode.V2, True, f"g{number}", 25, planted=True)
        verdicts.append(linearizable(calls, EMPTY, step))
        print(f"{met} conflicts, {verdicts[-1]}")
        if verdicts[-1] is False:
            break
    assert False in verdicts


def _call(verb: str, names: str, generation: int, answer: Any, began: int, ended: int) -> Operation:
    return Operation(0, verb, tuple(names), generation, answer, began, ended)


def test_the_checker_knows_an_order_when_there_is_one() -> None:
    calls = [
        _call("create", "t", 1, None, 0, 10),
        _call("create", "t", 2, 5, 1, 9),
        _call("rename", "tu", 0, None, 5, 20),
        _call("read", "t", 0, 4, 6, 12),
        _call("read", "u", 0, (1,), 7, 30),
    ]
    assert linearizable(calls, EMPTY, step) is True


@pytest.mark.parametrize(
    "calls",
    [
        # Two winners; a read of what was dropped before it began; a lost creation; a rename that
        # left its source.
        [_call("create", "t", 1, None, 0, 9), _call("create", "t", 2, None, 1, 8)],
        [
            _call("create", "t", 1, None, 0, 1),
            _call("drop", "t", 0, None, 2, 3),
            _call("read", "t", 0, (1,), 4, 5),
        ],
        [_call("create", "t", 1, None, 0, 1), _call("read", "t", 0, 4, 2, 3)],
        [
            _call("create", "t", 1, None, 0, 1),
            _call("rename", "tu", 0, None, 2, 3),
            _call("read", "t", 0, (1,), 4, 5),
        ],
    ],
)
def test_the_checker_knows_when_there_is_none(calls: list[Operation]) -> None:
    assert linearizable(calls, EMPTY, step) is False
