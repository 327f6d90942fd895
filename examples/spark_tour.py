"""The second half of ``make demo``: a pipeline on local Spark, on data made here."""

from __future__ import annotations

import math
import os
import random
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.padding import Padding
from rich.table import Table

import lance_catalog
from lance_catalog.cli.spark_session import silent_start
from lance_catalog.spark import attach, read, session
from lance_catalog.spark.pipeline import RunReport, load

PIPELINES = Path(__file__).parent / "pipeline"
DIMENSION = 64
CATEGORIES = ("books", "music", "tools", "garden")


def make_documents(raw: str, count: int = 1_000) -> None:
    """Write documents whose embeddings lie around the direction of their category."""
    rng = random.Random(7)
    centres = [[rng.gauss(0, 1) for _ in range(DIMENSION)] for _ in CATEGORIES]
    rows = []
    for number in range(count):
        kind = number % len(CATEGORIES)
        vector = [value + rng.gauss(0, 0.4) for value in centres[kind]]
        length = math.sqrt(sum(value * value for value in vector))
        rows.append(
            {
                "id": number,
                "title": f"{CATEGORIES[kind]} number {number}",
                "category": CATEGORIES[kind],
                "embedding": [value / length for value in vector],
            }
        )
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("title", pa.string()),
            ("category", pa.string()),
            ("embedding", pa.list_(pa.float32())),
        ]
    )
    folder = Path(raw, "documents")
    folder.mkdir(parents=True)
    for part in range(2):
        pq.write_table(pa.Table.from_pylist(rows[part::2], schema), folder / f"{part}.parquet")


def make_events(raw: str, day: str, seed: int, *, factor: float = 1.0, count: int = 20_000) -> None:
    """Write a day of events: some without an id, some twice, as they come."""
    rng = random.Random(seed)
    start = datetime.fromisoformat(day).replace(tzinfo=UTC)
    rows: list[dict[str, Any]] = []
    for number in range(count):
        rows.append(
            {
                "id": None if number % 500 == 0 else seed * 1_000_000 + number,
                "document": rng.randrange(1_000),
                "kind": rng.choice(("view", "view", "view", "purchase")),
                "amount": round(rng.uniform(1, 90) * factor, 2),
                "at": start + timedelta(seconds=rng.randrange(86_400)),
            }
        )
    rows += rows[: count // 100]
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("document", pa.int64()),
            ("kind", pa.string()),
            ("amount", pa.float64()),
            ("at", pa.timestamp("us", "UTC")),
        ]
    )
    folder = Path(raw, "events")
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema), folder / f"{day}.parquet")


def spark_tour(console: Console, root: str, raw: str) -> None:
    """Ingest, clean, split, publish, query, go on, and undo."""
    say = _Sayer(console)
    say.step("6. A data pipeline on local Spark", "lance_catalog.spark.session()")
    catalog = lance_catalog.connect(root)
    catalog.enable_managed_versions()
    catalog.create_namespace({"id": ["shop"]})
    make_documents(raw)
    make_events(raw, "2026-11-14", seed=1)
    say.line("starting it takes some seconds, and its first job some more")
    with tempfile.TemporaryDirectory(prefix="lance-catalog-spark-") as scratch:
        with silent_start():
            spark = session("demo", config=_quiet(scratch))
        try:
            _publish(say, spark, catalog, raw)
            _query(say, spark, catalog)
            _go_on(say, spark, catalog, raw)
            _undo(say, spark, catalog, raw)
        finally:
            spark.stop()


def _publish(say: _Sayer, spark: Any, catalog: Any, raw: str) -> None:
    say.step(
        "7. Files straight into a table, with its indices",
        'load("documents.toml", {"raw": raw}).run(spark, catalog)',
    )
    say.report(load(PIPELINES / "documents.toml", {"raw": raw}).run(spark, catalog).check())
    say.step(
        "8. Events: cleaned, joined, split, and published as two tables by one commit",
        "lance-catalog pipeline run events.toml --set day=2026-11-14 --job-id events-14",
    )
    pipeline = _events(raw, "2026-11-14")
    for node in pipeline.plan():
        say.line(f"[dim]{node.kind:7}[/dim] {node.name:10} {', '.join(node.inputs)}")
    say.report(pipeline.run(spark, catalog, "events-14").check())
    again = pipeline.run(spark, catalog, "events-14").check()
    say.line(f"the same job id again: {again.status}, nothing is written twice")


def _query(say: _Sayer, spark: Any, catalog: Any) -> None:
    say.step("9. Query them: SQL, and a search by vector", 'attach(spark, catalog, "shop")')
    attach(spark, catalog, "shop")
    _revenue(say, spark)
    probe = catalog.open_table(["shop", "documents"]).to_table(filter="id = 42").to_pylist()[0]
    near = {"column": "embedding", "q": probe["embedding"], "k": 3}
    found = read(spark, catalog, "shop.documents", columns=["title"], nearest=near).collect()
    titles = ", ".join(row["title"] for row in sorted(found, key=lambda row: row["_distance"]))
    say.line(f"nearest to '{probe['title']}': {titles}")


def _revenue(say: _Sayer, spark: Any) -> None:
    query = (
        "select category, count(*) as purchases, round(sum(amount), 2) as revenue "
        "from shop.purchases group by category order by category"
    )
    rows = [
        {**row.asDict(), "revenue": f"{row['revenue']:,.2f}"} for row in spark.sql(query).collect()
    ]
    say.table(rows, ("category", "purchases", "revenue"))


def _go_on(say: _Sayer, spark: Any, catalog: Any, raw: str) -> None:
    say.step("10. The next day is added to both", "... --set day=2026-11-15 --job-id events-15")
    make_events(raw, "2026-11-15", seed=2)
    say.report(_events(raw, "2026-11-15").run(spark, catalog, "events-15").check())
    say.step("11. Rows that are not as expected stop the publish", 'expect = "amount >= 0"')
    make_events(raw, "2026-11-16", seed=3, factor=-1.0)
    report = _events(raw, "2026-11-16").run(spark, catalog, "events-16")
    say.line(f"{report.status}: {report.failures[0].message}")
    say.line(f"for example {report.failures[0].sample[0]}")


def _undo(say: _Sayer, spark: Any, catalog: Any, raw: str) -> None:
    say.step("12. A bad publish that nobody expected: amounts in cents", "... --set day=2026-11-17")
    tables = (["shop", "purchases"], ["shop", "views"])
    before = [catalog.open_table(names).version for names in tables]
    make_events(raw, "2026-11-17", seed=4, factor=100.0)
    say.report(_events(raw, "2026-11-17").run(spark, catalog, "events-17").check())
    _revenue(say, spark)
    say.step(
        "13. Undo it: both tables as they were, by one commit again",
        "with catalog.transaction() as t: t.open(table).checkout_version(before).restore()",
    )
    with catalog.transaction() as transaction:
        for names, version in zip(tables, before, strict=True):
            transaction.open(names).checkout_version(version).restore()
    for names, version in zip(tables, before, strict=True):
        now = catalog.open_table(names).version
        say.line(f"{'.'.join(names)}: version {now} has the rows of version {version}")
    _revenue(say, spark)
    runs = read(spark, catalog, "lance_catalog_runs.pipeline_runs", columns=["job_id", "status"])
    told = ", ".join(f"{row['job_id']} {row['status']}" for row in runs.collect()[1:])
    say.line(f"what ran is on record: {told}")


def _events(raw: str, day: str) -> Any:
    return load(PIPELINES / "events.toml", {"raw": raw, "day": day})


def _quiet(scratch: str) -> dict[str, str]:
    return {
        "spark.sql.warehouse.dir": scratch,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }


class _Sayer:
    """Prints what happens."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def step(self, title: str, code: str) -> None:
        self._console.print(f"\n[bold]{title}[/bold]")
        self._console.print(f"  {code}", style="dim", markup=False)

    def line(self, text: str) -> None:
        self._console.print(f"  {text}")

    def table(self, rows: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
        shown = Table(*columns, box=None, pad_edge=False, padding=(0, 2), header_style="dim")
        for row in rows:
            shown.add_row(*(str(row[column]) for column in columns))
        self._console.print(Padding(shown, (0, 2)))

    def report(self, report: RunReport) -> None:
        rows = [
            {**target.as_dict(), "rows": f"{target.rows:,}", "bytes": f"{target.bytes:,}"}
            for target in report.targets
        ]
        self.table(rows, ("table", "version", "rows", "bytes"))
        for target in report.targets:
            if target.indices:
                self.line(f"indices of {target.table}: {', '.join(target.indices)}")
        self.line(f"{report.status} in {report.seconds:.1f} s")
