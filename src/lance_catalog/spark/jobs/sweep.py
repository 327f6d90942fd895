"""One function over many tables, by few tasks with threads in them.

A partition is a chunk of work, never one table each: a task costs more than a look at a table. What
the tasks need, the catalog with its credentials included, travels inside the pickled source class;
options would be shown in plans. Results are collected once, so a job runs once however often its
DataFrame is used.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from lance_catalog.directory.operations.access import classify
from lance_catalog.errors import (
    ConcurrentModificationError,
    LanceNamespaceError,
    ServiceUnavailableError,
    ThrottlingError,
    UnsupportedOperationError,
)
from lance_catalog.identifiers import Identifier, format_text
from lance_catalog.spark.catalogs import CatalogRef
from lance_catalog.spark.jobs.pinned import is_gone
from lance_catalog.spark.jobs.watching import Progress, is_classic, watched
from lance_catalog.spark.registering import activate, register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lance_catalog.directory.namespace import DirectoryNamespace

__all__ = ["BASE", "GONE", "Item", "Progress", "Row", "attempt", "outcome", "schema_of", "sweep"]

Row = dict[str, Any]
#: What is done with one item; each row it returns becomes a row of the result.
Work = Callable[["DirectoryNamespace", "Item"], Sequence[Row]]

#: The columns every job begins with, and those it ends with.
BASE: Final = "table string, id array<string>"
_END: Final = "status string, error string, attempts int, seconds double"
_TYPES: Final[dict[str, DataType]] = {
    "array<bigint>": ArrayType(LongType()),
    "array<string>": ArrayType(StringType()),
    "bigint": LongType(),
    "binary": BinaryType(),
    "double": DoubleType(),
    "int": IntegerType(),
    "string": StringType(),
    "timestamp": TimestampType(),
}
#: The status of a table that was there when the job began, and is not any more.
GONE: Final = "dropped meanwhile"
_WAVES: Final = 2
_RETRYABLE: Final = (ConcurrentModificationError, ServiceUnavailableError, ThrottlingError)


@dataclass(frozen=True, slots=True)
class Item:
    """A piece of work: of which table, and what the function needs to know besides."""

    names: Identifier
    payload: Any = None


@dataclass
class _Chunk(InputPartition):
    items: list[Item]

    def __init__(self, items: list[Item]) -> None:
        super().__init__(items)
        self.items = items


@dataclass(frozen=True)
class _Task:
    """What a task runs: everything but the items."""

    ref: CatalogRef
    work: Work
    columns: tuple[str, ...]
    threads: int
    retries: int
    #: Whether the items are of tables of the catalog, and not of its trash.
    live: bool = False

    def rows(self, items: Sequence[Item]) -> Iterator[tuple[Any, ...]]:
        catalog = self.ref.open()
        with ThreadPoolExecutor(max_workers=self.threads) as pool:
            for rows in pool.map(lambda item: self._one(catalog, item), items):
                for row in rows:
                    yield tuple(row.get(column) for column in self.columns)

    def _one(self, catalog: DirectoryNamespace, item: Item) -> Sequence[Row]:
        look = catalog if self.live else None
        return attempt(lambda: self.work(catalog, item), item.names, self.retries, look)


class _Reader(DataSourceReader):
    def __init__(self, task: _Task, chunks: list[list[Item]]) -> None:
        self._task = task
        self._chunks = chunks

    def partitions(self) -> Sequence[InputPartition]:
        return [_Chunk(chunk) for chunk in self._chunks]

    def read(self, partition: Any) -> Iterator[tuple[Any, ...]]:
        # Spark hands over a partition without a value where there are none.
        return self._task.rows(getattr(partition, "items", None) or [])


def attempt(
    work: Callable[[], Sequence[Row]],
    names: Identifier,
    retries: int,
    catalog: DirectoryNamespace | None = None,
) -> Sequence[Row]:
    """Run work for a table, again when others were first; a failure becomes its row.

    With a catalog, no failure is what comes of a table that left it meanwhile. This is the
    outermost edge of a task: whatever one table does, the others go on. Lance's Rust side panics
    with a BaseException.
    """
    started = time.monotonic()
    tried = 0
    while True:
        tried += 1
        try:
            rows = work()
            failure = None
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as error:
            failure = _ours(error, names)
            rows = [{}]
            if isinstance(failure, _RETRYABLE) and tried <= retries:
                # Two that met should not meet again.
                time.sleep(random.uniform(0.05, 0.2) * 2**tried)
                continue
        end = outcome(names, failure, attempts=tried, seconds=time.monotonic() - started)
        ended = [{**end, **row} for row in rows]
        failed = any(row["status"] == "failed" for row in ended)
        if failed and catalog is not None and _left(catalog, names):
            return [{**row, "status": GONE, "error": None} for row in ended]
        return ended


def _left(catalog: DirectoryNamespace, names: Identifier) -> bool:
    try:
        return is_gone(catalog, names)
    except (LanceNamespaceError, OSError):
        return False  # What failed first is what to tell.


def _ours(error: BaseException, names: Identifier) -> LanceNamespaceError:
    if isinstance(error, Exception):
        return classify(error, f"table '{format_text(names)}'")
    return classify(RuntimeError(f"{type(error).__name__}: {error}"), format_text(names))


def outcome(
    names: Identifier,
    failure: BaseException | None = None,
    *,
    attempts: int = 1,
    seconds: float = 0.0,
) -> Row:
    """Return the columns that every row has."""
    return {
        "table": format_text(names),
        "id": list(names),
        "status": "ok" if failure is None else "failed",
        "error": None if failure is None else str(failure),
        "attempts": attempts,
        "seconds": round(seconds, 6),
    }


def sweep(
    spark: SparkSession,
    ref: CatalogRef,
    items: Sequence[Item],
    work: Work,
    columns: str,
    *,
    threads: int = 8,
    tasks: int | None = None,
    least: int = 1,
    retries: int = 3,
    progress: Progress | None = None,
    live: bool = False,
) -> list[Row]:
    """Run a function over items on the executors; return the rows, failures among them.

    ``columns`` are those of the function's rows, as Spark writes a schema. ``least`` is how many
    items are worth a task. ``live``: the items are of tables that the catalog has, and one that it
    has not any more did not fail.
    """
    if not items:
        return []
    if ref.root.startswith("memory:"):
        raise UnsupportedOperationError(
            "a catalog in the memory of this process cannot be seen by Spark's workers; use a path "
            "or an object store"
        )
    schema = schema_of(columns)
    count = tasks or min(max(len(items) // least, 1), _parallelism(spark) * _WAVES)
    # Dealt out in turn: tables that are alike stand side by side in a namespace.
    chunks = [list(items[n::count]) for n in range(min(count, len(items)))]
    task = _Task(ref, work, tuple(schema.names), threads, retries, live)
    name = f"lance_catalog_job_{uuid.uuid4().hex}"
    activate(spark)
    register(spark, _source(name, schema, task, chunks))
    with watched(spark, name, len(items), progress):
        found = spark.read.format(name).load().collect()
    return [row.asDict(recursive=True) for row in found]


def schema_of(columns: str) -> StructType:
    """Return the schema of a job's result: the common columns around its own."""
    fields = ", ".join(part for part in (BASE, columns, _END) if part).split(", ")
    # Not Spark's own parser of such texts, which needs a JVM.
    pairs = [field.split(" ") for field in fields]
    return StructType([StructField(name, _TYPES[kind]) for name, kind in pairs])


def _source(
    called: str, result: StructType, task: _Task, chunks: list[list[Item]]
) -> type[DataSource]:
    """Make the class of one sweep. It is local, so it is pickled whole, with what it holds."""

    class Sweep(DataSource):
        @classmethod
        def name(cls) -> str:
            return called

        def schema(self) -> StructType:
            return result

        def reader(self, schema: StructType) -> DataSourceReader:
            return _Reader(task, chunks)

    return Sweep


def _parallelism(spark: SparkSession) -> int:
    """How many tasks run at once, as far as can be known: Spark Connect does not tell."""
    if is_classic(spark):
        return max(int(spark.sparkContext.defaultParallelism), 1)
    return 4
