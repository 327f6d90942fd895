"""Deleting the objects of one table: in batches, several at a time, each behind a fence.

On object stores a table's directory may be used again under the same name, and version files have
the same names in every lineage; all other files have unique ones. So the version files go first:
a purger that sleeps later on can only ever delete what nobody else has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from threading import Lock
from typing import Final

from lance_catalog.failpoints import hit
from lance_catalog.storage.port import ObjectInfo, Progress, Store

__all__ = ["Count", "delete_below", "measure"]

BATCH: Final = 1000
_PARALLEL: Final = 8
#: Writers that still have the table open may add files; each round deletes what came meanwhile.
_ROUNDS: Final = 16


@dataclass(slots=True)
class Count:
    """How much there is, or was deleted."""

    objects: int = 0
    bytes: int = 0
    #: How many objects there were before the first was deleted.
    found: int = 0


def measure(store: Store, prefix: str) -> Count:
    """Count what lies below a prefix."""
    found = Count()
    for info in store.list_tree(prefix):
        found.objects += 1
        found.bytes += info.size
    return found


def delete_below(
    store: Store,
    prefix: str,
    fence: Callable[[], None],
    count: Count,
    progress: Progress | None = None,
) -> None:
    """Delete every object below a prefix; ``fence`` raises once they are not ours any more.

    ``count`` grows with what is deleted, also when this ends in an error.
    """
    for _ in range(_ROUNDS):
        found = list(store.list_tree(prefix))
        if not found:
            return
        count.found = count.found or len(found)
        named = [info for info in found if _has_common_name(info)]
        for batch in _batches(named):
            _delete(store, batch, fence, count, progress, Lock())
        rest = [info for info in found if not _has_common_name(info)]
        lock = Lock()
        with ThreadPoolExecutor(_PARALLEL) as pool:
            tasks = [
                pool.submit(_delete, store, batch, fence, count, progress, lock)
                for batch in _batches(rest)
            ]
            try:
                for task in tasks:
                    task.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise


def _has_common_name(info: ObjectInfo) -> bool:
    """Whether the next table at the same place would use the same name."""
    return "/_versions/" in info.path or "/data/" not in info.path


def _batches(found: Iterable[ObjectInfo]) -> Iterator[list[ObjectInfo]]:
    rest = iter(found)
    while batch := list(islice(rest, BATCH)):
        yield batch


def _delete(
    store: Store,
    batch: list[ObjectInfo],
    fence: Callable[[], None],
    count: Count,
    progress: Progress | None,
    lock: Lock,
) -> None:
    hit("purge.batch")
    fence()
    store.delete([info.path for info in batch])
    with lock:
        count.objects += len(batch)
        count.bytes += sum(info.size for info in batch)
        if progress is not None:
            progress(count.objects, count.bytes)
