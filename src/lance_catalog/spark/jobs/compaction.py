"""``compact``: small fragments merged, deleted rows dropped; planned here, rewritten by executors.

A plan is cut by Lance into tasks that are independent of each other. Executors run them, and what
they wrote is committed here, table by table. On a catalog that manages versions the commit goes
through it as any other.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from lance.optimize import Compaction

from lance_catalog.identifiers import Identifier
from lance_catalog.spark.catalogs import CatalogLike, resolve
from lance_catalog.spark.jobs.scope import Scope, chosen, frame, on_driver
from lance_catalog.spark.jobs.sweep import Item, Progress, Row, attempt, sweep

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lance_catalog.directory.namespace import DirectoryNamespace

__all__ = ["COLUMNS", "compact"]

COLUMNS: Final = (
    "version bigint, fragments_before int, fragments_after int, files_removed int, "
    "files_added int, tasks int"
)
_REWRITTEN: Final = "result binary"


def compact(
    spark: SparkSession,
    catalog: CatalogLike,
    scope: Scope = None,
    *,
    target_rows: int | None = None,
    options: Mapping[str, Any] | None = None,
    tasks: int | None = None,
    threads: int = 2,
    retries: int = 3,
    progress: Progress | None = None,
) -> DataFrame:
    """Merge the small fragments of a table, of a namespace with all below it, or of all tables.

    ``options`` are those of Lance's compaction; ``target_rows`` is how many rows a fragment should
    have. A row tells what was done; ``status`` is ``nothing`` where nothing was small. Beside
    appends it is safe; a table that others delete from meanwhile is planned again, ``retries``
    times.
    """
    ref = resolve(catalog)
    opened = ref.open()
    wanted = {
        **(options or {}),
        **({"target_rows_per_fragment": target_rows} if target_rows else {}),
    }
    waiting = chosen(opened, scope)
    done: dict[Identifier, Row] = {}
    for turn in range(retries + 1):
        job = _Round(spark, ref, opened, wanted, tasks, threads, retries)
        rows = job.run(waiting, progress)
        again = [names for names, row in rows.items() if row.pop("conflict", False)]
        done.update(rows)
        for names in rows:
            done[names]["attempts"] = turn + 1
        waiting = again
        if not waiting:
            break
    return frame(spark, (done[names] for names in sorted(done)), COLUMNS)


class _Round:
    """One plan, rewrite and commit of some tables."""

    def __init__(
        self,
        spark: SparkSession,
        ref: Any,
        catalog: DirectoryNamespace,
        options: Mapping[str, Any],
        tasks: int | None,
        threads: int,
        retries: int,
    ) -> None:
        self._spark, self._ref, self._catalog = spark, ref, catalog
        self._options: Any = dict(options)
        self._tasks = tasks
        self._threads, self._retries = threads, retries

    def run(self, tables: list[Identifier], progress: Progress | None) -> dict[Identifier, Row]:
        planned = dict(zip(tables, on_driver(self._plan, tables), strict=True))
        items = [
            Item(names, (row["read_version"], task))
            for names, row in planned.items()
            for task in row.get("work", ())
        ]
        found = sweep(
            self._spark,
            self._ref,
            items,
            _rewrite,
            _REWRITTEN,
            threads=self._threads,
            tasks=self._tasks,
            retries=self._retries,
            progress=progress,
        )
        rewritten: dict[Identifier, list[Row]] = defaultdict(list)
        for row in found:
            rewritten[tuple(row["id"])].append(row)
        touched = [names for names in tables if names in rewritten]
        commits = on_driver(
            lambda names: self._commit(names, planned[names], rewritten[names]), touched
        )
        return {**planned, **dict(zip(touched, commits, strict=True))}

    def _plan(self, names: Identifier) -> Row:
        def work() -> list[Row]:
            dataset: Any = self._catalog.open_table(list(names))
            plan = Compaction.plan(dataset, self._options)
            count = len(dataset.get_fragments())
            tasks = [pickle.dumps(task) for task in plan.tasks]
            row: Row = {
                "version": dataset.version,
                "fragments_before": count,
                "fragments_after": count,
                "files_removed": 0,
                "files_added": 0,
                "tasks": len(tasks),
                "read_version": plan.read_version,
                "work": tasks,
                "status": "compacted" if tasks else "nothing",
            }
            return [row]

        return dict(attempt(work, names, self._retries)[0])

    def _commit(self, names: Identifier, planned: Row, found: list[Row]) -> Row:
        results = [pickle.loads(row["result"]) for row in found if row["status"] == "ok"]
        failed = [row for row in found if row["status"] != "ok"]

        def work() -> list[Row]:
            if not results:
                return [{"status": "failed", "error": failed[0]["error"]}]
            dataset: Any = self._catalog.open_table(list(names), version=planned["read_version"])
            metrics = Compaction.commit(dataset, results)
            row: Row = {
                "version": self._catalog.open_table(list(names)).version,
                "fragments_after": planned["fragments_before"]
                - metrics.fragments_removed
                + metrics.fragments_added,
                "files_removed": metrics.files_removed,
                "files_added": metrics.files_added,
            }
            if failed:
                # What was rewritten is good by itself; the rest waits for the next run.
                row |= {"status": "partial", "error": failed[0]["error"]}
            return [row]

        ended = dict(attempt(work, names, 0)[0])
        conflict = ended["status"] == "failed" and bool(results)
        if ended["status"] == "ok":
            ended["status"] = "compacted"
        return {**planned, **ended, "conflict": conflict}


def _rewrite(catalog: DirectoryNamespace, item: Item) -> list[Row]:
    """Run one task of a plan; Lance deletes what it wrote when that fails."""
    version, task = item.payload
    dataset: Any = catalog.open_table(list(item.names), version=version)
    return [{"result": pickle.dumps(pickle.loads(task).execute(dataset))}]
