"""What Spark calls to run a write: its tasks write fragments, its end leaves or commits them.

Spark runs ``commit`` and ``abort`` in processes of their own. Our functions commit in the driver
instead, where a retry needs no data written again: their writer only notes which tasks Spark took.
A plain ``df.write.format("lance")`` has nobody else, so its writer commits itself.
"""

from __future__ import annotations

import json
import uuid
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from lance_catalog import failpoints
from lance_catalog.directory.job_records import alive
from lance_catalog.directory.jobs import Job
from lance_catalog.errors import InternalError, UnsupportedOperationError
from lance_catalog.spark.catalogs import CatalogRef
from lance_catalog.spark.commit import committed
from lance_catalog.spark.failures import spark_errors
from lance_catalog.spark.fragments import FragmentTarget, Message
from lance_catalog.spark.options import Location, location_of
from lance_catalog.spark.registering import activate, register
from lance_catalog.spark.sink import Sink
from lance_catalog.spark.types import arrow_schema_for, require_castable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Taken", "batch_writer", "job_format", "run_write"]


@dataclass
class Taken(WriterCommitMessage):
    """What a task told, as Spark carries it."""

    text: str

    @property
    def message(self) -> Message:
        return Message.from_json(self.text)


class Writer(DataSourceArrowWriter):
    """Tasks write fragments; the end notes which of them Spark took."""

    def __init__(self, catalog: CatalogRef, target: FragmentTarget) -> None:
        self._catalog = catalog
        self._target = target

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return Taken(self._target.write(self._catalog, iterator).to_json())

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        found = [one.text for one in messages if isinstance(one, Taken)]
        failpoints.hit("job.tasks_done")
        self._put("taken", json.dumps(found).encode())

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Leave it to the driver, which knows what all tasks wrote."""

    def _put(self, name: str, body: bytes) -> None:
        self._catalog.open().context.store.put(f"{self._target.tasks}/{name}", body)


class JobSource(DataSource):
    """The source behind our own functions: its one option is what the job is to do."""

    catalog: ClassVar[CatalogRef]
    format_name: ClassVar[str]
    #: Options of another store, of files that are read; None for the catalog's own.
    storage: ClassVar[Mapping[str, str] | None] = None

    @classmethod
    def name(cls) -> str:
        return cls.format_name

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        if "deletions" in self.options:
            from lance_catalog.spark.merge import DeletionWriter

            return DeletionWriter(self.catalog, self.options["deletions"])
        return Writer(self.catalog, FragmentTarget.from_json(self.options["target"]))

    def reader(self, schema: StructType) -> DataSourceReader:
        if "ingest" in self.options:
            from lance_catalog.spark.ingest import IngestReader

            return IngestReader(self.catalog, self.options["ingest"], self.storage)
        from lance_catalog.spark.merge import KeyReader

        return KeyReader(self.catalog, self.options["keys"], schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from lance_catalog.spark.stream_reading import reader_of

        names = tuple(json.loads(self.options["table"]))
        return reader_of(self.options["stream"], Location(self.catalog, names), schema)

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        from lance_catalog.spark.streaming import writer_of

        return writer_of(self.options["stream"], self.catalog, schema, overwrite)


_formats: weakref.WeakKeyDictionary[SparkSession, dict[CatalogRef, str]] = (
    weakref.WeakKeyDictionary()
)


def job_format(
    spark: SparkSession, catalog: CatalogRef, storage: Mapping[str, str] | None = None
) -> str:
    """Return the name of the format of our jobs in one catalog, its credentials inside.

    ``storage`` goes inside too: what opens the files that a job reads.
    """
    activate(spark)
    known = _formats.setdefault(spark, {})
    if catalog not in known or storage is not None:
        name = f"lance_job_{uuid.uuid4().hex[:12]}"
        # Not found in any module by its name, so Spark pickles the class itself, contents and all.
        inside: dict[str, Any] = {
            "catalog": CatalogRef(catalog.root, catalog.properties),
            "format_name": name,
            "storage": None if storage is None else dict(storage),
        }
        register(spark, type("SealedJobSource", (JobSource,), inside))
        if storage is not None:
            return name
        known[catalog] = name
    return known[catalog]


def run_write(df: DataFrame, sink: Sink) -> list[Message]:
    """Let Spark write a DataFrame's rows; return what the tasks told that it took."""
    with spark_errors(f"writing to '{sink.target.text}'"):
        speculation = df.sparkSession.conf.get("spark.speculation", "false")
        sink.speculative = str(speculation).lower() == "true"
        writer = df.write.format(job_format(df.sparkSession, sink.ref))
        writer.option("target", sink.target.to_json()).mode("append").save()
    return taken(sink)


def taken(sink: Sink) -> list[Message]:
    """Return the messages of the tasks that Spark took; the files of all others are removed."""
    body = sink.ctx.store.get(f"{sink.target.tasks}/taken")
    if body is None:
        raise InternalError(
            f"Spark ended the write to '{sink.target.text}' without telling what it wrote"
        )
    chosen = [Message.from_json(text) for text in json.loads(body)]
    sink.take(chosen)
    return chosen


# format("lance").


class DirectWriter(Writer):
    """The writer of ``df.write.format("lance")``: commits in Spark's own commit step."""

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink.ref, sink.target)
        self._sink = sink

    def __getstate__(self) -> dict[str, Any]:
        return {"text": _pack(self._sink)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(_unpack(state["text"]))  # type: ignore[misc]

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        # The driver is Spark's own: nobody there renews the record.
        with alive(self._sink.running):
            return super().write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        # From here on the commit itself decides about the files, and an abort must not.
        self._put("committing", b"")
        found = [one.message for one in messages if isinstance(one, Taken)]
        self._sink.take(found)
        committed(self._sink, found, self._sink.mode)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._sink.ctx.store.head(f"{self._target.tasks}/committing") is None:
            self._sink.give_up()


def _pack(sink: Sink) -> dict[str, Any]:
    """Return a sink as what can be pickled: whoever unpacks it opens the catalog anew."""
    made = sink.creation
    return {
        "ref": CatalogRef(sink.ref.root, sink.ref.properties),
        "names": sink.names,
        "job": sink.job,
        "mode": sink.mode,
        "target": sink.target.to_json(),
        "record": sink.running.path,
        "properties": dict(sink.properties),
        "creation": None if made is None else (made.declared, made.over),
    }


def _unpack(told: Mapping[str, Any]) -> Sink:
    from lance_catalog.directory import job_records
    from lance_catalog.directory.job_creation import Creation
    from lance_catalog.spark.sink import reopened

    ref: CatalogRef = told["ref"]
    ctx, target = ref.open().context, FragmentTarget.from_json(told["target"])
    running = job_records.resume(ctx.store, target.place, told["record"])
    sink = Sink(ref, told["names"], told["job"], told["mode"], target, running, told["properties"])
    if told["creation"] is not None:
        declared, over = told["creation"]
        sink.creation = Creation(ctx, sink.names, target.place, declared, over)
    else:
        sink.base = reopened(sink)
    return sink


def batch_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> DataSourceWriter:
    """Return the writer of ``df.write.format("lance")`` for a table of a catalog."""
    from lance_catalog.spark.sink import open_sink

    given = {key.lower(): value for key, value in options.items()}
    location = location_of(given)
    if location.catalog is None:
        raise UnsupportedOperationError(
            "a plain path is read only here, for without a catalog nobody decides between two "
            "writers; give the options root and table, or use lance_catalog.spark.write"
        )
    job = Job.named(given.get("job_id") or None)
    mode = "overwrite" if overwrite else "append"
    vectors = {
        name: int(size)
        for name, _, size in (part.partition(":") for part in given.get("vectors", "").split(","))
        if name
    }
    made = arrow_schema_for(schema, vectors) if overwrite else None
    sink = open_sink(location.catalog, location.names, mode, job, made)
    if mode == "append":
        require_castable(schema, sink.target.schema)
    return DirectWriter(sink)
