"""``migrate``: from directories to the manifest, and to listings of the root by name alone."""

from __future__ import annotations

import typer

from lance_catalog.cli.command import command
from lance_catalog.cli.failures import ERROR
from lance_catalog.cli.options import DryRun
from lance_catalog.cli.results import Listing, Result
from lance_catalog.cli.session import Session

__all__ = ["add_to"]


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    command(app, "migrate")(migrate)


def migrate(session: Session, dry_run: DryRun = False) -> Result:
    """Register every table that only its directory tells of (V1) in the manifest (V2).

    In every mode, V1 too: tables that another implementation deregistered get their marker at the
    root, and the root its layout flag. Nothing moves. May be repeated, and interrupted.
    """
    from lance_catalog.config import Mode
    from lance_catalog.directory.migration import migrate as run

    with session.output.progress("migrating") as progress:
        report = run(session.context, dry_run=dry_run, progress=progress)
    outcomes = [
        *(("would register" if dry_run else "registered", n, "") for n in report.registered),
        *(("already", name, "") for name in report.already),
        *(("would hide" if dry_run else "hidden", name, "") for name in report.hidden),
        *(("skipped", name, why) for name, why in report.skipped),
        *(("failed", name, session.scrub(why)) for name, why in report.failed),
    ]
    rows = [{"outcome": what, "name": name, "why": why} for what, name, why in outcomes]
    would = "would have " if dry_run else ""
    parts: list[str] = []
    if session.context.mode is not Mode.V1:
        parts.append(
            f"{would}registered {len(report.registered)}, "
            f"{len(report.already)} were registered already"
        )
    if report.hidden:
        parts.append(f"{would}marked {len(report.hidden)} deregistered tables at the root")
    if report.flagged:
        parts.append(f"{would}written the layout flag" if dry_run else "wrote the layout flag")
    if report.skipped:
        parts.append(f"{len(report.skipped)} skipped")
    if report.failed:
        parts.append(f"{len(report.failed)} failed")
    keys = ("outcome", "name", "why")
    note = ", ".join(parts) or "nothing to migrate"
    code = ERROR if report.failed else 0
    return Listing(rows=rows, columns=keys, plain=keys, note=note, exit_code=code)
