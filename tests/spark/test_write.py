"""Writes on a real Spark: every mode, what it refuses, and what is left on disk."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from lance_catalog import DirectoryNamespace
from lance_catalog.maintenance.check import check
from lance_catalog.spark.write import write
from tests.spark.tables import column, folder, mended, opened, refused, strays

T = ["db", "t"]


@pytest.fixture(params=["plain", "managed"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> DirectoryNamespace:
    made = DirectoryNamespace(root=str(tmp_path / "root"))
    made.create_namespace({"id": ["db"]})
    if request.param == "managed":
        made.enable_managed_versions()
    return made


@pytest.fixture
def plain(tmp_path: Path) -> DirectoryNamespace:
    made = DirectoryNamespace(root=str(tmp_path / "root"))
    made.create_namespace({"id": ["db"]})
    return made


def rows(spark: SparkSession, start: int, end: int, parts: int = 2) -> Any:
    return spark.range(start, end, 1, parts).select("id", F.concat(F.lit("x"), "id").alias("s"))


def clean(catalog: DirectoryNamespace) -> None:
    assert strays(catalog, T) == set()
    assert check(catalog.context, grace_seconds=-3600).problems == []


def test_every_mode(spark: SparkSession, catalog: DirectoryNamespace) -> None:
    df = rows(spark, 0, 10)
    made = write(df, catalog, "db.t", properties={"owner": "me"}, job_id="a")
    assert (made.table, made.rows, made.repeated, made.job_id) == (("db", "t"), 10, False, "a")
    assert made.bytes > 0
    described = catalog.describe_table({"id": T})
    assert described.properties == {"owner": "me"}
    again = write(df, catalog, T, job_id="a")
    assert (again.repeated, again.rows) == (True, 10)
    assert refused(write, df, catalog, T)[0] == 5
    more = write(rows(spark, 10, 15), catalog, T, "append", job_id="b")
    # Its properties are version 2.
    assert (made.version, again.version, more.rows, more.version) == (1, 1, 5, 3)
    assert write(rows(spark, 10, 15), catalog, T, "append", job_id="b").repeated
    assert column(catalog, T, "id") == list(range(15))
    ignored = write(df, catalog, T, "ignore")
    assert (ignored.version, ignored.rows) == (None, 0)
    over = write(spark.range(3).withColumnRenamed("id", "k"), catalog, T, "overwrite", job_id="c")
    assert over.rows == 3 and opened(catalog, T).schema.names == ["k"]
    assert write(df, catalog, ["db", "u"], "ignore").rows == 10
    assert write(df, catalog, ["db", "v"], "overwrite").rows == 10
    clean(catalog)


def test_an_empty_dataframe(spark: SparkSession, catalog: DirectoryNamespace) -> None:
    nothing = rows(spark, 0, 10).where("id < 0")
    none = spark.createDataFrame([], nothing.schema)  # No partition at all.
    assert write(nothing, catalog, T).rows == 0
    assert opened(catalog, T).schema.names == ["id", "s"]
    assert write(none, catalog, T, "append", job_id="empty").rows == 0
    assert write(none, catalog, T, "append", job_id="empty").repeated
    assert write(none, catalog, ["db", "u"]).rows == 0
    assert write(none, catalog, T, "overwrite").rows == 0
    write(rows(spark, 0, 3), catalog, T, "append")
    assert column(catalog, T, "id") == [0, 1, 2]
    clean(catalog)


def test_files_are_cut_by_rows(spark: SparkSession, plain: DirectoryNamespace) -> None:
    write(rows(spark, 0, 100, 1), plain, T, max_rows_per_file=30)
    assert [one.count_rows() for one in opened(plain, T).get_fragments()] == [30, 30, 30, 10]


def test_columns_that_do_not_fit(spark: SparkSession, plain: DirectoryNamespace) -> None:
    write(rows(spark, 0, 3), plain, T)
    code, text = refused(write, spark.range(3).select(F.lit("x").alias("id")), plain, T, "append")
    assert code == 20 and "'id'" in text and "cast" in text.lower()
    code, text = refused(write, rows(spark, 0, 3).withColumn("more", F.lit(1)), plain, T, "append")
    assert code == 20 and "'more'" in text
    assert refused(write, rows(spark, 0, 3), plain, T, "append", vectors={"s": 3})[0] == 20
    for columns, named in ((["1 a", "2 a"], "'a'"), (["1 `a.b`"], "'a_b'"), ([], "no columns")):
        bad = spark.range(1).selectExpr(*columns) if columns else spark.range(1).select()
        code, text = refused(write, bad, plain, ["db", "new"])
        assert code == 20 and named in text
    assert column(plain, T, "id") == [0, 1, 2]
    clean(plain)


def test_a_null_where_none_may_be(spark: SparkSession, plain: DirectoryNamespace) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("s", pa.string())])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_table(pa.table({"id": [1], "s": ["a"]}, schema=schema))
    plain.create_table({"id": T}, sink.getvalue().to_pybytes())
    bad = rows(spark, 0, 10).withColumn("id", F.when(F.col("id") != 7, F.col("id")))
    code, text = refused(write, bad, plain, T, "append")
    assert code == 20 and "id" in text and "null" in text
    assert column(plain, T, "id") == [1]
    mended(plain)
    assert strays(plain, T) == set()


def test_a_vector_of_the_wrong_length(spark: SparkSession, plain: DirectoryNamespace) -> None:
    good = spark.range(4).select("id", F.expr("array(1.0f, 2.0f, 3.0f)").alias("v"))
    write(good, plain, T, vectors={"v": 3})
    assert opened(plain, T).schema.field("v").type == pa.list_(pa.float32(), 3)
    bad = spark.range(0, 8, 1, 1).select(
        "id", F.expr("if(id = 5, array(1.0f), array(1.0f, 2.0f, 3.0f))").alias("v")
    )
    code, text = refused(write, bad, plain, T, "append")
    assert code == 20 and "'v'" in text and "5" in text
    assert column(plain, T, "id") == [0, 1, 2, 3]
    mended(plain)


def test_decimals_of_any_alignment(spark: SparkSession, plain: DirectoryNamespace) -> None:
    df = spark.range(0, 1001, 1, 1).select(
        "id",
        F.concat(F.lit("a"), "id").alias("s"),
        (F.col("id") / 7).cast("decimal(30, 5)").alias("d"),
    )
    write(df, plain, T)
    found = opened(plain, T).to_table().sort_by("id")
    assert found["d"][7].as_py() == Decimal("1.00000") and found.num_rows == 1001


def test_a_table_that_is_not_there(spark: SparkSession, plain: DirectoryNamespace) -> None:
    df = rows(spark, 0, 3)
    assert refused(write, df, plain, ["db", "absent"], "append")[0] == 4
    assert refused(write, df, plain, ["no", "t"])[0] == 1
    assert refused(write, df, plain, T, "replace")[0] == 13
    assert refused(write, df, plain, T, "append", keys=["id"])[0] == 13
    write(df, plain, T)
    plain.drop_table({"id": T})
    code, text = refused(write, df, plain, T, "append")
    assert code == 4 and "trash" in text
    write(rows(spark, 5, 7), plain, T, "create")
    assert column(plain, T, "id") == [5, 6]


def test_a_failed_job_leaves_the_table_as_it_was(
    spark: SparkSession, catalog: DirectoryNamespace
) -> None:
    write(rows(spark, 0, 3), catalog, T)
    bad = rows(spark, 0, 100).select(
        F.when(F.col("id") == 77, F.raise_error(F.lit("no"))).otherwise(F.col("id")).alias("id"),
        "s",
    )
    version = opened(catalog, T).version
    assert refused(write, bad, catalog, T, "append")[0] == 18
    assert refused(write, bad, catalog, ["db", "new"])[0] == 18
    assert opened(catalog, T).version == version
    mended(catalog)
    assert strays(catalog, T) == set()
    assert catalog.list_tables({"id": ["db"]}).tables == ["t"]
    assert not list(folder(catalog, T).parent.glob("*new*"))


def test_the_plain_data_source_appends_and_overwrites(
    spark: SparkSession, catalog: DirectoryNamespace
) -> None:
    from lance_catalog.spark.source import LanceSource

    spark.dataSource.register(LanceSource)
    write(rows(spark, 0, 3), catalog, T)
    root = catalog.context.store.uri.removeprefix("file://")

    def save(df: Any, mode: str, **more: str) -> None:
        options = {"root": root, "table": "db.t", **more}
        df.write.format("lance").options(**options).mode(mode).save()

    for _ in range(2):
        save(rows(spark, 3, 5), "append", job_id="once")
    assert column(catalog, T, "id") == [0, 1, 2, 3, 4]
    save(rows(spark, 7, 9), "overwrite")
    assert column(catalog, T, "id") == [7, 8]
    clean(catalog)


def test_a_root_of_v1(spark: SparkSession, tmp_path: Path) -> None:
    catalog = DirectoryNamespace(root=str(tmp_path / "v1"), manifest_enabled="false")
    write(rows(spark, 0, 3), catalog, ["t"], job_id="a")
    assert write(rows(spark, 0, 3), catalog, ["t"], job_id="a").repeated
    write(rows(spark, 3, 5), catalog, ["t"], "append")
    assert column(catalog, ["t"], "id") == [0, 1, 2, 3, 4]
    assert (tmp_path / "v1" / "t.lance" / "data").is_dir()
    assert check(catalog.context, grace_seconds=-3600).problems == []
