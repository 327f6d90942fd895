"""How far Spark is with a job, told while it runs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Progress", "is_classic", "watched"]

#: Told while a job runs: how much is done, of how much.
Progress = Callable[[int, int | None], None]
_POLL_SECONDS: Final = 0.2


def is_classic(spark: Any) -> bool:
    """Whether the session drives Spark itself, and is no client of Spark Connect."""
    return ".connect." not in type(spark).__module__


@contextlib.contextmanager
def watched(
    spark: SparkSession, group: str, total: int, progress: Progress | None
) -> Iterator[None]:
    """Tell how many tasks are done, as a share of the items, while the block runs."""
    if progress is None:
        yield
        return
    progress(0, total)
    watch = _watched_jobs if is_classic(spark) else _watched_remote
    with watch(spark, group, lambda share: progress(int(total * share), total)):
        yield
    progress(total, total)


@contextlib.contextmanager
def _watched_jobs(spark: Any, group: str, told: Callable[[float], None]) -> Iterator[None]:
    context = spark.sparkContext
    names = ("spark.jobGroup.id", "spark.job.description")
    before = {name: context.getLocalProperty(name) for name in names}
    context.setJobGroup(group, "lance-catalog job")
    tracker = context.statusTracker()
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_POLL_SECONDS):
            told(_share(tracker, group))

    watcher = threading.Thread(target=watch, name="lance-catalog progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
        for name, value in before.items():
            context.setLocalProperty(name, value)


def _share(tracker: Any, group: str) -> float:
    done = every = 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info is not None else ():
            seen = tracker.getStageInfo(stage)
            if seen is not None:
                done, every = done + seen.numCompletedTasks, every + seen.numTasks
    return done / every if every else 0.0


@contextlib.contextmanager
def _watched_remote(spark: Any, group: str, told: Callable[[float], None]) -> Iterator[None]:
    def handler(stages: Any, **_: Any) -> None:
        every = sum(stage.num_tasks for stage in stages or ())
        if every:
            told(sum(stage.num_completed_tasks for stage in stages) / every)

    spark.registerProgressHandler(handler)
    try:
        yield
    finally:
        spark.removeProgressHandler(handler)
