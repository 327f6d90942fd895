"""A driver in a process of its own, on a catalog in a bucket: everything once, and all it shows.

``python -m tests.spark.s3_driver <json>``. The credentials come on the command line as properties
of the catalog and are in no environment. What anybody could see of the run is put into files.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lance_catalog import DirectoryNamespace, connect
from lance_catalog.errors import LanceNamespaceError
from lance_catalog.spark import jobs
from lance_catalog.spark.catalogs import resolve
from lance_catalog.spark.counting import count
from lance_catalog.spark.ingest import ingest
from lance_catalog.spark.options import Location, ReadOptions, location_of
from lance_catalog.spark.pipeline import load
from lance_catalog.spark.publish import publish
from lance_catalog.spark.read import read
from lance_catalog.spark.session import session
from lance_catalog.spark.streaming import read_stream, write_stream
from lance_catalog.spark.views import attach
from lance_catalog.spark.write import write
from tests.cli.support import run as cli

T = "db.t"
PIPELINE = """\
[pipeline]
name = "shop"
[sources.rows]
table = "db.t"
[steps.even]
sql = "select * from rows where id % 2 = 0"
[targets.even]
table = "db.even"
from = "even"
mode = "append"
indices = [{ column = "id", type = "BTREE" }]
[targets.even.expectations]
not_null = ["id"]
"""


class Tour:
    """What is done, and the texts that came of it."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.told = told
        self.out = Path(told["out"])
        self.properties = {f"storage.{key}": value for key, value in told["storage"].items()}
        self.catalog: DirectoryNamespace = connect(told["root"], **self.properties)
        self.spark = _session(self.out)
        self.seen: dict[str, Any] = {}

    def tell(self, name: str, *texts: object) -> None:
        with (self.out / f"{name}.txt").open("a") as file:
            file.writelines(f"{text}\n" for text in texts)

    def ids(self, table: str) -> list[int]:
        return sorted(row["id"] for row in read(self.spark, self.catalog, table).collect())

    def plain(self, table: str, **more: str) -> dict[str, str]:
        return {"root": self.told["root"], "table": table, **self.properties, **more}

    def modes(self) -> None:
        spark, catalog = self.spark, self.catalog
        results = [
            # What a driver that was killed had begun.
            write(spark.range(100, 120, 1, 2), catalog, T, "append", job_id="killed"),
            write(spark.range(100, 120, 1, 2), catalog, T, "append", job_id="killed"),
            write(spark.range(118, 125), catalog, T, "merge", keys=["id"]),
            write(spark.range(3), catalog, "db.made"),
            write(spark.range(9), catalog, "db.made", "ignore"),
            write(spark.range(5, 9), catalog, "db.made", "overwrite"),
        ]
        self.tell("repr", *results)
        self.seen["repeated"] = [one.repeated for one in results]
        self.seen["t"] = self.ids(T)
        self.seen["made"] = self.ids("db.made")
        told = publish(catalog, {"db.a": spark.range(4), "db.b": spark.range(6)}, job_id="both")
        self.tell("repr", told)
        self.seen["published"] = [count(catalog, "db.a"), count(catalog, "db.b")]
        brought = ingest(spark, catalog, "db.in", self.told["parquet"])
        self.tell("repr", brought)
        self.seen["ingested"] = self.ids("db.in")
        self.tell("repr", attach(spark, catalog, "db"))
        self.seen["sql"] = spark.sql("select count(*) from db.in").collect()[0][0]

    def streams(self) -> None:
        write(self.spark.range(0), self.catalog, "db.sink")
        for step in range(2):
            df = read_stream(self.spark, self.catalog, T)
            writer = write_stream(
                df, self.catalog, "db.sink", query_id="q", checkpoint=str(self.out / "checkpoint")
            )
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
            self.tell("stream", query, query.lastProgress, query.status, *query.recentProgress)
            if not step:
                write(self.spark.range(200, 203), self.catalog, T, "append")
        plain = self.spark.readStream.format("lance").options(**self.plain(T)).load()
        told = self.plain("db.made", query_id="p", checkpointLocation=str(self.out / "plain"))
        sink = plain.writeStream.format("lance").options(**told).trigger(availableNow=True)
        query = sink.start()
        query.awaitTermination()
        self.tell("stream", query.lastProgress, query.explain(extended=True))
        self.seen["sink"] = self.ids("db.sink")

    def plans(self) -> None:
        ours = read(self.spark, self.catalog, T, filter="id > 3")
        named = self.spark.read.format("lance").options(**self.plain(T)).load()
        place = self.catalog.open_table(["db", "t"]).uri
        bare = self.spark.read.format("lance").options(**self.properties).load(place)
        for frame in (ours, named, bare):
            frame.collect()
            self.tell("plan", frame, *_explained(frame))
        self.spark.range(300, 302).write.format("lance").options(**self.plain("db.made")).mode(
            "append"
        ).save()
        self.seen["plain"] = [named.count(), bare.count()]
        # What is to be found wherever a plan is shown.
        frame = named.where(f"id < {self.told['planted']}")
        self.seen["with planted"] = len(frame.collect())
        self.tell("plan", *_explained(frame))

    def pipelines(self) -> None:
        pipeline = load(PIPELINE)
        report = pipeline.run(self.spark, self.catalog, "run-1", progress=self.progress)
        self.tell("pipeline", pipeline, *pipeline.plan(), report, report.as_dict())
        self.seen["even"] = self.ids("db.even")
        file = self.out / "shop.toml"
        file.write_text(PIPELINE)
        for words in (("pipeline", "plan", str(file)), ("pipeline", "run", str(file))):
            self.cli(*words)
        self.seen["runs"] = count(self.catalog, "lance_catalog_runs.pipeline_runs")
        records = read(self.spark, self.catalog, "lance_catalog_runs.pipeline_runs")
        self.tell("pipeline", *(row.asDict(recursive=True) for row in records.collect()))

    def progress(self, event: object) -> None:
        self.tell("pipeline", event)

    def cli(self, *words: str, **other: str) -> None:
        given = {**self.told["storage"], **other}
        storage = [f"--storage={key}={value}" for key, value in given.items()]
        ran = cli("--root", self.told["root"], *storage, *words)
        self.tell("cli", words, ran.code, ran.out, ran.err)
        self.seen.setdefault("cli", []).append(ran.code)

    def upkeep(self) -> None:
        for name in ("inventory", "compact", "verify"):
            rows = getattr(jobs, name)(self.spark, self.catalog, "db").collect()
            self.tell("jobs", *rows)
            self.seen[name] = sorted({row["status"] for row in rows})
            self.cli("spark", name, "db")
        self.seen["after compaction"] = self.ids(T)

    def failures(self) -> None:
        wrong = {**self.properties, "storage.aws_secret_access_key": self.told["wrong"]}
        other = connect(self.told["root"], **wrong)
        missing = connect("s3://no-such-bucket-here/root", **self.properties)
        # Told to the tasks alone: the driver has opened the table before.
        late = read(self.spark, self.catalog, "db.in")
        self.catalog.drop_table({"id": ["db", "in"]}, purge=True)
        wrong_width = self.spark.sql("select id, array(1.0f, 2.0f) as v from range(3)")
        tried: list[Callable[[], Any]] = [
            lambda: read(self.spark, other, T).collect(),
            lambda: write(self.spark.range(3), other, T, "append"),
            lambda: read(self.spark, missing, T).collect(),
            lambda: ingest(self.spark, self.catalog, "db.no", "s3://no-such-bucket-here/x.parquet"),
            lambda: late.collect(),
            lambda: write(wrong_width, self.catalog, "db.vectors", vectors={"v": 3}),
            lambda: self.spark.read.format("lance").options(**self.plain("db.absent")).load(),
            lambda: (
                self.spark.read.format("lance")
                .options(**{**self.plain(T), **wrong})
                .load()
                .collect()
            ),
            lambda: jobs.verify(self.spark, other, "db").collect(),
        ]
        failed = 0
        for act in tried:
            try:
                act()
            except (PySparkException, LanceNamespaceError, OSError) as error:
                failed += 1
                cause: BaseException | None = error
                while cause is not None:
                    self.tell("errors", type(cause), cause, repr(cause))
                    cause = cause.__cause__
        self.seen["failed"] = [failed, len(tried)]
        self.cli("spark", "verify", "db", aws_secret_access_key=self.told["wrong"])

    def shown(self) -> None:
        ref = resolve(self.catalog)
        self.tell("repr", self.catalog, ref, repr(ref), [ref], location_of(self.plain(T)))
        self.tell("repr", Location(ref, ("db", "t")), ReadOptions.from_options(self.plain(T)))
        for name, text in _pages(self.spark):
            self.tell(f"ui-{name}", text)


def _session(out: Path) -> SparkSession:
    settings = out / "log4j2.properties"
    settings.write_text(
        "rootLogger.level = info\n"
        "rootLogger.appenderRef.file.ref = file\n"
        "logger.sql.name = org.apache.spark.sql\nlogger.sql.level = debug\n"
        "logger.python.name = org.apache.spark.api.python\nlogger.python.level = debug\n"
        "appender.file.type = File\nappender.file.name = file\n"
        f"appender.file.fileName = {out / 'spark.log'}\n"
        "appender.file.layout.type = PatternLayout\n"
        "appender.file.layout.pattern = %d %p %c: %m%n%ex\n"
    )
    (out / "events").mkdir()
    return session(
        "s3",
        master="local[2]",
        config={
            "spark.ui.enabled": "true",
            "spark.ui.port": "0",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(out / "warehouse"),
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": str(out / "events"),
            "spark.eventLog.compress": "false",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={settings}",
        },
    )


def _explained(frame: Any) -> Iterator[str]:
    for mode in ("simple", "extended", "formatted", "cost"):
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            frame.explain(mode=mode)
        yield shown.getvalue()
    execution = frame._jdf.queryExecution()
    yield from (execution.toString(), execution.logical().toString(), execution.debug().toString())


def _pages(spark: SparkSession) -> Iterator[tuple[str, str]]:
    """What the UI and its REST interface tell, of every statement and job."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    base = str(spark.sparkContext.uiWebUrl)
    api = f"/api/v1/applications/{spark.sparkContext.applicationId}"
    statements = _get(base, f"{api}/sql?details=true&planDescription=true&length=10000")
    yield "sql", statements
    for name in ("jobs", "stages?details=true", "environment", "allexecutors", "storage/rdd"):
        yield name.split("?")[0].replace("/", "-"), _get(base, f"{api}/{name}")
    for page in ("SQL", "jobs", "stages", "environment", "StreamingQuery", "executors", "storage"):
        yield f"page-{page}", _get(base, f"/{page}/")
    for one in json.loads(statements):
        yield "page-execution", _get(base, f"/SQL/execution/?id={one['id']}")
    for job in json.loads(_get(base, f"{api}/jobs")):
        yield "page-job", _get(base, f"/jobs/job/?id={job['jobId']}")


def _get(base: str, path: str) -> str:
    with urllib.request.urlopen(base + path, timeout=60) as answer:
        found: bytes = answer.read()
    return found.decode()


def main() -> None:
    told = json.loads(sys.argv[1])
    if told["verb"] == "append":
        properties = {f"storage.{key}": value for key, value in told["storage"].items()}
        config = {"spark.ui.enabled": "false", "spark.driver.bindAddress": "127.0.0.1"}
        spark = session("killed", master="local[2]", config=config)
        catalog = connect(told["root"], **properties)
        write(spark.range(100, 120, 1, 2), catalog, T, "append", job_id="killed")
        return
    tour = Tour(told)
    for act in (
        tour.modes,
        tour.streams,
        tour.plans,
        tour.pipelines,
        tour.upkeep,
        tour.failures,
        tour.shown,
    ):
        act()
        sys.stdout.write(f"{act.__name__} done\n")
        sys.stdout.flush()
    tour.spark.stop()
    (tour.out / "seen.json").write_text(json.dumps(tour.seen))


if __name__ == "__main__":
    main()
