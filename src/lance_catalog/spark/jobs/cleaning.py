"""``cleanup`` and ``purge``: old versions and expired tables go, table by table, on executors."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from lance_catalog.directory import trashing
from lance_catalog.directory.managed.cleanup import Rule
from lance_catalog.directory.redoing import reopen_names
from lance_catalog.errors import InvalidTableStateError, TableNotFoundError
from lance_catalog.spark.catalogs import CatalogLike, resolve
from lance_catalog.spark.jobs.pinned import is_gone
from lance_catalog.spark.jobs.scope import Scope, chosen, frame
from lance_catalog.spark.jobs.sweep import Item, Progress, Row, outcome, sweep

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lance_catalog.directory.namespace import DirectoryNamespace

__all__ = ["CLEANUP_COLUMNS", "PURGE_COLUMNS", "cleanup", "purge"]

CLEANUP_COLUMNS: Final = "versions int, bytes bigint, oldest_kept bigint, tagged int"
PURGE_COLUMNS: Final = "drop_id string, dropped timestamp, objects bigint, bytes bigint"


def cleanup(
    spark: SparkSession,
    catalog: CatalogLike,
    scope: Scope = None,
    *,
    older_than: str | float | None = None,
    keep: int | None = None,
    dry_run: bool = False,
    tasks: int | None = None,
    threads: int = 4,
    retries: int = 3,
    progress: Progress | None = None,
) -> DataFrame:
    """Remove old versions, and the data only they use, of a table, a namespace or all tables.

    ``older_than`` is an age, as ``"14d"`` (the default) or seconds; ``keep`` is how many of the
    newest stay whatever their age. The latest and the tagged ones always stay. With ``dry_run``
    nothing is removed, and ``versions`` is how many would be.
    """
    Rule.of(older_than, keep)
    ref = resolve(catalog)
    items = [Item(names, (older_than, keep, dry_run)) for names in chosen(ref.open(), scope)]
    found = sweep(
        spark,
        ref,
        items,
        _clean,
        CLEANUP_COLUMNS,
        threads=threads,
        tasks=tasks,
        least=16,
        retries=retries,
        progress=progress,
        live=True,
    )
    return frame(spark, sorted(found, key=lambda row: row["id"]), CLEANUP_COLUMNS)


def _clean(catalog: DirectoryNamespace, item: Item) -> list[Row]:
    older_than, keep, dry_run = item.payload
    done = catalog.cleanup_table_versions(item.names, older_than, keep, dry_run).tables[0]
    did = "would clean" if dry_run else "cleaned"
    return [
        {
            "versions": done.versions,
            "bytes": done.bytes,
            "oldest_kept": done.oldest_kept,
            "tagged": done.tagged,
            "status": did if done.versions else "nothing old",
        }
    ]


def purge(
    spark: SparkSession,
    catalog: CatalogLike,
    *,
    dry_run: bool = False,
    tasks: int | None = None,
    threads: int = 4,
    retries: int = 3,
    progress: Progress | None = None,
) -> DataFrame:
    """Delete for good every dropped table whose time to live has passed, and what a purge left.

    A protected table stays, and its row says so. With ``dry_run`` nothing is deleted.
    """
    ref = resolve(catalog)
    opened = ref.open()
    if dry_run:
        waiting = [
            {**outcome(one.id), **_dropped(one.drop_id, one.deleted_at_ms), "status": "would purge"}
            for one in opened.list_purgable_tables()
        ]
        return frame(spark, sorted(waiting, key=lambda row: row["id"]), PURGE_COLUMNS)
    # As a purge of all does it: what others left half done comes first.
    reopen_names(opened.context)
    trashing.settle_all(opened.context)
    items = [
        Item(table.id, (table.drop_id, table.deleted_at_ms))
        for table in opened.list_purgable_tables()
    ]
    found = sweep(
        spark,
        ref,
        items,
        _purge,
        PURGE_COLUMNS,
        threads=threads,
        tasks=tasks,
        retries=retries,
        progress=progress,
    )
    return frame(spark, sorted(found, key=lambda row: row["id"]), PURGE_COLUMNS)


def _purge(catalog: DirectoryNamespace, item: Item) -> list[Row]:
    row = _dropped(*item.payload)
    drop_id = row["drop_id"]
    try:
        gone = catalog.purge_table(item.names, drop_id=drop_id)
    except TableNotFoundError:
        return [{**row, "objects": 0, "bytes": 0, "status": "gone already"}]
    except InvalidTableStateError:
        if is_gone(catalog, item.names):
            raise
        return [{**row, "objects": 0, "bytes": 0, "status": "brought back"}]
    return [{**row, "objects": gone.objects, "bytes": gone.bytes, "status": "purged"}]


def _dropped(drop_id: str | None, dropped_ms: int) -> Row:
    return {"drop_id": drop_id, "dropped": datetime.fromtimestamp(dropped_ms / 1000, UTC)}
