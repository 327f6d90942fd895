"""A catalog opened as of a point of the past can be read, and nothing else.

Refused here, before anything is done: data operations reach the tables themselves, which are of
the present.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

from lance_catalog.errors import UnsupportedOperationError

__all__ = ["readable_in_the_past"]

C = TypeVar("C", bound=type)

#: Methods that change nothing, by their names; whatever is not among them is refused.
_READS: Final = re.compile(
    r"(list|describe|count|query|explain|analyze|get)_.*"
    r"|.*_(exists|status)"
    r"|context|diff|history|locate|managed|mode|namespace_id|open_table|snapshot|with_store"
)


def readable_in_the_past(cls: C) -> C:
    """Let every other method of a namespace refuse (0) where the catalog is that of the past."""
    for name, member in inspect.getmembers(cls, inspect.isfunction):
        ours = str(member.__module__).startswith("lance_catalog.")
        if ours and not name.startswith("_") and not _READS.fullmatch(name):
            setattr(cls, name, _guarded(member))
    return cls


def _guarded(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        point = self.context.settings.as_of
        if point is not None:
            raise UnsupportedOperationError(
                f"{method.__name__}: this catalog is opened as of {point}, which is the past and "
                "cannot be changed; connect without as_of"
            )
        return method(self, *args, **kwargs)

    return call
