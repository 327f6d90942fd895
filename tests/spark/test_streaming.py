"""Streams on a real Spark: rows come once, batches land once, across restarts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lance_catalog import DirectoryNamespace
from lance_catalog.maintenance.check import check
from lance_catalog.spark.source import LanceSource
from lance_catalog.spark.streaming import read_stream, write_stream
from lance_catalog.spark.write import write
from tests.spark.tables import column, folder, mended, opened, refused, strays

T, U = ["db", "t"], ["db", "u"]


@pytest.fixture(params=["plain", "managed"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> DirectoryNamespace:
    made = DirectoryNamespace(root=str(tmp_path / "root"))
    made.create_namespace({"id": ["db"]})
    if request.param == "managed":
        made.enable_managed_versions()
    return made


def drain(df: Any, catalog: DirectoryNamespace, id: list[str], checkpoint: Path) -> None:
    """Write all there is now, and stop: the query is started anew each time."""
    writer = write_stream(df, catalog, id, query_id="q", checkpoint=str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()


def forget_last(checkpoint: Path) -> None:
    """Take away Spark's note that the last batch was committed."""
    last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
    last.unlink()


@pytest.mark.parametrize("catalog", ["managed"], indirect=True)
def test_from_table_to_table_through_restarts(
    spark: SparkSession, catalog: DirectoryNamespace, tmp_path: Path
) -> None:
    write(spark.range(0, 10, 1, 2), catalog, T)
    write(spark.range(0), catalog, U)
    expected = list(range(10))
    source = catalog.open_table(T)
    for step in range(6):
        if step == 2:
            write(spark.range(20, 23), catalog, T, "append")
            expected += [20, 21, 22]
        elif step == 3:
            catalog.open_table(T).optimize.compact_files()  # Old rows in new fragments.
        elif step == 4:
            catalog.open_table(T).delete("id = 5")
            write(spark.range(9, 12), catalog, T, "merge", keys=["id"])  # Updates: by option.
        elif step == 5:
            write(spark.range(40, 41), catalog, T, "append")
            write(spark.range(41, 42), catalog, T, "append")
            expected += [40, 41]
            # A cleanup of the sink's versions forgets no batch.
            catalog.cleanup_table_versions(U, keep=1)
        drain(read_stream(spark, catalog, T), catalog, U, tmp_path / "checkpoint")
        assert column(catalog, U, "id") == sorted(expected), step
    assert source.version < opened(catalog, T).version
    # The last batch replayed, as after a crash between its commit and Spark's note of it; once
    # from its transaction, once when its version is gone and only the ledger knows.
    for _ in range(2):
        forget_last(tmp_path / "checkpoint")
        before = opened(catalog, U).version
        drain(read_stream(spark, catalog, T), catalog, U, tmp_path / "checkpoint")
        assert column(catalog, U, "id") == sorted(expected)
        assert opened(catalog, U).version == before
        write(spark.range(90, 91), catalog, U, "append")
        expected.append(90)
        catalog.cleanup_table_versions(U, keep=1)
        assert len(opened(catalog, U).versions()) == 1
    assert strays(catalog, U) == set()
    assert check(catalog.context, grace_seconds=-3600).problems == []


@pytest.mark.parametrize("catalog", ["plain"], indirect=True)
def test_what_a_stream_is_asked_for(
    spark: SparkSession, catalog: DirectoryNamespace, tmp_path: Path
) -> None:
    write(spark.range(0, 3), catalog, T)
    write(spark.range(0), catalog, U)
    start = opened(catalog, T).version
    write(spark.range(2, 5), catalog, T, "merge", keys=["id"])
    df = read_stream(spark, catalog, T, starting_version=start, include_updates=True)
    drain(df, catalog, U, tmp_path / "one")
    assert column(catalog, U, "id") == [2, 3, 4]
    spark.dataSource.register(LanceSource)
    where = {"root": str(tmp_path / "root"), "table": "db.t", "starting_version": str(start)}
    plain = spark.readStream.format("lance").options(include_updates="true", **where).load()
    into = {**where, "table": "db.u", "query_id": "p", "checkpointLocation": str(tmp_path / "p")}
    del into["starting_version"]
    sink = plain.writeStream.format("lance").options(**into).trigger(availableNow=True)
    sink.start().awaitTermination()
    assert column(catalog, U, "id") == [2, 2, 3, 3, 4, 4]
    assert refused(read_stream, spark, catalog, ["db", "absent"])[0] == 4
    wrong = df.selectExpr("cast(id as string) as id")
    assert refused(write_stream, wrong, catalog, U, query_id="x")[0] == 20
    assert refused(write_stream, df, catalog, ["db", "absent"], query_id="x")[0] == 4
    assert refused(write_stream, df, catalog, U, query_id="")[0] == 13


@pytest.mark.parametrize("catalog", ["plain"], indirect=True)
def test_a_new_checkpoint_under_an_old_query_id(
    spark: SparkSession, catalog: DirectoryNamespace, tmp_path: Path
) -> None:
    write(spark.range(0, 3), catalog, T)
    write(spark.range(0), catalog, U)
    drain(read_stream(spark, catalog, T), catalog, U, tmp_path / "one")
    # Batch 0 of the new one has other rows than batch 0 of the old: no replay, but refused.
    write(spark.range(3, 5), catalog, T, "append")
    with pytest.raises(Exception, match="query_id of its own"):
        drain(read_stream(spark, catalog, T), catalog, U, tmp_path / "two")
    assert column(catalog, U, "id") == [0, 1, 2]
    assert strays(catalog, U) == set()
    # The same when only the ledger knows the old one.
    write(spark.range(90, 91), catalog, U, "append")
    catalog.cleanup_table_versions(U, keep=1)
    with pytest.raises(Exception, match="query_id of its own"):
        drain(read_stream(spark, catalog, T), catalog, U, tmp_path / "three")
    drain(read_stream(spark, catalog, T), catalog, U, tmp_path / "one")
    assert column(catalog, U, "id") == [0, 1, 2, 3, 4, 90]
    # One run repeats a batch and goes on to what came meanwhile.
    forget_last(tmp_path / "one")
    write(spark.range(5, 7), catalog, T, "append")
    drain(read_stream(spark, catalog, T), catalog, U, tmp_path / "one")
    assert column(catalog, U, "id") == [0, 1, 2, 3, 4, 5, 6, 90]
    assert strays(catalog, U) == set()
    assert check(catalog.context, grace_seconds=-3600).problems == []


def test_a_source_that_was_purged_and_made_anew(spark: SparkSession, tmp_path: Path) -> None:
    """V1 gives the new table the old one's path, and the same numbers to its versions."""
    plain = DirectoryNamespace(root=str(tmp_path / "v1"), manifest_enabled=False)
    for name in ("t", "u"):
        write(spark.range(0, 3) if name == "t" else spark.range(0), plain, [name])
    drain(read_stream(spark, plain, ["t"]), plain, ["u"], tmp_path / "one")
    plain.drop_table({"id": ["t"]}, purge=True)
    for more in range(2):
        write(spark.range(50, 53), plain, ["t"], "append" if more else "create")
        with pytest.raises(Exception, match="another table by now"):
            drain(read_stream(spark, plain, ["t"]), plain, ["u"], tmp_path / "one")
    assert column(plain, ["u"], "id") == [0, 1, 2]


@pytest.mark.parametrize("catalog", ["managed"], indirect=True)
def test_versions_that_went_before_they_were_read(
    spark: SparkSession, catalog: DirectoryNamespace, tmp_path: Path
) -> None:
    write(spark.range(0, 3), catalog, T)
    write(spark.range(0), catalog, U)
    drain(read_stream(spark, catalog, T), catalog, U, tmp_path / "one")
    for number in range(3):
        write(spark.range(10 + number, 11 + number), catalog, T, "append")
    catalog.cleanup_table_versions(T, keep=1)
    with pytest.raises(Exception, match="cleaned up before the stream read"):
        drain(read_stream(spark, catalog, T), catalog, U, tmp_path / "one")
    assert column(catalog, U, "id") == [0, 1, 2]


@pytest.mark.soak
@pytest.mark.parametrize("catalog", ["plain"], indirect=True)
def test_twenty_restarts(spark: SparkSession, catalog: DirectoryNamespace, tmp_path: Path) -> None:
    """Stopped in the middle of whatever it does, twenty times."""
    files = tmp_path / "in"
    files.mkdir()
    write(spark.range(0), catalog, U)
    for number in range(20):
        spark.range(number * 10, number * 10 + 10, 1, 1).write.mode("append").json(str(files))
        df = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(str(files))
        writer = write_stream(df, catalog, U, query_id="q", checkpoint=str(tmp_path / "c"))
        query = writer.start()
        if number % 3 == 0:
            query.processAllAvailable()
        query.stop()
    df = spark.readStream.schema("id long").json(str(files))
    drain(df, catalog, U, tmp_path / "c")
    assert column(catalog, U, "id") == list(range(200))
    mended(catalog)
    assert strays(catalog, U) == set()
    assert folder(catalog, U).is_dir()
