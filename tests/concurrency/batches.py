"""Changes of several threads, made to wait so long that they land as one batch."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from lance_catalog import DirectoryNamespace
from lance_catalog.errors import LanceNamespaceError
from lance_catalog.manifest.change import Change
from lance_catalog.manifest.log import ManifestLog
from tests.concurrency.racing import PATIENCE

Call = Callable[[], Any]


def log_of(ns: DirectoryNamespace) -> ManifestLog:
    log = ns.context.log
    assert log is not None
    return log


def waiting(log: ManifestLog) -> int:
    return len(log._batcher._waiting)


def until(condition: Callable[[], bool], what: str) -> None:
    """Poll: a thread that blocks inside a lock has no other way to say so."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.0005)


def together(ns: DirectoryNamespace, calls: Sequence[Call]) -> list[Any]:
    """Run calls as members of one batch, in this order; return what each answered or raised."""
    log = log_of(ns)
    release, leading = threading.Event(), threading.Event()
    answers: list[Any] = [None] * len(calls)

    def first(view: object) -> tuple[Change, None]:
        leading.set()
        assert release.wait(PATIENCE)
        return Change(), None

    def run(number: int) -> None:
        try:
            answers[number] = calls[number]()
        except BaseException as error:
            answers[number] = error

    threads = [threading.Thread(target=lambda: log.commit(first))]
    threads[0].start()
    assert leading.wait(PATIENCE)
    for number in range(len(calls)):
        threads.append(threading.Thread(target=run, args=(number,)))
        threads[-1].start()
        expected = number + 1
        until(lambda expected=expected: waiting(log) == expected, "a change does not wait")  # type: ignore[misc]
    release.set()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    return answers


def codes(answers: Sequence[Any]) -> list[int | None]:
    """The code of each answer: None where it succeeded; anything strange is raised."""
    found: list[int | None] = []
    for answer in answers:
        if isinstance(answer, LanceNamespaceError):
            found.append(int(answer.code))
        elif isinstance(answer, BaseException):
            raise answer
        else:
            found.append(None)
    return found
