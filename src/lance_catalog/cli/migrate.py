"""``migrate``: from directories to the manifest."""

from __future__ import annotations

import typer

from lance_catalog.cli.command import command
from lance_catalog.cli.options import DryRun
from lance_catalog.cli.results import Listing, Result
from lance_catalog.cli.session import Session

__all__ = ["add_to"]


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    command(app, "migrate")(migrate)


def migrate(session: Session, dry_run: DryRun = False) -> Result:
    """Register every table that only its directory tells of (V1) in the manifest (V2).

    Nothing moves. May be repeated, and interrupted.
    """
    from lance_catalog.directory.migration import migrate as run

    with session.output.progress("registering") as progress:
        report = run(session.context, dry_run=dry_run, progress=progress)
    outcomes = [
        *(("registered", name, "") for name in report.registered),
        *(("already", name, "") for name in report.already),
        *(("skipped", name, why) for name, why in report.skipped),
    ]
    rows = [{"outcome": what, "name": name, "why": why} for what, name, why in outcomes]
    would = "would register" if dry_run else "registered"
    note = (
        f"{would} {len(report.registered)}, {len(report.already)} were registered already, "
        f"{len(report.skipped)} skipped"
    )
    keys = ("outcome", "name", "why")
    return Listing(rows=rows, columns=keys, plain=keys, note=note)
