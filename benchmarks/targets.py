"""Every target, in one place. The report says which are met; a run never fails for one."""

from __future__ import annotations

from typing import Final

from benchmarks.figures import Bound, Figure

__all__ = ["target_of"]

#: Sizes of catalogs that targets are given for.
_SIZES: Final = (1_000, 100_000, 1_000_000)
#: (part, operation) → the ratio ours/native at each of those sizes.
_RATIOS: Final[dict[str, tuple[float, float, float]]] = {
    "create_namespace": (0.7, 0.05, 0.01),
    "declare_table": (0.7, 0.05, 0.01),
    "describe_table": (0.2, 0.05, 0.02),
    "table_exists": (0.2, 0.05, 0.02),
    "list_tables limit 100": (0.3, 0.02, 0.01),
}
#: (part, name, rows) → bound. Rows are None where the figure has no size of its own.
_OTHERS: Final[dict[tuple[str, str, int | None], Bound]] = {
    ("latency", "V1 list_tables", 10_000): Bound("<=", 0.06),
    ("cold", "first describe", 1_000_000): Bound("<=", 50.0),
    ("cold", "snapshot", 1_000_000): Bound("<=", 2_500.0),
    ("cold", "snapshot memory", 1_000_000): Bound("<=", 600.0),
    ("throughput", "1 process, 64 threads", 1_000): Bound(">=", 20.0),
    ("throughput", "16 processes", 1_000): Bound(">=", 1.0, "1.5 wanted"),
    ("throughput", "16 processes", 100_000): Bound(">=", 10.0),
    ("throughput", "16 processes: p99", 1_000): Bound("<=", 1.0),
    ("throughput", "16 processes: p99", 100_000): Bound("<=", 1.0),
    ("requests", "describe_table", None): Bound("<=", 1.0),
    ("requests", "table_exists", None): Bound("<=", 1.0),
    ("requests", "list_tables limit 100", None): Bound("<=", 1.0),
    ("requests", "create_namespace", None): Bound("<=", 6.0),
    ("upkeep", "p50, last against first", None): Bound("<=", 1.5),
    ("versions", "append", None): Bound("<=", 2.0),
    ("versions", "append: growth", 1_000_000): Bound("<=", 1.3),
    ("versions", "16 tables in one commit", None): Bound("<=", 2.0),
    ("versions", "latest 10 versions", 1_000_000): Bound("<=", 10.0),
    ("spark", "ingest, narrow", None): Bound("<=", 0.5),
    ("spark", "write, narrow", None): Bound("<=", 1.4),
    ("spark", "write, vectors", None): Bound("<=", 0.45),
    ("spark", "read, narrow", None): Bound("<=", 1.8),
    ("spark", "read, vectors", None): Bound("<=", 1.8),
    ("spark", "read, one column of ten", None): Bound("<=", 3.0),
    ("spark", "filtered read, 0.1 %", None): Bound("<=", 0.8),
    ("spark", "count", None): Bound("<=", 0.03),
    ("spark", "inventory", None): Bound("<=", 2.0),
}
_GROWTH: Final = Bound("<=", 1.5)
_FAILURES: Final = Bound("<=", 0.0)


def target_of(figure: Figure) -> Bound | None:
    """Return the target of a figure, or None when it is only reported."""
    if figure.part == "latency" and figure.name in _RATIOS:
        if figure.rows not in _SIZES:
            return None
        return Bound("<=", _RATIOS[figure.name][_SIZES.index(figure.rows)])
    if figure.part == "growth":
        # Meant for 1k to 1M; a shorter range has to keep it all the more.
        return _GROWTH
    if figure.part == "throughput" and figure.name.endswith("failures"):
        return _FAILURES
    if figure.part == "requests" and figure.name == "V1 list_tables":
        return Bound("<=", float(-(-figure.details["keys"] // 1000)), "keys/1000, rounded up")
    rows = None if figure.part in ("requests", "upkeep") else figure.rows
    return _OTHERS.get((figure.part, figure.name, rows))
