"""The first call of a new process that has imported lance: one lookup, or the whole snapshot.

The files of the catalog are in the page cache; what is cold is the process. Each run is an
interpreter of its own, and the sides take turns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks import child

__all__ = ["cold"]

Say = Callable[[str], None]


def first_call(side: str, root: str, rows: int, what: str) -> dict[str, Any]:
    """In the child: import, then time the construction and the first call together."""
    import time

    # Imported before the clock starts, and before memory is read.
    import lance  # noqa: F401
    import lance_namespace

    from benchmarks.sides import OPERATIONS, Names, connect

    child.forget_peak()
    before, _ = child.memory()
    start = time.perf_counter()
    namespace = connect(side, root)
    if what == "describe":
        OPERATIONS["describe_table"](namespace, Names(rows), 1)
    else:
        namespace.list_namespaces(lance_namespace.ListNamespacesRequest(id=[], limit=100))
    took = (time.perf_counter() - start) * 1000
    after, peak = child.memory()
    return {"ms": took, "imported": before, "added": after - before, "peak": peak - before}


def cold(plan: Any, catalogs: Any, say: Say) -> list[Any]:
    """Measure the first describe and the first listing on the largest catalog."""
    # Here, and not at the top: the child must not hold what only the report needs.
    from benchmarks.figures import Figure, better, percentile
    from benchmarks.sides import NATIVE, OURS, SIDES

    rows = max(plan.rounds)
    roots = {side: catalogs.fresh(side, rows) for side in SIDES}
    found: dict[tuple[str, str], list[dict[str, float]]] = {}
    for what in ("describe", "list"):
        say(f"cold {what} at {rows:,} rows: {plan.cold_runs} fresh processes of each side")
        for _ in range(plan.cold_runs):
            for side, root in roots.items():
                measured = child.run(
                    "benchmarks.cold", side=side, root=str(root), rows=rows, what=what
                )
                found.setdefault((what, side), []).append(measured)
    for root in roots.values():
        catalogs.discard(root)

    def p50(what: str, side: str, key: str) -> float:
        return percentile([run[key] for run in found[what, side]], 0.5)

    def figure(name: str, what: str, key: str, unit: str, note: str = "") -> Figure:
        ours = p50(what, OURS, key)
        native = better(p50(what, side, key) for side in NATIVE)
        details = {side: found[what, side] for side in SIDES}
        return Figure("cold", name, rows, unit, ours, native, ours, "ours", note, details)

    settled = p50("list", OURS, "added")
    return [
        figure("first describe", "describe", "ms", "ms", "construction and describe_table"),
        figure("snapshot", "list", "ms", "ms", "construction and first list_namespaces"),
        figure(
            "snapshot memory",
            "list",
            "peak",
            "MiB",
            f"peak of resident memory above that after import; {settled:.0f} stay",
        ),
    ]


if __name__ == "__main__":
    child.answer(first_call)
