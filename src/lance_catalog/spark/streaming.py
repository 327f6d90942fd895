"""Streams: a table as a source, and a table as a sink that takes every batch exactly once.

A batch is known by the id of its query and its number, kept in the transaction and, past a cleanup
of versions, in the table's ledger. Spark repeats the last batch after a crash; it is then found and
not written again. With them stands the id that Spark gave the checkpoint: a new checkpoint counts
from 0 again, and its batches must not be taken for those that came before.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import lance
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from lance_catalog.config import parse_bool
from lance_catalog.directory import job_records
from lance_catalog.directory.job_ids import FOLDER
from lance_catalog.directory.jobs import Job, Opened, Planned, commit_job, open_for_job
from lance_catalog.errors import (
    CommitOutcomeUnknownError,
    InternalError,
    InvalidInputError,
    LanceNamespaceError,
    UnsupportedOperationError,
)
from lance_catalog.identifiers import Identifier, format_text
from lance_catalog.spark.catalogs import CatalogLike, CatalogRef, resolve, table_names
from lance_catalog.spark.columns import require_same_columns
from lance_catalog.spark.fragments import FragmentTarget, Message, fragments_of
from lance_catalog.spark.opening import open_location
from lance_catalog.spark.options import Location, ReadOptions, location_of
from lance_catalog.spark.scanning import read_schema
from lance_catalog.spark.source_writer import job_format
from lance_catalog.spark.stream_reading import StreamReader
from lance_catalog.spark.types import require_castable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

__all__ = ["read_stream", "stream_reader", "stream_writer", "write_stream"]

#: Where Spark tells the tasks of a streaming query its id: that of the checkpoint, kept in it.
_QUERY_ID: Final = "sql.streaming.queryId"


def read_stream(
    spark: SparkSession,
    catalog: CatalogLike,
    table: str | Sequence[str],
    *,
    columns: Sequence[str] | None = None,
    filter: str | None = None,
    starting_version: int | None = None,
    include_updates: bool = False,
) -> DataFrame:
    """Return a table as a streaming DataFrame: its rows now, then those that are inserted.

    ``starting_version`` leaves out what was there at that version. What updates and merges wrote
    comes only with ``include_updates``, with the rows that replaced others; what they and
    deletions removed never comes. 11 when versions were cleaned up before they were read.
    """
    location = Location(resolve(catalog), table_names(table))
    asked = ReadOptions.make(columns=columns, filter=filter)
    schema = read_schema(open_location(location), asked, f"reading '{location}'")
    told = {
        "starting_version": starting_version,
        "include_updates": include_updates,
        "filter": filter,
    }
    assert location.catalog is not None
    reader = spark.readStream.format(job_format(spark, location.catalog)).schema(schema)
    options = {"stream": json.dumps(told), "table": location.to_option()}
    return reader.options(**options).load()


def write_stream(
    df: DataFrame,
    catalog: CatalogLike,
    table: str | Sequence[str],
    *,
    query_id: str,
    checkpoint: str | None = None,
) -> DataStreamWriter:
    """Return the writer that appends a streaming DataFrame to a table; ``start()`` it.

    Each batch is there exactly once, across restarts and crashes. ``query_id`` and checkpoint
    belong together: a query that begins with a new checkpoint needs a new id, and is refused
    (13) under one whose batches the table has. The table must exist.
    """
    ref, names = resolve(catalog), table_names(table)
    Job.of_stream(query_id, 0)
    require_castable(df.schema, open_for_job(ref.open().context, names).dataset.schema)
    told = {"names": list(names), "query_id": query_id}
    writer = df.writeStream.format(job_format(df.sparkSession, ref)).outputMode("append")
    writer = writer.option("stream", json.dumps(told)).queryName(query_id)
    return writer if checkpoint is None else writer.option("checkpointLocation", checkpoint)


def stream_reader(options: Mapping[str, str], schema: StructType) -> DataSourceStreamReader:
    """Return the reader of ``spark.readStream.format("lance")``."""
    given = {key.lower(): value for key, value in options.items()}
    start = given.get("starting_version")
    return StreamReader(
        location_of(given),
        schema,
        starting_version=None if start is None else int(start),
        include_updates=parse_bool("include_updates", given.get("include_updates", False)),
        filter=given.get("filter"),
    )


def stream_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> DataSourceStreamArrowWriter:
    """Return the writer of ``df.writeStream.format("lance")``; option ``query_id`` is needed."""
    given = {key.lower(): value for key, value in options.items()}
    location = location_of(given)
    if location.catalog is None:
        raise UnsupportedOperationError(
            "a plain path is read only here, for without a catalog nobody decides between two "
            "writers; give the options root and table"
        )
    query = given.get("query_id") or given.get("queryname")
    if not query:
        raise InvalidInputError(
            "a streaming write needs the option query_id: by it and the number of a batch the "
            "table knows after a crash which batches it has. Keep it as long as the checkpoint."
        )
    if overwrite:
        raise UnsupportedOperationError(
            "a stream appends; output mode complete, which replaces all rows, is not supported"
        )
    return StreamWriter(location.catalog, location.names, query, schema)


@dataclass
class _Taken(WriterCommitMessage):
    """What a task wrote, which version it took the columns of, its record, its checkpoint."""

    text: str
    version: int
    record: str
    origin: str

    @property
    def message(self) -> Message:
        return Message.from_json(self.text)


class StreamWriter(DataSourceStreamArrowWriter):
    """Tasks write fragments; the end of a batch commits them under query and batch.

    Spark makes one for the tasks of each batch and another for its end, so all they share is what
    the tasks told.
    """

    def __init__(
        self, catalog: CatalogRef, names: Identifier, query: str, schema: StructType
    ) -> None:
        self._catalog = CatalogRef(catalog.root, catalog.properties)
        self._names = names
        self._query = query
        self._schema = schema
        Job.of_stream(query, 0)

    def _open(self) -> Opened:
        return open_for_job(self._catalog.open().context, self._names)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        origin = _origin()
        opened = self._open()
        dataset, place = opened.dataset, opened.found.location
        require_castable(self._schema, dataset.schema)
        running = job_records.begin(self._catalog.open().context.store, place, self._query)
        text, storage = format_text(self._names), str(dataset.data_storage_version)
        target = FragmentTarget(text, place, dataset.schema, running.tasks, opened.version, storage)
        try:
            message = target.write(self._catalog, iterator)
        except BaseException:
            running.end()
            raise
        running.stop()
        return _Taken(message.to_json(), opened.version, running.path, origin)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        found = [one for one in messages if isinstance(one, _Taken)]
        store = self._catalog.open().context.store
        opened = self._open()
        place = opened.found.location
        records = [job_records.resume(store, place, one.record) for one in found]
        for record in records[:1]:
            store.put(f"{record.tasks}/committing", b"")
        parts = [one.message for one in found]
        # Spark runs a task also where a batch is empty.
        origin = next((one.origin for one in found), None)
        job = Job.of_stream(self._query, batchId, origin).wrote(
            sum(one.rows for one in parts), sum(one.bytes for one in parts)
        )
        files = [f"{place}/{path}" for one in parts for path in one.files()]

        def check() -> None:
            for record in records:
                record.require()

        def make(now: Opened) -> Planned:
            self._require_columns(now, found)
            return Planned(lance.LanceOperation.Append(fragments_of(parts)))

        ctx = self._catalog.open().context
        try:
            commit_job(ctx, self._names, job, make, files=files, check=check)
        except CommitOutcomeUnknownError:
            raise
        except LanceNamespaceError:
            # Known not to have landed: the files are gone.
            for record in records:
                record.end()
            raise
        for record in records:
            record.end()

    def _require_columns(self, now: Opened, found: Sequence[_Taken]) -> None:
        options = dict(self._catalog.open().context.store.lance_options) or None
        for version in {one.version for one in found} - {now.version}:
            then = lance.dataset(now.dataset.uri, version=version, storage_options=options)
            require_same_columns(then, now.dataset, format_text(self._names))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        found = [one for one in messages if isinstance(one, _Taken)]
        store = self._catalog.open().context.store
        places = [one.record.split(f"/{FOLDER}/")[0] for one in found]
        records = [
            job_records.resume(store, place, one.record)
            for one, place in zip(found, places, strict=True)
        ]
        if any(store.head(f"{record.tasks}/committing") is not None for record in records):
            return  # The commit itself decides about the files.
        for one, place, record in zip(found, places, records, strict=True):
            store.delete([f"{place}/{path}" for path in one.message.files()])
            record.end()


def _origin() -> str:
    """Return the id of the checkpoint that the batch of this task is counted in."""
    context = TaskContext.get()
    found = None if context is None else context.getLocalProperty(_QUERY_ID)
    if not found:
        raise InternalError(
            "Spark did not tell the id of the streaming query, without which a new checkpoint "
            "cannot be told from the old one; nothing was written"
        )
    return found


def writer_of(
    told: str, catalog: CatalogRef, schema: StructType, overwrite: bool
) -> DataSourceStreamArrowWriter:
    """Return the writer that :func:`write_stream` asked for."""
    given: dict[str, Any] = json.loads(told)
    if overwrite:
        raise UnsupportedOperationError("a stream appends; output mode complete is not supported")
    return StreamWriter(catalog, tuple(given["names"]), given["query_id"], schema)
