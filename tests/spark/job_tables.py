"""What the suites of catalog jobs share: tables, damage, and a stand-in for Spark.

A job plans and commits in this process and sweeps on executors. Each has a test on a real Spark;
what it does about conflicts and failures is tested with sweeps in this process, which cost
milliseconds and can be interrupted anywhere.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_catalog import DirectoryNamespace, connect
from lance_catalog.spark.catalogs import CatalogRef
from lance_catalog.spark.jobs import sweep as sweeping

__all__ = ["DIMENSION", "Sweeps", "asked", "data_files", "fill", "made", "place", "rows_of"]

DIMENSION = 16
_MODULES = (
    "cleaning",
    "compaction",
    "indexing",
    "migration",
    "stocktaking",
    "verification",
)


def rows_of(start: int, count: int) -> pa.Table:
    values = [float((start + i) * (j + 1) % 17) for i in range(count) for j in range(DIMENSION)]
    return pa.table(
        {
            "id": pa.array(range(start, start + count), pa.int64()),
            "kind": pa.array([f"k{i % 5}" for i in range(count)]),
            "text": pa.array([f"word{i % 7} number{start + i}" for i in range(count)]),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(values, pa.float32()), DIMENSION),
        }
    )


def fill(catalog: Any, *names: str, parts: int = 1, rows: int = 50, start: int = 0) -> None:
    for number in range(parts):
        lance.write_dataset(
            rows_of(start + number * rows, rows),
            namespace_client=catalog,
            table_id=list(names),
            mode="append" if number or start else "create",
        )


def made(folder: Path, *, managed: bool = False) -> DirectoryNamespace:
    catalog = connect(str(folder / "catalog"))
    catalog.create_namespace({"id": ["db"]})
    if managed:
        catalog.enable_managed_versions()
    return catalog


def asked(frame: Any) -> dict[str, dict[str, Any]]:
    return {row["table"]: row.asDict(recursive=True) for row in frame.collect()}


def place(catalog: DirectoryNamespace, *names: str) -> Path:
    return Path(catalog.describe_table({"id": list(names)}).location.removeprefix("file://"))


def data_files(catalog: DirectoryNamespace, *names: str) -> list[Path]:
    return sorted(place(catalog, *names).glob("data/*"))


class _Row(dict[str, Any]):
    def asDict(self, recursive: bool = False) -> dict[str, Any]:
        return dict(self)


class Sweeps:
    """Sweeps of all jobs in this process; ``then`` runs after each, with its number."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.then: Callable[[int], None] = lambda number: None
        for name in _MODULES:
            module = importlib.import_module(f"lance_catalog.spark.jobs.{name}")
            monkeypatch.setattr(module, "sweep", self._sweep)
            monkeypatch.setattr(module, "frame", self._frame)

    def _sweep(
        self,
        spark: Any,
        ref: CatalogRef,
        items: Sequence[sweeping.Item],
        work: sweeping.Work,
        columns: str,
        *,
        threads: int = 8,
        retries: int = 3,
        live: bool = False,
        **_: Any,
    ) -> list[dict[str, Any]]:
        names = tuple(sweeping.schema_of(columns).names)
        task = sweeping._Task(ref, work, names, threads, retries, live)
        rows = [dict(zip(names, row, strict=True)) for row in task.rows(items)]
        self.count += 1
        self.then(self.count)
        return rows

    @staticmethod
    def _frame(spark: Any, rows: Any, columns: str) -> Any:
        names = sweeping.schema_of(columns).names
        found = [_Row({name: row.get(name) for name in names}) for row in rows]
        return SimpleNamespace(collect=lambda: found)
