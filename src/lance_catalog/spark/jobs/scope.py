"""Which tables a job is about, and the DataFrame it ends in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from lance_catalog.errors import NamespaceNotFoundError, TableNotFoundError
from lance_catalog.identifiers import Identifier, decode, parse_text
from lance_catalog.spark.jobs.sweep import Row, schema_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lance_catalog.directory.namespace import DirectoryNamespace

__all__ = ["Scope", "chosen", "frame", "on_driver"]

#: A table or a namespace with all below it: names, or dotted text; nothing is the whole catalog.
Scope = str | Sequence[str] | None
T = TypeVar("T")
R = TypeVar("R")


def chosen(catalog: DirectoryNamespace, scope: Scope) -> list[Identifier]:
    """Return the tables of a scope; 4 when it is neither a table nor a namespace."""
    names = parse_text(scope) if isinstance(scope, str) else tuple(scope or ())
    if names:
        try:
            catalog.table_exists({"id": list(names)})
            return [names]
        except (TableNotFoundError, NamespaceNotFoundError) as error:
            try:
                catalog.namespace_exists({"id": list(names)})
            except NamespaceNotFoundError:
                # What was meant more likely, and its message knows of the trash.
                raise error from None
    found = catalog.list_all_tables({"id": list(names)})
    return [decode(key) for key in found.tables]


def frame(spark: SparkSession, rows: Iterable[Row], columns: str) -> DataFrame:
    """Return the result of a job, which has run by now."""
    schema = schema_of(columns)
    data = [tuple(row.get(name) for name in schema.names) for row in rows]
    return spark.createDataFrame(data, schema)


def on_driver(work: Callable[[T], R], items: Sequence[T], threads: int = 8) -> list[R]:
    """Run a function over items here, some at a time: what is a look each, not worth a task."""
    with ThreadPoolExecutor(max_workers=threads) as pool:
        return list(pool.map(work, items))
