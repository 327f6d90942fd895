"""Calls that come from a thread of Lance's own are served on one of ours."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from lance_catalog.directory import edge


def run_all(calls: int) -> set[int]:
    """Run calls that wait for each other; the threads that served them."""
    together = threading.Barrier(calls)
    served: set[int] = set()

    def call() -> None:
        served.add(threading.get_ident())
        together.wait(30)

    threads = [threading.Thread(target=edge._on_own_thread, args=(call,)) for _ in range(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return served


def test_calls_at_once_have_a_thread_each_and_leave_them_to_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(edge, "_idle", [])
    first = run_all(3)
    assert len(first) == 3
    assert threading.get_ident() not in first
    assert run_all(3) == first


def test_a_call_inside_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge, "_idle", [])
    outer, inner = edge._on_own_thread(
        lambda: (threading.get_ident(), edge._on_own_thread(threading.get_ident))
    )
    assert len({outer, inner, threading.get_ident()}) == 3


def test_a_failure_is_the_caller_s_and_the_next_call_s_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(edge, "_idle", [])

    def fails() -> None:
        raise KeyError("told")

    with pytest.raises(KeyError, match="told"):
        edge._on_own_thread(fails)
    assert edge._on_own_thread(lambda: 7) == 7
    assert len(edge._idle) == 1


def test_a_fork_does_not_wait_for_threads_it_does_not_have() -> None:
    program = """
import os
from lance_catalog.directory import edge
edge._on_own_thread(lambda: 1)
child = os.fork()
if child == 0:
    os._exit(edge._on_own_thread(lambda: 7))
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], timeout=60)
    assert done.returncode == 7
