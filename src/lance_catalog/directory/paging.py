"""Pages of names: the token is the last name of the page before, exclusive; names may come and go.

Same rules as native: no limit or a negative one is everything, 0 is an empty page.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

__all__ = ["page"]


def page(names: Iterator[str], limit: int | None) -> tuple[list[str], str | None]:
    """Return (names of this page, token of the next or None when this is the last)."""
    if limit is None or limit < 0:
        return list(names), None
    if limit == 0:
        return [], None
    found = list(islice(names, limit + 1))
    if len(found) <= limit:
        return found, None
    return found[:limit], found[limit - 1]
