"""The outermost edge: whatever comes through here is an error of the library's, with a code.

And whoever comes from a thread of Lance's own is served on one of ours: a scan inside such a call
ends the process ("PyEval_SaveThread: the GIL is released", pylance 14.0.2).
"""

from __future__ import annotations

import functools
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


def _on_own_thread(call: Callable[[], T]) -> T:
    """Run a call on a thread made by Python. A new one each time: calls may nest without end."""
    answer: list[Any] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            answer.append(call())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run, name="lance-catalog", daemon=True)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    found: T = answer[0]
    return found
