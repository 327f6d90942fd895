"""lance-ray on a managed catalog: it commits without telling the catalog, which notices, shows it,
and takes it in; nothing it wrote is lost, nor anything of others (issue 5).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_catalog
from lance_catalog.maintenance.check import check
from lance_catalog.maintenance.findings import Kind
from lance_catalog.maintenance.repair import apply, plan
from tests.servers.fetch import LANCE_RAY, NotFetchedError

pytestmark = pytest.mark.integration

T = ["ns", "t"]
V2 = {"dir_listing_enabled": "false"}
#: Ray takes seconds to start; one that hangs must not hold up everything.
PATIENCE = 120.0


class Ray:
    """A process of lance-ray's that writes to the table when told."""

    def __init__(self, root: Path) -> None:
        try:
            folder = LANCE_RAY.path().parents[1]
        except NotFetchedError as error:
            if os.environ.get("CI") == "true":
                pytest.fail(str(error), pytrace=False)
            pytest.skip(str(error))
        path = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
        }
        job = Path(__file__).with_name("ray_job.py")
        self._process = subprocess.Popen(
            [sys.executable, str(job), json.dumps({"root": str(root), **V2})],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        self._end = threading.Timer(PATIENCE, self._process.kill)
        self._end.start()
        assert self._answer() == "ready"

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"lance-ray ended with {self._process.wait()}"
        return line.strip()

    def write(self, mode: str, first: int, last: int) -> int:
        """Write numbers; return how many rows lance-ray reads afterwards."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([mode, first, last]) + "\n")
        self._process.stdin.flush()
        return int(self._answer())

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._end.cancel()


@pytest.fixture
def ray(root: Path) -> Iterator[Ray]:
    with closing(Ray(root)) as process:
        yield process


def numbers(*values: int) -> pa.Table:
    return pa.table({"n": pa.array(values, pa.int64())})


def test_its_versions_are_seen_and_taken_in(root: Path, ray: Ray) -> None:
    catalog = lance_catalog.connect(str(root), **V2)
    catalog.create_namespace({"id": ["ns"]})
    catalog.enable_managed_versions()

    def opened() -> Any:
        return lance.dataset(namespace_client=catalog, table_id=T)

    def state() -> tuple[list[int], int]:
        """The versions that are listed, and how many of them are registered."""
        listed = [one.version for one in catalog.list_table_versions({"id": T}).versions]
        return listed, catalog.managed_versions_status().versions

    def agreed(expected: list[int]) -> None:
        location = catalog.describe_table({"id": T}).location
        for dataset in (opened(), lance.dataset(location)):
            assert sorted(dataset.to_table()["n"].to_pylist()) == expected

    # Made without the catalog: not registered, and shown all the same.
    assert ray.write("create", 0, 10) == 10
    assert state() == ([1], 0)
    agreed(list(range(10)))
    opened().insert(numbers(10))
    assert state() == ([2, 1], 2)
    # Behind the back of a handle that is open.
    stale = opened()
    assert ray.write("append", 11, 14) == 14
    assert state() == ([3, 2, 1], 2)
    kinds = [one.kind for one in check(catalog.context, grace_seconds=-60).problems]
    assert kinds == [Kind.FOREIGN_VERSIONS]
    stale.delete("n = 0")
    assert state() == ([4, 3, 2, 1], 4)
    agreed(list(range(1, 14)))
    # Taken in by a repair, where nobody commits.
    assert ray.write("append", 14, 16) == 15
    apply(catalog.context, plan(catalog.context, grace_seconds=-60))
    assert state() == ([5, 4, 3, 2, 1], 5)
    assert check(catalog.context, grace_seconds=-60).problems == []
    # It replaces everything, as it was told to; what comes on top stays on top.
    assert ray.write("overwrite", 100, 102) == 2
    opened().insert(numbers(102))
    assert state() == ([7, 6, 5, 4, 3, 2, 1], 7)
    agreed([100, 101, 102])
    assert sorted(opened().checkout_version(5).to_table()["n"].to_pylist()) == list(range(1, 16))
