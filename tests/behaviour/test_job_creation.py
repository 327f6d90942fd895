"""Tables that a job makes: once, and never over what another made meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from lance_catalog.config import Mode
from lance_catalog.directory import job_creation
from lance_catalog.directory.jobs import Done, Job, find_done
from lance_catalog.errors import CommitOutcomeUnknownError
from tests.behaviour.catalogs import Catalog, code
from tests.behaviour.jobbing import (
    another,
    append,
    clean,
    create,
    kept,
    pytest_generate_tests,
)

__all__ = ["kept", "pytest_generate_tests"]


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
