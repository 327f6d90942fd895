"""Named points where a test can kill the process or make a step fail. No-ops in normal use.

``LANCE_CATALOG_FAILPOINTS="manifest.finalized=kill"`` kills the process (SIGKILL, as a crash
would) the first time the point is reached; ``=kill@3`` the third time; ``=raise`` raises an
OSError instead; ``=stop`` stops the process (SIGSTOP) until somebody continues it. Several are
separated by commas. With ``LANCE_CATALOG_FAILPOINTS_ONCE=<file>`` only the first of all processes
that come by does it: whoever makes the file. Every step of every commit protocol has a point in
:data:`POINTS`; the crash tests enumerate it, so a new step without a test is red.

``LANCE_CATALOG_FAILPOINTS_FOLDER=<folder>`` tells processes that run already: a file there with the
name of a point holds what is to be done, once, by whoever renames it first, to ``<name>.<pid>``.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Final

__all__ = ["POINTS", "hit"]

POINTS: Final = frozenset(
    {
        # The strict log, in order.
        "manifest.data_written",
        "manifest.staged",
        "manifest.finalized",
        "manifest.acknowledged",
        # A refused commit, before its files are removed.
        "manifest.refused",
        # Upkeep: versions of its own (indices, merged fragments), and an old version's end.
        "upkeep.written",
        "upkeep.landed",
        "upkeep.files_gone",
        # declare_table and create_table.
        "table.claimed",
        "table.reserved",
        "table.data_written",
        "table.version_staged",
        "table.version_finalized",
        "table.registered",
        "table.released",
        # A managed version: staged by Lance, registered, put in place, tidied up.
        "version.staged",
        "version.row_written",
        "version.copied",
        "version.staging_deleted",
        # A reader puts in place what a committer left; a deletion; turning it on and off.
        "version.healed",
        "version.rows_deleted",
        "version.files_deleted",
        "version.jobs_kept",
        "version.cleanup_forgotten",
        "version.cleanup_deleted",
        "version.imported",
        "version.enabled",
        "version.disabled",
        "version.forgotten",
        # create_table over a dropped table, in order.
        "revive.data_written",
        "revive.claimed",
        "revive.version_staged",
        "revive.version_finalized",
        "revive.landed",
        "revive.registered",
        # undrop.
        "undrop.claimed",
        "undrop.registered",
        # deregister and drop in V1.
        "marker.root_written",
        "marker.nested_written",
        # register in V1.
        "marker.nested_removed",
        "marker.root_removed",
        # purge.
        "purge.claimed",
        "purge.before_move",
        "purge.moved_aside",
        "purge.batch",
        "purge.deleted",
        "purge.finished",
        # A job's commit to a table, in order; a refused try; a table that a job makes.
        "job.announced",
        "job.looked",
        "job.staged",
        "job.finalized",
        "job.landed",
        "job.refused",
        "job.created",
        # In a task: before it writes, before anybody knows of its files, before Spark is told.
        "job.task_begun",
        "job.task_written",
        "job.task_told",
        # Spark's end of the tasks, before the driver hears of it; deletions of a merge likewise.
        "job.tasks_done",
        "job.deletions_written",
        # migration, in order: per table that another implementation hid, per batch, the flag.
        "marker.lifted",
        "migrate.registered",
        "migrate.trashed",
        "migrate.flagged",
    }
)


def _parse(text: str) -> dict[str, tuple[str, int]]:
    plan: dict[str, tuple[str, int]] = {}
    for part in filter(None, text.split(",")):
        name, _, action = part.partition("=")
        verb, _, count = action.partition("@")
        if name not in POINTS or verb not in ("kill", "raise", "stop"):
            raise ValueError(f"LANCE_CATALOG_FAILPOINTS: unknown point or action in {part!r}")
        plan[name] = (verb, int(count or 1))
    return plan


_plan: dict[str, tuple[str, int]] = _parse(os.environ.get("LANCE_CATALOG_FAILPOINTS", ""))
_hits: dict[str, int] = {}
_folder: str | None = os.environ.get("LANCE_CATALOG_FAILPOINTS_FOLDER")


def _is_first() -> bool:
    once = os.environ.get("LANCE_CATALOG_FAILPOINTS_ONCE")
    if once is None:
        return True
    try:
        os.close(os.open(once, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def _ordered(name: str) -> str | None:
    """Take the order that lies in the folder, unless another process does."""
    if _folder is None:
        return None
    taken = os.path.join(_folder, f"{name}.{os.getpid()}")
    try:
        os.rename(os.path.join(_folder, name), taken)
    except FileNotFoundError:
        return None
    with open(taken) as order:
        return order.read().strip()


def _planned(name: str) -> str | None:
    verb, at = _plan.get(name, (None, 0))
    if verb is None:
        return None
    _hits[name] = _hits.get(name, 0) + 1
    return verb if _hits[name] == at and _is_first() else None


def hit(name: str) -> None:
    """Do what the environment planned for this point: nothing, normally."""
    if not _plan and _folder is None:
        return
    verb = _planned(name) or _ordered(name)
    if verb is None:
        return
    if verb == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if verb == "stop":
        # To this very thread: another would take its time to stop this one, which may be Lance's.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
        return
    raise OSError(f"fail point {name}")
