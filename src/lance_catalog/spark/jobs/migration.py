"""``migrate``: V1 tables into the manifest, and every one of them opened both ways afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lance_catalog.config import Mode
from lance_catalog.directory import migration as directory_migration
from lance_catalog.errors import InvalidTableStateError, UnsupportedOperationError
from lance_catalog.spark.catalogs import CatalogLike, CatalogRef, resolve
from lance_catalog.spark.jobs.scope import frame
from lance_catalog.spark.jobs.sweep import Item, Progress, Row, outcome, sweep

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lance_catalog.directory.namespace import DirectoryNamespace

__all__ = ["COLUMNS", "migrate"]

COLUMNS: Final = "outcome string, version bigint, rows bigint, location string, why string"


def migrate(
    spark: SparkSession,
    catalog: CatalogLike,
    *,
    dry_run: bool = False,
    tasks: int | None = None,
    threads: int = 8,
    retries: int = 3,
    progress: Progress | None = None,
) -> DataFrame:
    """Register every table that only its directory tells of, then open and compare all of them.

    Each is opened as V1 finds it and as V2 does, a row of it is read, and both must agree on place,
    version and rows; ``status`` is ``ok``, ``skipped`` (``why`` says why) or ``failed``. Nothing
    moves. May be repeated, and interrupted. With ``dry_run`` nothing is registered, and what would
    be has the outcome ``would register``; those that are registered already are compared.
    """
    ref = resolve(catalog)
    opened = ref.open()
    if opened.mode is Mode.V1:
        raise UnsupportedOperationError(
            "migrate: this catalog is opened in V1 (manifest_enabled=false), which has no manifest "
            "to register tables in. Set manifest_enabled=true."
        )
    report = directory_migration.migrate(opened.context, dry_run=dry_run)
    items = [
        *(Item((name,), "registered") for name in report.registered if not dry_run),
        *(Item((name,), "already") for name in report.already),
    ]
    found = sweep(
        spark,
        _only_manifest(ref),
        items,
        _compare,
        COLUMNS,
        threads=threads,
        tasks=tasks,
        least=50,
        retries=retries,
        progress=progress,
        live=True,
    )
    found += [
        {**outcome((name,)), "outcome": "skipped", "status": "skipped", "why": why}
        for name, why in report.skipped
    ]
    found += [
        {**outcome((name,)), "outcome": "failed", "status": "failed", "error": why}
        for name, why in report.failed
    ]
    others = {"hidden": report.hidden, "trashed": report.trashed}
    if dry_run:
        others = {
            "would register": report.registered,
            "would hide": report.hidden,
            "would bring to the trash": report.trashed,
        }
    found += [
        {**outcome((name,)), "outcome": what, "status": "ok"}
        for what, names in others.items()
        for name in names
    ]
    return frame(spark, sorted(found, key=lambda row: row["id"]), COLUMNS)


def _only_manifest(ref: CatalogRef) -> CatalogRef:
    """The same catalog as a reader without directory listing sees it."""
    changed = {"manifest_enabled": True, "dir_listing_enabled": False}
    return CatalogRef(ref.root, {**ref.properties, **changed})


def _compare(catalog: DirectoryNamespace, item: Item) -> list[Row]:
    ref = resolve(catalog)
    by_listing = {"manifest_enabled": False, "dir_listing_enabled": True}
    before: Any = CatalogRef(ref.root, {**ref.properties, **by_listing}).open()
    base: Row = {"outcome": item.payload}
    if before.describe_table({"id": list(item.names), "check_declared": True}).is_only_declared:
        described = catalog.describe_table({"id": list(item.names)})
        return [{**base, "rows": 0, "location": described.location}]
    one: Any = before.open_table(list(item.names))
    two: Any = catalog.open_table(list(item.names))
    seen = [(found.uri, found.version, found.count_rows()) for found in (one, two)]
    if seen[0] != seen[1]:
        raise InvalidTableStateError(
            f"V1 finds version {seen[0][1]} with {seen[0][2]} rows at {seen[0][0]}, V2 version "
            f"{seen[1][1]} with {seen[1][2]} rows at {seen[1][0]}; is somebody writing to it? "
            "Run migrate again"
        )
    two.head(1)
    return [{**base, "version": seen[1][1], "rows": seen[1][2], "location": seen[1][0]}]
