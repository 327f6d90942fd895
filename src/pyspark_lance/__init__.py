"""Spark looks for this name: it makes ``spark.read.format("lance")`` work unregistered."""

from __future__ import annotations

from lance_catalog.spark.source import LanceSource

__all__ = ["DefaultSource"]


class DefaultSource(LanceSource):
    """The data source ``lance``."""
