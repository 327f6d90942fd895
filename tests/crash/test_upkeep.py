"""A crash in the middle of upkeep: everything reads, and the next run finishes it."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from lance_catalog import failpoints
from lance_catalog.config import Mode
from lance_catalog.maintenance.check import check
from tests.concurrency.processes import CONTEXT
from tests.concurrency.racing import PATIENCE, open_catalog
from tests.crash.test_kill import mend


def upkeep(root: str, plan: str) -> None:
    """What the process runs that is killed."""
    failpoints._plan.update(failpoints._parse(plan))
    open_catalog(root, Mode.V2).upkeep(keep=0)


@pytest.mark.parametrize(
    ("point", "clean"),
    [("upkeep.files_gone", True), ("upkeep.written", False), ("upkeep.landed", False)],
)
@pytest.mark.parametrize("at", [1, 2])
def test_the_next_run_finishes(tmp_path: Path, point: str, clean: bool, at: int) -> None:
    root = tmp_path / "root"
    ns = open_catalog(str(root), Mode.V2)
    names = [f"n{number:02}" for number in range(12)]
    for name in names:
        ns.create_namespace({"id": [name]})
    process = CONTEXT.Process(target=upkeep, args=(str(root), f"{point}=kill@{at}"))
    process.start()
    process.join(PATIENCE)
    assert process.exitcode == -signal.SIGKILL
    assert ns.list_namespaces({"id": []}).namespaces == names
    ns.create_namespace({"id": ["went on"]})
    found = check(ns.context, grace_seconds=-3600).problems
    if clean:
        # A version whose files are gone and whose name is not yet: nothing is stray.
        assert found == []
    mend(ns)
    ns.upkeep(keep=0)
    ns.context.clock = lambda: 2**52
    ns.upkeep(keep=0)
    sizes = [path.stat().st_size for path in (root / "__manifest/_versions").glob("*.manifest")]
    assert sum(size > 0 for size in sizes) == 2
    assert check(ns.context, grace_seconds=-3600).problems == []
    assert ns.list_namespaces({"id": []}).namespaces == [*names, "went on"]
