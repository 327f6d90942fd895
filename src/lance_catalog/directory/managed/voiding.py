"""Taking back versions whose names a writer that ignores the catalog took at the same moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lance_catalog.directory.managed.rows import forgetting
from lance_catalog.directory.managed.target import Target
from lance_catalog.manifest import Change, Draft, Snapshot
from lance_catalog.model import Entry
from lance_catalog.versions.registry import Registered

__all__ = ["Prepared", "void"]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A version that can be registered, as far as a look tells; or that is."""

    target: Target
    version: Registered

    @property
    def row(self) -> Entry:
        return self.version.row(self.target.key, self.target.directory)


def void(versions: Sequence[Prepared]) -> bool:
    """Take back registered versions, all in one commit; False when others built on them already.

    What lies under a name that was taken is the version, for every reader: its row tells of that.
    """
    if not versions:
        return True
    ctx = versions[0].target.ctx

    def plan(view: Snapshot) -> tuple[Change, bool]:
        draft = Draft(view)
        # The highest first, as they go.
        for one in sorted(versions, key=lambda one: -one.version.version):
            change = _plan(one, draft.view)
            if change is None:
                return Change(), False
            draft.apply(change)
        return draft.change(), True

    return ctx.commit(plan)


def _plan(one: Prepared, view: Snapshot) -> Change | None:
    number, entry = one.version.version, view.get(one.target.key)
    if entry is None or entry.location != one.target.entry.location:
        return None  # Dropped or renamed since, and its rows with it: not ours to change there.
    target = Target(one.target.ctx, view, entry, one.target.directory)
    mine = target.registered(number).get(number)
    if mine is None or mine.entry is None or mine.staged != one.version.staged:
        return Change()  # Not ours any more.
    file = target.file(number)
    if file is None:
        return None if target.head() > number else forgetting(view, target.key, [mine.entry])
    naming, info = file
    if info.size == one.version.size and _same(target, one, info.path):
        return None  # In place: somebody may have read it.
    theirs = Registered(number, naming, info.size, info.e_tag, info.modified_ms)
    return Change((mine.entry,), (theirs.row(target.key, target.directory),))


def _same(target: Target, one: Prepared, path: str) -> bool:
    staged = one.version.staged_path(target.directory)
    data = None if staged is None else target.ctx.store.get(staged)
    # Without the staged one a reader put it in place, and somebody tidied up.
    return data is None or target.ctx.store.get(path) == data
