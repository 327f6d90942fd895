"""Counting rows without Spark: Lance knows them by its metadata, or by an index."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from lance_catalog.directory.operations.access import lance_errors
from lance_catalog.spark.catalogs import CatalogLike, resolve, table_names
from lance_catalog.spark.opening import open_location
from lance_catalog.spark.options import Location, ReadOptions
from lance_catalog.spark.predicates import Predicate, filter_text

__all__ = ["count"]


def count(
    catalog: CatalogLike,
    table: str | Sequence[str],
    filter: str | Predicate | None = None,
    *,
    version: int | None = None,
    tag: str | None = None,
    as_of: datetime | int | str | None = None,
) -> int:
    """Return how many rows a table has, or how many of them a filter leaves. No Spark job."""
    location = Location(resolve(catalog), table_names(table))
    asked = ReadOptions.make(filter=filter_text(filter), version=version, tag=tag, as_of=as_of)
    dataset = open_location(location, version=version, tag=tag, as_of=asked.as_of)
    with lance_errors(f"counting '{location}'"):
        return int(dataset.count_rows(asked.filter))
