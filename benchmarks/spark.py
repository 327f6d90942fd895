"""The data pipeline on Spark, beside parquet written and read by the same session.

Both sides take turns within one session, after a round that does not count. What a Python source
costs at the least is measured too: a reader that makes its batches up, a reader of nothing.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import lance
import lance_namespace
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.catalogs import Catalogs
from benchmarks.figures import Figure, percentile
from benchmarks.plans import Plan
from benchmarks.sides import OURS, connect

__all__ = ["spark"]

_WIDTH: Final = 768
_NAMESPACE: Final = "bench"
#: Files of each parquet source, so that both sides have tasks for all cores.
_FILES: Final = 4

Say = Callable[[str], None]


def spark(plan: Plan, catalogs: Catalogs, say: Say) -> list[Figure]:
    """Measure ingest, writes, reads, a filtered read, a count and an inventory."""
    import lance_catalog.spark as ours

    root = catalogs.empty()
    catalog = connect(OURS, str(root / "catalog"))
    catalog.create_namespace(lance_namespace.CreateNamespaceRequest(id=[_NAMESPACE]))
    session = ours.session(
        "benchmarks",
        master="local[2]",
        config={
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.warehouse.dir": str(root / "warehouse"),
            # What is written is kept in memory first, so that reading it is not measured.
            "spark.driver.memory": "8g",
        },
    )
    session.sparkContext.setLogLevel("ERROR")
    try:
        bench = _Bench(session, catalog, root, plan.spark_rounds)
        say(f"spark: {plan.spark_rows:,} narrow rows, {plan.spark_vectors:,} vectors of {_WIDTH}")
        bench.make(plan.spark_rows, plan.spark_vectors)
        figures: list[Figure] = []
        for part in (bench.ingest, bench.writes, bench.reads, bench.filtered, bench.counts):
            say(f"spark: {part.__name__}")
            figures += part()
        say(f"spark: an inventory of {plan.spark_tables:,} tables")
        figures.append(bench.inventory(catalogs.empty(), plan.spark_tables))
        return figures
    finally:
        session.stop()
        catalogs.discard(root)


class _Bench:
    """The tables and files of one session, and what is done with them."""

    def __init__(self, session: Any, catalog: Any, root: Path, rounds: int) -> None:
        self.session, self.catalog, self.root, self.rounds = session, catalog, root, rounds
        self.rows = 0
        self._made = 0

    def make(self, rows: int, vectors: int) -> None:
        """Write the parquet sources, and the same rows as Lance tables."""
        self.rows = rows
        for name, batches in (("narrow", _narrow(rows)), ("vectors", _vectors(vectors))):
            folder = self.root / name
            folder.mkdir()
            for number, table in enumerate(batches):
                pq.write_table(table, folder / f"{number}.parquet")
                lance.write_dataset(
                    _fixed(table),
                    namespace_client=self.catalog,
                    table_id=[_NAMESPACE, name],
                    mode="append" if number else "create",
                )
        table = lance.dataset(namespace_client=self.catalog, table_id=[_NAMESPACE, "narrow"])
        table.create_scalar_index("id", "BTREE")

    def _parquet(self, name: str) -> Any:
        return self.session.read.parquet(str(self.root / name))

    def _fresh(self) -> tuple[str, list[str]]:
        """Return a path and a table that nobody has written to."""
        self._made += 1
        return str(self.root / f"out{self._made}"), [_NAMESPACE, f"out{self._made}"]

    def _turns(self, name: str, sides: dict[str, Callable[[], Any]], note: str = "") -> Figure:
        """Run sides in turns; the first round does not count."""
        times: dict[str, list[float]] = {side: [] for side in sides}
        order = list(sides)
        for number in range(self.rounds + 1):
            for side in order:
                start = time.perf_counter()
                sides[side]()
                if number:
                    times[side].append(time.perf_counter() - start)
            order.append(order.pop(0))
        p50 = {side: percentile(found, 0.5) for side, found in times.items()}
        floor = f"a Python source alone {p50['floor']:.2f} s" if "floor" in p50 else ""
        return Figure(
            "spark",
            name,
            None,
            "s",
            p50["ours"],
            p50["parquet"],
            p50["ours"] / p50["parquet"],
            "ours/native",
            "; ".join(filter(None, [floor, note])),
            {side: {"seconds": found} for side, found in times.items()},
        )

    def ingest(self) -> list[Figure]:
        import lance_catalog.spark as ours

        source = str(self.root / "narrow")

        def through_spark() -> None:
            path, _ = self._fresh()
            self._parquet("narrow").write.parquet(path)
            shutil.rmtree(path)

        def direct() -> None:
            _, table = self._fresh()
            ours.ingest(self.session, self.catalog, table, f"{source}/*.parquet")
            self.catalog.drop_table({"id": table}, purge=True)

        return [self._turns("ingest, narrow", {"ours": direct, "parquet": through_spark})]

    def writes(self) -> list[Figure]:
        import lance_catalog.spark as ours

        figures = []
        for name, vectors in (("narrow", None), ("vectors", {"emb": _WIDTH})):
            df = self._parquet(name).cache()
            df.count()

            def parquet(df: Any = df) -> None:
                path, _ = self._fresh()
                df.write.parquet(path)
                shutil.rmtree(path)

            def lance_(df: Any = df, vectors: Any = vectors) -> None:
                _, table = self._fresh()
                ours.write(df, self.catalog, table, vectors=vectors)
                self.catalog.drop_table({"id": table}, purge=True)

            figures.append(self._turns(f"write, {name}", {"ours": lance_, "parquet": parquet}))
            df.unpersist()
        return figures

    def reads(self) -> list[Figure]:
        import lance_catalog.spark as ours

        figures = []
        for title, name, columns in (
            ("read, narrow", "narrow", None),
            ("read, vectors", "vectors", None),
            ("read, one column of ten", "narrow", ["c3"]),
        ):
            table = [_NAMESPACE, name]

            def parquet(name: str = name, columns: Any = columns) -> None:
                found = self._parquet(name)
                _drain(found.select(*columns) if columns else found)

            def lance_(table: Any = table, columns: Any = columns) -> None:
                _drain(ours.read(self.session, self.catalog, table, columns=columns))

            sides: dict[str, Callable[[], Any]] = {"ours": lance_, "parquet": parquet}
            sides["floor"] = self._floor(name, columns)
            figures.append(self._turns(title, sides))
        return figures

    def _floor(self, name: str, columns: list[str] | None) -> Callable[[], Any]:
        """Return a read of as many rows of the same columns that a Python source makes up."""
        from benchmarks.spark_floor import drained

        path = str(self.root / name / "0.parquet")
        count = sum(f.count_rows() for f in _fragments(self.catalog, name))
        return drained(self.session, path, columns, count)

    def filtered(self) -> list[Figure]:
        import lance_catalog.spark as ours

        low = self.rows // 2
        where = f"id >= {low} AND id < {low + self.rows // 1000}"
        sides: dict[str, Callable[[], Any]] = {
            "ours": lambda: _drain(
                ours.read(self.session, self.catalog, [_NAMESPACE, "narrow"], filter=where)
            ),
            "parquet": lambda: _drain(self._parquet("narrow").where(where)),
        }
        return [self._turns("filtered read, 0.1 %", sides)]

    def counts(self) -> list[Figure]:
        import lance_catalog.spark as ours

        sides: dict[str, Callable[[], Any]] = {
            "ours": lambda: ours.count(self.catalog, [_NAMESPACE, "narrow"]),
            "parquet": lambda: self._parquet("narrow").count(),
        }
        return [self._turns("count", sides)]

    def inventory(self, root: Path, tables: int) -> Figure:
        from lance_catalog.spark import jobs

        catalog = connect(OURS, str(root))
        row = pa.table({"n": pa.array([1], pa.int64())})
        names = [f"t{number:05d}" for number in range(tables)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda name: _create(catalog, name, row), names))

        def by_threads() -> None:
            with ThreadPoolExecutor(16) as pool:
                list(pool.map(lambda name: _look(catalog, name), names))

        sides: dict[str, Callable[[], Any]] = {
            "ours": lambda: jobs.inventory(self.session, catalog).collect(),
            "parquet": by_threads,
        }
        return self._turns("inventory", sides, f"{tables:,} tables; native: a thread pool")


def _create(catalog: Any, name: str, row: pa.Table) -> None:
    lance.write_dataset(row, namespace_client=catalog, table_id=[name], mode="create")


def _look(catalog: Any, name: str) -> None:
    """What the inventory tells of a table, by hand."""
    table = lance.dataset(catalog.describe_table({"id": [name]}).location)
    table.count_rows()
    table.versions()
    table.list_indices()
    sum(file.file_size_bytes or 0 for f in table.get_fragments() for file in f.metadata.files)


def _drain(df: Any) -> None:
    df.write.format("noop").mode("overwrite").save()


def _fragments(catalog: Any, name: str) -> list[Any]:
    found = lance.dataset(namespace_client=catalog, table_id=[_NAMESPACE, name])
    fragments: list[Any] = found.get_fragments()
    return fragments


def _narrow(rows: int) -> Iterator[pa.Table]:
    """Ten columns: an id, numbers, a text of few values, one of many."""
    import numpy as np

    each = rows // _FILES
    for number in range(_FILES):
        chance = np.random.default_rng(number)
        ids = np.arange(number * each, (number + 1) * each, dtype=np.int64)
        columns: dict[str, Any] = {"id": ids}
        for place in range(1, 8):
            columns[f"c{place}"] = chance.integers(0, 1_000_000, each)
        columns["kind"] = pa.array(np.array(["view", "buy", "search"])[ids % 3])
        columns["name"] = pa.array([f"row {value}" for value in ids.tolist()])
        yield pa.table(columns)


def _fixed(table: pa.Table) -> pa.Table:
    """The rows as a Lance table has them: vectors of a fixed length."""
    fields = [
        field.with_type(pa.list_(pa.float32(), _WIDTH)) if pa.types.is_list(field.type) else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))


def _vectors(rows: int) -> Iterator[pa.Table]:
    import numpy as np

    each = rows // _FILES
    for number in range(_FILES):
        chance = np.random.default_rng(number)
        values = pa.array(chance.random(each * _WIDTH, dtype=np.float32))
        ids = pa.array(np.arange(number * each, (number + 1) * each, dtype=np.int64))
        # A plain list: parquet as Spark writes it has no other.
        offsets = pa.array(np.arange(0, each * _WIDTH + 1, _WIDTH, dtype=np.int32))
        yield pa.table({"id": ids, "emb": pa.ListArray.from_arrays(offsets, values)})
