"""``pipeline run|plan|validate FILE``: files that say what becomes of which data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from lance_catalog.cli.command import command, group
from lance_catalog.cli.failures import ERROR, USAGE
from lance_catalog.cli.output import Steps
from lance_catalog.cli.results import Listing, Report, Result
from lance_catalog.cli.session import Session, key_values
from lance_catalog.cli.spark_session import Conf, Master, Remote, need_spark, running_spark
from lance_catalog.cli.wording import counted

if TYPE_CHECKING:
    from lance_catalog.spark.pipeline import Event, Pipeline, Problem, RunReport

__all__ = ["app"]

app = group("Check, explain and run pipelines: files that say what becomes of which data.")

File = Annotated[
    Path, typer.Argument(metavar="FILE", help="The pipeline file.", show_default=False)
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="The value of a variable of the file; repeatable.",
        show_default=False,
    ),
]
_PROBLEM: Final = ("line", "key", "problem")
_TARGET: Final = ("table", "mode", "version", "rows", "bytes", "seconds", "indices", "repeated")
#: What takes its time, and is told when it begins as well.
_LONG: Final = ("check", "publish", "index")


@command(app, "validate")
def validate(session: Session, file: File, set: Set = None) -> Result:
    """Check a pipeline: its file, and with a root that its tables are there. Runs nothing.

    Exit code 2 when something is wrong.
    """
    from lance_catalog.spark.pipeline import InvalidPipelineError

    try:
        pipeline = _load(file, set)
    except InvalidPipelineError as error:
        return _invalid(error.problems)
    if session.settings.root is not None:
        found = pipeline.problems(session.catalog)
        if found:
            return _invalid(found)
    parts = pipeline.definition
    note = f"{file} is valid: {counted(len(parts.sources), 'source')}, "
    note += f"{counted(len(parts.steps), 'step')}, {counted(len(parts.targets), 'target')}"
    return Listing(rows=[], columns=_PROBLEM, plain=_PROBLEM, note=note)


def _invalid(problems: list[Problem]) -> Listing:
    rows = [{"line": one.line or None, "key": one.key, "problem": one.message} for one in problems]
    note = f"problems: {len(rows)}"
    return Listing(rows=rows, columns=_PROBLEM, plain=_PROBLEM, note=note, exit_code=USAGE)


@command(app, "plan")
def plan(session: Session, file: File, set: Set = None) -> Result:
    """Show the sources, steps and targets in the order in which they would run. Runs nothing."""
    nodes = _load(file, set).plan()
    rows: list[dict[str, Any]] = [
        {
            "kind": node.kind,
            "name": node.name,
            "after": ", ".join(node.inputs),
            "does": node.does,
            "inputs": list(node.inputs),
            "needed": node.needed,
        }
        for node in nodes
    ]
    idle = [f"{node.kind} {node.name}" for node in nodes if not node.needed]
    note = f"note: no target needs {', '.join(idle)}; not run" if idle else None
    keys = ("kind", "name", "after", "does")
    return Listing(rows=rows, columns=keys, plain=keys, note=note)


@command(app, "run")
def run(
    session: Session,
    file: File,
    set: Set = None,
    job_id: Annotated[
        str | None,
        typer.Option(
            "--job-id",
            metavar="TEXT",
            help="What this run is called: with the id of an earlier run only what that did not "
            "finish is done; default a new one.",
            show_default=False,
        ),
    ] = None,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
) -> Result:
    """Run a pipeline and publish its targets together, or nothing.

    Exit code 1 when an expectation fails; nothing is published then.
    """
    pipeline = _load(file, set)
    need_spark()
    catalog = session.catalog
    with running_spark(session, master, remote, conf) as spark, session.output.steps() as steps:
        report = pipeline.run(spark, catalog, job_id, progress=lambda event: _tell(steps, event))
    for warning in report.warnings:
        session.output.message(f"warning: {session.scrub(warning)}")
    return _reported(session, report)


def _load(file: Path, given: list[str] | None) -> Pipeline:
    from lance_catalog.spark.pipeline import load

    return load(file, key_values(given, "--set"))


def _tell(steps: Steps, event: Event) -> None:
    what = event.text if event.kind in _LONG else f"{event.kind} {event.name}: {event.text}"
    if event.seconds is None:
        steps.begin(what, aloud=event.kind in _LONG)
    else:
        steps.end(f"{what}: {event.seconds:.1f} s")


def _reported(session: Session, report: RunReport) -> Report:
    fields = report.as_dict()
    if report.failures:
        keys = ("expectation", "failing", "rows", "sample")
        rows = [failure.as_dict() for failure in report.failures]
        return Report(
            rows=rows,
            columns=("target", *keys),
            plain=("target", *keys),
            fields=fields,
            note=f"nothing was published: {counted(len(rows), 'expectation')} failed "
            f"(job id {report.job_id})",
            exit_code=ERROR,
        )
    rows = [{**target.as_dict(), "indices": ", ".join(target.indices)} for target in report.targets]
    note = f"{report.status} {counted(len(rows), 'table')} in {report.seconds:.1f} s"
    if report.status == "repeated":
        note = "nothing to do: an earlier run with this job id has published everything"
    if report.error is not None:
        note += f"; {session.scrub(report.error)}"
    shown = _TARGET if any(target.repeated for target in report.targets) else _TARGET[:-1]
    return Report(
        rows=rows,
        columns=shown,
        plain=_TARGET,
        fields=fields,
        note=f"{note} (job id {report.job_id})",
        exit_code=0 if report.ok else ERROR,
    )
