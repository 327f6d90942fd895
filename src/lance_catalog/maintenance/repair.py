"""Mending what a check found: a plan first, then each step on its own, looked at again before.

Nothing here deletes a table. What is deleted was never acknowledged, or was dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from lance_catalog.directory.context import Context
from lance_catalog.errors import LanceNamespaceError, translate
from lance_catalog.identifiers import Identifier
from lance_catalog.maintenance import mending, mending_versions
from lance_catalog.maintenance.check import check
from lance_catalog.maintenance.findings import Kind, Problem

__all__ = ["Action", "apply", "plan"]

Mend = Callable[[Context, Problem], None]


@dataclass(frozen=True, slots=True)
class Action:
    """One step of a repair."""

    kind: str
    subject: str
    description: str
    destructive: bool
    problem: Problem
    #: The id under which the step lists a directory that no entry names.
    filed_as: Identifier | None = None


#: What mends each kind: (words, deletes something, how). Kinds not here need a decision.
_STEPS: Final[dict[Kind, tuple[str, bool, Mend]]] = {
    Kind.ORPHAN: ("create the missing namespace", False, mending.create_parents),
    Kind.ROW_WITHOUT_DATA: ("reserve the place again", False, mending.reserve),
    Kind.DIRECTORY_WITHOUT_ROW: ("list it as deregistered", False, mending.adopt),
    Kind.LEFTOVER_DIRECTORY: ("delete the leftover files", True, mending.delete_files),
    Kind.STRAY_FILES: ("delete the stray files", True, mending.delete_files),
    Kind.UNFINISHED_PURGE: ("finish the deletion", True, mending.finish_purge),
    Kind.UNFINISHED_REGISTER: ("remove the marker", False, mending.remove_markers),
    Kind.MISSING_MARKER: ("write the marker", False, mending.write_markers),
    Kind.UNLISTED_MARKER: ("write the marker at the root", False, mending.lift_marker),
    Kind.STALE_MARKER: ("remove the marker", False, mending.remove_stale_marker),
    Kind.ORPHAN_VERSIONS: ("remove the entries", False, mending_versions.forget_orphans),
    Kind.UNFINISHED_VERSION: ("put the manifest in place", False, mending_versions.finish_version),
    Kind.LOST_VERSIONS: ("remove the entries", False, mending_versions.forget_lost),
    Kind.FOREIGN_VERSIONS: ("register the versions", False, mending_versions.adopt_foreign),
    Kind.DELETED_VERSIONS: ("delete the manifests", True, mending_versions.finish_deletion),
    Kind.STALE_CLAIM: ("finish what was claimed", True, mending.finish_claim),
}


def plan(ctx: Context, *, grace_seconds: float = 3600.0) -> list[Action]:
    """Return the steps that would mend what a check finds now. Changes nothing."""
    actions: list[Action] = []
    for problem in check(ctx, grace_seconds=grace_seconds).problems:
        step = _STEPS.get(problem.kind)
        if step is not None:
            orphan = problem.kind is Kind.DIRECTORY_WITHOUT_ROW
            names = mending.former_names(problem.subject) if orphan else None
            actions.append(Action(problem.kind, problem.subject, step[0], step[1], problem, names))
    return actions


def apply(
    ctx: Context,
    actions: Sequence[Action],
    progress: Callable[[int, int], None] | None = None,
) -> list[tuple[Action, str | None]]:
    """Carry out a plan; return, per step, None or why it failed. One failure stops no other."""
    ctx = ctx.whole()
    results: list[tuple[Action, str | None]] = []
    for number, action in enumerate(actions, 1):
        try:
            _STEPS[action.problem.kind][2](ctx, action.problem)
        except LanceNamespaceError as error:
            results.append((action, str(error)))
        except OSError as error:
            results.append((action, str(translate(error, action.description))))
        else:
            results.append((action, None))
        if progress is not None:
            progress(number, len(actions))
    return results
