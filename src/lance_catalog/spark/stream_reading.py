"""Reading a table as a stream: offsets are its versions, and rows come once, when inserted.

What a version inserted is what its transaction says it did, not which fragments are new: a
compaction makes new fragments of old rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import lance
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from lance_catalog.directory.operations.access import lance_errors
from lance_catalog.errors import InternalError, InvalidInputError, TableVersionNotFoundError
from lance_catalog.spark.batches import ReadPlan, to_spark
from lance_catalog.spark.opening import PinnedTable, open_location, pin
from lance_catalog.spark.options import Location

__all__ = ["StreamReader"]

#: Bytes of files that make a task.
_TASK: Final = 128 << 20
_ROWS: Final = 16_384


class _Part(InputPartition):
    """Some fragments of one version."""

    def __init__(self, table: PinnedTable, fragments: Sequence[int]) -> None:
        self.table = table
        self.fragments = list(fragments)


class StreamReader(DataSourceStreamReader):
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
        self._filter = filter

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        # -1: nothing was read yet, so the first batch is the whole table.
        return {"version": -1 if self._start is None else self._start}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:  # noqa: N802
        latest = int(open_location(self._location).version)
        # A table that was dropped and made anew counts from 1 again.
        if latest < start["version"]:
            raise TableVersionNotFoundError(
                f"the stream has read '{self._location}' up to version {start['version']}, and its "
                f"latest is {latest}: it is another table by now. Start with a new checkpoint."
            )
        return {"version": latest}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        first, last = int(start["version"]), int(end["version"])
        if last <= first:
            return []
        if first < 0:
            dataset = self._open(last)
            return list(self._parts(dataset, dataset.get_fragments()))
        found: list[InputPartition] = []
        for version in range(first + 1, last + 1):
            found += self._inserted(version)
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

    def _inserted(self, version: int) -> Iterator[_Part]:
        dataset = self._open(version)
        with lance_errors(f"reading version {version} of '{self._location}'"):
            try:
                transaction = dataset.read_transaction(version)
            except TypeError:
                return  # A compaction that rewrote an index; pylance 14.0.2 cannot show it.
            operation = None if transaction is None else transaction.operation
            kinds = lance.LanceOperation
            if isinstance(operation, kinds.Overwrite):
                yield from self._parts(dataset, dataset.get_fragments())
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
        yield from self._parts(dataset, chosen)

    def _parts(self, dataset: Any, fragments: Sequence[Any]) -> Iterator[_Part]:
        table = pin(self._location, dataset)
        group: list[int] = []
        size = 0
        for one in fragments:
            more = sum(file.file_size_bytes or 0 for file in one.metadata.files)
            if group and size + more > _TASK:
                yield _Part(table, group)
                group, size = [], 0
            group.append(one.fragment_id)
            size += more
        if group:
            yield _Part(table, group)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, _Part):
            return
        plan = ReadPlan(self._schema)
        with lance_errors(f"reading '{self._location}'"):
            dataset = partition.table.open()
            scanner = dataset.scanner(
                columns=list(self._schema.names),
                filter=self._filter,
                fragments=[dataset.get_fragment(number) for number in partition.fragments],
                batch_size=_ROWS,
                blob_handling="all_binary",
            )
            for batch in scanner.to_reader():
                if batch.num_rows:
                    yield to_spark(batch, plan)


def reader_of(told: str, location: Location, schema: StructType) -> StreamReader:
    """Return the reader that :func:`lance_catalog.spark.streaming.read_stream` asked for."""
    given: Mapping[str, Any] = json.loads(told)
    return StreamReader(location, schema, **given)
