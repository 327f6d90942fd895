"""``spark JOB``: what is done to many tables, or much data, by Spark."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Final

import typer

from lance_catalog.cli.command import command, group
from lance_catalog.cli.completion import complete_object
from lance_catalog.cli.failures import ERROR
from lance_catalog.cli.options import DryRun, TableId
from lance_catalog.cli.results import Listing, Plan, Result, Step
from lance_catalog.cli.session import Session, key_values
from lance_catalog.cli.spark_session import Conf, Master, Remote, Tasks, need_spark, running_spark
from lance_catalog.cli.wording import counted, in_cli_words

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
_BAD: Final = ("failed", "partial")
_TITLES: Final = {
    "text": "id",
    "fragments_before": "before",
    "fragments_after": "after",
    "oldest_kept": "oldest kept",
}


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
    rows = _run(session, "inventory", "looking at tables", master, remote, conf, id, tasks=tasks)
    total = sum(row["rows"] or 0 for row in rows), sum(row["bytes"] or 0 for row in rows)
    note = f"{counted(len(rows), 'table')}, {total[0]} rows, {total[1]} bytes"
    keys = ("text", "rows", "bytes", "versions", "fragments", "indices", "updated", "status")
    return _listing(rows, keys, note)


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
    tasks: Tasks = None,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
) -> Result:
    """Merge small fragments and drop deleted rows; readers and writers go on meanwhile."""
    more = {"target_rows": target_rows, "tasks": tasks}
    rows = _run(session, "compact", "compacting", master, remote, conf, id, **more)
    done = sum(row["status"] in ("compacted", "partial") for row in rows)
    note = f"compacted {counted(done, 'table')} of {len(rows)}"
    keys = ("status", "text", "fragments_before", "fragments_after", "version", "error")
    return _listing(rows, keys, note)


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
    rows = _run(session, "index", "indexing", master, remote, conf, id, column, type, **more)
    keys = ("status", "text", "index", "type", "rows", "segments", "version", "error")
    return _listing(rows, keys, None)


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
    rows = _run(session, "purge", "purging", master, remote, conf, tasks=tasks) if found else []
    size = sum(row["bytes"] or 0 for row in rows)
    done = sum(row["status"] == "purged" for row in rows)
    keys = ("status", "text", "objects", "bytes", "error")
    return _listing(rows, keys, f"purged {counted(done, 'table')}, {size} bytes")


@command(app, "migrate")
def migrate(
    session: Session,
    tasks: Tasks = None,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
) -> Result:
    """Register V1 tables in the manifest, then open every one of them both ways and compare."""
    rows = _run(session, "migrate", "verifying tables", master, remote, conf, tasks=tasks)
    fresh = sum(row["outcome"] == "registered" for row in rows)
    good = sum(row["status"] == "ok" for row in rows)
    keys = ("status", "text", "outcome", "version", "rows", "why", "error")
    return _listing(rows, keys, f"registered {fresh}, verified {good} of {len(rows)}")


@command(app, "verify")
def verify(
    session: Session,
    id: ScopeId = ".",
    tasks: Tasks = None,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
) -> Result:
    """Read every fragment in full; show its rows and a checksum, or what is wrong with it."""
    rows = _run(session, "verify", "reading fragments", master, remote, conf, id, tasks=tasks)
    good = sum(row["status"] == "ok" and row["fragment"] is not None for row in rows)
    keys = ("status", "text", "fragment", "rows", "bytes", "checksum", "error")
    every = sum(row["fragment"] is not None for row in rows)
    return _listing(rows, keys, f"{good} of {counted(every, 'fragment')} are whole")


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
    tasks: Tasks = None,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
) -> Result:
    """Remove old versions and the data that only they use, of many tables at once."""
    need_spark()
    rule = f"older than {older_than}" if older_than else "older than 14d" if keep is None else ""
    kept = f"all but the newest {keep}" if keep is not None else ""
    plan = Plan(
        title="Removing old versions, after which nobody can read them:",
        steps=[Step("clean up", id, ", ".join(part for part in (kept, rule) if part))],
    )
    session.confirm(lambda: plan, None)
    more = {"older_than": older_than, "keep": keep, "tasks": tasks}
    rows = _run(session, "cleanup", "cleaning up", master, remote, conf, id, **more)
    gone = sum(row["versions"] or 0 for row in rows)
    size = sum(row["bytes"] or 0 for row in rows)
    keys = ("status", "text", "versions", "bytes", "oldest_kept", "tagged", "error")
    return _listing(rows, keys, f"removed {counted(gone, 'version')}, {size} bytes")


def _run(
    session: Session,
    job: str,
    doing: str,
    master: str | None,
    remote: str | None,
    conf: list[str] | None,
    id: str | None = None,
    *others: str,
    **more: Any,
) -> list[dict[str, Any]]:
    """Run a job; return its rows as results have them."""
    need_spark()
    from lance_catalog.spark import jobs

    function: Callable[..., Any] = getattr(jobs, job)
    arguments = () if id is None else (session.parse(id), *others)
    catalog = session.catalog
    with (
        running_spark(session, master, remote, conf) as spark,
        session.output.progress(doing) as progress,
    ):
        found = function(spark, catalog, *arguments, progress=progress, **more).collect()
    return [_row(session, row.asDict(recursive=True)) for row in found]


def _row(session: Session, found: dict[str, Any]) -> dict[str, Any]:
    del found["table"]
    names = found.pop("id")
    rest = {
        key: value.isoformat(timespec="seconds") if isinstance(value, datetime) else value
        for key, value in found.items()
    }
    if rest["error"] is not None:
        rest["error"] = session.scrub(in_cli_words(rest["error"]))
    return {**session.row(names), **rest}


def _listing(rows: list[dict[str, Any]], keys: tuple[str, ...], note: str | None) -> Listing:
    bad = sum(row["status"] in _BAD for row in rows)
    if not rows:
        note = "no tables here"
    if bad:
        note = f"{note}, {counted(bad, 'row')} failed" if note else f"{bad} failed"
    # Seen only when there is something to see.
    shown = tuple(key for key in keys if key != "error" or bad)
    return Listing(
        rows=rows,
        columns=shown,
        titles=tuple(_TITLES.get(key, key) for key in shown),
        plain=keys,
        note=note,
        exit_code=ERROR if bad else 0,
    )
