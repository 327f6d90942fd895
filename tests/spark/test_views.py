"""``select ... from db.table``: attached tables answer under their names."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lance_catalog.errors import NamespaceNotFoundError, TableAlreadyExistsError
from lance_catalog.spark import attach
from tests.spark.lance_tables import append, catalog_at, create

DATA = pa.table({"id": range(10)})


def total(spark: SparkSession, sql: str) -> int:
    return int(spark.sql(sql).collect()[0][0])


def test_tables_are_queried_by_their_names(spark: SparkSession, tmp_path: Path) -> None:
    catalog = catalog_at(tmp_path, "sales", "sales.eu", "other")
    create(catalog, "sales.orders", DATA)
    create(catalog, "sales.my-orders", DATA)
    create(catalog, "sales.eu.orders", DATA.slice(0, 3))
    create(catalog, "other.orders", DATA)
    catalog.declare_table({"id": ["sales", "declared"]})
    names = attach(spark, catalog, "sales")
    assert names == ["sales_eu.orders", "sales.my_orders", "sales.orders"]
    assert total(spark, "SELECT sum(id) FROM sales.orders WHERE id > 7") == 17
    joined = "SELECT count(*) FROM sales.orders a JOIN sales_eu.orders b ON a.id = b.id"
    assert total(spark, joined) == 3
    assert total(spark, "SELECT count(*) FROM sales.my_orders") == 10
    with pytest.raises(PySparkException):
        spark.sql("SELECT * FROM other.orders")
    # The next query sees what was written since; a DataFrame keeps what it has.
    kept = spark.sql("SELECT * FROM sales.orders")
    assert kept.count() == 10
    append(catalog, "sales.orders", DATA)
    assert total(spark, "SELECT count(*) FROM sales.orders") == 20
    assert kept.count() == 10
    # Columns are those of the time of attaching.
    catalog.open_table(["sales", "orders"]).add_columns({"twice": "id * 2"})
    with pytest.raises(PySparkException):
        spark.sql("SELECT sum(twice) FROM sales.orders")
    attach(spark, catalog, "sales")
    assert total(spark, "SELECT sum(twice) FROM sales.orders") == 180


def test_root_tables_prefixes_and_names_that_fall_together(
    spark: SparkSession, tmp_path: Path
) -> None:
    catalog = catalog_at(tmp_path)
    for name in ("solo", "日本", "中国"):
        create(catalog, name, DATA)
    assert "solo" in attach(spark, catalog)
    assert total(spark, "SELECT count(*) FROM solo") == 10
    names = attach(spark, catalog, prefix="lake")
    assert len(set(names)) == 3 and "lake.solo" in names
    assert all(total(spark, f"SELECT count(*) FROM {name}") == 10 for name in names)


def test_what_is_not_ours_is_not_replaced(spark: SparkSession, tmp_path: Path) -> None:
    catalog = catalog_at(tmp_path, "mine")
    create(catalog, "mine.t", DATA)
    spark.sql(f"CREATE DATABASE mine LOCATION '{tmp_path}/warehouse'")
    spark.sql("CREATE TABLE mine.t (x INT) USING parquet")
    with pytest.raises(TableAlreadyExistsError, match=r"mine\.t"):
        attach(spark, catalog, "mine")
    assert spark.sql("SELECT * FROM mine.t").columns == ["x"]
    with pytest.raises(NamespaceNotFoundError):
        attach(spark, catalog, "nowhere")


def test_another_session_attaches_beside_it(spark: SparkSession, tmp_path: Path) -> None:
    """It sees the entry, but not the source behind it, without which Spark cannot drop it."""
    catalog = catalog_at(tmp_path, "shared")
    create(catalog, "shared.t", DATA)
    attach(spark, catalog, "shared")
    other = spark.newSession()
    with pytest.raises(TableAlreadyExistsError, match="another session"):
        attach(other, catalog, "shared")
    assert attach(other, catalog, "shared", prefix="my") == ["my_shared.t"]
    assert total(other, "SELECT count(*) FROM my_shared.t") == 10
    attach(spark, catalog, "shared")
    assert total(spark, "SELECT count(*) FROM shared.t") == 10
