"""A Python source that has its batches ready: what any of them costs at the least."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

__all__ = ["drained"]

#: As our own reader sends them: larger ones are slower.
_BATCH_BYTES = 2 << 20
_MOST_ROWS = 32_768
_TASKS = 2


class _Reader(DataSourceReader):
    def __init__(self, path: str, columns: list[str] | None, rows: int) -> None:
        self._path, self._columns, self._rows = path, columns, rows

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(_TASKS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        batch = next(pq.ParquetFile(self._path).iter_batches(_MOST_ROWS, columns=self._columns))
        rows = max(1, _BATCH_BYTES * batch.num_rows // batch.nbytes)
        batch = batch.slice(0, min(rows, batch.num_rows))
        left = self._rows // _TASKS
        while left > 0:
            yield batch if left >= batch.num_rows else batch.slice(0, left)
            left -= batch.num_rows


def drained(session: Any, path: str, columns: list[str] | None, rows: int) -> Callable[[], None]:
    """Return a call that lets Spark read so many rows of made-up batches."""
    schema = pq.read_schema(path)
    if columns is not None:
        schema = pa.schema([schema.field(name) for name in columns])
    name = f"floor_{abs(hash((path, tuple(columns or ()))))}"

    class Floor(DataSource):
        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> StructType:
            return from_arrow_schema(schema)

        def reader(self, schema: StructType) -> DataSourceReader:
            return _Reader(path, columns, rows)

    session.dataSource.register(Floor)

    def drain() -> None:
        session.read.format(name).load().write.format("noop").mode("overwrite").save()

    return drain
