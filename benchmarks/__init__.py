"""Ours beside native, in one run: latencies, cold starts, throughput, requests, upkeep.

``make bench`` is the short run for every day, ``make bench FULL=1`` all of it. How it measures
and how to read it: docs/reference/benchmarks.md.
"""
