"""``upkeep``: what commits do bit by bit, at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lance_catalog.cli.command import command
from lance_catalog.cli.options import DryRun
from lance_catalog.cli.results import Details, Plan, Result, Step
from lance_catalog.cli.session import Session

if TYPE_CHECKING:
    from lance_catalog.manifest.housekeeping import UpkeepReport

__all__ = ["add_to"]

Keep = Annotated[
    str | None,
    typer.Option(
        "--keep",
        metavar="TIME",
        help="How long old versions stay, as 7d, 12h or seconds; default what the property "
        "manifest_retention says. 'never' removes none.",
        show_default=False,
    ),
]
PruneNames = Annotated[
    bool,
    typer.Option(
        "--prune-names",
        help="Remove the empty files under the names of removed versions too: for a root that no "
        "native writer has open.",
    ),
]


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    command(app, "upkeep")(upkeep)


def upkeep(
    session: Session, keep: Keep = None, prune_names: PruneNames = False, dry_run: DryRun = False
) -> Result:
    """Merge small fragments of the manifest, complete its indices, remove its old versions.

    Commits do the same bit by bit. Changes nothing of what the catalog says.
    """
    if dry_run or prune_names:
        planned = session.catalog.upkeep(keep=keep, prune_names=prune_names, dry_run=True)
        plan = _plan(planned, prune_names=prune_names)
        if dry_run:
            return plan
        session.confirm(lambda: plan, None)
    with session.output.progress("removing old versions") as progress:
        done = session.catalog.upkeep(keep=keep, prune_names=prune_names, progress=progress)
    return Details(fields=_fields(done), note=_note(done))


def _plan(report: UpkeepReport, *, prune_names: bool) -> Plan:
    steps: list[Step] = []
    before, after = report.fragments_before, report.fragments_after
    if after != before:
        steps.append(Step("merge", "fragments", f"{before} become {after}", False))
    if report.indices_refreshed:
        steps.append(Step("complete", "indices", "", False))
    if report.versions_removed:
        detail = f"{report.files_removed} files, {report.bytes_removed} bytes"
        steps.append(Step("remove", f"{report.versions_removed} old versions", detail))
    if prune_names:
        steps.append(
            Step(
                "prune",
                f"{report.names_removed} names",
                "native writers that have the catalog open now lose what they write next",
            )
        )
    title = "Upkeep of the manifest"
    if prune_names:
        title += ": without the names a native writer that slept commits into the past, is told "
        title += "that it succeeded, and its change is lost. Stop native writers first"
    return Plan(title=title, steps=steps, note=None if steps else "nothing to do")


def _fields(report: UpkeepReport) -> dict[str, Any]:
    return {
        "fragments_before": report.fragments_before,
        "fragments_after": report.fragments_after,
        "indices_refreshed": report.indices_refreshed,
        "versions_removed": report.versions_removed,
        "files_removed": report.files_removed,
        "bytes_removed": report.bytes_removed,
        "names_removed": report.names_removed,
    }


def _note(report: UpkeepReport) -> str | None:
    if any(_fields(report).values()):
        return None
    return "the catalog has no manifest yet; nothing to do"
