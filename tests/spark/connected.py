"""A client of Spark Connect in a process of its own: what it is told, one line of JSON at a time.

``python -m tests.spark.connected '{"remote": "sc://..."}'`` with what Connect needs on PYTHONPATH;
no JVM runs in it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import lance_catalog.spark as lance_spark
from lance_catalog import DirectoryNamespace
from lance_catalog.spark import jobs
from lance_catalog.spark.pipeline import load
from tests.spark.driver import act, serve


def what(spark: SparkSession, **_: Any) -> Any:
    """Which session it is, and that no JVM is behind it here."""
    from pyspark import SparkContext

    return [type(spark).__module__, spark.version, SparkContext._active_spark_context is None]


def rows(spark: SparkSession, catalog: DirectoryNamespace, table: str, **how: Any) -> Any:
    found = lance_spark.read(spark, catalog, table, **how)
    return sorted([list(row) for row in found.collect()])


def count(spark: SparkSession, catalog: DirectoryNamespace, table: str, **how: Any) -> Any:
    return lance_spark.count(catalog, table, **how)


def sql(spark: SparkSession, catalog: DirectoryNamespace, query: str, **how: Any) -> Any:
    names = lance_spark.attach(spark, catalog, **how)
    return [names, [list(row) for row in spark.sql(query).collect()]]


def select(spark: SparkSession, catalog: DirectoryNamespace, query: str) -> Any:
    return [list(row) for row in spark.sql(query).collect()]


def put(
    spark: SparkSession, catalog: DirectoryNamespace, query: str, table: str, **how: Any
) -> Any:
    return lance_spark.write(spark.sql(query), catalog, table, **how)


def copy(
    spark: SparkSession, catalog: DirectoryNamespace, table: str, to: str, checkpoint: str
) -> Any:
    """By streams at both ends."""
    found = lance_spark.read_stream(spark, catalog, table)
    writer = lance_spark.write_stream(found, catalog, to, query_id="copy", checkpoint=checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()
    return None


def pipeline(
    spark: SparkSession, catalog: DirectoryNamespace, file: str, job: str, **values: str
) -> Any:
    seen: list[Any] = []
    report = load(Path(file), values).run(spark, catalog, job, progress=seen.append)
    made = {one.name: [one.rows, one.version] for one in report.targets}
    return [report.status, made, len(seen) > 0]


def inventory(spark: SparkSession, catalog: DirectoryNamespace) -> Any:
    seen: list[Any] = []
    found = jobs.inventory(spark, catalog, progress=lambda *told: seen.append(told))
    return [[[row["table"], row["status"], row["rows"]] for row in found.collect()], seen[-1]]


def verify(spark: SparkSession, catalog: DirectoryNamespace) -> Any:
    return sorted([row["table"], row["status"]] for row in jobs.verify(spark, catalog).collect())


DO = {
    one.__name__: one
    for one in (what, rows, count, sql, select, put, copy, pipeline, inventory, verify)
}


def main() -> None:
    given = json.loads(sys.argv[1])
    spark = lance_spark.session("connected", remote=given["remote"], config=given.get("config"))

    def do(verb: str, root: str, **how: Any) -> Any:
        catalog = DirectoryNamespace(root=root)
        found = DO.get(verb)
        if found is None:
            return act(spark, catalog, verb, **how)
        return found(spark, catalog=catalog, **how)

    serve(do)
    spark.stop()


if __name__ == "__main__":
    main()
