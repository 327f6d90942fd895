"""Pages of what Lance lists in no order: tags, branches, indices."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from lance_catalog.directory import paging

__all__ = ["page"]


def page(
    names: Iterable[str], token: str | None, limit: int | None
) -> tuple[list[str], str | None]:
    """Sort the names and return the page after ``token``, and the token of the next."""
    ordered = sorted(names)
    start = bisect_right(ordered, token) if token else 0
    return paging.page(iter(ordered[start:]), limit)
