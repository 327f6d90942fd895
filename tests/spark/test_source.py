"""The plain data source, and that no plan, log or event tells a secret."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lance_catalog.spark import read
from lance_catalog.spark.catalogs import CatalogRef
from lance_catalog.spark.options import READ_OPTIONS, ReadOptions
from lance_catalog.spark.source import LanceReader, LanceSource, sealed_format
from pyspark_lance import DefaultSource
from tests.spark.lance_tables import catalog_at, create

DATA = pa.table({"id": range(20), "name": [f"n{one}" for one in range(20)]})
SECRET = "hunter2-in-the-clear"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source")
    create(catalog_at(path, "db"), "db.t", DATA)
    return path


def test_the_format_is_found_without_registration(spark: SparkSession, root: Path) -> None:
    assert DefaultSource.name() == "lance"
    frame = spark.read.format("lance").options(
        root=str(root), table="db.t", columns="name, id", filter="id >= 18", with_row_id="true"
    )
    found = frame.load().collect()
    assert [tuple(row) for row in found] == [("n18", 18, 18), ("n19", 19, 19)]


def test_a_bare_path_is_a_table(spark: SparkSession, root: Path) -> None:
    place = catalog_at(root).open_table(["db", "t"]).uri
    frame = spark.read.format("lance").option("limit", 5).load(place)
    assert frame.count() == 5
    narrow = spark.read.format("lance").schema("id long").load(place)
    assert narrow.columns == ["id"] and narrow.count() == 20


def test_sql_reads_through_a_temporary_view(spark: SparkSession, root: Path) -> None:
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW plain USING lance OPTIONS (root '{root}', table 'db.t')"
    )
    assert spark.sql("SELECT max(id) FROM plain").collect()[0][0] == 19


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"fitler": "id = 3"}, "unknown option 'fitler'; did you mean 'filter'"),
        ({"limit": "many"}, "option 'limit' is 'many'"),
        ({"nearest": "{"}, "option 'nearest' is not JSON"),
        ({"blobs": "files"}, "'blobs' is 'files'"),
        ({"version": "1", "tag": "x"}, "one of version, tag and as_of"),
        ({"columns": "id,id"}, "gives a name twice"),
    ],
)
def test_options_are_checked(root: Path, options: dict[str, str], told: str) -> None:
    source = LanceSource({"root": str(root), "table": "db.t", **options})
    with pytest.raises(Exception, match=told) as found:
        source.schema()
    assert getattr(found.value, "code", None) == 13


def test_a_wrong_option_reaches_the_user_of_spark(spark: SparkSession, root: Path) -> None:
    with pytest.raises(PySparkException, match="did you mean 'filter'"):
        spark.read.format("lance").option("fitler", "x").option("root", str(root)).load("db.t")


def test_options_survive_the_way_to_the_source() -> None:
    asked = ReadOptions(
        columns=("a,b", "c"),
        filter="x = ','",
        version=3,
        limit=0,
        with_row_id=True,
        nearest={"column": "v", "q": [1.0, 2.5], "k": 2},
        truncate_ns=True,
        blobs="descriptors",
        batch_bytes=77,
    )
    assert ReadOptions.from_options(asked.to_options()) == asked
    text = ReadOptions(full_text={"query": "{odd", "columns": ["t"]}, tag="x")
    assert ReadOptions.from_options(text.to_options()) == text


def test_every_option_is_documented() -> None:
    page = Path(__file__).parents[2] / "docs" / "spark" / "reading.md"
    text = page.read_text(encoding="utf-8")
    assert [name for name in READ_OPTIONS if f"`{name}`" not in text] == []


def test_no_reader_of_ours_pushes_filters() -> None:
    assert "pushFilters" not in vars(LanceReader)


def test_secrets_show_in_no_plan_and_no_event(spark: SparkSession, root: Path) -> None:
    # Options of a store that a local path ignores: what travels is what counts.
    ref = CatalogRef(str(root), {"storage.secret_access_key": SECRET, "storage.sas_key": SECRET})
    spark.sparkContext.setLogLevel("INFO")
    try:
        ours = read(spark, ref, "db.t", filter="id > 3")
        assert ours.count() == 16
        frames = [ours, _plain(spark, root)]
        for frame in frames:
            frame.collect()
    finally:
        spark.sparkContext.setLogLevel("ERROR")
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        for frame in frames:
            for mode in ("extended", "formatted", "cost", "codegen"):
                frame.explain(mode=mode)
            print(frame._jdf.queryExecution().toString(), frame._jdf.queryExecution().logical())
    assert "BatchScan" in shown.getvalue()
    events = _events(spark)
    assert "lance_" in events, "the event log holds none of our plans: the test looks elsewhere"
    logged = (Path(spark.conf.get("spark.tests.home")) / "spark.log").read_text()
    assert "DAGScheduler" in logged
    token = ref.to_token()
    for text in (shown.getvalue(), events, logged):
        assert SECRET not in text
        assert token not in text and token[:40] not in text


def _plain(spark: SparkSession, root: Path) -> Any:
    reader = spark.read.format("lance").option("root", str(root)).option("table", "db.t")
    # Spark's own expression does not know the second name; the session's does.
    return (
        reader.option("storage.secret_access_key", SECRET)
        .option("storage.account_key", SECRET)
        .load()
    )


def _events(spark: SparkSession) -> str:
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    folder = Path(spark.conf.get("spark.tests.home")) / "events"
    return "".join(file.read_text() for file in folder.rglob("*") if file.is_file())


def test_one_format_per_catalog_and_session(spark: SparkSession, root: Path) -> None:
    one = sealed_format(spark, CatalogRef(str(root)))
    assert sealed_format(spark, CatalogRef(str(root))) == one
    other = sealed_format(spark, CatalogRef(str(root), {"storage.x": "y"}))
    assert other != one
    assert spark.read.format(one).option("table", "db.t").load().count() == 20
    elsewhere = sealed_format(spark.newSession(), CatalogRef(str(root)))
    assert elsewhere != one
