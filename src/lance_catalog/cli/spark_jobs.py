"""How the commands of ``spark JOB`` run a job, tell how far it is, and show its rows."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final

from lance_catalog.cli.failures import ERROR
from lance_catalog.cli.results import Listing, Plan, Step
from lance_catalog.cli.session import Session
from lance_catalog.cli.spark_session import need_spark, running_spark
from lance_catalog.cli.wording import counted, in_cli_words

__all__ = ["listing", "planned", "run_job"]

_BAD: Final = ("failed", "partial")
#: Of fewer only the beginning and the end are told.
_MANY: Final = 100
_TITLES: Final = {
    "text": "id",
    "fragments_before": "before",
    "fragments_after": "after",
    "oldest_kept": "oldest kept",
}


def run_job(
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
    """Run a job by its name; return its rows as results have them."""
    need_spark()
    from lance_catalog.spark import jobs

    function: Callable[..., Any] = getattr(jobs, job)
    arguments = () if id is None else (session.parse(id), *others)
    catalog = session.catalog
    with (
        running_spark(session, master, remote, conf) as spark,
        _progress(session, doing) as progress,
    ):
        found = function(spark, catalog, *arguments, progress=progress, **more).collect()
    return [_row(session, row.asDict(recursive=True)) for row in found]


@contextmanager
def _progress(session: Session, doing: str) -> Iterator[Callable[[int, int | None], None]]:
    """A bar on a terminal; else a line when it begins, and at each quarter of much."""
    if sys.stderr.isatty():
        with session.output.progress(doing) as bar:
            yield bar
        return
    told = 0

    def tell(done: int, total: int | None) -> None:
        nonlocal told
        if not total:
            return
        if not told:
            told = 1
            session.output.message(f"{doing}: {total} ...")
        quarter = 1 + 4 * done // total
        if quarter > told and (total >= _MANY or done == total):
            told = quarter
            session.output.message(f"{doing}: {done} of {total}")

    yield tell


def planned(
    rows: list[dict[str, Any]],
    title: str,
    action: str | Callable[[dict[str, Any]], str],
    detail: Callable[[dict[str, Any]], str],
    *,
    empty: str,
    changes: Callable[[dict[str, Any]], bool],
    destructive: bool = True,
) -> Plan:
    """What a job would do, as a plan; tables that it would fail at are part of it."""
    steps: list[Step] = []
    for row in rows:
        verb = action if isinstance(action, str) else action(row)
        if row["status"] in _BAD:
            steps.append(Step(f"{verb}: fails", row["text"], row["error"] or "", False))
        elif changes(row):
            steps.append(Step(verb, row["text"], detail(row), destructive))
    bad = any(row["status"] in _BAD for row in rows)
    note = None if steps else empty
    return Plan(title=title, steps=steps, note=note, exit_code=ERROR if bad else 0)


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


def listing(rows: list[dict[str, Any]], keys: tuple[str, ...], note: str | None) -> Listing:
    """Show the rows of a job; exit code 1 when one failed."""
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
