"""``compact``: small fragments merged, deleted rows dropped; planned here, rewritten by executors.

A plan is cut by Lance into tasks that are independent of each other. Executors run them, and what
they wrote is committed here, table by table. On a catalog that manages versions the commit goes
through it as any other.
"""

from __future__ import annotations

import pickle
import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from lance.optimize import Compaction
from pyspark import TaskContext

from lance_catalog.identifiers import Identifier
from lance_catalog.spark.catalogs import CatalogLike, CatalogRef, resolve
from lance_catalog.spark.jobs.pinned import Pinned
from lance_catalog.spark.jobs.rewritten import CONFLICT, Rewritten
from lance_catalog.spark.jobs.scope import Scope, chosen, frame, on_driver
from lance_catalog.spark.jobs.sweep import GONE, Item, Progress, Row, attempt, sweep

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lance_catalog.directory.namespace import DirectoryNamespace

__all__ = ["COLUMNS", "compact"]

COLUMNS: Final = (
    "version bigint, fragments_before int, fragments_after int, files_removed int, "
    "files_added int, tasks int"
)
_REWRITTEN: Final = "result binary, tried int"
#: What a rewrite holds of a table at a time, and what Lance may read ahead of it.
_BATCH_BYTES: Final = 4 << 20
_IO_BUFFER: Final = 32 << 20
_MOST_ROWS: Final = 8192


def compact(
    spark: SparkSession,
    catalog: CatalogLike,
    scope: Scope = None,
    *,
    target_rows: int | None = None,
    options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
    tasks: int | None = None,
    threads: int = 2,
    retries: int = 3,
    progress: Progress | None = None,
) -> DataFrame:
    """Merge the small fragments of a table, of a namespace with all below it, or of all tables.

    ``options`` are those of Lance's compaction; ``target_rows`` is how many rows a fragment should
    have. A row tells what was done; ``status`` is ``nothing`` where nothing was small, and with
    ``dry_run`` ``would compact``. Beside appends it is safe; a table that others delete from
    meanwhile is planned again, ``retries`` times.
    """
    ref = resolve(catalog)
    opened = ref.open()
    wanted = {
        **(options or {}),
        **({"target_rows_per_fragment": target_rows} if target_rows else {}),
    }
    waiting = chosen(opened, scope)
    job = _Compaction(spark, ref, opened, wanted, tasks, threads, retries)
    if dry_run:
        planned = on_driver(job.plan, waiting)
        rows = [{**p.row, "status": "would compact"} if p.work else p.row for p in planned]
        return frame(spark, rows, COLUMNS)
    done: dict[Identifier, Row] = {}
    for turn in range(retries + 1):
        for names, row in job.run(waiting, progress).items():
            done[names] = {**row, "attempts": turn + 1}
        waiting = [names for names in waiting if done[names].pop(CONFLICT, False)]
        if not waiting:
            break
    return frame(spark, (done[names] for names in sorted(done)), COLUMNS)


class _Planned:
    """What is to be done to one table."""

    def __init__(self, row: Row, work: Sequence[bytes] = (), pinned: Pinned | None = None) -> None:
        self.row, self.work, self.pinned = row, work, pinned


class _Compaction:
    """Plans, rewrites and commits some tables, as often as others are in the way."""

    def __init__(
        self,
        spark: SparkSession,
        ref: CatalogRef,
        catalog: DirectoryNamespace,
        options: Mapping[str, Any],
        tasks: int | None,
        threads: int,
        retries: int,
    ) -> None:
        self._spark, self._ref, self._catalog = spark, ref, catalog
        self._options: Any = dict(options)
        self._tasks, self._threads, self._retries = tasks, threads, retries
        self._id = f"compact-{uuid.uuid4().hex}"

    def plan(self, names: Identifier) -> _Planned:
        """Look at one table; nothing is written."""
        found: list[tuple[Pinned, list[bytes]]] = []

        def work() -> list[Row]:
            pinned = Pinned.of(self._catalog, names)
            plan = Compaction.plan(pinned.dataset, _bounded(pinned.dataset) | self._options)
            count = len(pinned.dataset.get_fragments())
            found.append((pinned, [pickle.dumps(task) for task in plan.tasks]))
            row: Row = {
                "version": pinned.dataset.version,
                "fragments_before": count,
                "fragments_after": count,
                "files_removed": 0,
                "files_added": 0,
                "tasks": len(plan.tasks),
                "status": "compacted" if plan.tasks else "nothing",
            }
            return [row]

        row = dict(attempt(work, names, self._retries, self._catalog)[0])
        return _Planned(row, found[-1][1], found[-1][0]) if found else _Planned(row)

    def run(self, tables: list[Identifier], progress: Progress | None) -> dict[Identifier, Row]:
        """Compact tables once; a row with the key CONFLICT is of one that is to be tried again."""
        planned = dict(zip(tables, on_driver(self.plan, tables), strict=True))
        rewritten = {
            names: Rewritten(self._catalog, one.pinned, self._id)
            for names, one in planned.items()
            if one.pinned is not None and one.work
        }
        items = [
            Item(names, (planned[names].row["version"], task))
            for names in rewritten
            for task in planned[names].work
        ]
        answers: dict[Identifier, list[Row]] = defaultdict(list)
        try:
            for one in rewritten.values():
                one.begin()
            for row in self._rewrite(items, progress):
                answers[tuple(row["id"])].append(row)
            commits = on_driver(
                lambda names: self._commit(names, rewritten[names], answers[names]),
                list(rewritten),
            )
        finally:
            # Where it did not come to an end: the record stays, and tells a check of the files.
            for one in rewritten.values():
                one.stop()
        rows = {names: one.row for names, one in planned.items()}
        for names, end in zip(rewritten, commits, strict=True):
            rows[names] = {**rows[names], **end}
        return rows

    def _rewrite(self, items: list[Item], progress: Progress | None) -> list[Row]:
        return sweep(
            self._spark,
            self._ref,
            items,
            _rewrite,
            _REWRITTEN,
            threads=self._threads,
            tasks=self._tasks,
            retries=self._retries,
            progress=progress,
            live=True,
        )

    def _commit(self, names: Identifier, rewritten: Rewritten, found: list[Row]) -> Row:
        results = [pickle.loads(row["result"]) for row in found if row["status"] == "ok"]
        failed = [row for row in found if row["status"] != "ok"]
        again = any(row["tried"] for row in found)

        def work() -> list[Row]:
            row = rewritten.land(results, repeated=again)
            if failed and not row.get(CONFLICT):
                # What was rewritten is good by itself; the rest waits for the next run.
                told = "partial" if results else failed[0]["status"]
                row |= {"status": told, "error": failed[0]["error"]}
            return [row]

        ended = dict(attempt(work, names, 0, self._catalog)[0])
        if ended["status"] == "ok":
            ended["status"] = "compacted"
        if ended["status"] == GONE:
            ended.pop(CONFLICT, None)
        return ended


def _bounded(dataset: Any) -> Any:
    """Return how much to read at a time: Lance takes 8192 rows, however wide they are."""
    widest = max((_width(one) for one in dataset.get_fragments()), default=1)
    rows = max(1, min(_MOST_ROWS, _BATCH_BYTES // widest))
    return {"batch_size": rows, "io_buffer_size": _IO_BUFFER}


def _width(fragment: Any) -> int:
    size = sum(file.file_size_bytes or 0 for file in fragment.metadata.files)
    return int(max(1, size // max(1, fragment.physical_rows)))


def _rewrite(catalog: DirectoryNamespace, item: Item) -> list[Row]:
    """Run one task of a plan; Lance deletes what it wrote when that fails."""
    version, task = item.payload
    dataset: Any = catalog.open_table(list(item.names), version=version)
    result = pickle.loads(task).execute(dataset)
    context = TaskContext.get()
    tried = 0 if context is None else int(context.attemptNumber())
    return [{"result": pickle.dumps(result), "tried": tried}]
