"""``spark JOB``: what is done to many tables, or much data, by Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from lance_catalog.cli.command import command, group
from lance_catalog.cli.completion import complete_object
from lance_catalog.cli.failures import usage
from lance_catalog.cli.options import DryRun, TableId
from lance_catalog.cli.results import Plan, Result, Step
from lance_catalog.cli.session import Session, key_values
from lance_catalog.cli.spark_jobs import listing, planned, run_job
from lance_catalog.cli.spark_session import Conf, Master, Remote, Tasks, need_spark
from lance_catalog.cli.wording import counted

__all__ = ["app"]

app = group("Jobs on Spark: for many tables, or much data.")

ScopeId = Annotated[
    str,
    typer.Argument(
        metavar="[ID]",
        help="A table, or a namespace with all below it; default every table.",
        autocompletion=complete_object,
        show_default=False,
    ),
]
_CLEANING: Final = "Removing old versions, after which nobody can read them:"


@command(app, "inventory")
def inventory(
    session: Session,
    id: ScopeId = ".",
    tasks: Tasks = None,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
) -> Result:
    """Show rows, bytes, versions, fragments, indices and age of every table."""
    rows = run_job(session, "inventory", "looking at tables", master, remote, conf, id, tasks=tasks)
    total = sum(row["rows"] or 0 for row in rows), sum(row["bytes"] or 0 for row in rows)
    note = f"{counted(len(rows), 'table')}, {total[0]} rows, {total[1]} bytes"
    keys = ("text", "rows", "bytes", "versions", "fragments", "indices", "updated", "status")
    return listing(rows, keys, note)


@command(app, "compact")
def compact(
    session: Session,
    id: ScopeId = ".",
    target_rows: Annotated[
        int | None,
        typer.Option(
            "--target-rows",
            min=1,
            metavar="N",
            help="How many rows a fragment should have; default 1048576.",
            show_default=False,
        ),
    ] = None,
    dry_run: DryRun = False,
    tasks: Tasks = None,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
) -> Result:
    """Merge small fragments and drop deleted rows; readers and writers go on meanwhile."""
    more = {"target_rows": target_rows, "tasks": tasks}
    if dry_run:
        more["dry_run"] = True
        rows = run_job(session, "compact", "planning", master, remote, conf, id, **more)
        return planned(
            rows,
            "Merging small fragments:",
            "compact",
            lambda row: f"{row['fragments_before']} fragments, {counted(row['tasks'], 'task')}",
            empty="nothing is small",
            changes=lambda row: row["status"] == "would compact",
            destructive=False,
        )
    rows = run_job(session, "compact", "compacting", master, remote, conf, id, **more)
    done = sum(row["status"] in ("compacted", "partial") for row in rows)
    note = f"compacted {counted(done, 'table')} of {len(rows)}"
    keys = ("status", "text", "fragments_before", "fragments_after", "version", "error")
    return listing(rows, keys, note)


@command(app, "index")
def index(
    session: Session,
    id: TableId,
    column: Annotated[str, typer.Option("--column", metavar="NAME", help="The column.")],
    type: Annotated[
        str,
        typer.Option("--type", metavar="TYPE", help="BTREE, BITMAP, INVERTED, IVF_PQ and so on."),
    ] = "BTREE",
    name: Annotated[
        str | None,
        typer.Option(
            "--name", metavar="NAME", help="Its name; default COLUMN_idx.", show_default=False
        ),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Build it anew; default complete what is there.")
    ] = False,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            metavar="NAME=VALUE",
            help="An option of the type, as num_partitions=256 or metric=cosine; repeatable.",
            show_default=False,
        ),
    ] = None,
    tasks: Tasks = None,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
) -> Result:
    """Build an index on a column, or complete it for rows that came since."""
    session.parse_table(id)
    given = {key: _value(value) for key, value in key_values(option, "--option").items()}
    more = {"name": name, "replace": replace, "options": given, "tasks": tasks}
    rows = run_job(session, "index", "indexing", master, remote, conf, id, column, type, **more)
    keys = ("status", "text", "index", "type", "rows", "segments", "version", "error")
    return listing(rows, keys, None)


def _value(text: str) -> Any:
    """An option's value: a number or a boolean where it looks like one."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


@command(app, "purge")
def purge(
    session: Session,
    dry_run: DryRun = False,
    tasks: Tasks = None,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
) -> Result:
    """Delete for good every dropped table whose time to live has passed."""
    need_spark()
    found = session.catalog.list_purgable_tables()
    plan = Plan(
        title="Deleting dropped tables for good:",
        steps=[
            Step("purge", session.text(table.id), f"drop id {table.drop_id}") for table in found
        ],
        note=None if found else "nothing expired is in the trash",
    )
    if dry_run:
        return plan
    if found:
        session.confirm(lambda: plan, None)
    rows = run_job(session, "purge", "purging", master, remote, conf, tasks=tasks) if found else []
    size = sum(row["bytes"] or 0 for row in rows)
    done = sum(row["status"] == "purged" for row in rows)
    keys = ("status", "text", "objects", "bytes", "error")
    return listing(rows, keys, f"purged {counted(done, 'table')}, {size} bytes")


@command(app, "migrate")
def migrate(
    session: Session,
    dry_run: DryRun = False,
    tasks: Tasks = None,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
) -> Result:
    """Register V1 tables in the manifest, then open every one of them both ways and compare."""
    more: dict[str, Any] = {"tasks": tasks, "dry_run": dry_run}
    rows = run_job(session, "migrate", "verifying tables", master, remote, conf, **more)
    if dry_run:
        return planned(
            rows,
            "Bringing V1 tables into the manifest; no byte moves:",
            lambda row: str(row["outcome"]).removeprefix("would "),
            lambda row: row["why"] or "",
            empty="nothing to migrate",
            changes=lambda row: str(row["outcome"]).startswith(("would", "skipped")),
            destructive=False,
        )
    fresh = sum(row["outcome"] == "registered" for row in rows)
    good = sum(row["status"] == "ok" for row in rows)
    keys = ("status", "text", "outcome", "version", "rows", "why", "error")
    return listing(rows, keys, f"registered {fresh}, verified {good} of {len(rows)}")


@command(app, "verify")
def verify(
    session: Session,
    id: ScopeId = ".",
    against: Annotated[
        Path | None,
        typer.Option(
            "--against",
            metavar="FILE",
            help="What `verify -o json` said before: also find files whose bytes changed since.",
            show_default=False,
        ),
    ] = None,
    tasks: Tasks = None,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
) -> Result:
    """Read every fragment in full; show its rows and a checksum, or what is wrong with it."""
    more = {"tasks": tasks, "against": None if against is None else _earlier(against)}
    rows = run_job(session, "verify", "reading fragments", master, remote, conf, id, **more)
    good = sum(row["status"] == "ok" and row["fragment"] is not None for row in rows)
    keys = ("status", "text", "fragment", "rows", "bytes", "checksum", "error")
    every = sum(row["fragment"] is not None for row in rows)
    return listing(rows, keys, f"{good} of {counted(every, 'fragment')} are whole")


def _earlier(file: Path) -> list[dict[str, Any]]:
    """Read what an earlier verify printed."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise usage(f"--against {file} cannot be read as JSON: {error}") from error
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise usage(f"--against {file} is not what `lance-catalog -o json spark verify` prints")
    return found


@command(app, "cleanup")
def cleanup(
    session: Session,
    id: ScopeId = ".",
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
    tasks: Tasks = None,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
) -> Result:
    """Remove old versions and the data that only they use, of many tables at once."""
    need_spark()
    more = {"older_than": older_than, "keep": keep, "tasks": tasks, "dry_run": dry_run}
    if dry_run:
        rows = run_job(session, "cleanup", "looking at versions", master, remote, conf, id, **more)
        return planned(
            rows,
            _CLEANING,
            "clean up",
            lambda row: (
                f"{counted(row['versions'], 'version')}; the oldest kept is {row['oldest_kept']}"
            ),
            empty="no version is old enough",
            changes=lambda row: bool(row["versions"]),
        )
    rule = f"older than {older_than}" if older_than else "older than 14d" if keep is None else ""
    kept = f"all but the newest {keep}" if keep is not None else ""
    plan = Plan(
        title=_CLEANING,
        steps=[Step("clean up", id, ", ".join(part for part in (kept, rule) if part))],
    )
    session.confirm(lambda: plan, None)
    rows = run_job(session, "cleanup", "cleaning up", master, remote, conf, id, **more)
    gone = sum(row["versions"] or 0 for row in rows)
    size = sum(row["bytes"] or 0 for row in rows)
    keys = ("status", "text", "versions", "bytes", "oldest_kept", "tagged", "error")
    return listing(rows, keys, f"removed {counted(gone, 'version')}, {size} bytes")
