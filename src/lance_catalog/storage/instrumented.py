"""Stores around a store, for tests: one counts what is asked, one breaks it on demand.

Both see our own requests only. What Lance itself reads and writes goes past them; to count that
too, a proxy stands in front of the server or a digest of the tree is taken.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, TypeVar

from lance_catalog.storage.port import Content, Level, Names, ObjectInfo, Progress, Store

__all__ = ["WRITES", "CountingStore", "FaultyStore"]

T = TypeVar("T")

#: Operations that change the store.
WRITES: Final = frozenset(
    {
        "copy",
        "copy_if_absent",
        "delete",
        "delete_tree",
        "exclusive",
        "move_aside",
        "probe_put_if_absent",
        "prune",
        "put",
        "put_hint",
        "put_if_absent",
    }
)


class _Around(Store):
    """Passes everything on to a store; what it does besides is one method."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.uri = inner.uri
        self.lance_options = inner.lance_options
        self.remote = inner.remote

    def _do(self, operation: str, path: str, call: Callable[[], T]) -> T:
        return call()

    def uri_of(self, path: str) -> str:
        return self.inner.uri_of(path)

    def list_level(self, prefix: str = "") -> Level:
        return self._do("list_level", prefix, lambda: self.inner.list_level(prefix))

    def list_root(self) -> Names:
        return self._do("list_root", "", self.inner.list_root)

    def sample(self, limit: int) -> list[str]:
        return self._do("sample", "", lambda: self.inner.sample(limit))

    def look_into(
        self, folders: Sequence[str], mark: str, likely: Sequence[str] = ()
    ) -> list[Content]:
        return self._do(
            "look_into",
            " ".join(folders),
            lambda: self.inner.look_into(folders, mark, likely),
        )

    def list_first(self, prefix: str) -> list[ObjectInfo]:
        return self._do("list_first", prefix, lambda: self.inner.list_first(prefix))

    def list_staging(self, prefix: str = "") -> list[ObjectInfo]:
        return self._do("list_staging", prefix, lambda: self.inner.list_staging(prefix))

    def list_tree(self, prefix: str) -> Iterator[ObjectInfo]:
        return self._do("list_tree", prefix, lambda: self.inner.list_tree(prefix))

    def any_object(self, prefix: str) -> bool:
        return self._do("any_object", prefix, lambda: self.inner.any_object(prefix))

    def get(self, path: str) -> bytes | None:
        return self._do("get", path, lambda: self.inner.get(path))

    def head(self, path: str) -> ObjectInfo | None:
        return self._do("head", path, lambda: self.inner.head(path))

    def put(self, path: str, data: bytes) -> None:
        self._do("put", path, lambda: self.inner.put(path, data))

    def unchanged(self, present: Sequence[tuple[str, str | None]], absent: str) -> bool:
        return self._do("unchanged", absent, lambda: self.inner.unchanged(present, absent))

    def put_flag(self, path: str, data: bytes) -> bool:
        # Counted and broken as what it is on most stores.
        return self._do("put_if_absent", path, lambda: self.inner.put_flag(path, data))

    def put_hint(self, path: str, data: bytes) -> None:
        return self._do("put_hint", path, lambda: self.inner.put_hint(path, data))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        return self._do("put_if_absent", path, lambda: self.inner.put_if_absent(path, data))

    def copy(self, source: str, target: str) -> None:
        self._do("copy", target, lambda: self.inner.copy(source, target))

    def copy_if_absent(self, source: str, target: str) -> bool:
        return self._do("copy_if_absent", target, lambda: self.inner.copy_if_absent(source, target))

    def delete(self, paths: Iterable[str]) -> None:
        batch = list(paths)
        self._do("delete", " ".join(batch), lambda: self.inner.delete(batch))

    def delete_tree(
        self, prefix: str, progress: Progress | None = None, *, keep: bool = False
    ) -> int:
        return self._do(
            "delete_tree", prefix, lambda: self.inner.delete_tree(prefix, progress, keep=keep)
        )

    def prune(self, path: str) -> None:
        self._do("prune", path, lambda: self.inner.prune(path))

    def prune_tree(self, path: str) -> None:
        self._do("prune_tree", path, lambda: self.inner.prune_tree(path))

    def probe_put_if_absent(self) -> str | None:
        return self._do("probe_put_if_absent", "", self.inner.probe_put_if_absent)

    def exclusive(self) -> AbstractContextManager[None]:
        return self._do("exclusive", "", self.inner.exclusive)

    def move_aside(self, source: str, target: str) -> bool | None:
        return self._do("move_aside", source, lambda: self.inner.move_aside(source, target))


class CountingStore(_Around):
    """Counts the operations of ours that reach the store."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self._lock = threading.Lock()
        self._log: list[tuple[str, str]] = []

    def _do(self, operation: str, path: str, call: Callable[[], T]) -> T:
        with self._lock:
            self._log.append((operation, path))
        return call()

    def operations(self) -> list[tuple[str, str]]:
        """Return (operation, path) of everything asked since the last reset, in order."""
        with self._lock:
            return list(self._log)

    def counts(self) -> Counter[str]:
        """Return how often each operation was asked."""
        return Counter(operation for operation, _ in self.operations())

    def writes(self) -> list[tuple[str, str]]:
        """Return what would change the store."""
        return [done for done in self.operations() if done[0] in WRITES]

    def reset(self) -> None:
        """Forget what was counted."""
        with self._lock:
            self._log.clear()


@dataclass
class _Fault:
    operation: str
    path: str
    error: BaseException
    after: bool
    left: int


class FaultyStore(_Around):
    """Fails on demand: before an operation, or after it was done (a lost reply)."""

    def __init__(self, inner: Store, *, no_put_if_absent: str | None = None) -> None:
        super().__init__(inner)
        self._lock = threading.Lock()
        self._faults: list[_Fault] = []
        self._no_put_if_absent = no_put_if_absent

    def fail(
        self,
        operation: str,
        error: BaseException,
        *,
        path: str = "",
        after: bool = False,
        times: int = 1,
    ) -> None:
        """Let the next ``times`` such operations on paths that hold ``path`` end in ``error``."""
        with self._lock:
            self._faults.append(_Fault(operation, path, error, after, times))

    def pending(self) -> int:
        """Return how many planned failures have not happened: a test that has some proved less."""
        with self._lock:
            return sum(fault.left for fault in self._faults)

    def _do(self, operation: str, path: str, call: Callable[[], T]) -> T:
        fault = self._meet(operation, path)
        if fault is None:
            return call()
        if fault.after:
            call()
        raise fault.error

    def _meet(self, operation: str, path: str) -> _Fault | None:
        with self._lock:
            for fault in self._faults:
                if fault.left and fault.operation == operation and fault.path in path:
                    fault.left -= 1
                    return fault
        return None

    def probe_put_if_absent(self) -> str | None:
        return self._no_put_if_absent or super().probe_put_if_absent()
