"""One function over many tables, by few tasks with threads in them.

A partition is a chunk of work, never one table each: a task costs more than a look at a table. What
the tasks need, the catalog with its credentials included, travels inside the pickled source class;
options would be shown in plans. Results are collected once, so a job runs once however often its
DataFrame is used.
"""

from __future__ import annotations

import contextlib
import random
import threading
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
)
from lance_catalog.identifiers import Identifier, format_text
from lance_catalog.spark.catalogs import CatalogRef
from lance_catalog.spark.registering import activate, register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lance_catalog.directory.namespace import DirectoryNamespace

__all__ = ["BASE", "Item", "Progress", "Row", "attempt", "outcome", "schema_of", "sweep"]

#: Told while a job runs: how much is done, of how much.
Progress = Callable[[int, int | None], None]
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
_WAVES: Final = 2
_POLL_SECONDS: Final = 0.2
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

    def rows(self, items: Sequence[Item]) -> Iterator[tuple[Any, ...]]:
        catalog = self.ref.open()
        with ThreadPoolExecutor(max_workers=self.threads) as pool:
            for rows in pool.map(lambda item: self._one(catalog, item), items):
                for row in rows:
                    yield tuple(row.get(column) for column in self.columns)

    def _one(self, catalog: DirectoryNamespace, item: Item) -> Sequence[Row]:
        return attempt(lambda: self.work(catalog, item), item.names, self.retries)


class _Reader(DataSourceReader):
    def __init__(self, task: _Task, chunks: list[list[Item]]) -> None:
        self._task = task
        self._chunks = chunks

    def partitions(self) -> Sequence[InputPartition]:
        return [_Chunk(chunk) for chunk in self._chunks]

    def read(self, partition: Any) -> Iterator[tuple[Any, ...]]:
        # Spark hands over a partition without a value where there are none.
        return self._task.rows(getattr(partition, "items", None) or [])


def attempt(work: Callable[[], Sequence[Row]], names: Identifier, retries: int) -> Sequence[Row]:
    """Run work for a table, again when others were first; a failure becomes its row.

    This is the outermost edge of a task: whatever one table does, the others go on. Lance's Rust
    side panics with a BaseException.
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
        return [{**end, **row} for row in rows]


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
) -> list[Row]:
    """Run a function over items on the executors; return the rows, failures among them.

    ``columns`` are those of the function's rows, as Spark writes a schema. ``least`` is how many
    items are worth a task.
    """
    if not items:
        return []
    schema = schema_of(columns)
    count = tasks or min(max(len(items) // least, 1), _parallelism(spark) * _WAVES)
    # Dealt out in turn: tables that are alike stand side by side in a namespace.
    chunks = [list(items[n::count]) for n in range(min(count, len(items)))]
    task = _Task(ref, work, tuple(schema.names), threads, retries)
    name = f"lance_catalog_job_{uuid.uuid4().hex}"
    activate(spark)
    register(spark, _source(name, schema, task, chunks))
    with _watched(spark, name, len(items), progress):
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
    if _is_classic(spark):
        return max(int(spark.sparkContext.defaultParallelism), 1)
    return 4


def _is_classic(spark: Any) -> bool:
    return ".connect." not in type(spark).__module__


@contextlib.contextmanager
def _watched(
    spark: SparkSession, group: str, total: int, progress: Progress | None
) -> Iterator[None]:
    """Tell how many tasks are done, as a share of the items, while the block runs."""
    if progress is None:
        yield
        return
    progress(0, total)
    watch = _watched_jobs if _is_classic(spark) else _watched_remote
    with watch(spark, group, lambda share: progress(int(total * share), total)):
        yield
    progress(total, total)


@contextlib.contextmanager
def _watched_jobs(spark: Any, group: str, told: Callable[[float], None]) -> Iterator[None]:
    context = spark.sparkContext
    names = ("spark.jobGroup.id", "spark.job.description")
    before = {name: context.getLocalProperty(name) for name in names}
    context.setJobGroup(group, "lance-catalog job")
    tracker = context.statusTracker()
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_POLL_SECONDS):
            told(_share(tracker, group))

    watcher = threading.Thread(target=watch, name="lance-catalog progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
        for name, value in before.items():
            context.setLocalProperty(name, value)


def _share(tracker: Any, group: str) -> float:
    done = every = 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info is not None else ():
            seen = tracker.getStageInfo(stage)
            if seen is not None:
                done, every = done + seen.numCompletedTasks, every + seen.numTasks
    return done / every if every else 0.0


@contextlib.contextmanager
def _watched_remote(spark: Any, group: str, told: Callable[[float], None]) -> Iterator[None]:
    def handler(stages: Any, **_: Any) -> None:
        every = sum(stage.num_tasks for stage in stages or ())
        if every:
            told(sum(stage.num_completed_tasks for stage in stages) / every)

    spark.registerProgressHandler(handler)
    try:
        yield
    finally:
        spark.removeProgressHandler(handler)
