"""``versions delete``: forget versions by their numbers; the data of the others stays readable."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lance_catalog.cli.command import command
from lance_catalog.cli.failures import usage
from lance_catalog.cli.options import DryRun, TableId
from lance_catalog.cli.results import Done, Plan, Result, Step
from lance_catalog.cli.session import Session
from lance_catalog.cli.wording import counted

if TYPE_CHECKING:
    from lance_catalog.identifiers import Identifier

__all__ = ["add_to"]

_RANGE: Final = re.compile(r"^(\d{1,18})(?:-(\d{1,18}))?$", re.ASCII)
_EVERYTHING: Final = "all"


def add_to(app: typer.Typer) -> None:
    """Register the command with its noun."""
    command(app, "delete")(delete)


def delete(
    session: Session,
    id: TableId,
    ranges: Annotated[
        list[str],
        typer.Argument(
            metavar="RANGE...",
            help="A version as 3, or from one to another as 3-7, both included; 0-7 begins with "
            "the oldest there is; 'all' is every version, and needs --force.",
        ),
    ],
    ignore_missing: Annotated[
        bool,
        typer.Option(
            "--ignore-missing/--no-ignore-missing",
            help="A version that is not there is fine; or else nothing is deleted.",
        ),
    ] = True,
    force: Annotated[
        bool,
        typer.Option("--force", help="With 'all': also when nobody can read the table afterwards."),
    ] = False,
    dry_run: DryRun = False,
) -> Result:
    """Delete versions of a table, never the latest: their manifests go, data files stay."""
    names = session.parse_table(id)
    spans = [_span(text) for text in ranges]
    text = session.text(names)
    plan = Plan(
        title=f"Deleting versions of table {text}, after which nobody can read them:",
        steps=[
            Step("delete", text, f"version {a}" if a == b else f"versions {a} to {b}")
            for a, b in _chosen(session, names, spans, ignore_missing, force)
        ],
    )
    if dry_run:
        note = None if plan.steps else "nothing to delete"
        return Plan(title=plan.title, steps=plan.steps, note=note)
    if plan.steps:
        session.confirm(lambda: plan, text if _EVERYTHING in ranges else None)
    answer = session.catalog.batch_delete_table_versions(
        {
            "id": list(names),
            "ranges": [{"start_version": start, "end_version": end} for start, end in spans],
            "ignore_missing": str(ignore_missing).lower(),
            "force": str(force).lower(),
        }
    )
    count = answer.deleted_count or 0
    return Done(
        message=f"deleted {counted(count, 'version')} of table {text}",
        fields={**session.row(names), "deleted": count},
        plain="deleted",
    )


def _span(text: str) -> tuple[int, int]:
    """Return a range as requests have it: the end excluded, 0 the oldest, -1 no end."""
    if text == _EVERYTHING:
        return 0, -1
    match = _RANGE.match(text)
    if match is None:
        raise usage(
            f"'{text}' is no range of versions",
            "give a version as 3, a range as 3-7 (both included), or all",
        )
    first = int(match[1])
    last = first if match[2] is None else int(match[2])
    if last < 1:
        raise usage(f"'{text}' is no range of versions: they count from 1")
    if last < first:
        raise usage(f"'{text}' is no range of versions: it ends before it begins")
    return first, last + 1


def _chosen(
    session: Session,
    names: Identifier,
    spans: list[tuple[int, int]],
    ignore_missing: bool,
    force: bool,
) -> list[tuple[int, int]]:
    """Return the versions that would go, as runs; raise what the deletion itself would."""
    from lance_catalog.directory.managed.deletion import Deletion, plan_deletion
    from lance_catalog.lifecycle.spans import Spans
    from lance_catalog.versions import select_versions

    table = list(names)
    target = session.catalog.managed(table)
    if target is not None:
        wanted = Deletion.of(target, spans, ignore_missing=ignore_missing, force=force)
        _, gone = plan_deletion(session.context, target.view, wanted)
        return list(Spans.of(one.version for one in gone).runs)
    store, place = session.catalog.locate(table)
    files = select_versions(store, place, spans, ignore_missing=ignore_missing, force=force)
    return list(Spans.of(file.version for file in files if not file.is_placeholder).runs)
