"""What a table remembers of jobs: found again without its history, and past cleanups."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lance_catalog.directory import job_ledger, job_search
from lance_catalog.directory.job_ids import FOLDER, Job, Told
from lance_catalog.directory.job_search import Looker, find_done, open_for_job
from tests.behaviour.catalogs import Catalog, code, refusal
from tests.behaviour.jobbing import (
    another,
    append,
    at,
    clean,
    kept,
    on_own_thread,
    pytest_generate_tests,
)

__all__ = ["kept", "pytest_generate_tests"]


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
    ledger, files = job_ledger._read(kept.ns.context.store, kept.place(["t"]))
    assert len(files) == 1
    keys = sorted(str(told.key) for _, told in ledger.told.values())
    assert keys == ["job job", "job last", "stream query"]
    clean(kept, ["t"])


def _told(job: Job) -> Told:
    return Told("token", job.properties())


def test_the_ledger_forgets_what_is_too_old(kept: Catalog) -> None:
    store, place, year = kept.ns.context.store, kept.place(["t"]), job_ledger.KEPT_MS
    job_ledger.keep(store, place, {1: (0, _told(Job("old")))}, year - 1)
    job_ledger.keep(store, place, {2: (year, _told(Job("new")))}, year)
    ledger = job_ledger.ledger_of(store, place)
    assert ledger.at(1) is None and ledger.at(2) == _told(Job("new"))
    assert ledger.gone == [(1, 2)]  # Nobody else removed it.


def test_announcements_go_when_they_are_too_old(kept: Catalog) -> None:
    ctx = kept.ns.context
    append(kept.ns, ["t"], [4], "job")
    for batch in range(2):
        append(kept.ns, ["t"], [10 + batch], Job.of_stream("query", batch))
    assert len(announcements(kept)) == 2
    now = ctx.clock()
    ctx.clock = lambda: now + job_ledger.KEPT_MS // 2
    append(kept.ns, ["t"], [12], Job.of_stream("query", 2))  # Still in use.
    [used] = [path for path in announcements(kept) if b"stream" in kept.root.get(path)]
    assert json.loads(kept.root.get(used))["at_ms"] == ctx.clock()  # Written anew.
    later = ctx.clock() / 1000
    os.utime(Path(kept.root.folder or "") / used, (later, later))
    ctx.clock = lambda: now + job_ledger.KEPT_MS + 1000
    kept.ns.cleanup_table_versions(["t"], keep=1)
    assert announcements(kept) == [used]
    assert append(kept.ns, ["t"], [12], Job.of_stream("query", 2)).repeated
    assert kept.data(["t"]) == [1, 2, 3, 4, 10, 11, 12]


def test_ids_that_were_made_up_go_with_their_versions(kept: Catalog) -> None:
    made = Job.named(None)
    first = append(kept.ns, ["t"], [4], made)
    # As its message says where the outcome is not known.
    assert append(kept.ns, ["t"], [4], Job(made.id)).version == first.version
    append(kept.ns, ["t"], [5], Job.named(None))
    assert len(announcements(kept)) == 2
    kept.ns.cleanup_table_versions(["t"], keep=1)
    assert len(announcements(kept)) == 1
    assert job_ledger.ledger_of(kept.ns.context.store, kept.place(["t"])).told == {}
    assert kept.data(["t"]) == [1, 2, 3, 4, 5]


def announcements(catalog: Catalog) -> list[str]:
    return catalog.root.paths(f"{catalog.place(['t'])}/{FOLDER}/jobs")


@pytest.mark.parametrize("folder", ["committed", "jobs"])
def test_a_ledger_that_cannot_be_read_stops_a_job(kept: Catalog, folder: str) -> None:
    place = kept.place(["t"])
    append(kept.ns, ["t"], [4], "job")
    append(kept.ns, ["t"], [5], "other")
    kept.ns.cleanup_table_versions(["t"], keep=1)
    for path in kept.root.paths(f"{place}/{FOLDER}/{folder}"):
        kept.root.put(path, b"{")
    assert code(append, kept.ns, ["t"], [4], "job") == 19
    assert kept.data(["t"]) == [1, 2, 3, 4, 5]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The versions whose transactions a search reads."""
    found: list[int] = []
    real: Any = job_search.told_by

    def told_by(dataset: Any, version: int) -> Any:
        found.append(version)
        return real(dataset, version)

    monkeypatch.setattr(job_search, "told_by", told_by)
    return found


def test_history_is_not_read(kept: Catalog, reads: list[int]) -> None:
    for number in range(5):
        append(kept.ns, ["t"], [10 + number], f"job {number}")
        append(kept.ns, ["t"], [20 + number], Job.named(None))
    assert find_done(kept.ns.context, ("t",), Job("never")) is None
    assert reads == []
    done = append(another(kept), ["t"], [13], "job 3")
    assert done.repeated and min(reads) == done.version and len(set(reads)) == 4
    reads.clear()
    for batch in range(3):
        append(kept.ns, ["t"], [30 + batch], Job.of_stream("query", batch))
        append(kept.ns, ["t"], [40 + batch], "between")  # A repetition, but for the first.
    assert append(kept.ns, ["t"], [32], Job.of_stream("query", 2)).repeated
    assert len(reads) <= 12


def test_a_driver_that_died_between_its_word_and_its_commit(
    kept: Catalog, reads: list[int]
) -> None:
    ctx = kept.ns.context
    base = open_for_job(ctx, ("t",))
    Looker(ctx, Job("job")).announce(base)
    for number in range(3):
        append(kept.ns, ["t"], [10 + number], f"job {number}")
    assert append(another(kept), ["t"], [4], "job").repeated is False
    assert sorted(reads) == [base.version + 1, base.version + 2, base.version + 3]
    assert append(another(kept), ["t"], [4], "job").repeated
    assert kept.data(["t"]) == [1, 2, 3, 4, 10, 11, 12]


def test_a_restore_that_was_undone_itself(kept: Catalog) -> None:
    before = kept.open().open_table(["t"]).version
    done = append(kept.ns, ["t"], [4], "job")
    kept.ns.restore_table({"id": ["t"], "version": before})
    assert find_done(kept.ns.context, ("t",), Job("job")) is None
    kept.ns.restore_table({"id": ["t"], "version": done.version})
    assert append(another(kept), ["t"], [4], "job").repeated
    assert kept.data(["t"]) == [1, 2, 3, 4]


@pytest.mark.parametrize("restored", ["kept", "cleaned up"])
def test_a_restore_past_a_job_that_was_cleaned_up(kept: Catalog, restored: str) -> None:
    """The version before the job has a tag, so that it outlives the job's."""
    before = kept.open().open_table(["t"]).version
    kept.ns.create_table_tag({"id": ["t"], "tag": "good", "version": before})
    append(kept.ns, ["t"], [4], "job")
    append(kept.ns, ["t"], [5], "other")
    if restored == "kept":
        kept.ns.cleanup_table_versions(["t"], keep=1)
    kept.ns.restore_table({"id": ["t"], "version": before})
    if restored == "cleaned up":
        append(kept.ns, ["t"], [6], "more")
        kept.ns.cleanup_table_versions(["t"], keep=1)
    assert append(another(kept), ["t"], [4], "job").repeated is False
    assert append(another(kept), ["t"], [4], "job").repeated
    assert kept.data(["t"]).count(4) == 1


def test_a_batch_whose_version_went_before_an_older_one(kept: Catalog) -> None:
    """A tag holds the version of batch 0; that of batch 1 is known to the ledger alone."""
    first = append(kept.ns, ["t"], [10], Job.of_stream("query", 0))
    kept.ns.create_table_tag({"id": ["t"], "tag": "kept", "version": first.version})
    append(kept.ns, ["t"], [11], Job.of_stream("query", 1))
    append(kept.ns, ["t"], [20], "more")
    kept.ns.cleanup_table_versions(["t"], keep=1)
    assert append(another(kept), ["t"], [11], Job.of_stream("query", 1)).repeated
    assert kept.data(["t"]) == [1, 2, 3, 10, 11, 20]


def test_versions_that_others_removed_are_not_guessed_about(kept: Catalog) -> None:
    append(kept.ns, ["t"], [4], "job")
    append(kept.ns, ["t"], [5], "other")
    place = kept.place(["t"])
    kept.root.dataset(place).cleanup_old_versions(older_than=timedelta(0), retain_versions=1)
    error = refusal(append, another(kept), ["t"], [4], "job")
    assert int(error.code) == 19 and "another job id" in str(error)
    assert append(another(kept), ["t"], [5], "other").repeated
    assert append(another(kept), ["t"], [6], "new").repeated is False
    assert kept.data(["t"]) == [1, 2, 3, 4, 5, 6]


def test_a_job_stays_done_wherever_its_table_goes(kept: Catalog) -> None:
    append(kept.ns, ["t"], [4], "job")
    kept.ns.drop_table({"id": ["t"]})
    kept.ns.undrop_table(["t"])
    assert append(another(kept), ["t"], [4], "job").repeated
    if kept.can("rename"):
        kept.ns.rename_table({"id": ["t"], "new_table_name": "moved"})
        assert append(another(kept), ["moved"], [4], "job").repeated
        assert kept.data(["moved"]) == [1, 2, 3, 4]


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
