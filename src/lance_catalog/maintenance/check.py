"""The read-only check of a whole catalog: rows, directories, markers, strays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lance_catalog.directory.context import Context
from lance_catalog.identifiers import is_internal_key
from lance_catalog.maintenance import check_directories, check_jobs, check_rows, check_versions
from lance_catalog.maintenance.findings import Kind, Problem, Report
from lance_catalog.manifest import Snapshot
from lance_catalog.manifest.inspection import stray_files

__all__ = ["Kind", "Problem", "Report", "check"]


def check(ctx: Context, *, grace_seconds: float = 3600.0) -> Report:
    """Look at everything and change nothing.

    Files younger than the grace period may be somebody's work on its way and are not reported.
    """
    # A root is looked at whole: what V1 takes for a leftover may be a table of the manifest.
    ctx = ctx.whole()
    older_than = ctx.clock() - int(grace_seconds * 1000)
    view = ctx.view()
    problems: list[Problem] = []
    entries = [entry for entry in view.entries() if not is_internal_key(entry.object_id)]
    if ctx.log is not None:
        problems += check_rows.check(ctx, view, older_than)
        problems += check_versions.check(ctx, view, older_than)
        strays = stray_files(ctx.log, older_than) if view.version else []
        if strays:
            size = sum(info.size for info in strays)
            problems.append(
                Problem(
                    Kind.STRAY_FILES,
                    "__manifest",
                    f"{len(strays)} files ({size} bytes) that no version of the manifest names",
                    "repair deletes them",
                    tuple(info.path for info in strays),
                )
            )
    problems += _tidy(ctx, view, check_directories.check(ctx, view, older_than))
    problems += check_jobs.check(ctx, view, older_than)
    return Report(
        problems,
        tables=sum(entry.is_table for entry in entries),
        namespaces=sum(entry.is_namespace for entry in entries),
    )


def _tidy(ctx: Context, view: Snapshot, problems: list[Problem]) -> Iterator[Problem]:
    """Yield findings, without the files that a registered version still needs.

    That is what it was staged as, and the data of a table whose first version that is.
    """
    strays = [problem for problem in problems if problem.kind is Kind.STRAY_FILES]
    needed = check_versions.pending(ctx, view) if strays and ctx.log is not None else set()
    data = tuple(path.rsplit("/_versions/", 1)[0] + "/data/" for path in needed)
    for problem in problems:
        kept = (path for path in problem.paths if path not in needed)
        paths = tuple(path for path in kept if not path.startswith(data))
        if paths == problem.paths:
            yield problem
        elif paths:
            yield replace(problem, paths=paths)
