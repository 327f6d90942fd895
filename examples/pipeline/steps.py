"""A step in Python: it takes DataFrames and parameters, and returns a DataFrame."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it


def sessions(inputs: dict[str, DataFrame], params: dict[str, Any]) -> DataFrame:
    """Return the views, each with the half hour it falls into."""
    views = inputs["clean"].where("kind = 'view'")
    slot = F.window("at", f"{params['minutes']} minutes").start
    return views.select("id", "document", "category", "at", slot.alias("slot"))
