"""Reading a table as a stream: offsets are its versions, and rows come once, when inserted.

What a version inserted is what its transaction says it did, not which fragments are new: a
compaction makes new fragments of old rows. An offset also tells by what its version was known, so
that a table made anew under the name is not taken for the one that was read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import lance
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from lance_catalog.directory.operations.access import lance_errors
from lance_catalog.errors import InternalError, InvalidInputError, TableVersionNotFoundError
from lance_catalog.spark.batches import ReadPlan, to_spark
from lance_catalog.spark.opening import PinnedTable, open_location, pin, stamp_of
from lance_catalog.spark.options import Location, ReadOptions
from lance_catalog.spark.planning import Piece, Width, batch_rows, measure_width
from lance_catalog.spark.scanning import batches_of, stored_columns

__all__ = ["StreamReader"]

#: Bytes of files that make a task.
_TASK: Final = 128 << 20
#: The version a stream has read up to, and what it was known by.
_Offset = dict[str, Any]


class _Part(InputPartition):
    """Some fragments of one version."""

    def __init__(self, table: PinnedTable, fragments: Sequence[int], rows: int) -> None:
        self.table = table
        self.fragments = list(fragments)
        #: How many rows Lance decodes at a time.
        self.rows = rows


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Yields the rows that versions inserted.

    The first batch is the table as it is when the query starts; with ``starting_version`` it
    begins after that version instead. Rows that updates and merges wrote come only with
    ``include_updates``; deletions, compactions and changes of columns yield nothing.
    """

    def __init__(
        self,
        location: Location,
        schema: StructType,
        *,
        starting_version: int | None = None,
        include_updates: bool = False,
        filter: str | None = None,
    ) -> None:
        if starting_version is not None and starting_version < 0:
            raise InvalidInputError(f"starting_version is {starting_version}; expected 0 or more")
        self._location = location
        self._schema = schema
        self._start = starting_version
        self._updates = include_updates
        self._options = ReadOptions(filter=filter)
        #: Where a query ends that reads what there is and stops.
        self._target: _Offset | None = None

    def initialOffset(self) -> _Offset:  # noqa: N802
        # -1: nothing was read yet, so the first batch is the whole table.
        return {"version": -1 if self._start is None else self._start}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Note what there is now. Else Spark would stop after a batch that it repeats."""
        dataset = open_location(self._location)
        self._target = {"version": int(dataset.version), "stamp": stamp_of(dataset)}

    def latestOffset(self, start: _Offset, limit: Any) -> _Offset:  # noqa: N802
        latest = self._latest(start)
        if self._target is not None and self._target["version"] < latest["version"]:
            latest = self._target
        # Spark compares texts.
        return start if latest["version"] <= start["version"] else latest

    def _latest(self, start: _Offset) -> _Offset:
        dataset = open_location(self._location)
        latest, read = int(dataset.version), int(start["version"])
        # A table that was dropped and made anew counts from 1 again.
        if latest < read:
            raise self._another(f"up to version {read}, and its latest is {latest}")
        if latest == read:
            self._require_same(dataset, start)
        elif start.get("stamp"):
            try:
                then = open_location(self._location, version=read)
            except (TableVersionNotFoundError, InternalError):
                then = None  # Cleaned up since it was read.
            if then is not None:
                self._require_same(then, start)
        return {"version": latest, "stamp": stamp_of(dataset)}

    def _require_same(self, dataset: Any, offset: _Offset) -> None:
        if offset.get("stamp", "") not in ("", stamp_of(dataset)):
            raise self._another(f"up to another version {dataset.version}")

    def _another(self, how: str) -> TableVersionNotFoundError:
        return TableVersionNotFoundError(
            f"the stream has read '{self._location}' {how}: it is another table by now. Start "
            "with a new checkpoint."
        )

    def partitions(self, start: _Offset, end: _Offset) -> list[InputPartition]:
        first, last = int(start["version"]), int(end["version"])
        if last <= first:
            return []
        latest = self._open(last)
        self._require_same(latest, end)
        with lance_errors(f"planning a read of '{self._location}'"):
            width = measure_width(latest, stored_columns(self._schema))
        if first < 0:
            return list(self._parts(latest, latest.get_fragments(), width))
        found: list[InputPartition] = []
        for version in range(first + 1, last + 1):
            found += self._inserted(latest if version == last else self._open(version), width)
        return found

    def _open(self, version: int) -> Any:
        try:
            return open_location(self._location, version=version)
        except (TableVersionNotFoundError, InternalError) as error:
            # Of a managed table it crossed Rust, as a text.
            gone = isinstance(error, TableVersionNotFoundError)
            if not gone and "version not found" not in str(error).lower():
                raise
            raise TableVersionNotFoundError(
                f"version {version} of '{self._location}' was cleaned up before the stream read "
                "it, so what it inserted cannot be told any more. Start again with a new "
                "checkpoint, or from starting_version, and keep versions longer than the stream "
                "may lag."
            ) from error

    def _inserted(self, dataset: Any, width: Width) -> Iterator[_Part]:
        version = int(dataset.version)
        with lance_errors(f"reading version {version} of '{self._location}'"):
            try:
                transaction = dataset.read_transaction(version)
            except TypeError:
                return  # A compaction that rewrote an index; pylance 14.0.2 cannot show it.
            operation = None if transaction is None else transaction.operation
            kinds = lance.LanceOperation
            if isinstance(operation, kinds.Overwrite):
                yield from self._parts(dataset, dataset.get_fragments(), width)
                return
            if isinstance(operation, kinds.Append):
                new = operation.fragments
            elif isinstance(operation, kinds.Update) and self._updates:
                new = operation.new_fragments
            else:
                return
            # They have no numbers yet in the transaction; their files tell them.
            paths = {file.path for one in new for file in one.files}
            chosen = [
                one
                for one in dataset.get_fragments()
                if any(file.path in paths for file in one.metadata.files)
            ]
        yield from self._parts(dataset, chosen, width)

    def _parts(self, dataset: Any, fragments: Sequence[Any], width: Width) -> Iterator[_Part]:
        table = pin(self._location, dataset)
        group: list[int] = []
        size, rows = 0, batch_rows(width, self._options.batch_bytes)
        whole = len(stored_columns(self._schema)) == len(dataset.schema.names)
        for one in fragments:
            more = sum(file.file_size_bytes or 0 for file in one.metadata.files)
            # New rows may be wider than those that were looked at.
            each = more // max(1, one.physical_rows) if whole else 0
            rows = min(rows, batch_rows(Width(each, each), self._options.batch_bytes))
            if group and size + more > _TASK:
                yield _Part(table, group, rows)
                group, size = [], 0
            group.append(one.fragment_id)
            size += more
        if group:
            yield _Part(table, group, rows)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, _Part):
            return
        plan = ReadPlan(self._schema)
        with lance_errors(f"reading '{self._location}'"):
            dataset, piece = partition.table.open(), Piece(partition.fragments)
            asked = self._options
            for batch in batches_of(dataset, asked, self._schema, piece, partition.rows):
                yield to_spark(batch, plan)


def reader_of(told: str, location: Location, schema: StructType) -> StreamReader:
    """Return the reader that :func:`lance_catalog.spark.streaming.read_stream` asked for."""
    given: Mapping[str, Any] = json.loads(told)
    return StreamReader(location, schema, **given)
