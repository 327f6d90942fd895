"""Exactly once by a job id, without Spark: every meeting of a job with itself and with others."""

from __future__ import annotations

from typing import Any

import pytest

from lance_catalog.directory import jobs
from lance_catalog.directory.jobs import Done, Job, find_done
from lance_catalog.errors import CommitOutcomeUnknownError
from tests.behaviour.catalogs import Catalog, code, refusal
from tests.behaviour.jobbing import (
    another,
    append,
    at,
    clean,
    kept,
    on_own_thread,
    overwrite,
    pytest_generate_tests,
)

__all__ = ["kept", "pytest_generate_tests"]


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


@pytest.mark.parametrize("point", ["job.announced", "job.looked", "job.staged"])
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
