"""The outermost edge: whatever comes through here is an error of the library's, with a code.

And whoever comes from a thread of Lance's own is served on one of ours: a scan inside such a call
ends the process ("PyEval_SaveThread: the GIL is released", pylance 14.0.2).
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from lance_catalog.errors import LanceNamespaceError, translate

__all__ = ["operation"]

P = ParamSpec("P")
T = TypeVar("T")


def operation(method: Callable[P, T]) -> Callable[P, T]:
    """Turn failures nobody named below into 15, 17 or 18, the cause chained (R12)."""

    def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(*args, **kwargs)
        except LanceNamespaceError:
            raise
        except Exception as error:
            raise translate(error, method.__name__) from error

    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if not isinstance(threading.current_thread(), threading._DummyThread):
            return guarded(*args, **kwargs)
        return _on_own_thread(lambda: guarded(*args, **kwargs))

    return call


class _Worker:
    """A thread made by Python that waits for calls: starting one costs more than handing over."""

    def __init__(self) -> None:
        self._go, self._done = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._done.acquire()
        self._call: Callable[[], Any] | None = None
        self._answer: Any = None
        self._failure: BaseException | None = None
        threading.Thread(target=self._serve, name="lance-catalog", daemon=True).start()

    def _serve(self) -> None:
        while True:
            self._go.acquire()
            assert self._call is not None
            try:
                self._answer = self._call()
            except BaseException as error:
                self._failure = error
            self._call = None
            self._done.release()

    def run(self, call: Callable[[], T]) -> T:
        self._call = call
        self._go.release()
        self._done.acquire()
        answer, failure = self._answer, self._failure
        self._answer = self._failure = None
        if failure is not None:
            raise failure
        found: T = answer
        return found


#: Those that have nothing to do, as many as calls were under way at once; calls may nest. (Both
#: methods of a list are atomic.)
_idle: list[_Worker] = []


def _on_own_thread(call: Callable[[], T]) -> T:
    """Run a call on a thread made by Python."""
    try:
        worker = _idle.pop()
    except IndexError:
        worker = _Worker()
    try:
        return worker.run(call)
    finally:
        _idle.append(worker)


# A fork takes the list with it, and none of the threads.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)
