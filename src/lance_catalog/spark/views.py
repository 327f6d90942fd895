"""Tables of a catalog under their names in Spark SQL: ``select * from db.events``.

Spark knows no temporary view of two names, and a table of its session catalog forgets the options
it was made with before a Python source sees them. So each table gets a source class of its own
that has everything inside (:func:`~lance_catalog.spark.source.sealed_format`), and the session
catalog, which lasts as long as the session, gets an entry ``db.events`` that names that source.
"""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Final

import lance_namespace as ln
from pyspark.sql import SparkSession

from lance_catalog.directory.namespace import DirectoryNamespace
from lance_catalog.errors import (
    InvalidTableStateError,
    TableAlreadyExistsError,
    UnsupportedOperationError,
)
from lance_catalog.identifiers import Identifier
from lance_catalog.spark.catalogs import CatalogLike, CatalogRef, resolve, table_names
from lance_catalog.spark.opening import open_location, require_shared
from lance_catalog.spark.options import Location, ReadOptions
from lance_catalog.spark.read import parallelism_of
from lance_catalog.spark.scanning import read_schema
from lance_catalog.spark.source import sealed_format

__all__ = ["attach"]

#: What Spark does not take in the name of a database or a table.
_NOT_IN_NAMES: Final = re.compile(r"\W", re.ASCII)
#: The entries that each session made: those and no others are replaced. All sessions of an
#: application see them, but their sources are known to the session that made them only, and Spark
#: can drop no entry without its source. It keeps neither comment nor property with such an entry.
_made: weakref.WeakKeyDictionary[SparkSession, set[str]] = weakref.WeakKeyDictionary()
_homes: dict[str, str] = {}


def attach(
    spark: SparkSession,
    catalog: CatalogLike,
    namespace: str | Sequence[str] = (),
    *,
    prefix: str | None = None,
) -> list[str]:
    """Make the tables of a namespace, and of those below it, known to Spark SQL; return the names.

    ``db.events`` is ``db.events``; a deeper ``a.b.events`` is ``a_b.events``, because Spark's own
    catalog has one level; a table of the root is ``events`` in the current database. ``prefix``
    goes before the database, as ``lake_db.events``, and root tables then are ``lake.events``.
    What Spark takes for no name gets underscores (``db.my-events`` is ``db.my_events``), and
    where two would be the same, each gets some letters of its own.

    Every query reads the latest version. The columns are those of now: attach again after they
    have changed. What is declared and has no data yet is left out. 5 for a name that is taken by
    something not made here.
    """
    if spark.conf.get("spark.sql.catalogImplementation", "in-memory") != "in-memory":
        raise UnsupportedOperationError(
            "attach: this session keeps its catalog in a Hive metastore, where the names would "
            "outlive it; make a view of each read(...) by createOrReplaceTempView, or a session "
            "with spark.sql.catalogImplementation=in-memory"
        )
    ref = resolve(catalog)
    names = () if not namespace else table_names(namespace)
    tables = sorted(_tables(ref.open(), names))
    plan = _sql_names(tables, prefix)
    return [name for table, name in plan.items() if _attach_one(spark, ref, table, name)]


def _tables(catalog: DirectoryNamespace, namespace: Identifier) -> Iterator[Identifier]:
    asked = ln.ListTablesRequest(id=list(namespace))
    for name in catalog.list_tables(asked).tables:
        yield (*namespace, name)
    try:
        below = catalog.list_namespaces(ln.ListNamespacesRequest(id=list(namespace))).namespaces
    except UnsupportedOperationError:
        # V1 has tables at its root and nothing else.
        return
    for name in below:
        yield from _tables(catalog, (*namespace, name))


def _sql_names(tables: Sequence[Identifier], prefix: str | None) -> dict[Identifier, str]:
    plain = {table: _sql_name(table, prefix) for table in tables}
    # Spark's catalog does not tell upper from lower case.
    seen = Counter(name.lower() for name in plain.values())
    return {
        table: name if seen[name.lower()] == 1 else f"{name}_{_letters(table)}"
        for table, name in plain.items()
    }


def _sql_name(table: Identifier, prefix: str | None) -> str:
    above = [*([prefix] if prefix else []), *table[:-1]]
    parts = ["_".join(above), table[-1]] if above else [table[-1]]
    return ".".join(_NOT_IN_NAMES.sub("_", part) for part in parts)


def _letters(table: Identifier) -> str:
    return sha256("\0".join(table).encode()).hexdigest()[:8]


def _attach_one(spark: SparkSession, ref: CatalogRef, table: Identifier, name: str) -> bool:
    location = Location(ref, table)
    require_shared(location)
    asked = ReadOptions(parallelism=parallelism_of(spark))
    try:
        dataset = open_location(location)
    except InvalidTableStateError:
        return False
    schema = read_schema(dataset, asked, f"attaching '{location}'")
    source = sealed_format(spark, ref, {**asked.to_options(), "table": location.to_option()})
    database, _, last = name.rpartition(".")
    quoted = f"`{database}`.`{last}`" if database else f"`{last}`"
    if database and not spark.catalog.databaseExists(database):
        spark.sql(f"CREATE DATABASE `{database}`{_location(spark)}")
    made = _made.setdefault(spark, set())
    if _is_there(spark, database, last):
        if quoted not in made:
            raise TableAlreadyExistsError(
                f"{name} is in Spark's catalog already and was not attached by this session; drop "
                "it, where another session attached it in that one, or attach with a prefix"
            )
        spark.sql(f"DROP TABLE {quoted}")
    spark.catalog.createTable(quoted, source=source, schema=schema)
    made.add(quoted)
    return True


def _is_there(spark: SparkSession, database: str, last: str) -> bool:
    """Whether Spark has an entry of the name; its source is known to who attached it only."""
    where = f" IN `{database}`" if database else ""
    return bool(spark.sql(f"SHOW TABLES{where} LIKE '{last}'").collect())


def _application(spark: SparkSession) -> str:
    if _is_remote(spark):
        return str(getattr(spark, "session_id", ""))
    return spark.sparkContext.applicationId or ""


def _is_remote(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


def _location(spark: SparkSession) -> str:
    """Where Spark may make the empty folders it wants: not in the working directory."""
    if _is_remote(spark):
        # On another machine, whose warehouse is its own affair.
        return ""
    key = _application(spark)
    if key not in _homes:
        _homes[key] = tempfile.mkdtemp(prefix="lance-catalog-attached-")
        atexit.register(shutil.rmtree, _homes[key], ignore_errors=True)
    return f" LOCATION 'file://{tempfile.mkdtemp(dir=_homes[key])}'"
