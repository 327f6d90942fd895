"""Processes that race, started once and used by every race.

Each round they meet at a barrier, run one function each, and send back what it returned.
"""

from __future__ import annotations

import io
import os
import traceback
from collections.abc import Callable, Iterable, Sequence
from multiprocessing.connection import Connection
from typing import Any

import lance
import pyarrow as pa

from lance_catalog import DirectoryNamespace
from lance_catalog.config import Mode
from lance_catalog.errors import LanceNamespaceError
from lance_catalog.manifest import fairness
from tests.concurrency.processes import CONTEXT

SWITCHES: dict[Mode, dict[str, bool]] = {
    Mode.V1: {"manifest_enabled": False},
    Mode.V2: {"dir_listing_enabled": False},
    Mode.COMPAT: {},
}
MODES = tuple(SWITCHES)
#: Longer than anything takes: a racer that hangs is a finding, not a reason to wait for ever.
PATIENCE = 120.0


def open_catalog(root: str, mode: Mode, **more: Any) -> DirectoryNamespace:
    return DirectoryNamespace(root=root, **SWITCHES[mode], **more)


def ipc(numbers: Iterable[int]) -> bytes:
    """An Arrow stream with one column ``g``."""
    table = pa.table({"g": pa.array(list(numbers), pa.int64())})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def attempt(call: Callable[..., Any], *args: Any) -> tuple[int | None, str]:
    """Call; (None, "") when it was done, else the code and the text of the refusal."""
    try:
        call(*args)
    except LanceNamespaceError as error:
        return int(error.code), f"{type(error).__name__}: {error}"
    return None, ""


def rows_at(location: str) -> list[int]:
    """The column ``g`` of a table, read by Lance alone."""
    return sorted(lance.dataset(location).to_table()["g"].to_pylist())


class Racers:
    """A number of processes that run the same function at the same moment."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._barriers = {n: CONTEXT.Barrier(n) for n in {2, 6, count}}
        self._pipes: list[Connection] = []
        self._processes = []
        for number in range(count):
            ours, theirs = CONTEXT.Pipe()
            process = CONTEXT.Process(
                target=_serve, args=(theirs, self._barriers, number), daemon=True
            )
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    def race(self, run: Callable[..., Any], *args: Any, count: int | None = None) -> list[Any]:
        """Return what ``run(number, barrier, *args)`` returned in each of ``count`` processes."""
        used = self._pipes[: count or self.count]
        for pipe in used:
            pipe.send((run, len(used), args))
        answers = []
        for pipe in used:
            if not pipe.poll(PATIENCE):
                raise TimeoutError(f"a racer did not end within {PATIENCE} s")
            answers.append(pipe.recv())
        failed = [text for good, text in answers if not good]
        if failed:
            raise AssertionError(f"{len(failed)} racers failed; the first:\n{failed[0]}")
        return [answer for _, answer in answers]

    def stop(self) -> None:
        for process in self._processes:
            # They hold nothing, and Lance's threads may take their time to end.
            process.kill()
            process.join()


def _serve(pipe: Connection, barriers: dict[int, Any], number: int) -> None:
    # Writers that take turns hardly ever meet; these are here to meet.
    setattr(fairness, "_QUIET", 0.0)  # noqa: B010 (it is final to everyone else)
    while True:
        try:
            task = pipe.recv()
        except EOFError:
            return
        run, count, args = task
        try:
            pipe.send((True, run(number, barriers[count], *args)))
        except BaseException:
            pipe.send((False, traceback.format_exc()))


def manifest_strays(root: str) -> list[str]:
    """What lies in ``__manifest`` and is not named by any version of it: read by Lance alone.

    Data files against the fragments of every version, staged manifests by their names.
    """
    base = f"{root}/__manifest"
    if not os.path.isdir(base):
        return []
    named: set[str] = set()
    for version in lance.dataset(base).versions():
        for fragment in lance.dataset(base, version=version["version"]).get_fragments():
            named.update(file.path for file in fragment.metadata.files)
    present = set(os.listdir(f"{base}/data")) if os.path.isdir(f"{base}/data") else set()
    strays = [f"data/{name}" for name in sorted(present - named)]
    missing = [f"missing data/{name}" for name in sorted(named - present)]
    staged = [
        f"_versions/{name}"
        for name in sorted(os.listdir(f"{base}/_versions"))
        if not name.endswith((".manifest", ".json"))
    ]
    return strays + missing + staged


def flat(parts: Iterable[Sequence[Any]]) -> list[Any]:
    return [one for part in parts for one in part]
