"""``make bench``: the same operations on native and on ours, rounds interleaved, medians, ratios.

Catalogs are seeded with one bulk write each, then both sides work on their own copy. Caches are
warm: a few calls of each operation go before the measured ones. Local disk, no fsync on either
side, so the durability is the same.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import lance_namespace
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import lance_catalog
from lance_catalog.manifest.schema import SCHEMA

Operation = Callable[[Any, int], None]
#: Rows of the seeded catalogs lie in namespaces of this many tables.
PER_NAMESPACE = 100


def seed(root: Path, rows: int) -> None:
    """Write a manifest with ``rows`` objects, as one version."""
    namespaces = max(1, rows // (PER_NAMESPACE + 1))
    ids = [f"n{i:06d}" for i in range(namespaces)]
    tables = [f"n{i % namespaces:06d}$t{i // namespaces:05d}" for i in range(rows - namespaces)]
    table = pa.table(
        {
            "object_id": ids + tables,
            "object_type": ["namespace"] * len(ids) + ["table"] * len(tables),
            "location": [None] * len(ids) + [f"0000_{t}" for t in tables],
            "metadata": [None] * (len(ids) + len(tables)),
            "base_objects": [None] * (len(ids) + len(tables)),
        },
        schema=SCHEMA,
    )
    lance.write_dataset(table, str(root / "__manifest"), data_storage_version="2.2")


OPERATIONS: dict[str, Operation] = {
    "create_namespace": lambda ns, n: ns.create_namespace(
        lance_namespace.CreateNamespaceRequest(id=[f"new{n:07d}"])
    ),
    "declare_table": lambda ns, n: ns.declare_table(
        lance_namespace.DeclareTableRequest(id=["n000000", f"new{n:07d}"])
    ),
    "describe_table": lambda ns, n: ns.describe_table(
        lance_namespace.DescribeTableRequest(id=["n000000", f"t{n % 50:05d}"])
    ),
    "table_exists": lambda ns, n: ns.table_exists(
        lance_namespace.TableExistsRequest(id=["n000000", f"t{n % 50:05d}"])
    ),
    "list_tables limit 100": lambda ns, n: ns.list_tables(
        lance_namespace.ListTablesRequest(id=["n000000"], limit=100)
    ),
}


def measure(sides: dict[str, Any], operation: Operation, rounds: int) -> dict[str, float]:
    """Return the median milliseconds of each side, measured in turns."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(-3, rounds):
        for name, namespace in sides.items():
            start = time.perf_counter()
            operation(namespace, number + 3)
            if number >= 0:
                times[name].append((time.perf_counter() - start) * 1000)
    return {name: statistics.median(found) for name, found in times.items()}


def sides_at(folder: Path, rows: int) -> dict[str, Any]:
    """Return namespaces on freshly seeded catalogs: ours, and native with its two settings."""
    made: dict[str, Any] = {}
    for name in ("ours", "native", "native indexed"):
        root = folder / f"{name.replace(' ', '-')}-{rows}"
        seed(root, rows)
        common = {"root": str(root), "dir_listing_enabled": "false"}
        if name == "ours":
            made[name] = lance_catalog.DirectoryNamespace(**common)
        else:
            indexed = "true" if name == "native indexed" else "false"
            made[name] = lance_namespace.connect(
                "dir", {**common, "inline_optimization_enabled": indexed}
            )
    return made


def main() -> None:
    """Run and print; write the figures as JSON."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--sizes", default="1000,10000", help="rows of the catalogs")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--json", type=Path, help="where to write the figures")
    options = parser.parse_args()
    console = Console()
    table = Table("operation", "rows", "ours ms", "native ms", "ratio", title="p50, local disk")
    figures: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="lance-catalog-bench-") as folder:
        for rows in (int(size) for size in options.sizes.split(",")):
            sides = sides_at(Path(folder), rows)
            for name, operation in OPERATIONS.items():
                found = measure(sides, operation, options.rounds)
                # The better of native's two settings is what we are compared with.
                native = min(found["native"], found["native indexed"])
                ratio = found["ours"] / native
                table.add_row(
                    name, f"{rows:,}", f"{found['ours']:.3f}", f"{native:.3f}", f"{ratio:.3f}"
                )
                figures.append({"operation": name, "rows": rows, "ratio": ratio, **found})
    console.print(table)
    if options.json:
        system = {"python": platform.python_version(), "machine": platform.machine()}
        options.json.write_text(json.dumps({"system": system, "figures": figures}, indent=1))


if __name__ == "__main__":
    main()
