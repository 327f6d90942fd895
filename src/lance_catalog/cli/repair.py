"""``repair``: a plan first, then apply."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from lance_catalog.cli.command import command
from lance_catalog.cli.failures import ERROR
from lance_catalog.cli.options import DryRun, Grace, Relocate
from lance_catalog.cli.results import Done, Listing, Plan, Result, Step
from lance_catalog.cli.session import Session

if TYPE_CHECKING:
    from lance_catalog.maintenance.repair import Action

__all__ = ["add_to"]

_KEYS = ("outcome", "kind", "subject", "description", "why")


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    command(app, "repair")(repair)


def repair(
    session: Session, dry_run: DryRun = False, grace: Grace = 3600.0, relocate: Relocate = None
) -> Result:
    """Mend what check finds: the plan is shown first, then asked for, then applied."""
    if relocate is not None:
        return _relocate(session, relocate, dry_run)
    from lance_catalog.maintenance.repair import apply
    from lance_catalog.maintenance.repair import plan as make_plan

    actions = make_plan(session.context, grace_seconds=grace)
    plan = Plan(
        title=f"Repairs: {len(actions)}",
        steps=[
            Step(action.kind, action.subject, _description(session, action), action.destructive)
            for action in actions
        ],
        note=None
        if actions
        else "nothing to repair; what check still lists needs somebody to decide",
    )
    if dry_run:
        return plan
    outcomes: list[tuple[str, str, str, str, str]] = []
    if actions:
        session.confirm(lambda: plan, None)
        with session.output.progress("repairing") as progress:
            done = apply(session.context, actions, progress)
        outcomes = [
            (
                "done" if why is None else "failed",
                a.kind,
                a.subject,
                _description(session, a),
                why or "",
            )
            for a, why in done
        ]
    failed = sum(1 for outcome in outcomes if outcome[0] == "failed")
    note = f"{len(outcomes) - failed} repaired, {failed} failed" if actions else plan.note
    if any(action.filed_as is not None for action in actions):
        note = f"{note}; `{session.command('table', 'list', '--deregistered')}` shows the tables "
        note += "that are listed as deregistered now"
    return Listing(
        rows=[dict(zip(_KEYS, outcome, strict=True)) for outcome in outcomes],
        columns=_KEYS,
        plain=_KEYS,
        note=note,
        exit_code=ERROR if failed else 0,
    )


def _description(session: Session, action: Action) -> str:
    if action.filed_as is None:
        return action.description
    # What it is called from now on: the folder's name may hold a hash.
    return f"{action.description} under the id {session.text(action.filed_as)}"


def _relocate(session: Session, table: str, dry_run: bool) -> Result:
    """Move one table to its V2 path: the only command that moves data."""
    from lance_catalog.maintenance.relocate import plan_relocation, relocate

    names = session.parse_table(table)
    move = plan_relocation(session.context, names)
    text = session.text(names)
    plan = Plan(
        title=f"Move table {text}: stop its writers first, or what they write is lost",
        steps=[
            Step(
                "relocate",
                text,
                f"{move.source} -> {move.target}: {move.objects} files, {move.size} bytes",
                True,
            )
        ],
    )
    if dry_run:
        return plan
    session.confirm(lambda: plan, text)
    with session.output.progress("copying") as progress:
        place = relocate(session.context, move, lambda count, size: progress(count, move.objects))
    return Done(
        message=f"moved table {text} to {place}",
        fields={"id": list(names), "text": text, "location": session.context.store.uri_of(place)},
        plain="location",
    )
