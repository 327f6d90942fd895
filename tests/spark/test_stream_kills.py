"""Streaming queries that are killed, with JVM and workers, and started again: rows are exact.

A process of theirs is stopped at a fail point and all are killed while it stands there; or all are
killed from outside after a commit was seen, wherever the next batches are by then. One query reads
files and writes to a table, the other reads and writes tables whose versions are managed.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_catalog import DirectoryNamespace
from tests.spark.stream_driver import Child, started, wait_for
from tests.spark.tables import column, mended, opened, strays

pytest.importorskip("pyspark")

T, U = ["db", "t"], ["db", "u"]
DRIVER = "tests.spark.stream_driver"
#: None: from outside, after a commit was seen.
POINTS = ("job.landed", None, "job.task_written", "job.staged", "job.finalized", "job.looked")


def ids(start: int, count: int) -> pa.Table:
    return pa.table({"id": pa.array(range(start, start + count), pa.int64())})


class Feed:
    """What one query reads, and where its rows must arrive."""

    def __init__(self, base: Path, kind: str) -> None:
        self.base, self.kind, self.rows = base / kind, kind, 0
        self.files = self.base / "in"
        self.files.mkdir(parents=True)
        self.catalog = DirectoryNamespace(root=str(self.base / "root"))
        self.catalog.create_namespace({"id": ["db"]})
        if kind == "table":
            self.catalog.enable_managed_versions()
        for names in (T, U):
            lance.write_dataset(ids(0, 0), namespace_client=self.catalog, table_id=names)

    def told(self) -> dict[str, Any]:
        source = {"from": T} if self.kind == "table" else {"files": str(self.files)}
        where = {"root": self.catalog.context.settings.root, "into": U}
        return {**source, **where, "id": self.kind, "checkpoint": str(self.base / "checkpoint")}

    def more(self) -> None:
        """Ten rows: a file, or a version."""
        made = ids(self.rows, 10)
        if self.kind == "table":
            lance.write_dataset(made, self.catalog.open_table(T), mode="append")
        else:
            part = self.files / f".{self.rows}.tmp"
            part.write_text("".join(f'{{"id": {n}}}\n' for n in made["id"].to_pylist()))
            part.rename(self.files / f"{self.rows:06}.json")
        self.rows += 10

    def upkeep(self) -> None:
        """Old rows in new fragments of the source; versions of the sink go, with their batches."""
        self.catalog.open_table(T).optimize.compact_files()
        self.catalog.cleanup_table_versions(U, keep=1)

    def version(self) -> int:
        return int(opened(self.catalog, U).version)

    def require_exact(self) -> None:
        assert column(self.catalog, U, "id") == list(range(self.rows)), self.kind
        mended(self.catalog)
        assert strays(self.catalog, U) == set(), self.kind


def killed_and_restarted(feeds: list[Feed], kills: int) -> dict[str, int]:
    """Kill the queries so often; return how often where."""
    seen: dict[str, int] = {}
    log = feeds[0].base / "output"
    told = {"queries": [feed.told() for feed in feeds], "drain": False, "most": 1}
    for number, point in zip(range(kills), itertools.cycle(POINTS), strict=False):
        for feed in feeds:
            feed.more()
            feed.more()
            if number % 5 == 4:
                feed.upkeep()
        before = [feed.version() for feed in feeds]
        how = {} if point is None else {"LANCE_CATALOG_FAILPOINTS": f"{point}=stop"}
        with log.open("ab") as output, started(DRIVER, told, output, **how) as child:

            def stands(child: Child = child) -> bool:
                assert child.ended() is None, log.read_text()[-4000:]
                return child.stopped()

            if point is None:
                # Of each in turn, so that the other is anywhere.
                feed, was = feeds[number % 2], before[number % 2]
                wait_for("a commit", lambda feed=feed, was=was: feed.version() > was)  # type: ignore[misc]
                for one in feeds:
                    one.more()
            else:
                wait_for(f"the stop at {point}", stands)
            assert child.ended() is None
            child.kill()
            assert child.ended() == -9
        seen[str(point)] = seen.get(str(point), 0) + 1
    return seen


@pytest.mark.soak  # Restarts without kills are in test_streaming.py.
@pytest.mark.parametrize("kills", [2, 20])
def test_rows_are_exact_after_kills(tmp_path: Path, kills: int) -> None:
    feeds = [Feed(tmp_path, "files"), Feed(tmp_path, "table")]
    seen = killed_and_restarted(feeds, kills)
    told = {"queries": [feed.told() for feed in feeds], "drain": True, "most": 100}
    with started(DRIVER, told) as child:
        wait_for("the last run", lambda: child.ended() is not None)
        assert child.ended() == 0
    print(f"killed {sum(seen.values())} times: {seen}; {[feed.rows for feed in feeds]} rows")
    assert sum(seen.values()) == kills
    for feed in feeds:
        feed.require_exact()
