"""Pipelines: a file says what to read, how to change it, and what to publish.

``load(path)`` reads and checks one without Spark; ``.plan()`` tells what it would do, ``.run()``
does it. ``run(path, spark, catalog)`` does both.
"""

from __future__ import annotations

from lance_catalog.spark.pipeline.graph import Node
from lance_catalog.spark.pipeline.loading import Pipeline, load, run
from lance_catalog.spark.pipeline.problems import InvalidPipelineError, Problem
from lance_catalog.spark.pipeline.report import (
    Event,
    Failed,
    RunReport,
    StepReport,
    TargetReport,
)

__all__ = [
    "Event",
    "Failed",
    "InvalidPipelineError",
    "Node",
    "Pipeline",
    "Problem",
    "RunReport",
    "StepReport",
    "TargetReport",
    "load",
    "run",
]
