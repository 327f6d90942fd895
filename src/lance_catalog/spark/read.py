"""Reading a table of a catalog as a DataFrame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lance_catalog.spark.catalogs import CatalogLike, resolve, table_names
from lance_catalog.spark.opening import open_location, require_shared, stamp_of
from lance_catalog.spark.options import Location, ReadOptions
from lance_catalog.spark.predicates import Predicate, filter_text
from lance_catalog.spark.scanning import read_schema
from lance_catalog.spark.source import sealed_format

__all__ = ["parallelism_of", "read"]


def read(
    spark: SparkSession,
    catalog: CatalogLike,
    table: str | Sequence[str],
    *,
    columns: Sequence[str] | None = None,
    filter: str | Predicate | None = None,
    version: int | None = None,
    tag: str | None = None,
    as_of: datetime | int | str | None = None,
    limit: int | None = None,
    with_row_id: bool = False,
    nearest: Mapping[str, Any] | None = None,
    full_text: Mapping[str, Any] | str | None = None,
    batch_bytes: int | None = None,
    blobs: str = "bytes",
    truncate_ns: bool = False,
) -> DataFrame:
    """Return a table as a DataFrame: the version that is the latest now, or the one asked for.

    ``columns``, ``filter`` (Lance's SQL, or ``col("a") > 3``), ``limit`` and the searches run in
    Lance; what Spark's own ``select`` and ``where`` say later runs in Spark. ``nearest`` and
    ``full_text`` add ``_distance`` or ``_score``, and a filter then chooses whom to rank. The
    DataFrame keeps its version while the table changes; read again to see more.

    4 for a table that is not there or in the trash, 8 and 11 for a missing tag or version, 12 for
    a column, 13 for a filter Lance does not understand, 20 for a type Spark cannot hold.
    """
    location = Location(resolve(catalog), table_names(table))
    require_shared(location)
    asked = ReadOptions.make(
        columns=columns,
        filter=filter_text(filter),
        version=version,
        tag=tag,
        as_of=as_of,
        limit=limit,
        with_row_id=with_row_id,
        nearest=nearest,
        full_text=full_text,
        batch_bytes=batch_bytes,
        blobs=blobs,
        truncate_ns=truncate_ns,
        parallelism=parallelism_of(spark),
    )
    dataset = open_location(location, version=version, tag=tag, as_of=asked.as_of)
    schema = read_schema(dataset, asked, f"reading '{location}'")
    options = asked.to_options()
    for key in ("tag", "as_of"):
        options.pop(key, None)
    options |= {
        "version": str(dataset.version),
        "location": dataset.uri,
        "stamp": stamp_of(dataset),
        "table": location.to_option(),
    }
    assert location.catalog is not None
    source = sealed_format(spark, location.catalog)
    return spark.read.format(source).schema(schema).options(**options).load()


def parallelism_of(spark: SparkSession) -> int | None:
    """How many tasks run at once here; None where only the server knows."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except (AttributeError, NotImplementedError, RuntimeError):
        return None
