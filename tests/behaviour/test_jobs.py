"""Exactly once by a job id, without Spark: every meeting of a job with itself and with others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pytest

from lance_catalog import DirectoryNamespace
from lance_catalog.config import Mode
from lance_catalog.directory import job_creation, job_ids, job_records, jobs
from lance_catalog.directory.jobs import Done, Job, find_done
from lance_catalog.errors import CommitOutcomeUnknownError
from lance_catalog.failpoints import POINTS
from lance_catalog.maintenance.check import check
from lance_catalog.maintenance.repair import apply, plan
from lance_catalog.manifest import gated
from tests.behaviour.catalogs import Catalog, code, refusal, rows
from tests.behaviour.jobbing import append, create, overwrite

pytestmark = pytest.mark.stores("local")


@pytest.fixture(params=["plain", "managed"])
def kept(request: pytest.FixtureRequest, catalog: Catalog) -> Catalog:
    """A catalog with a table ``t`` of 1, 2, 3; its versions managed or not."""
    if request.param == "managed":
        if catalog.mode is Mode.V1:
            pytest.skip("V1 has no registry")
        catalog.enable_managed_versions()
    catalog.create(["t"])
    return catalog


def another(catalog: Catalog) -> DirectoryNamespace:
    """The same root as another process has it."""
    return catalog.open()


def data_paths(catalog: Catalog, id: list[str]) -> set[str]:
    place = catalog.place(id)
    return {path for path in catalog.root.paths(place) if "/data/" in path}


def named(catalog: Catalog, id: list[str]) -> set[str]:
    """The data files that versions of a table name."""
    place = catalog.place(id)
    told = catalog.root.dataset(place).tracked_files().read_all()["path"].to_pylist()
    return {f"{place}/{path}" for path in told if path.startswith("data/")}


def clean(catalog: Catalog, id: list[str]) -> None:
    """No file that no version names, and nothing to report."""
    assert data_paths(catalog, id) == named(catalog, id)
    assert check(catalog.open().context, grace_seconds=-3600).problems == []


def at(
    monkeypatch: pytest.MonkeyPatch, point: str, run: Callable[[], object], times: int = 1
) -> None:
    """Run something the first times a point is passed."""
    left = [run] * times
    for module in (jobs, job_creation):
        real: Any = module.hit  # type: ignore[attr-defined]

        def hook(name: str, real: Any = real) -> None:
            if name == point and left:
                left.pop()()
            real(name)

        monkeypatch.setattr(module, "hit", hook)


def on_own_thread(call: Callable[[], object]) -> Callable[[], None]:
    """Lance's threads cannot call Lance: the meeting happens on one of Python's."""

    def run() -> None:
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()

    return run


def test_a_job_is_committed_once(kept: Catalog) -> None:
    first = append(kept.ns, ["t"], [4, 5], "job")
    assert (first.repeated, first.rows) == (False, 2)
    assert find_done(another(kept).context, ("t",), Job("job")) == Done(
        first.version, 2, 1, True, first.token
    )
    again = append(another(kept), ["t"], [4, 5], "job")
    assert (again.repeated, again.version, again.rows) == (True, first.version, 2)
    assert append(kept.ns, ["t"], [6], "other job").repeated is False
    assert kept.data(["t"]) == [1, 2, 3, 4, 5, 6]
    clean(kept, ["t"])


@pytest.mark.parametrize("point", ["job.looked", "job.staged"])
def test_two_drivers_at_once_leave_one_copy(
    kept: Catalog, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    answers: list[Done] = []
    rival = on_own_thread(lambda: answers.append(append(another(kept), ["t"], [4, 5], "job")))
    at(monkeypatch, point, rival)
    mine = append(kept.ns, ["t"], [4, 5], "job")
    assert [mine.repeated, answers[0].repeated] == [True, False]
    assert mine.version == answers[0].version
    assert kept.data(["t"]) == [1, 2, 3, 4, 5]
    clean(kept, ["t"])


@pytest.mark.parametrize("point", ["job.looked", "job.staged"])
def test_an_append_goes_on_top_of_others(
    kept: Catalog, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    def others() -> None:
        ns = another(kept)
        append(ns, ["t"], [10], "rival")
        kept.open().open_table(["t"]).optimize.compact_files()

    at(monkeypatch, point, on_own_thread(others), times=2)
    append(kept.ns, ["t"], [4], "job")
    assert kept.data(["t"]) == [1, 2, 3, 4, 10]
    clean(kept, ["t"])


def test_the_last_overwrite_wins_and_is_there_once(
    kept: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    rival = on_own_thread(lambda: append(another(kept), ["t"], [10], "rival"))
    at(monkeypatch, "job.staged", rival)
    first = overwrite(kept.ns, ["t"], [7], "job")
    append(kept.ns, ["t"], [8], "after")
    assert overwrite(another(kept), ["t"], [7], "job") == Done(
        first.version, 0, 0, True, first.token
    )
    assert kept.data(["t"]) == [7, 8]
    clean(kept, ["t"])


def test_a_job_gives_up_when_others_never_stop(
    kept: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = iter(range(100, 200))

    def rival() -> None:
        append(another(kept), ["t"], [0], f"rival {next(numbers)}")

    at(monkeypatch, "job.staged", on_own_thread(rival), times=40)
    ns = kept.open(commit_timeout=0)
    assert code(append, ns, ["t"], [4], "job") == 14
    assert 4 not in kept.data(["t"])
    clean(kept, ["t"])


def _lost(monkeypatch: pytest.MonkeyPatch, *, landed: bool, times: int = 1) -> None:
    """Lose the answer of a commit that landed, or of one that did not."""
    real, left = jobs._land, [times]

    def land(*given: Any) -> Any:
        if not left[0]:
            return real(*given)
        left[0] -= 1
        if landed:
            real(*given)
        raise CommitOutcomeUnknownError("the store does not answer")

    monkeypatch.setattr(jobs, "_land", land)


@pytest.mark.parametrize("landed", [True, False])
def test_a_lost_answer_is_looked_up(
    kept: Catalog, monkeypatch: pytest.MonkeyPatch, landed: bool
) -> None:
    _lost(monkeypatch, landed=landed)
    done = append(kept.ns, ["t"], [4], "job")
    assert done.repeated is False
    assert kept.data(["t"]) == [1, 2, 3, 4]
    clean(kept, ["t"])


def test_an_outcome_that_cannot_be_found_out_is_told_as_unknown(
    kept: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    _lost(monkeypatch, landed=True)
    looks: list[int] = []
    real = jobs.Looker.look

    def look(self: Any, opened: Any) -> Any:
        looks.append(1)
        if len(looks) > 1:
            raise OSError("the store does not answer")
        return real(self, opened)

    with monkeypatch.context() as patch:
        patch.setattr(jobs.Looker, "look", lambda self, opened: _translated(look, self, opened))
        error = refusal(append, kept.ns, ["t"], [4], "job")
    assert isinstance(error, CommitOutcomeUnknownError)
    assert kept.data(["t"]) == [1, 2, 3, 4]  # Its files are there.
    assert append(kept.ns, ["t"], [4], "job").repeated
    clean(kept, ["t"])


def _translated(look: Any, *given: Any) -> Any:
    with jobs.storage_errors("looking"):
        return look(*given)


def test_a_job_that_a_restore_undid_can_run_again(kept: Catalog) -> None:
    before = kept.open().open_table(["t"]).version
    append(kept.ns, ["t"], [4], "job")
    kept.ns.restore_table({"id": ["t"], "version": before})
    assert kept.data(["t"]) == [1, 2, 3]
    assert append(kept.ns, ["t"], [4], "job").repeated is False
    assert append(kept.ns, ["t"], [4], "job").repeated
    assert kept.data(["t"]) == [1, 2, 3, 4]


def test_a_table_that_is_dropped_while_a_job_commits(
    kept: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop = on_own_thread(lambda: another(kept).drop_table({"id": ["t"]}))
    at(monkeypatch, "job.looked", drop)
    assert code(append, kept.ns, ["t"], [4], "job") == 4
    kept.ns.undrop_table(["t"])
    # Landed or not, the table is whole and the job is there at most once.
    assert kept.data(["t"]) in ([1, 2, 3], [1, 2, 3, 4])
    append(kept.ns, ["t"], [4], "job")
    assert kept.data(["t"]) == [1, 2, 3, 4]
    clean(kept, ["t"])


def test_a_table_in_the_trash_is_named_as_such(kept: Catalog) -> None:
    kept.ns.drop_table({"id": ["t"]})
    error = refusal(append, kept.ns, ["t"], [4], "job")
    assert int(error.code) == 4 and "trash undrop" in str(error)
    assert code(append, kept.ns, ["absent"], [4], "job") == 4


# What a cleanup forgets.


def test_a_cleanup_keeps_the_jobs_it_would_forget(kept: Catalog) -> None:
    first = append(kept.ns, ["t"], [4], "job")
    for batch in range(3):
        append(kept.ns, ["t"], [10 + batch], Job.of_stream("query", batch))
    append(kept.ns, ["t"], [20], "last")
    for _ in range(2):
        kept.ns.cleanup_table_versions(["t"], keep=1)
        again = append(another(kept), ["t"], [4], "job")
        assert (again.repeated, again.version, again.rows) == (True, first.version, 1)
        append(kept.ns, ["t"], [21], "newer")
    assert append(kept.ns, ["t"], [12], Job.of_stream("query", 2)).repeated
    assert code(append, kept.ns, ["t"], [11], Job.of_stream("query", 1)) == 13
    assert append(kept.ns, ["t"], [13], Job.of_stream("query", 3)).repeated is False
    assert kept.data(["t"]) == [1, 2, 3, 4, 10, 11, 12, 13, 20, 21]
    entries, files = job_ids._read(kept.ns.context.store, kept.place(["t"]))
    assert len(files) == 1
    assert sorted(entries) == ["job job", "job last", "stream query"]
    clean(kept, ["t"])


def test_the_ledger_forgets_what_is_too_old(kept: Catalog) -> None:
    store, place = kept.ns.context.store, kept.place(["t"])
    told = Job("old").properties()
    job_ids.keep(store, place, [(1, 0, told)], job_ids.KEPT_MS - 1)
    assert job_ids.known(store, place, Job("old")) is not None
    job_ids.keep(store, place, [(2, job_ids.KEPT_MS, Job("new").properties())], job_ids.KEPT_MS)
    assert job_ids.known(store, place, Job("old")) is None
    assert job_ids.known(store, place, Job("new")) is not None


def test_a_ledger_that_cannot_be_read_stops_a_job(kept: Catalog) -> None:
    place = kept.place(["t"])
    kept.root.put(f"{place}/{job_ids.FOLDER}/committed/x.json", b"{")
    assert code(append, kept.ns, ["t"], [4], "job") == 19
    assert kept.data(["t"]) == [1, 2, 3]


def test_a_cleanup_between_two_looks_hides_nothing(
    kept: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rival commits the job and cleans its version up before the next look."""

    def rival() -> None:
        append(another(kept), ["t"], [4], "job")
        append(another(kept), ["t"], [10], "more")
        another(kept).cleanup_table_versions(["t"], keep=1)

    at(monkeypatch, "job.looked", on_own_thread(rival))
    assert append(kept.ns, ["t"], [4], "job").repeated
    assert kept.data(["t"]) == [1, 2, 3, 4, 10]


@pytest.mark.parametrize("given", ["", "x" * 513, "a\nb", 7])
def test_an_id_that_is_none(given: Any) -> None:
    assert code(Job, given) == 13


# Creation.


def test_a_table_is_created_once(kept: Catalog) -> None:
    first = create(kept.ns, ["new"], [1], "job", {"owner": "me"})
    assert (first.repeated, first.rows) == (False, 1)
    assert code(create, kept.ns, ["new"], [1], "job") == 5  # A driver looks for the job first.
    found = find_done(another(kept).context, ("new",), Job("job"))
    assert found is not None and found.repeated
    assert kept.ns.describe_table({"id": ["new"], "load_detailed_metadata": True}).properties == {
        "owner": "me"
    }
    assert kept.data(["new"]) == [1]
    clean(kept, ["new"])


@pytest.mark.parametrize("job", ["job", "rival"])
def test_a_creation_replaces_nothing(
    kept: Catalog, monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    """Another table of the name comes while ours is written: by the same job, or another."""
    real = job_creation.Creation.land
    rival = [lambda: create(another(kept), ["new"], [8, 9], job)]

    def land(self: Any, *given: Any, **how: Any) -> Done:
        if rival:
            rival.pop()()
        return real(self, *given, **how)

    monkeypatch.setattr(job_creation.Creation, "land", land)
    if job == "rival":
        assert code(create, kept.ns, ["new"], [8, 9], "job") == 5
    else:
        assert create(kept.ns, ["new"], [8, 9], "job").repeated
    assert kept.data(["new"]) == [8, 9]
    clean(kept, ["new"])


def test_a_declared_table_is_filled(kept: Catalog) -> None:
    kept.ns.declare_table({"id": ["new"]})
    assert create(kept.ns, ["new"], [1], "job").repeated is False
    assert kept.data(["new"]) == [1]
    append(kept.ns, ["new"], [2], "next")
    assert kept.data(["new"]) == [1, 2]


def test_a_dropped_table_comes_back_as_a_new_version(kept: Catalog) -> None:
    place = kept.place(["t"])
    kept.ns.drop_table({"id": ["t"]})
    made = create(kept.ns, ["t"], [8], "job")
    assert kept.place(["t"]) == place and kept.data(["t"]) == [8]
    found = find_done(another(kept).context, ("t",), Job("job"))
    assert found is not None and found.version <= made.version
    clean(kept, ["t"])


@pytest.mark.modes(Mode.V2, Mode.COMPAT)
def test_a_dropped_table_stays_where_creations_start_fresh(kept: Catalog) -> None:
    kept.ns.drop_table({"id": ["t"]})
    create(kept.open(recreate="fresh"), ["t"], [8], "job")
    assert kept.data(["t"]) == [8]
    assert len(kept.ns.list_dropped_tables()) == 1


@pytest.mark.modes(Mode.V2, Mode.COMPAT)
def test_a_creation_whose_row_may_be_there(kept: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    real, left = job_creation.settle, [True]

    def settle(*given: Any) -> None:
        real(*given)
        if left:
            left.pop()
            raise CommitOutcomeUnknownError("no answer")

    monkeypatch.setattr(job_creation, "settle", settle)
    assert create(kept.ns, ["new"], [1], "job").repeated is False
    assert kept.data(["new"]) == [1]
    clean(kept, ["new"])


# Dead jobs.


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


def test_nothing_is_stray_while_a_job_lives(kept: Catalog) -> None:
    ctx, place = kept.ns.context, kept.place(["t"])
    dead = job_records.begin(ctx.store, place, "dead")
    dead.stop()
    later = ctx.store.head(dead.path)
    assert later is not None
    # At a moment at which the one is old and the other is not.
    os.utime(Path(kept.root.folder or "") / dead.path, (1, 1))
    living = job_records.begin(ctx.store, place, "living")
    assert job_records.left_behind(ctx.store, place, later.modified_ms - 1000) == []
    living.end()
    assert job_records.left_behind(ctx.store, place, later.modified_ms - 1000) == [dead.path]
    dead.end()
    clean(kept, ["t"])


KILLED = {
    "append": ["job.looked", "job.staged", "job.finalized", "job.landed"],
    "create": [
        "table.version_staged",
        "table.version_finalized",
        "table.registered",
        "job.created",
    ],
}


def test_every_point_of_a_job_is_tried() -> None:
    tried = {point for points in KILLED.values() for point in points}
    # The one in passing above, the other on a real Spark.
    tried |= {"job.refused", "job.task_written"}
    assert {point for point in POINTS if point.startswith("job.")} <= tried


@pytest.mark.modes(Mode.COMPAT)
@pytest.mark.parametrize(
    ("verb", "point"), [(verb, point) for verb, points in KILLED.items() for point in points]
)
def test_a_driver_that_is_killed_and_runs_again(kept: Catalog, verb: str, point: str) -> None:
    table = "t" if verb == "append" else "new"

    def run(**more: str) -> int:
        return subprocess.run(
            [sys.executable, "-m", "tests.behaviour.jobbing", kept.root.uri, verb, table],
            env={**os.environ, **more},
            cwd=Path(__file__).parents[2],
            check=False,
        ).returncode

    assert run(LANCE_CATALOG_FAILPOINTS=f"{point}=kill") == -signal.SIGKILL
    if verb == "append" or find_done(kept.ns.context, ("new",), Job("job")) is None:
        assert run() == 0
    before = [1, 2, 3] if verb == "append" else []
    assert kept.data([table]) == sorted([*before, 7, 8])
    ctx = kept.open().context
    apply(ctx, plan(ctx, grace_seconds=-3600))
    assert check(ctx, grace_seconds=-3600).problems == []
    assert kept.data([table]) == sorted([*before, 7, 8])


def test_a_gate_takes_properties(kept: Catalog) -> None:
    done = append(kept.ns, ["t"], [4], "job")
    told = job_ids.told_by(gated.latest(kept.ns.context.store, kept.place(["t"])), done.version)
    assert told is not None and told.properties["lance_catalog.job"] == "job"
