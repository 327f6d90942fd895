"""Latency on local disk: rounds interleaved, medians, the same calls on every side."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from benchmarks.catalogs import Catalogs
from benchmarks.figures import Figure, better, percentile, summary
from benchmarks.plans import Plan
from benchmarks.sides import NATIVE, OPERATIONS, OURS, SIDES, Names, connect, v1_list

__all__ = ["growth", "latency", "measure"]

#: Rounds before the measured ones: what is reported is warm.
_WARM: Final = 2
#: In a round each side calls for this long, at least once: fast calls get more samples.
_SECONDS: Final = 0.02
_MOST_CALLS: Final = 20

Say = Callable[[str], None]


def measure(
    calls: Mapping[str, Callable[[int], Any]],
    rounds: int,
    numbers: dict[str, itertools.count[int]],
    warm: int = _WARM,
) -> dict[str, list[float]]:
    """Return the milliseconds of each side's calls, measured in turns.

    The side that goes first changes from round to round, so that none always meets the caches
    as another left them.
    """
    times: dict[str, list[float]] = {side: [] for side in calls}
    order = list(calls)
    for number in range(-warm, rounds):
        for side in order:
            spent = 0.0
            for _ in range(_MOST_CALLS):
                at = next(numbers[side])
                start = time.perf_counter()
                calls[side](at)
                took = time.perf_counter() - start
                spent += took
                if number >= 0:
                    times[side].append(took * 1000)
                if spent >= _SECONDS:
                    break
        order.append(order.pop(0))
    return times


def latency(plan: Plan, catalogs: Catalogs, say: Say) -> list[Figure]:
    """Measure every operation at every size, the V1 listing, and how ours grow."""
    figures: list[Figure] = []
    for rows, rounds in plan.rounds.items():
        say(f"latency at {rows:,} rows: {rounds} rounds")
        figures += _at(catalogs, rows, rounds)
    say(f"V1 listing of {plan.v1_directories:,} directories: {plan.v1_rounds} rounds")
    figures.append(_v1(plan, catalogs))
    return figures + growth(figures)


def _at(catalogs: Catalogs, rows: int, rounds: int) -> list[Figure]:
    roots = {side: catalogs.fresh(side, rows) for side in SIDES}
    opened = {side: connect(side, str(root)) for side, root in roots.items()}
    names = Names(rows)
    _agree(opened, names)
    numbers = {side: itertools.count() for side in SIDES}
    figures = []
    for name, operation in OPERATIONS.items():
        calls = {side: partial(operation, opened[side], names) for side in SIDES}
        figures.append(_figure(name, rows, measure(calls, rounds, numbers)))
        # And each by itself, as in a process that uses only one of them.
        alone: dict[str, list[float]] = {}
        for side, call in calls.items():
            alone |= measure({side: call}, rounds, numbers)
        figures.append(_figure(name, rows, alone, part="alone"))
    for root in roots.values():
        catalogs.discard(root)
    return figures


def _agree(opened: dict[str, Any], names: Names) -> None:
    """Stop when the sides do not give the same answers: then their times say nothing."""
    answers = {}
    for side, namespace in opened.items():
        page = OPERATIONS["list_tables limit 100"](namespace, names, 1)
        described = OPERATIONS["describe_table"](namespace, names, 1)
        where = str(described.location).rstrip("/").rpartition("/")[2]
        answers[side] = (list(page.tables), page.page_token, where)
    if any(answer != answers[OURS] for answer in answers.values()):
        message = f"the sides answer differently: {answers}"
        raise RuntimeError(message)


def _v1(plan: Plan, catalogs: Catalogs) -> Figure:
    given = {"manifest_enabled": "false", "dir_listing_enabled": "true"}
    # Native's other setting is about the manifest, which V1 has not.
    sides = (OURS, NATIVE[0])
    roots = {side: catalogs.v1(plan.v1_directories) for side in sides}
    opened = {side: connect(side, str(root), **given) for side, root in roots.items()}
    for side, namespace in opened.items():
        found = len(v1_list(namespace).tables)
        if found != plan.v1_directories:
            message = f"{side} lists {found} of {plan.v1_directories} V1 tables"
            raise RuntimeError(message)
    calls = {side: partial(_list, namespace) for side, namespace in opened.items()}
    # Counting them has warmed it, and native takes seconds for each.
    numbers = {side: itertools.count() for side in sides}
    times = measure(calls, plan.v1_rounds, numbers, warm=0)
    for root in roots.values():
        catalogs.discard(root)
    return _figure("V1 list_tables", plan.v1_directories, times)


def _list(namespace: Any, number: int) -> None:
    del number
    v1_list(namespace)


def _figure(name: str, rows: int, times: dict[str, list[float]], part: str = "latency") -> Figure:
    p50 = {side: percentile(found, 0.5) for side, found in times.items()}
    native = better(p50[side] for side in p50 if side != OURS)
    return Figure(
        part=part,
        name=name,
        rows=rows,
        unit="ms",
        ours=p50[OURS],
        native=native,
        value=p50[OURS] / native,
        measure="ours/native",
        details={side: summary(found) for side, found in times.items()},
    )


def growth(figures: list[Figure]) -> list[Figure]:
    """Return how each operation of ours grows from the smallest catalog to the largest."""
    grown = []
    for part, name in itertools.product(("latency", "alone"), OPERATIONS):
        found = sorted(
            (figure for figure in figures if figure.name == name and figure.part == part),
            key=lambda figure: figure.rows or 0,
        )
        if len(found) < 2:
            continue
        small, large = found[0], found[-1]
        both = small.native is not None and large.native is not None
        grown.append(
            Figure(
                part="growth",
                name=name if part == "latency" else f"{name}, alone",
                rows=large.rows,
                unit="×",
                ours=large.ours / small.ours,
                native=large.native / small.native if both else None,  # type: ignore[operator]
                value=large.ours / small.ours,
                measure="growth",
                note=f"p50 from {small.rows:,} to {large.rows:,} rows",
            )
        )
    return grown
