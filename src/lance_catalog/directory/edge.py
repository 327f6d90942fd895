"""The outermost edge: whatever comes through here is an error of the library's, with a code."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from lance_catalog.errors import LanceNamespaceError, translate

__all__ = ["operation"]

P = ParamSpec("P")
T = TypeVar("T")


def operation(method: Callable[P, T]) -> Callable[P, T]:
    """Turn failures nobody named below into 15, 17 or 18, the cause chained (R12)."""

    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(*args, **kwargs)
        except LanceNamespaceError:
            raise
        except Exception as error:
            raise translate(error, method.__name__) from error

    return call
