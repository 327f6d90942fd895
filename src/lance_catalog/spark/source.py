"""The data source ``lance``: what Spark calls to plan and to run a read or a write.

Never ``pushFilters``: Spark 4.3 keeps the filters of one scan for all scans of a DataFrame and
then gives wrong rows. The filter is an option.

Options are text that plans and event logs show. A catalog's credentials therefore travel inside a
source class of its own (:func:`sealed_format`), as bytes that nobody prints.
"""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from lance_catalog.errors import TableColumnNotFoundError
from lance_catalog.spark.allocator import give_back
from lance_catalog.spark.batches import ReadPlan, to_spark
from lance_catalog.spark.catalogs import CatalogRef
from lance_catalog.spark.opening import (
    PinnedTable,
    open_location,
    pin,
    require_shared,
    storage_of,
)
from lance_catalog.spark.options import ReadOptions, location_of
from lance_catalog.spark.planning import Piece, batch_rows, measure_width, plan_pieces
from lance_catalog.spark.registering import activate, register
from lance_catalog.spark.scanning import MADE_BY_SCAN, batches_of, read_schema, stored_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["LanceSource", "sealed_format"]


class LanceSource(DataSource):
    """Lance tables, of a catalog (options ``root`` and ``table``) or by their path."""

    #: Options that are part of the class, not of any plan.
    sealed: ClassVar[Mapping[str, str]] = {}
    format_name: ClassVar[str] = "lance"

    def __init__(self, options: Mapping[str, str]) -> None:
        given = {key.lower(): value for key, value in options.items()}
        super().__init__({**given, **self.sealed})

    @classmethod
    def name(cls) -> str:
        return cls.format_name

    def schema(self) -> StructType:
        asked, table = self._pinned()
        # Spark keeps this object for the DataFrame, and with it the version: of this table, also
        # when another has its name by then.
        for key in ("tag", "as_of"):
            self.options.pop(key, None)
        known = {"version": str(table.version), "location": table.uri, "stamp": table.stamp}
        self.options.update(known)
        return read_schema(table.open(), asked, f"reading '{table.text}'")

    def reader(self, schema: StructType) -> DataSourceReader:
        asked, table = self._pinned()
        stored = table.open().schema.names
        known = {*stored, *MADE_BY_SCAN}
        for name in schema.names:
            if name not in known and name.split(".")[0] not in known:
                raise TableColumnNotFoundError(
                    f"reading '{table.text}': no column '{name}'; the table has "
                    f"{', '.join(stored)}. If it was attached before it changed, attach it again"
                )
        return LanceReader(table, asked, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from lance_catalog.spark.source_writer import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from lance_catalog.spark.streaming import stream_reader

        return stream_reader(self.options, schema)

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        from lance_catalog.spark.streaming import stream_writer

        return stream_writer(self.options, schema, overwrite)

    def _pinned(self) -> tuple[ReadOptions, PinnedTable]:
        asked = ReadOptions.from_options(self.options)
        location = location_of(self.options)
        require_shared(location)
        place = self.options.get("location")
        if place is not None and asked.version is not None:
            where, stamp = storage_of(location), self.options.get("stamp", "")
            return asked, PinnedTable(place, asked.version, str(location), where, stamp)
        dataset = open_location(location, version=asked.version, tag=asked.tag, as_of=asked.as_of)
        return asked, pin(location, dataset)


class LanceReader(DataSourceReader):
    """A read of one version: planned once, run by tasks."""

    def __init__(self, table: PinnedTable, options: ReadOptions, schema: StructType) -> None:
        self._table = table
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        dataset = self._table.open()
        columns = stored_columns(self._schema)
        pieces = plan_pieces(dataset, self._options, columns)
        if pieces:
            with self._table.reading():
                width = measure_width(dataset, columns)
            for piece in pieces:
                piece.rows = batch_rows(width, self._options.batch_bytes)
        return list(pieces)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, Piece):
            # Spark's stand-in for a plan without partitions.
            return
        dataset = self._table.open()
        plan = ReadPlan(self._schema, self._options.truncate_ns)
        try:
            with self._table.reading():
                found = batches_of(dataset, self._options, self._schema, partition, partition.rows)
                for batch in found:
                    yield to_spark(batch, plan)
        finally:
            give_back()


_sealed: weakref.WeakKeyDictionary[SparkSession, dict[CatalogRef, str]] = (
    weakref.WeakKeyDictionary()
)


def sealed_format(
    spark: SparkSession, catalog: CatalogRef, options: Mapping[str, str] | None = None
) -> str:
    """Return the name of a format for one catalog, with its credentials inside.

    ``spark.read.format(name).option("table", "db.events")`` reads it, and neither the plan nor
    the event log nor the UI shows a property of the catalog. ``options`` go inside too, as the
    table, where SQL leaves no room for any.
    """
    activate(spark)
    known = _sealed.setdefault(spark, {})
    if options is None and catalog in known:
        return known[catalog]
    name = f"lance_{uuid.uuid4().hex[:12]}"
    inside = {"catalog_token": catalog.to_token(), **(options or {})}
    # Not found in any module by its name, so Spark pickles the class itself, contents and all.
    made = type("SealedLanceSource", (LanceSource,), {"sealed": inside, "format_name": name})
    register(spark, made)
    if options is None:
        known[catalog] = name
    return name
