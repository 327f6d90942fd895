"""What the suites of jobs share: fragments written as an executor does, and one job's commit."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import lance
from lance.fragment import write_fragments

from lance_catalog import DirectoryNamespace
from lance_catalog.directory.job_creation import prepare
from lance_catalog.directory.jobs import Done, Job, Opened, Planned, commit_job, open_for_job
from tests.behaviour.catalogs import rows


def written(ns: DirectoryNamespace, opened: Opened, numbers: Sequence[int], mode: str) -> Any:
    target = opened.dataset if mode == "append" else opened.dataset.uri
    options = dict(ns.context.store.lance_options) or None
    return write_fragments(rows(numbers), target, mode=mode, storage_options=options)


def data_files(opened: Opened, fragments: Any) -> list[str]:
    place = opened.found.location
    return [f"{place}/data/{file.path}" for part in fragments for file in part.files]


def append(
    ns: DirectoryNamespace, names: Sequence[str], numbers: Sequence[int], job: Job | str
) -> Done:
    """Write and commit an append, as a driver and its executors do."""
    job = Job(job) if isinstance(job, str) else job
    opened = open_for_job(ns.context, tuple(names))
    fragments = written(ns, opened, numbers, "append")

    def make(now: Opened) -> Planned:
        return Planned(lance.LanceOperation.Append(fragments))

    files = data_files(opened, fragments)
    return commit_job(ns.context, tuple(names), job.wrote(len(numbers), 1), make, files=files)


def overwrite(
    ns: DirectoryNamespace, names: Sequence[str], numbers: Sequence[int], job: str
) -> Done:
    opened = open_for_job(ns.context, tuple(names))
    fragments = written(ns, opened, numbers, "overwrite")
    schema = rows(numbers).schema

    def make(now: Opened) -> Planned:
        return Planned(lance.LanceOperation.Overwrite(schema, fragments))

    files = data_files(opened, fragments)
    return commit_job(ns.context, tuple(names), Job(job), make, files=files)


def create(
    ns: DirectoryNamespace,
    names: Sequence[str],
    numbers: Sequence[int],
    job: str,
    properties: dict[str, str] | None = None,
) -> Done:
    ctx = ns.context
    creation = prepare(ctx, tuple(names))
    options = dict(ctx.store.lance_options) or None
    uri = ctx.store.uri_of(creation.place)
    fragments = write_fragments(rows(numbers), uri, mode="overwrite", storage_options=options)
    wrote = Job(job).wrote(len(numbers), 1)
    return creation.land(wrote, rows(numbers).schema, fragments, properties or {})


if __name__ == "__main__":  # In a process that a fail point kills.
    _, root, verb, text = sys.argv
    verbs = {"append": append, "overwrite": overwrite, "create": create}
    verbs[verb](DirectoryNamespace(root=root), text.split("."), [7, 8], "job")
