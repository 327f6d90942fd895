"""``versions cleanup``: old versions of one table or of all go, with the data only they use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lance_catalog.cli.command import command
from lance_catalog.cli.completion import complete_object
from lance_catalog.cli.failures import ERROR
from lance_catalog.cli.options import DryRun
from lance_catalog.cli.results import Listing, Plan, Result, Step
from lance_catalog.cli.session import Session
from lance_catalog.cli.wording import counted, in_cli_words

if TYPE_CHECKING:
    from lance_catalog import CleanedTable, VersionCleanup

__all__ = ["add_to"]

_KEYS = ("outcome", "text", "versions", "bytes", "oldest_kept", "tagged", "why")


def add_to(app: typer.Typer) -> None:
    """Register the command with its noun."""
    command(app, "cleanup")(cleanup)


def cleanup(
    session: Session,
    id: Annotated[
        str | None,
        typer.Argument(
            metavar="[ID]",
            help="The table; default every table of the catalog.",
            autocompletion=complete_object,
            show_default=False,
        ),
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than",
            metavar="TIME",
            help="Only versions that are older, as 14d, 12h or seconds; default 14d, or any age "
            "with --keep.",
            show_default=False,
        ),
    ] = None,
    keep: Annotated[
        int | None,
        typer.Option(
            "--keep",
            min=1,
            metavar="N",
            help="Keep the newest N versions whatever their age; default the latest.",
            show_default=False,
        ),
    ] = None,
    dry_run: DryRun = False,
) -> Result:
    """Remove old versions and the data that only they use; the latest and tagged ones stay."""
    names = None if id is None else session.parse_table(id)

    def plan() -> Plan:
        return _plan(session, session.catalog.cleanup_table_versions(names, older_than, keep, True))

    if dry_run:
        return plan()
    session.confirm(plan, None)
    with session.output.progress("cleaning up") as progress:
        done = session.catalog.cleanup_table_versions(
            names, older_than, keep, progress=lambda _, count, total: progress(count, total)
        )
    rows = [_row(session, table) for table in done.tables]
    rows += [
        {
            "outcome": "failed",
            **session.row(table),
            **dict.fromkeys(("versions", "bytes", "tagged"), 0),
            "oldest_kept": None,
            "why": session.scrub(in_cli_words(str(error))),
        }
        for table, error in done.failed
    ]
    return Listing(
        rows=rows,
        columns=_KEYS,
        titles=("outcome", "id", "versions", "bytes", "oldest kept", "tagged", "why"),
        plain=_KEYS,
        note=_summary(done),
        exit_code=ERROR if done.failed else 0,
    )


def _row(session: Session, table: CleanedTable) -> dict[str, Any]:
    return {
        "outcome": "cleaned" if table.versions else "nothing old",
        **session.row(table.id),
        "versions": table.versions,
        "bytes": table.bytes,
        "oldest_kept": table.oldest_kept,
        "tagged": table.tagged,
        "why": "",
    }


def _plan(session: Session, report: VersionCleanup) -> Plan:
    steps = [
        Step(
            "clean up",
            session.text(table.id),
            f"{counted(table.versions, 'version')}; the oldest kept is {table.oldest_kept}",
        )
        for table in report.tables
        if table.versions
    ]
    steps += [
        Step("clean up: fails", session.text(table), in_cli_words(str(error)), False)
        for table, error in report.failed
    ]
    title = "Removing old versions, after which nobody can read them:"
    return Plan(title=title, steps=steps, note=None if steps else "no version is old enough")


def _summary(report: VersionCleanup) -> str:
    versions = sum(table.versions for table in report.tables)
    tables = sum(1 for table in report.tables if table.versions)
    size = sum(table.bytes or 0 for table in report.tables)
    text = f"removed {counted(versions, 'version')} of {counted(tables, 'table')}, {size} bytes"
    held = sum(table.tagged for table in report.tables)
    text += f", {held} kept because a tag or a branch holds them" if held else ""
    return text + (f", {counted(len(report.failed), 'table')} failed" if report.failed else "")
