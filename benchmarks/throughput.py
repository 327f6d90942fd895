"""create_namespace by many at once: threads of one process, and processes.

Each run works on a fresh copy of its seed. The sides take turns; the figures are medians over the
runs. Native is compared by its best: over its settings and, in one process, over the numbers of
threads, because more of them can make it slower.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lance

from benchmarks.catalogs import Catalogs
from benchmarks.figures import Figure, better, percentile
from benchmarks.plans import Plan
from benchmarks.sides import NATIVE, OURS, SIDES
from benchmarks.workers import PREFIX, Job, Outcome, Workers

__all__ = ["throughput"]

Say = Callable[[str], None]


def throughput(plan: Plan, catalogs: Catalogs, say: Say) -> list[Figure]:
    """Measure threads on the smallest catalog, processes on those of the plan."""
    say(f"throughput: starting {plan.processes} processes")
    figures: list[Figure] = []
    with Workers(plan.processes) as workers:
        rows = min(plan.process_creations)
        figures += _threads(plan, catalogs, workers, rows, say)
        for size, count in plan.process_creations.items():
            figures += _processes(plan, catalogs, workers, size, count, say)
    return figures


def _run(
    catalogs: Catalogs, workers: Workers, rows: int, job: tuple[str, int, int], *, alone: bool
) -> Outcome:
    side, threads, count = job
    root = catalogs.fresh(side, rows)
    try:
        outcome = workers.run(Job(side, str(root), threads, count), alone=alone)
        # Speed that loses what it acknowledged is none.
        manifest = lance.dataset(str(root / "__manifest"))
        there = manifest.count_rows(filter=f"starts_with(object_id, '{PREFIX}')")
        lost = len(outcome.milliseconds) - there
        outcome.failures += ["acknowledged, but not in the catalog"] * lost
        return outcome
    finally:
        catalogs.discard(root)


def _threads(plan: Plan, catalogs: Catalogs, workers: Workers, rows: int, say: Say) -> list[Figure]:
    most = max(plan.threads)
    jobs = [(OURS, most, max(1, plan.thread_creations // most))]
    for side in NATIVE:
        for threads in plan.threads:
            jobs.append((side, threads, max(1, plan.native_thread_creations // threads)))
    found: dict[tuple[str, int], list[Outcome]] = {}
    for number in range(plan.throughput_runs):
        say(f"throughput of threads at {rows:,} rows: run {number + 1} of {plan.throughput_runs}")
        for job in jobs:
            outcome = _run(catalogs, workers, rows, job, alone=True)
            found.setdefault(job[:2], []).append(outcome)
    return _figures(f"1 process, {most} threads", rows, found)


def _processes(
    plan: Plan, catalogs: Catalogs, workers: Workers, rows: int, count: int, say: Say
) -> list[Figure]:
    found: dict[tuple[str, int], list[Outcome]] = {}
    for number in range(plan.throughput_runs):
        say(f"throughput of processes at {rows:,} rows: run {number + 1} of {plan.throughput_runs}")
        for side in SIDES:
            outcome = _run(catalogs, workers, rows, (side, 1, count), alone=False)
            found.setdefault((side, 1), []).append(outcome)
    return _figures(f"{plan.processes} processes", rows, found)


def _figures(name: str, rows: int, found: dict[tuple[str, int], list[Outcome]]) -> list[Figure]:
    """Return the figures of one setting: creations per second, p50 and p99, failures."""
    details: dict[str, Any] = {
        f"{side}, {threads} threads": [_as_json(outcome) for outcome in outcomes]
        for (side, threads), outcomes in found.items()
    }
    many, ours = next(
        (threads, outcomes) for (side, threads), outcomes in found.items() if side == OURS
    )
    natives = [outcomes for (side, _), outcomes in found.items() if side != OURS]
    # How long one caller waits can only be compared among equally many.
    alike = [
        outcomes for (side, count), outcomes in found.items() if side != OURS and count == many
    ]

    def rate(outcomes: list[Outcome]) -> float:
        return percentile([outcome.per_second for outcome in outcomes], 0.5)

    def tail(outcomes: list[Outcome], share: float) -> float:
        return percentile([percentile(one.milliseconds, share) for one in outcomes], 0.5)

    def failed(outcomes: list[Outcome]) -> int:
        return sum(len(outcome.failures) for outcome in outcomes)

    best = better((rate(outcomes) for outcomes in natives), higher=True)
    figures = [
        Figure(
            "throughput", name, rows, "/s", rate(ours), best, rate(ours) / best, "ours/native",
            "create_namespace", details,
        )
    ]  # fmt: skip
    for label, share in (("p50", 0.5), ("p99", 0.99)):
        mine = tail(ours, share)
        theirs = better(tail(outcomes, share) for outcomes in alike)
        figures.append(
            Figure(
                "throughput", f"{name}: {label}", rows, "ms", mine, theirs, mine / theirs,
                "ours/native",
            )
        )  # fmt: skip
    failures = failed(ours)
    figures.append(
        Figure(
            "throughput", f"{name}: failures", rows, "", failures,
            better(float(failed(outcomes)) for outcomes in alike), failures, "ours",
        )
    )  # fmt: skip
    return figures


def _as_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "per_second": outcome.per_second,
        "created": len(outcome.milliseconds),
        "failures": len(outcome.failures),
        "failure_examples": sorted(set(outcome.failures))[:3],
        "p50": percentile(outcome.milliseconds, 0.5),
        "p99": percentile(outcome.milliseconds, 0.99),
        "max": percentile(outcome.milliseconds, 1.0),
    }
