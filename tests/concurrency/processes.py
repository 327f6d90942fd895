"""Processes of their own, without the second of imports that each would take to start.

They are forked from a server that has imported everything and used nothing: Lance is not safe to
fork once it runs, and its threads begin with the first call. The test's own process, where Lance
runs, is never forked.
"""

from __future__ import annotations

import multiprocessing
from multiprocessing.context import ForkServerContext

__all__ = ["CONTEXT"]

CONTEXT: ForkServerContext = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.concurrency.imported"])
