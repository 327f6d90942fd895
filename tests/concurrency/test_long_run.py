"""A catalog that only grows, one row at a time: fragments, memory and files stay few."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path
from typing import Any

import lance

from lance_catalog.config import DEFAULT_RETENTION_MS, Mode
from lance_catalog.maintenance.check import check
from lance_catalog.manifest.upkeep import now_ms
from tests.concurrency.racing import open_catalog

#: (commits, how often to look, from where on memory is compared).
SIZES = {False: (1_500, 250, 500), True: (100_000, 1_000, 20_000)}
MOST_FRAGMENTS = 32
#: What memory may grow by, beside the rows themselves.
GROWTH = 64 << 20
BYTES_A_ROW = 400
#: Versions stay this long, so that retention has something to do from the first second on.
WINDOW_MS = 1_000


def test_single_row_commits(tmp_path: Path, full: bool) -> None:
    commits, every, settled = SIZES[full]
    ns = open_catalog(str(tmp_path), Mode.V2)
    log: Any = ns.context.log
    log.care.clock = lambda: now_ms() + DEFAULT_RETENTION_MS - WINDOW_MS
    times: list[float] = []
    most = memory = 0
    for number in range(commits):
        began = time.perf_counter()
        ns.create_namespace({"id": [f"n{number:06}"]})
        times.append(time.perf_counter() - began)
        if number + 1 == settled:
            memory = _memory()
        if (number + 1) % every == 0:
            fragments = len(lance.dataset(str(tmp_path / "__manifest")).fragment_ids())
            most = max(most, fragments)
            assert fragments <= MOST_FRAGMENTS, number
    grown = _memory() - memory
    first, last = (statistics.median(part) * 1e3 for part in (times[:1000], times[-1000:]))
    versions = list(os.scandir(tmp_path / "__manifest/_versions"))
    left = [entry for entry in versions if entry.stat().st_size]
    files = len(os.listdir(tmp_path / "__manifest/data"))
    print(
        f"{commits} commits: at most {most} fragments; p50 of the first thousand {first:.2f} ms, "
        f"of the last {last:.2f} ms; memory grew {grown >> 20} MiB from commit {settled} on; "
        f"{len(left)} of {len(versions)} versions left, {files} data files"
    )
    assert grown <= GROWTH + BYTES_A_ROW * (commits - settled)
    assert len(left) < commits / 2, "retention removed little"
    assert files < commits / 2
    assert len(ns.list_namespaces({"id": []}).namespaces) == commits
    assert check(ns.context, grace_seconds=-3600).problems == []


def _memory() -> int:
    """Resident bytes of this process."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
