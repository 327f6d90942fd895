"""How much is measured: the short plan for every day, and the full one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["FULL", "SHORT", "Plan"]


@dataclass(frozen=True)
class Plan:
    """The sizes and counts of one run. Every side gets the same."""

    name: str
    #: Rows of the catalogs, and the measured rounds at each: native needs a second per change at
    #: a million rows.
    rounds: Mapping[int, int]
    #: Directories of the V1 catalog, and rounds of listing it.
    v1_directories: int = 10_000
    v1_rounds: int = 3
    #: The cold start is measured on the largest catalog, in this many fresh processes.
    cold_runs: int = 2
    #: Creations of one process, shared out among its threads: ours with the most of them, native
    #: with each number.
    threads: tuple[int, ...] = (1, 8, 64)
    thread_creations: int = 1_280
    native_thread_creations: int = 128
    processes: int = 16
    #: Rows of the catalog → creations per process.
    process_creations: Mapping[int, int] = field(default_factory=lambda: {1_000: 10})
    throughput_runs: int = 1
    #: Requests are counted on a catalog of this size, over this many calls of each operation.
    request_rows: int = 1_000
    request_calls: int = 20
    #: Two objects each.
    request_v1_tables: int = 550
    commits: int = 2_000
    #: Native's cost of a change grows with the catalog: it gets no more than this. 0 for none.
    native_commits: int = 0
    #: Rows of table versions in the large registry, and the measured rounds.
    version_rows: int = 100_000
    version_rounds: int = 100
    #: Narrow rows, vectors and tables of the Spark part, and its measured rounds.
    spark_rows: int = 1_000_000
    spark_vectors: int = 20_000
    spark_tables: int = 1_000
    spark_rounds: int = 2


SHORT = Plan(name="short", rounds={1_000: 20, 10_000: 10, 100_000: 6})
FULL = Plan(
    name="full",
    rounds={1_000: 60, 10_000: 40, 100_000: 20, 1_000_000: 7},
    v1_rounds=7,
    cold_runs=5,
    thread_creations=12_800,
    native_thread_creations=512,
    process_creations={1_000: 50, 100_000: 8},
    throughput_runs=3,
    request_calls=64,
    request_v1_tables=1_250,
    commits=100_000,
    native_commits=2_000,
    version_rows=1_000_000,
    spark_rows=10_000_000,
    spark_vectors=200_000,
    spark_tables=10_000,
    spark_rounds=3,
    version_rounds=400,
)
