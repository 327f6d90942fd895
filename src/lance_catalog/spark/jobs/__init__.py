"""Catalog jobs on Spark: a function each, which runs at once and returns a DataFrame of results.

Every row names its table and has a ``status``; one table's failure stops no other. Fetched when
first used, so that importing this package imports no Spark.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from lance_catalog.spark.jobs.cleaning import cleanup, purge
    from lance_catalog.spark.jobs.compaction import compact
    from lance_catalog.spark.jobs.indexing import index
    from lance_catalog.spark.jobs.migration import migrate
    from lance_catalog.spark.jobs.stocktaking import inventory
    from lance_catalog.spark.jobs.verification import verify

__all__ = ["cleanup", "compact", "index", "inventory", "migrate", "purge", "verify"]

_HOMES: Final = {
    "cleanup": "cleaning",
    "compact": "compaction",
    "index": "indexing",
    "inventory": "stocktaking",
    "migrate": "migration",
    "purge": "cleaning",
    "verify": "verification",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
