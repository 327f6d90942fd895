"""`migrate` gives a row to what only a marker hides, while another ends the hiding by that marker.

Forced step by step, in both orders. Whoever was acknowledged keeps what it was told, also when a
sweep comes between the migration's row and its look, or when the migration dies there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from lance_catalog import DirectoryNamespace, TableState
from lance_catalog.config import Mode
from lance_catalog.directory import migration, trashing
from lance_catalog.errors import CommitOutcomeUnknownError, LanceNamespaceError
from lance_catalog.maintenance.repair import apply, plan
from tests.concurrency.interleaving import Root, T, data, root
from tests.concurrency.racing import PATIENCE, ipc

__all__ = ["root"]

ROWS, NEW = [1, 2, 3], [9]
MODES = (Mode.V1, Mode.COMPAT)
ENDINGS: dict[str, Callable[[DirectoryNamespace], Any]] = {
    "undrop": lambda ns: ns.undrop_table(["t"]),
    "revive": lambda ns: ns.create_table(T, ipc(NEW)),
    "purge": lambda ns: ns.purge_table(["t"]),
}
#: Where an ending waits while the migration writes its row: it has claimed, or is about to.
STEPS = [
    ("undrop", "undrop.claimed"),
    ("undrop", "marker.nested_removed"),
    ("undrop", "marker.root_removed"),
    ("revive", "revive.data_written"),
    ("revive", "revive.claimed"),
    ("revive", "revive.landed"),
    ("revive", "marker.root_removed"),
    ("purge", "purge.claimed"),
    ("purge", "purge.before_move"),
    ("purge", "purge.moved_aside"),
    ("purge", "purge.deleted"),
]
#: What comes between the migration's row and its look.
BETWEEN = ("nothing", "sweep", "death")


class Died(BaseException):
    """A process that is not there any more: nothing of ours catches it."""


class Scene:
    """A table that V1 dropped, a migration, and one who ends the drop."""

    def __init__(self, root: Root, mode: Mode, verb: str, between: str) -> None:
        self.root, self.verb, self.between = root, verb, between
        root.first(Mode.V1).create_table(T, ipc(ROWS))
        root.first(Mode.V1).drop_table(T, ttl=0)
        self.ns = root.second(mode)
        self.swept = self.over = False
        #: Nothing when it was done.
        self.error: Exception | None = None
        #: Set when the ending is at its step, or over.
        self.there = threading.Event()
        self._thread = threading.Thread(target=self.end)

    def end(self) -> None:
        try:
            ENDINGS[self.verb](self.ns)
        except Exception as error:
            self.error = error
        self.there.set()

    # An ending that waits at a step.

    def start(self, step: str, go: threading.Event) -> None:
        """Start the ending, and wait until it is at its step, or over."""

        def hook(name: str) -> None:
            if threading.current_thread() is self._thread and name == step:
                self.there.set()
                assert go.wait(PATIENCE)
            elif threading.current_thread() is not self._thread and name == "migrate.trashed":
                self.on_trashed()

        self.root.on_hit(hook)
        self._thread.start()
        assert self.there.wait(PATIENCE)

    def join(self) -> None:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    def on_trashed(self) -> None:
        """Between the migration's row and its look, the first time; tests put more before it."""
        if self.over:
            return
        if self.between == "sweep":
            self.sweep()
        if self.between == "death":
            raise Died

    def sweep(self) -> None:
        self.swept = bool(self.root.first(Mode.COMPAT).purge_tables().purged)

    def migrate(self) -> None:
        try:
            migration.migrate(self.root.first(Mode.COMPAT).context)
        except Died:
            assert self.between == "death"

    # What came of it.

    def state(self) -> str | list[int]:
        ns = self.root.first(Mode.COMPAT)
        if ns.table_status(["t"]).state is TableState.EXISTS:
            return data(ns, "t")
        return ns.table_status(["t"]).state.value

    def judge(self) -> None:
        """Once all is over and mended: what was told holds, and nothing is left of it."""
        self.over = True
        if self.between == "death":
            # Before anybody mends what it left.
            self.sweep()
        context = self.root.first(Mode.COMPAT).context
        migration.migrate(context)
        wrong = [why for _, why in apply(context, plan(context, grace_seconds=-3600)) if why]
        assert wrong == []
        done = {"undrop": ROWS, "revive": NEW, "purge": "not-found"}[self.verb]
        if self.error is None:
            wanted = [done]
        else:
            assert isinstance(self.error, LanceNamespaceError), self.error
            assert int(self.error.code) in (4, 5, 14, 19), self.error
            wanted = ["not-found" if self.swept else "soft-deleted"]
            if isinstance(self.error, CommitOutcomeUnknownError) or "taken over" in str(self.error):
                wanted.append(done)
        found = self.state()
        assert found in wanted, (self.error, self.swept)
        self.root.clean(Mode.COMPAT)
        if found == "soft-deleted":
            self.root.first(Mode.COMPAT).undrop_table(["t"])
            assert self.state() == ROWS
        if isinstance(found, list):
            assert data(self.root.first(Mode.V1), "t") == found


@pytest.mark.parametrize("between", BETWEEN)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("verb", ENDINGS)
def test_an_ending_before_the_row(root: Root, verb: str, mode: Mode, between: str) -> None:
    """M looked at the marker | E ends the hiding, acknowledged | M writes its row."""
    scene = Scene(root, mode, verb, between)
    root.around(trashing, "table_properties", after=scene.end)
    root.at("migrate.trashed", scene.on_trashed)
    scene.migrate()
    assert scene.error is None
    scene.judge()


@pytest.mark.parametrize("between", ["nothing", "death"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("verb", ENDINGS)
def test_an_ending_after_the_row(root: Root, verb: str, mode: Mode, between: str) -> None:
    """M wrote its row | E finds it: V1 is refused, others look in M's place and go on."""
    scene = Scene(root, mode, verb, between)

    def trashed() -> None:
        scene.end()
        scene.on_trashed()

    root.at("migrate.trashed", trashed)
    scene.migrate()
    assert getattr(scene.error, "code", None) == (19 if mode is Mode.V1 else None), scene.error
    scene.judge()


def on_its_way() -> list[Any]:
    """Every combination in `make soak`; in `make test` each step in each mode and order once."""
    found = []
    for place, ((verb, step), mode, late) in enumerate(product(STEPS, MODES, (False, True))):
        for turn, between in enumerate(BETWEEN):
            marks = [] if (place + place // 4) % 3 == turn else [pytest.mark.soak]
            order = "ends after all" if late else "ends before the look"
            name = f"{verb}-{step}-{mode.value}-{between}-{order}"
            found.append(pytest.param(verb, step, mode, between, late, marks=marks, id=name))
    return found


@pytest.mark.parametrize(("verb", "step", "mode", "between", "late"), on_its_way())
def test_an_ending_on_its_way(
    root: Root, verb: str, step: str, mode: Mode, between: str, late: bool
) -> None:
    """M looked at the marker | E is at a step | M writes its row | E goes on, now or later."""
    scene = Scene(root, mode, verb, between)
    go = threading.Event()
    root.around(trashing, "table_properties", after=lambda: scene.start(step, go))
    usual = scene.on_trashed

    def trashed() -> None:
        if not late:
            go.set()
            scene.join()
        usual()

    scene.on_trashed = trashed  # type: ignore[method-assign]
    scene.migrate()
    go.set()
    scene.join()
    scene.judge()
