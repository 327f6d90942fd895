"""What each look after a crash is for: a protocol without one guard, which must be noticed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lance_catalog.config import Mode
from lance_catalog.directory.managed import commit
from lance_catalog.directory.managed.target import Target
from lance_catalog.maintenance import check_versions
from lance_catalog.manifest import Change
from lance_catalog.storage.port import ObjectInfo
from lance_catalog.versions import registry
from tests.concurrency.racing import open_catalog
from tests.crash.managed import SCENARIOS, Died
from tests.crash.managed_looks import examine, outcome_of
from tests.crash.test_fail_points import WITH_POINTS


def _never_healed(patch: pytest.MonkeyPatch) -> None:
    def told(self: Target, version: registry.Registered) -> ObjectInfo:
        return ObjectInfo(version.final_path(self.directory), version.size, 0)

    patch.setattr(Target, "put_in_place", told)


def _rows_last(patch: pytest.MonkeyPatch) -> None:
    """The manifests are put in place before the commit that decides."""

    def create(ctx: Any, wanted: Any) -> Any:
        prepared = commit.prepare(wanted)
        found = commit.publish(prepared)
        ctx.commit(lambda view: (Change(add=commit.plan_rows(ctx, view, prepared)), None))
        return found

    patch.setattr(commit, "create", create)


def _only_the_highest_healed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Target, "_left_with", lambda self, version: [version])


def _not_looked_further(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(registry, "_further", lambda log, view, table, best, top: best)


def _tidied_up_too_early(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(check_versions, "pending", lambda ctx, view: set())


def _never_ready(patch: pytest.MonkeyPatch) -> None:
    """What a committer left stays as it is when the versions below it are deleted."""
    patch.setattr(Target, "ready", lambda self: (self.head(), None))


Plant = Callable[[pytest.MonkeyPatch], None]
PLANTED: list[tuple[Plant, str, str]] = [
    (_never_healed, "three at once", "version.row_written"),
    (_rows_last, "three at once", "version.copied"),
    (_only_the_highest_healed, "versions of one", "version.row_written"),
    (_not_looked_further, "versions of one", "version.row_written"),
    (_tidied_up_too_early, "transaction", "version.row_written"),
    (_never_ready, "delete below what was left", "version.files_deleted"),
]


@pytest.mark.parametrize(
    ("plant", "name", "point"), PLANTED, ids=[one[0].__name__[1:] for one in PLANTED]
)
def test_a_planted_bug_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plant: Plant, name: str, point: str
) -> None:
    outcome = outcome_of(name, Mode.V2, str(tmp_path))
    root = str(tmp_path / "root")
    ns = open_catalog(root, Mode.V2)
    SCENARIOS[name].prepare(ns)
    with monkeypatch.context() as patch:
        _die_at(patch, point)
        plant(patch)
        with pytest.raises(Died):
            SCENARIOS[name].run(ns)
    plant(monkeypatch)
    with pytest.raises(Exception) as noticed:
        examine(root, ns, name, Mode.V2, outcome)
    print(str(noticed.value)[:300])
    monkeypatch.undo()


def _die_at(patch: pytest.MonkeyPatch, wanted: str) -> None:
    """In the place of a kill: nothing catches it, so the state is the same."""

    def hit(point: str) -> None:
        if point == wanted:
            raise Died

    for module in WITH_POINTS:
        patch.setattr(module, "hit", hit)


def test_without_a_bug_the_same_is_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, (_, name, point) in enumerate(PLANTED):
        outcome = outcome_of(name, Mode.V2, str(tmp_path))
        root = str(tmp_path / f"root{number}")
        ns = open_catalog(root, Mode.V2)
        SCENARIOS[name].prepare(ns)
        with monkeypatch.context() as patch:
            _die_at(patch, point)
            with pytest.raises(Died):
                SCENARIOS[name].run(ns)
        examine(root, ns, name, Mode.V2, outcome)
