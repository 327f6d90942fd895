"""``check``: look for damage, change nothing."""

from __future__ import annotations

import typer

from lance_catalog.cli.command import command
from lance_catalog.cli.failures import PROBLEMS
from lance_catalog.cli.options import Grace
from lance_catalog.cli.results import Listing, Result
from lance_catalog.cli.session import Session

__all__ = ["add_to"]

_KEYS = ("kind", "subject", "detail", "fix")


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    command(app, "check")(check)


def check(session: Session, grace: Grace = 3600.0) -> Result:
    """Look for rows without data, data without rows, orphans, duplicates and stray files.

    Exit code 6 when there are any. Changes nothing.
    """
    from lance_catalog.maintenance.check import check as run

    report = run(session.context, grace_seconds=grace)
    rows = [{key: str(getattr(problem, key)) for key in _KEYS} for problem in report.problems]
    note = "no problems found"
    if rows:
        note = f"problems: {len(rows)}; `{session.command('repair', '--dry-run')}` shows the remedy"
    return Listing(
        rows=rows, columns=_KEYS, plain=_KEYS, note=note, exit_code=PROBLEMS if rows else 0
    )
