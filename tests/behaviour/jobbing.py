"""What the suites of jobs share: fragments written as an executor does, and one job's commit.

Importing ``kept`` and ``pytest_generate_tests`` gives a module its catalogs: every mode, and where
there is a registry, with versions managed as well.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lance
import pytest
from lance.fragment import write_fragments

from lance_catalog import DirectoryNamespace, failpoints
from lance_catalog.config import Mode
from lance_catalog.directory import job_creation, job_search, jobs
from lance_catalog.directory.job_creation import prepare
from lance_catalog.directory.jobs import Done, Job, Opened, Planned, commit_job, open_for_job
from lance_catalog.maintenance.check import check
from tests.behaviour.catalogs import Catalog, Root, rows
from tests.concurrency.processes import CONTEXT


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kept" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("modes")
    modes = list(Mode) if marker is None else marker.args
    # V1 has no registry.
    pairs = [
        (m, managed) for m in modes for managed in (False, True) if m is not Mode.V1 or not managed
    ]
    ids = [f"{mode.value}-{'managed' if managed else 'plain'}" for mode, managed in pairs]
    metafunc.parametrize("kept", pairs, ids=ids, indirect=True)


@pytest.fixture
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Catalog:
    """A catalog with a table ``t`` of 1, 2, 3; its versions managed or not."""
    mode, managed = request.param
    path = str(tmp_path / "a root #1 100% ü")
    made = Catalog(mode, "local", Root(path, folder=path))
    if managed:
        made.enable_managed_versions()
    made.create(["t"])
    return made


def another(catalog: Catalog) -> DirectoryNamespace:
    """The same root as another process has it."""
    return catalog.open()


def data_paths(catalog: Catalog, id: list[str]) -> set[str]:
    place = catalog.place(id)
    return {path for path in catalog.root.paths(place) if "/data/" in path}


def named(catalog: Catalog, id: list[str]) -> set[str]:
    """The data files that versions of a table name."""
    place = catalog.place(id)
    told = catalog.root.dataset(place).tracked_files().read_all()["path"].to_pylist()
    return {f"{place}/{path}" for path in told if path.startswith("data/")}


def clean(catalog: Catalog, id: list[str]) -> None:
    """No file that no version names, and nothing to report."""
    assert data_paths(catalog, id) == named(catalog, id)
    assert check(catalog.open().context, grace_seconds=-3600).problems == []


def at(
    monkeypatch: pytest.MonkeyPatch, point: str, run: Callable[[], object], times: int = 1
) -> list[Callable[[], object]]:
    """Run something the first times a point is passed; what was not run is left in the answer."""
    left = [run] * times
    for module in (jobs, job_creation, job_search):
        real: Any = module.hit  # type: ignore[attr-defined]

        def hook(name: str, real: Any = real) -> None:
            if name == point and left:
                left.pop()()
            real(name)

        monkeypatch.setattr(module, "hit", hook)
    return left


def on_own_thread(call: Callable[[], object]) -> Callable[[], None]:
    """Lance's threads cannot call Lance: the meeting happens on one of Python's."""

    def run() -> None:
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()

    return run


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


def carried_out(properties: dict[str, str], verb: str, text: str, plan: str = "") -> int:
    """Do one of these in a process that a fail point may kill; return how that ended."""
    process = CONTEXT.Process(target=_carry_out, args=(properties, verb, text, plan))
    process.start()
    process.join()
    assert process.exitcode is not None
    return process.exitcode


def _carry_out(properties: dict[str, str], verb: str, text: str, plan: str) -> None:
    failpoints._plan = failpoints._parse(plan)
    verbs = {"append": append, "overwrite": overwrite, "create": create}
    verbs[verb](DirectoryNamespace(**properties), text.split("."), [7, 8], "job")
