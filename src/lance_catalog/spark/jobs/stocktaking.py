"""``inventory``: how large, how old and in how many pieces every table is."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from lance_catalog.errors import InvalidTableStateError
from lance_catalog.spark.catalogs import CatalogLike, CatalogRef, resolve
from lance_catalog.spark.jobs.scope import Scope, chosen, frame
from lance_catalog.spark.jobs.sweep import Item, Progress, Row, sweep

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lance_catalog.directory.namespace import DirectoryNamespace

__all__ = ["COLUMNS", "inventory"]

COLUMNS: Final = (
    "rows bigint, bytes bigint, versions int, fragments int, deleted_rows bigint, indices int, "
    "columns int, version bigint, updated timestamp, age_seconds double, location string"
)


def inventory(
    spark: SparkSession,
    catalog: CatalogLike,
    scope: Scope = None,
    *,
    tasks: int | None = None,
    threads: int = 8,
    retries: int = 3,
    progress: Progress | None = None,
) -> DataFrame:
    """Return a row for each table: rows, bytes, versions, fragments, indices, age.

    Of a table, a namespace with all below it, or the whole catalog. Reads metadata only. A table
    that is only declared has ``status`` ``declared``; one that cannot be read has ``failed``.
    """
    ref = resolve(catalog)
    items = [Item(names) for names in chosen(ref.open(), scope)]
    # One look at the catalog serves many tables: what comes meanwhile, the next inventory has.
    patient = CatalogRef(ref.root, {"read_consistency_interval": 10, **ref.properties})
    found = sweep(
        spark,
        patient,
        items,
        _look,
        COLUMNS,
        threads=threads,
        tasks=tasks,
        # A look takes a fraction of a millisecond on a disk, a task some tens.
        least=100,
        retries=retries,
        progress=progress,
        live=True,
    )
    return frame(spark, sorted(found, key=lambda row: row["id"]), COLUMNS)


def _look(catalog: DirectoryNamespace, item: Item) -> list[Row]:
    try:
        dataset: Any = catalog.open_table(list(item.names))
    except InvalidTableStateError:
        described = catalog.describe_table({"id": list(item.names), "check_declared": True})
        if not described.is_only_declared:
            raise
        empty = dict.fromkeys(("rows", "bytes", "versions", "fragments", "deleted_rows"), 0)
        return [{**empty, "indices": 0, "location": described.location, "status": "declared"}]
    told = dataset.get_version()
    counted = told["metadata"]
    # Lance tells the time of a version in the zone of this machine, without saying so.
    updated = told["timestamp"].astimezone(UTC)
    return [
        {
            "rows": int(counted.get("total_rows", 0)),
            "bytes": int(counted.get("total_files_size", 0)),
            "versions": len(catalog.list_table_versions({"id": list(item.names)}).versions),
            "fragments": int(counted.get("total_fragments", 0)),
            "deleted_rows": int(counted.get("total_deletion_file_rows", 0)),
            "indices": len(dataset.describe_indices()),
            "columns": len(dataset.schema.names),
            "version": dataset.version,
            "updated": updated,
            "age_seconds": (datetime.now(UTC) - updated).total_seconds(),
            "location": dataset.uri,
        }
    ]
