"""A distributed upsert by key: rows whose keys are there are replaced, the others added.

The source is evaluated once: its rows become new fragments, and its keys are left beside them.
Spark joins these with the keys of the table at version N to find the rows that go; each touched
fragment gets a deletion vector, and one operation swaps old rows for new as version N+1. When
somebody committed meanwhile only the join runs again.
"""

from __future__ import annotations

import functools
import json
import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import lance
import numpy as np
import pyarrow as pa
from lance.fragment import FragmentMetadata
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import LongType, StructField, StructType

from lance_catalog import failpoints
from lance_catalog.directory.job_ids import Job
from lance_catalog.directory.jobs import Done, Opened, Planned, commit_job
from lance_catalog.directory.operations.access import lance_errors
from lance_catalog.errors import (
    CommitOutcomeUnknownError,
    InvalidInputError,
    LanceNamespaceError,
    TableColumnNotFoundError,
    TableSchemaValidationError,
)
from lance_catalog.identifiers import Identifier
from lance_catalog.spark.batches import ReadPlan, to_spark
from lance_catalog.spark.catalogs import CatalogRef
from lance_catalog.spark.failures import spark_errors
from lance_catalog.spark.fragments import Message, attempt_number, fragments_of
from lance_catalog.spark.results import WriteResult, result_of
from lance_catalog.spark.sink import Sink
from lance_catalog.spark.source_writer import Taken, job_format, run_write
from lance_catalog.spark.types import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["DeletionWriter", "KeyReader", "Merger", "merge", "merger_for"]

#: How often others may commit while the join runs, before the merge gives up.
MAX_CONFLICTS: Final = 8
_ADDRESS: Final = "_rowaddr"
#: No key is called so.
_COUNT: Final = "__lance_catalog_count__"
#: What one task reads of a table's keys, or of those that other tasks left.
_ROWS: Final = 1 << 20
_PARTS: Final = 256
_SAMPLES: Final = 5


def merge(
    df: DataFrame, ref: CatalogRef, names: Identifier, keys: Sequence[str], job: Job
) -> WriteResult:
    """Merge a DataFrame into a table by key; once per job."""
    merger = merger_for(df, ref, names, keys, job)
    try:
        merger.write(df)
    except BaseException:
        merger.sink.give_up()
        raise
    try:
        done = merger.commit()
    except CommitOutcomeUnknownError:
        merger.sink.running.stop()
        raise
    except LanceNamespaceError:
        merger.sink.finish(merger.messages)
        raise
    except BaseException:
        # Interrupted: nobody knows how far it came.
        merger.sink.running.stop()
        raise
    merger.sink.finish(merger.messages)
    return result_of(names, merger.job, done)


def merger_for(
    df: DataFrame, ref: CatalogRef, names: Identifier, keys: Sequence[str], job: Job
) -> Merger:
    """Check a merge before anything runs."""
    from lance_catalog.spark.write import sink_for

    for key in keys:
        if key not in df.columns:
            raise TableColumnNotFoundError(
                f"key '{key}' is no column of the DataFrame, which has {', '.join(df.columns)}"
            )
    sink = sink_for(df, ref, names, "merge", job, keys=tuple(dict.fromkeys(keys)))
    try:
        for key in sink.target.keys:
            kind = sink.target.schema.field(key).type
            if pa.types.is_nested(kind):
                raise InvalidInputError(f"key '{key}' is {kind}; a key is a column of plain values")
    except LanceNamespaceError:
        sink.running.end()
        raise
    return Merger(sink, df.sparkSession)


@dataclass
class Merger:
    """One merge: its new fragments, and the deletions for the version it is planned on."""

    sink: Sink
    spark: SparkSession
    messages: Sequence[Message] = ()

    @property
    def job(self) -> Job:
        rows = sum(one.rows for one in self.messages)
        return self.sink.job.wrote(rows, sum(one.bytes for one in self.messages))

    def write(self, df: DataFrame) -> None:
        """Write the source as new fragments, and refuse (13) keys that come twice or are null."""
        self.messages = run_write(df, self.sink)
        # Ten thousand tasks are no option of a plan.
        parts = [(one.id, one.rows) for one in self.messages if one.rows]
        body = json.dumps(_grouped(parts)).encode()
        self.sink.ctx.store.put(f"{self.sink.target.tasks}/keys", body)
        self._require_unique()

    def files(self) -> list[str]:
        """Return the data files of the new rows."""
        place = self.sink.target.place
        return [f"{place}/{path}" for one in self.messages for path in one.files()]

    def commit(self) -> Done:
        """Commit, joined again for every version that others put in between."""
        return commit_job(
            self.sink.ctx,
            self.sink.names,
            self.job,
            self.plan,
            files=self.files(),
            max_conflicts=MAX_CONFLICTS,
            check=lambda: self.sink.running.require(self.files()),
        )

    def plan(self, now: Opened) -> Planned:
        """Return the operation that swaps old rows for new on top of a version."""
        new = fragments_of(self.messages)
        # Where it is, and that its columns are still those that were written.
        append = self.sink.operation(now, new)
        found = self._deletions(now) if new else []
        updated = [FragmentMetadata.from_json(text) for one in found for text in one.updated]
        removed = [number for one in found for number in one.removed]
        place = self.sink.target.place
        files = [f"{place}/{path}" for one in found for path in one.others]
        if not updated and not removed:
            return Planned(append, files)
        operation = lance.LanceOperation.Update(
            removed_fragment_ids=removed, updated_fragments=updated, new_fragments=new
        )
        return Planned(operation, files)

    def _keys(self, told: dict[str, Any], *, address: bool) -> DataFrame:
        """Return keys as a DataFrame: of the source, or of the table with the rows' addresses."""
        target = self.sink.target
        schema = spark_schema(pa.schema([target.schema.field(key) for key in target.keys]))
        if address:
            schema = StructType([*schema.fields, StructField(_ADDRESS, LongType())])
        told |= {"place": target.place, "tasks": target.tasks, "keys": list(target.keys)}
        reader = self.spark.read.format(job_format(self.spark, self.sink.ref)).schema(schema)
        return reader.option("keys", json.dumps(told)).load()

    def _source(self) -> DataFrame:
        return self._keys({"source": True}, address=False)

    def _require_unique(self) -> None:
        keys = list(self.sink.target.keys)
        if not any(one.rows for one in self.messages):
            return
        with spark_errors(f"looking at the keys for '{self.sink.target.text}'"):
            empty = self._source().where(" or ".join(f"{_quoted(key)} is null" for key in keys))
            missing = empty.limit(1).count()
            grouped = self._source().groupBy(*map(_quoted, keys))
            counted = grouped.agg(F.count("*").alias(_COUNT)).where(F.col(_quoted(_COUNT)) > 1)
            twice = counted.limit(_SAMPLES).collect()
        if missing:
            raise InvalidInputError(
                f"a key of the merge into '{self.sink.target.text}' is null, in a row of the "
                f"source (keys: {', '.join(keys)}); leave such rows out"
            )
        if twice:
            shown = "; ".join(
                ", ".join(f"{key}={row[key]!r}" for key in keys) + f" ({row[_COUNT]} rows)"
                for row in twice
            )
            raise InvalidInputError(
                f"the source of the merge into '{self.sink.target.text}' has keys that come more "
                f"than once, so which row counts is not said: {shown}. Keep one row per key, as "
                f"by df.dropDuplicates({keys})"
            )

    def _deletions(self, now: Opened) -> list[Message]:
        """Find the rows of a version whose keys come, and have their deletion vectors written."""
        keys = list(self.sink.target.keys)
        target = self.sink.target
        parts = max(1, len(now.dataset.get_fragments()))
        told: dict[str, Any] = {"version": now.version}
        with spark_errors(f"merging into '{target.text}'"):
            old = self._keys(dict(told), address=True).alias("old")
            new = self._source().alias("new")
            # As Spark compares: NaN is itself, 0.0 is -0.0, and no null is anything.
            pairs = ((F.col(f"old.{_quoted(k)}"), F.col(f"new.{_quoted(k)}")) for k in keys)
            same = functools.reduce(operator.and_, (one == other for one, other in pairs))
            gone = old.join(new, on=same, how="leftsemi").select(_ADDRESS)
            fragment = F.shiftright(F.col(_ADDRESS), 32)
            spread = gone.repartition(min(parts, 200), fragment)
            writer = spread.write.format(job_format(self.spark, self.sink.ref))
            tasks = f"{target.tasks}/{now.version}"
            told |= {"place": target.place, "tasks": tasks, "text": target.text}
            writer.option("deletions", json.dumps(told)).mode("append").save()
        body = self.sink.ctx.store.get(f"{tasks}/taken")
        found = [Message.from_json(text) for text in json.loads(body or b"[]")]
        if any(one.attempt for one in found):
            self.sink.speculative = True  # One that was killed may have left its vectors.
        return found


def _grouped(parts: Iterable[tuple[Any, int]]) -> list[list[Any]]:
    """Return parts with their rows as what the tasks read: small ones share one."""
    groups: list[list[Any]] = []
    rows = 0
    for part, count in parts:
        if not groups or rows + count > _ROWS or len(groups[-1]) == _PARTS:
            groups.append([])
            rows = 0
        groups[-1].append(part)
        rows += count
    return groups


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


class KeyReader(DataSourceReader):
    """Reads keys: those that tasks left, or those of a table with the addresses of its rows."""

    def __init__(self, catalog: CatalogRef, told: str, schema: StructType) -> None:
        self._catalog = catalog
        self._told = json.loads(told)
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        if "source" in self._told:
            body = self._catalog.open().context.store.get(f"{self._told['tasks']}/keys")
            return [InputPartition(group) for group in json.loads(body or b"[]")]
        fragments = _table(self._catalog, self._told).get_fragments()
        parts = ((one.fragment_id, one.physical_rows) for one in fragments)
        return [InputPartition(group) for group in _grouped(parts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        plan = ReadPlan(self._schema)
        if partition.value is None:
            return  # Spark's stand-in for a plan without partitions.
        found = self._left if "source" in self._told else self._scanned
        for batch in found(partition.value):
            try:
                yield to_spark(batch, plan)
            except TableSchemaValidationError as error:
                raise InvalidInputError(
                    f"a merge compares keys as Spark holds them: {str(error).partition(';')[0]}"
                ) from error

    def _left(self, tasks: Sequence[str]) -> Iterator[pa.RecordBatch]:
        store = self._catalog.open().context.store
        for task in tasks:
            body = store.get(f"{self._told['tasks']}/{task}.arrow")
            file = pa.ipc.open_file(pa.py_buffer(body or b""))
            yield from (file.get_batch(number) for number in range(file.num_record_batches))

    def _scanned(self, fragments: Sequence[int]) -> Iterator[pa.RecordBatch]:
        with lance_errors("reading the keys of a table"):
            dataset = _table(self._catalog, self._told)
            chosen = [dataset.get_fragment(number) for number in fragments]
            keys = self._told["keys"]
            scanner = dataset.scanner(columns=keys, fragments=chosen, with_row_address=True)
            yield from scanner.to_reader()


class DeletionWriter(DataSourceArrowWriter):
    """Writes the deletion vectors of the fragments whose rows a task is given."""

    def __init__(self, catalog: CatalogRef, told: str) -> None:
        self._catalog = catalog
        self._told = json.loads(told)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        found = [batch.column(0) for batch in iterator if batch.num_rows]
        if not found:
            return Taken(Message().to_json())
        # As numbers of Python's they would be five times as large.
        ordered = np.sort(pa.concat_arrays(found).to_numpy())
        numbers, firsts = np.unique(ordered >> 32, return_index=True)
        groups = np.split(ordered & 0xFFFFFFFF, firsts[1:])
        updated, removed, others = [], [], []
        with lance_errors(f"merging into '{self._told['text']}'"):
            dataset = _table(self._catalog, self._told)
            for number, offsets in zip(numbers.tolist(), groups, strict=True):
                after = dataset.get_fragment(number).delete_rows(offsets.tolist())
                if after is None:
                    removed.append(number)
                else:
                    updated.append(json.dumps(after.to_json()))
                    others.append(_deletion_file(after))
        failpoints.hit("job.deletions_written")
        message = Message(
            updated=tuple(updated),
            removed=tuple(removed),
            others=tuple(others),
            attempt=attempt_number(),
        )
        return Taken(message.to_json())

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        found = [one.text for one in messages if isinstance(one, Taken)]
        store = self._catalog.open().context.store
        store.put(f"{self._told['tasks']}/taken", json.dumps(found).encode())

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        place = self._told["place"]
        found = [one.message for one in messages if isinstance(one, Taken)]
        paths = [f"{place}/{path}" for one in found for path in one.others]
        self._catalog.open().context.store.delete(paths)


def _table(catalog: CatalogRef, told: dict[str, Any]) -> Any:
    store = catalog.open().context.store
    uri, options = store.uri_of(told["place"]), dict(store.lance_options) or None
    return lance.dataset(uri, version=told["version"], storage_options=options)


_ENDINGS: Final = {"array": "arrow", "bitmap": "bin"}


def _deletion_file(fragment: Any) -> str:
    told = json.loads(fragment.deletion_file.json())
    name = f"{fragment.id}-{told['read_version']}-{told['id']}.{_ENDINGS[told['file_type']]}"
    return f"_deletions/{name}"
