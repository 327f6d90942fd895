"""What dead jobs leave, and what a repair may take of it."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import lance
import pytest

from lance_catalog.config import Mode
from lance_catalog.directory import job_ids, job_records
from lance_catalog.directory.jobs import Job, find_done
from lance_catalog.errors import LanceNamespaceError
from lance_catalog.failpoints import POINTS
from lance_catalog.maintenance.check import Kind, check
from lance_catalog.maintenance.repair import apply, plan
from lance_catalog.manifest import gated
from tests.behaviour.catalogs import Catalog, code, refusal, rows
from tests.behaviour.jobbing import (
    append,
    carried_out,
    clean,
    data_paths,
    kept,
    named,
    pytest_generate_tests,
)

__all__ = ["kept", "pytest_generate_tests"]


def test_what_a_dead_job_left_is_repaired(kept: Catalog) -> None:
    ctx, place = kept.ns.context, kept.place(["t"])
    running = job_records.begin(ctx.store, place, "job")
    running.stop()
    lost = lance.fragment.write_fragments(rows([4]), kept.root.dataset(place), mode="append")
    append(kept.ns, ["t"], [5], "another")
    assert check(ctx).problems == []  # It may live.
    [problem] = check(ctx, grace_seconds=-3600).problems
    assert set(problem.paths) == {running.path, f"{place}/data/{lost[0].files[0].path}"}
    steps = plan(ctx, grace_seconds=-3600)
    assert [failed for _, failed in apply(ctx, steps)] == [None]
    assert code(running.require) == 14
    assert kept.data(["t"]) == [1, 2, 3, 5]
    clean(kept, ["t"])


def test_files_of_others_wait_as_long_as_lance_does(kept: Catalog) -> None:
    """A writer that leaves no record may be at work beside a job that died."""
    ctx, place = kept.ns.context, kept.place(["t"])
    folder, table = Path(kept.root.folder or ""), kept.root.dataset(place)
    dead = job_records.begin(ctx.store, place, "dead")
    dead.stop()
    told, foreign = (
        lance.fragment.write_fragments(rows([n]), table, mode="append") for n in (4, 5)
    )
    paths = [f"{place}/data/{part[0].files[0].path}" for part in (told, foreign)]
    message = {"fragments": [json.dumps(told[0].to_json())], "others": []}
    ctx.store.put(f"{dead.tasks}/1.json", json.dumps(message).encode())
    hours = 3600 * 1000
    now = ctx.clock()
    ctx.clock = lambda: now + 2 * hours
    steps = plan(ctx)
    assert [step.problem.paths for step in steps] == [(paths[0],)]
    assert [failed for _, failed in apply(ctx, steps)] == [None]
    assert check(ctx).problems == [] and (folder / paths[1]).exists()
    lance.LanceDataset.commit(table, lance.LanceOperation.Append(foreign), table.version)
    assert kept.data(["t"]) == [1, 2, 3, 5]
    late = lance.fragment.write_fragments(rows([6]), kept.root.dataset(place), mode="append")
    ctx.clock = lambda: now + 8 * 24 * hours
    [step] = [step for step in plan(ctx) if step.problem.kind is Kind.STRAY_FILES]
    assert f"{place}/data/{late[0].files[0].path}" in step.problem.paths
    assert dead.path in step.problem.paths
    apply(ctx, [step])
    assert kept.data(["t"]) == [1, 2, 3, 5]
    assert data_paths(kept, ["t"]) == named(kept, ["t"])


def test_what_a_job_committed_after_the_check_stays(kept: Catalog) -> None:
    """It only slept: between the plan of a repair and its carrying out it commits."""
    ctx, place = kept.ns.context, kept.place(["t"])
    slept = job_records.begin(ctx.store, place, "job")
    slept.stop()
    table = kept.root.dataset(place)
    files = lance.fragment.write_fragments(rows([4]), table, mode="append")
    steps = plan(ctx, grace_seconds=-3600)
    lance.LanceDataset.commit(table, lance.LanceOperation.Append(files), table.version)
    assert [failed for _, failed in apply(ctx, steps)] == [None]
    assert kept.data(["t"]) == [1, 2, 3, 4]


def test_files_that_are_gone_are_not_committed(
    kept: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever removed them: of a job that took its time they are looked for."""
    ctx, place = kept.ns.context, kept.place(["t"])
    running = job_records.begin(ctx.store, place, "job")
    there = next(iter(data_paths(kept, ["t"])))
    running.require([there, f"{place}/data/gone.lance"])  # Just begun: not asked for.
    moment = time.time() + 2 * job_records.RENEWED_EVERY
    monkeypatch.setattr(job_records.time, "time", lambda: moment)
    running.require([there])
    error = refusal(running.require, [there, f"{place}/data/gone.lance"])
    assert int(error.code) == 14 and "gone.lance" in str(error)
    running.end()


def test_a_task_keeps_the_record_of_its_job_alive(
    kept: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx, place = kept.ns.context, kept.place(["t"])
    began = job_records.begin(ctx.store, place, "job")
    began.stop()
    body = ctx.store.get(began.path)
    path = Path(kept.root.folder or "") / began.path
    os.utime(path, (1, 1))
    with job_records.alive(job_records.resume(ctx.store, place, began.path)):
        assert path.stat().st_mtime > 1  # Many short tasks are a long job, too.
    os.utime(path, (1, 1))
    monkeypatch.setattr(job_records, "RENEWED_EVERY", 0.01)
    monkeypatch.setattr(job_records.Running, "require", lambda self, files=(): None)
    monkeypatch.setattr(job_records.time, "time", lambda: 0.0)  # Nothing to do at its beginning.
    deadline = time.monotonic() + 30
    with job_records.alive(job_records.resume(ctx.store, place, began.path)):
        while path.stat().st_mtime == 1 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert path.stat().st_mtime > 1
    assert ctx.store.get(began.path) == body
    monkeypatch.undo()
    began.end()
    with pytest.raises(LanceNamespaceError), job_records.alive(began):
        raise AssertionError  # Taken for dead, it does not begin.


def test_nothing_is_stray_while_a_job_lives(kept: Catalog) -> None:
    ctx, place = kept.ns.context, kept.place(["t"])
    dead = job_records.begin(ctx.store, place, "dead")
    dead.stop()
    later = ctx.store.head(dead.path)
    assert later is not None
    # At a moment at which the one is old and the other is not.
    os.utime(Path(kept.root.folder or "") / dead.path, (1, 1))
    living = job_records.begin(ctx.store, place, "living")
    moment = later.modified_ms - 1000
    assert job_records.left_behind(ctx.store, place, moment, moment) == []
    living.end()
    assert job_records.left_behind(ctx.store, place, moment, moment) == [dead.path]
    dead.end()
    clean(kept, ["t"])


KILLED = {
    "append": ["job.announced", "job.looked", "job.staged", "job.finalized", "job.landed"],
    "create": [
        "table.version_staged",
        "table.version_finalized",
        "table.registered",
        "job.announced",
        "job.created",
    ],
}


def test_every_point_of_a_job_is_tried() -> None:
    tried = {point for points in KILLED.values() for point in points}
    # The one in passing above, the others on a real Spark (tests/spark/test_cluster.py).
    tried |= {"job.refused", "job.tasks_done", "job.deletions_written"}
    tried |= {"job.task_begun", "job.task_written", "job.task_told"}
    assert {point for point in POINTS if point.startswith("job.")} <= tried


KILLS = [(verb, point) for verb, points in KILLED.items() for point in points]


@pytest.mark.modes(Mode.COMPAT)
@pytest.mark.parametrize(("verb", "point"), KILLS)
def test_a_driver_that_is_killed_and_runs_again(kept: Catalog, verb: str, point: str) -> None:
    _killed(kept, verb, point)


@pytest.mark.soak
@pytest.mark.modes(Mode.V1, Mode.V2)
@pytest.mark.parametrize(("verb", "point"), KILLS)
def test_a_driver_that_is_killed_in_every_mode(kept: Catalog, verb: str, point: str) -> None:
    _killed(kept, verb, point)


def _killed(kept: Catalog, verb: str, point: str) -> None:
    table = "t" if verb == "append" else "new"

    def run(plan: str = "") -> int:
        return carried_out(kept.properties(), verb, table, plan)

    if kept.mode is Mode.V1 and point == "table.registered":
        point = "job.created"  # Nothing is registered there.
    assert run(f"{point}=kill") == -signal.SIGKILL
    done = find_done(kept.ns.context, (table,), Job("job"))
    assert (done is None) == (
        point in ("job.announced", "job.looked", "job.staged", "table.version_staged")
        or (point == "table.version_finalized" and kept.mode is not Mode.V1)
    )
    if done is None:
        assert run() == 0
    if verb == "append":
        assert append(kept.open(), ["t"], [7, 8], "job").repeated
    before = [1, 2, 3] if verb == "append" else []
    assert kept.data([table]) == sorted([*before, 7, 8])
    ctx = kept.open().context
    apply(ctx, plan(ctx, grace_seconds=-3600))
    assert check(ctx, grace_seconds=-3600).problems == []
    assert kept.data([table]) == sorted([*before, 7, 8])
    found = find_done(kept.open().context, (table,), Job("job"))
    assert found is not None and found.repeated


def test_a_gate_takes_properties(kept: Catalog) -> None:
    done = append(kept.ns, ["t"], [4], "job")
    told = job_ids.told_by(gated.latest(kept.ns.context.store, kept.place(["t"])), done.version)
    assert told is not None and told.properties["lance_catalog.job"] == "job"
