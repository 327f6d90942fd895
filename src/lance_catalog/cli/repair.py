"""``repair``: a plan first, then apply."""

from __future__ import annotations

import typer

from lance_catalog.cli.command import command
from lance_catalog.cli.failures import ERROR
from lance_catalog.cli.options import DryRun, Grace
from lance_catalog.cli.results import Listing, Plan, Result, Step
from lance_catalog.cli.session import Session

__all__ = ["add_to"]

_KEYS = ("outcome", "kind", "subject", "description", "why")


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    command(app, "repair")(repair)


def repair(session: Session, dry_run: DryRun = False, grace: Grace = 3600.0) -> Result:
    """Mend what check finds: the plan is shown first, then asked for, then applied."""
    from lance_catalog.maintenance.repair import apply
    from lance_catalog.maintenance.repair import plan as make_plan

    actions = make_plan(session.context, grace_seconds=grace)
    plan = Plan(
        title=f"{len(actions)} repairs:",
        steps=[
            Step(action.kind, action.subject, action.description, action.destructive)
            for action in actions
        ],
        note=None if actions else "nothing to repair",
    )
    if dry_run:
        return plan
    outcomes: list[tuple[str, str, str, str, str]] = []
    if actions:
        session.confirm(lambda: plan, None)
        with session.output.progress("repairing") as progress:
            done = apply(session.context, actions, progress)
        outcomes = [
            ("done" if why is None else "failed", a.kind, a.subject, a.description, why or "")
            for a, why in done
        ]
    failed = sum(1 for outcome in outcomes if outcome[0] == "failed")
    return Listing(
        rows=[dict(zip(_KEYS, outcome, strict=True)) for outcome in outcomes],
        columns=_KEYS,
        plain=_KEYS,
        note=f"{len(outcomes) - failed} repaired, {failed} failed" if actions else plan.note,
        exit_code=ERROR if failed else 0,
    )
