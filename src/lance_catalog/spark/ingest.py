"""Files to a table without a row passing through the JVM: Spark schedules, tasks read and write.

A task is a row of a scan: Spark gives it a piece of the files, it reads that by pyarrow, writes
fragments, and answers with what it wrote. Spark takes one answer per piece, whatever it tried
twice; the files of all other attempts are removed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from lance_catalog.directory.jobs import Job, find_done
from lance_catalog.errors import (
    InvalidInputError,
    TableColumnNotFoundError,
    TableSchemaValidationError,
)
from lance_catalog.model import check_user_properties
from lance_catalog.spark.catalogs import CatalogLike, CatalogRef, resolve, table_names
from lance_catalog.spark.commit import committed
from lance_catalog.spark.failures import spark_errors
from lance_catalog.spark.fragments import FragmentTarget, Message
from lance_catalog.spark.given_properties import give_properties
from lance_catalog.spark.ingest_files import (
    Piece,
    Source,
    batches_of,
    find_files,
    joined,
    pieces_of,
    schema_of,
)
from lance_catalog.spark.read import parallelism_of
from lance_catalog.spark.results import WriteResult, result_of
from lance_catalog.spark.shares import DEFAULT_TASK_BYTES, even_shares, task_bytes_for
from lance_catalog.spark.sink import Sink, exists, open_sink
from lance_catalog.spark.source_writer import job_format

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["IngestReader", "ingest"]

#: Parts of files that are given out by themselves, so that tasks can be of one size.
_GRAIN: Final = 32 << 20
_MODES: Final = ("create", "append", "overwrite", "ignore")
_ANSWER: Final = "message string"


def ingest(
    spark: SparkSession,
    catalog: CatalogLike,
    table: str | Sequence[str],
    paths: str | Sequence[str],
    *,
    format: str | None = None,
    mode: str = "create",
    columns: Sequence[str] | None = None,
    vectors: Mapping[str, int] | None = None,
    properties: Mapping[str, str] | None = None,
    job_id: str | None = None,
    task_bytes: int = DEFAULT_TASK_BYTES,
    storage: Mapping[str, str] | None = None,
    max_rows_per_file: int | None = None,
    max_bytes_per_file: int | None = None,
) -> WriteResult:
    """Bring files into a table: parquet, CSV, JSON lines, Arrow IPC or feather, Lance tables.

    ``paths`` are files, folders or patterns; ``format`` is told by the endings where it is not
    given. ``columns`` chooses among those of the files. Modes and guarantees are those of
    ``write`` (all but ``merge``). ``storage`` are options of the store the files are in, by
    default those of the catalog.
    """
    if mode not in _MODES:
        raise InvalidInputError(f"mode '{mode}' is not one of {', '.join(_MODES)}")
    ref, names = resolve(catalog), table_names(table)
    job = Job.named(job_id)
    wished = check_user_properties(dict(properties or {}))
    ctx = ref.open().context
    done = None if job.own else find_done(ctx, names, job)
    if done is not None:
        give_properties(ctx, names, done, wished)
        return result_of(names, job, done)
    if mode == "ignore" and exists(ctx, names):
        return WriteResult(names, None, 0, 0, job.id)
    given = dict(ctx.store.lance_options) if storage is None else dict(storage)
    sources = find_files([paths] if isinstance(paths, str) else list(paths), format, given)
    wanted = None if mode == "append" else _schema(sources[0], given, columns, vectors)
    sink = open_sink(
        ref,
        names,
        "create" if mode == "ignore" else mode,
        job,
        wanted,
        properties=wished,
        max_rows=max_rows_per_file,
        max_bytes=max_bytes_per_file,
    )
    try:
        messages = _run(spark, sink, sources, given, columns, task_bytes, own=storage is not None)
    except BaseException:
        sink.give_up()
        raise
    return committed(sink, messages, mode)


def _schema(
    source: Source,
    storage: Mapping[str, str],
    columns: Sequence[str] | None,
    vectors: Mapping[str, int] | None,
) -> pa.Schema:
    """Return the columns of a table made of files like this one."""
    found = schema_of(source, storage).remove_metadata()
    for name in [*(columns or ()), *(vectors or {})]:
        if name not in found.names:
            raise TableColumnNotFoundError(
                f"'{source.path}' has no column '{name}'; it has {', '.join(found.names)}"
            )
    fields = [found.field(name) for name in columns or found.names]
    return pa.schema([_vector(field, (vectors or {}).get(field.name)) for field in fields])


def _vector(field: pa.Field, size: int | None) -> pa.Field:
    if size is None:
        return field
    kind = field.type
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if not (lists or pa.types.is_fixed_size_list(kind)):
        raise InvalidInputError(f"vectors: column '{field.name}' is {kind}, not a list of numbers")
    # JSON knows one kind of number; a vector of them is one of single precision.
    item = pa.float32() if pa.types.is_float64(kind.value_type) and lists else kind.value_type
    return pa.field(field.name, pa.list_(item, size), field.nullable)


def _run(
    spark: SparkSession,
    sink: Sink,
    sources: Sequence[Source],
    storage: Mapping[str, str],
    columns: Sequence[str] | None,
    task_bytes: int,
    *,
    own: bool,
) -> list[Message]:
    """Let Spark run the tasks; return what it took of their answers."""
    grain = max(1, min(task_bytes, _GRAIN))
    pieces = [piece for one in sources for piece in pieces_of(one, storage, grain)]
    target = sink.target
    known = list(columns or target.schema.names)
    plan = {"target": target.to_json(), "columns": known, "chosen": columns is not None}
    total = sum(piece.size for piece in pieces)
    plan["task_bytes"] = task_bytes_for(total, max(1, task_bytes), parallelism_of(spark))
    # Ten thousand files are no option of a plan.
    body = json.dumps([asdict(one) for one in pieces]).encode()
    sink.ctx.store.put(f"{target.tasks}/pieces", body)
    if not pieces:
        return []
    with spark_errors(f"ingesting into '{target.text}'"):
        speculation = spark.conf.get("spark.speculation", "false")
        sink.speculative = str(speculation).lower() == "true"
        source = job_format(spark, sink.ref, storage if own else None)
        reader = spark.read.format(source).schema(_ANSWER)
        answers = reader.option("ingest", json.dumps(plan)).load().collect()
    chosen = [Message.from_json(row["message"]) for row in answers]
    sink.take(chosen)
    return chosen


class _Part(InputPartition):
    def __init__(self, numbers: list[int]) -> None:
        self.numbers = numbers


class IngestReader(DataSourceReader):
    """Tasks that read files and write fragments; what Spark reads of them are their answers."""

    def __init__(self, catalog: CatalogRef, told: str, storage: Mapping[str, str] | None) -> None:
        self._catalog = catalog
        self._storage = storage
        self._told: dict[str, Any] = json.loads(told)
        self._target = FragmentTarget.from_json(self._told["target"])

    def partitions(self) -> list[InputPartition]:
        pieces, _ = self._pieces()
        sizes = [piece.size for piece in pieces]
        return [_Part(list(share)) for share in even_shares(sizes, self._told["task_bytes"])]

    def _pieces(self) -> tuple[list[Piece], Mapping[str, str]]:
        store = self._catalog.open().context.store
        told = json.loads(store.get(f"{self._target.tasks}/pieces") or b"[]")
        found = [
            Piece(Source(**one["source"]), _numbers(one["parts"]), one["size"]) for one in told
        ]
        return found, dict(store.lance_options) if self._storage is None else self._storage

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        if not isinstance(partition, _Part):
            return
        pieces, storage = self._pieces()
        chosen = joined([pieces[number] for number in partition.numbers])
        message = self._target.write(self._catalog, self._batches(chosen, storage))
        yield (message.to_json(),)

    def _batches(
        self, pieces: Sequence[Piece], storage: Mapping[str, str]
    ) -> Iterator[pa.RecordBatch]:
        schema, columns = self._target.schema, self._told["columns"]
        for piece in pieces:
            if not self._told["chosen"]:
                self._require_known(piece.source, storage)
            yield from batches_of(piece, schema, columns, storage)

    def _require_known(self, source: Source, storage: Mapping[str, str]) -> None:
        """Refuse (20) a file with columns that the table has not: they would be lost."""
        names = self._target.schema.names
        more = [name for name in schema_of(source, storage).names if name not in names]
        if more:
            raise TableSchemaValidationError(
                f"'{source.path}' has the column '{more[0]}', which '{self._target.text}' has not; "
                f"add it to the table, or choose with columns=, as {names[:3]}"
            )


def _numbers(told: list[int] | None) -> tuple[int, ...] | None:
    return None if told is None else tuple(told)
