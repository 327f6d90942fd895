"""A DataFrame is of one version: it shows those rows or none, whatever becomes of the table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lance_catalog import DirectoryNamespace
from lance_catalog.spark.opening import stamp_of
from lance_catalog.spark.read import read
from tests.spark.lance_tables import append, catalog_at, create


def numbers(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


def ids(frame: Any) -> list[int]:
    return sorted(row["id"] for row in frame.collect())


def plain(spark: SparkSession, catalog: DirectoryNamespace, name: str) -> Any:
    root = catalog.context.settings.root
    how = {"root": root, "table": name, "dir_listing_enabled": "true"}
    if len(name.split(".")) == 1:
        how["manifest_enabled"] = "false"
    return spark.read.format("lance").options(**how).load()


def ours(spark: SparkSession, catalog: DirectoryNamespace, name: str) -> Any:
    return read(spark, catalog, name)


def test_a_version_stays_while_the_table_changes(spark: SparkSession, tmp_path: Path) -> None:
    catalog = catalog_at(tmp_path / "root", "db")
    create(catalog, "db.t", numbers(1, 2, 3))
    append(catalog, "db.t", numbers(4))
    frames = [ours(spark, catalog, "db.t"), plain(spark, catalog, "db.t")]
    looked = ids(frames[0])

    def overwrite() -> None:
        target = catalog.open_table(["db", "t"])
        target.delete("id = 2")
        target.optimize.compact_files()

    changes: list[Callable[[], object]] = [
        lambda: append(catalog, "db.t", numbers(5)),
        overwrite,
        lambda: catalog.drop_table({"id": ["db", "t"]}),
        lambda: create(catalog, "db.t", numbers(70, 80, 90, 100), mode="overwrite"),
    ]
    for change in changes:
        change()
        assert [ids(frame) for frame in frames] == [looked, looked] == [[1, 2, 3, 4]] * 2


@pytest.mark.parametrize("make", [ours, plain])
@pytest.mark.parametrize("used", [False, True])
def test_a_table_made_anew_in_its_place_is_not_shown(
    spark: SparkSession, tmp_path: Path, make: Any, used: bool
) -> None:
    """V1 gives a new table the path of one that was purged; the numbers of versions begin anew."""
    # With a space, for a path is found again in a message of Lance's.
    catalog = catalog_at(tmp_path / "a root", manifest_enabled=False)
    create(catalog, "t", numbers(1, 2, 3))
    frame = make(spark, catalog, "t")
    if used:
        assert ids(frame) == [1, 2, 3]
    before = stamp_of(catalog.open_table(["t"]))
    catalog.drop_table({"id": ["t"]}, purge=True)
    create(catalog, "t", numbers(7, 8, 9))
    assert catalog.open_table(["t"]).version == 1
    assert stamp_of(catalog.open_table(["t"])) != before
    # Planned before, its tasks have a handle on files that are gone; else the version is another.
    with pytest.raises(
        PySparkException, match=r"TableVersionNotFoundError.*(made anew|Read the table again)"
    ):
        frame.collect()
    assert ids(make(spark, catalog, "t")) == [7, 8, 9]
