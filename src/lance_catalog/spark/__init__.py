"""The data pipeline on Spark: read, write and publish Lance tables of a catalog by PySpark.

Needs the extra: ``pip install 'lance-catalog[spark]'``. Importing this package imports no Spark;
each name is fetched when it is first used.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from lance_catalog.spark import jobs, pipeline
    from lance_catalog.spark.catalogs import CatalogRef
    from lance_catalog.spark.counting import count
    from lance_catalog.spark.ingest import ingest
    from lance_catalog.spark.predicates import Predicate, col
    from lance_catalog.spark.publish import publish
    from lance_catalog.spark.read import read
    from lance_catalog.spark.results import PublishResult, WriteResult
    from lance_catalog.spark.session import session
    from lance_catalog.spark.streaming import read_stream, write_stream
    from lance_catalog.spark.views import attach
    from lance_catalog.spark.write import write

__all__ = [
    "CatalogRef",
    "Predicate",
    "PublishResult",
    "WriteResult",
    "attach",
    "col",
    "count",
    "ingest",
    "jobs",
    "pipeline",
    "publish",
    "read",
    "read_stream",
    "session",
    "write",
    "write_stream",
]

_HOMES: Final = {
    "CatalogRef": "catalogs",
    "Predicate": "predicates",
    "PublishResult": "results",
    "WriteResult": "results",
    "attach": "views",
    "col": "predicates",
    "count": "counting",
    "ingest": "ingest",
    "publish": "publish",
    "read": "read",
    "read_stream": "streaming",
    "session": "session",
    "write": "write",
    "write_stream": "streaming",
}


#: Packages with names of their own, as ``jobs.inventory``.
_PACKAGES: Final = ("jobs", "pipeline")


class _Package(ModuleType):
    """The package: ``read`` is the function, also after somebody imported the module ``read``."""

    def __setattr__(self, name: str, value: Any) -> None:
        # The import system binds a submodule to its package when it is loaded.
        if name in _HOMES and isinstance(value, ModuleType):
            return
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"{__name__}.{name}")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"{__name__}.{home}"), name)
    except ModuleNotFoundError as error:
        if error.name not in ("pyspark", "py4j"):
            raise
        raise ModuleNotFoundError(
            "lance_catalog.spark needs PySpark: pip install 'lance-catalog[spark]'",
            name=error.name,
        ) from error


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
