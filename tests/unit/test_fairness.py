"""Turns among the writers of one machine: they come, they end, and nobody depends on them."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lance_catalog.manifest import fairness
from lance_catalog.manifest.fairness import Turn
from lance_catalog.storage.local import LocalStore

PATIENCE = 30.0


@pytest.fixture
def turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Turn]:
    monkeypatch.setattr(fairness.tempfile, "gettempdir", lambda: str(tmp_path))
    made = Turn(LocalStore(str(tmp_path / "root")))
    yield made
    made.end()


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def rival(turn: Turn) -> int:
    """Another process's hold on the same turn."""
    number = turn._open()
    fcntl.flock(number, fcntl.LOCK_EX)
    return number


def is_free(turn: Turn) -> bool:
    number = turn._open()
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(number)
    return True


def test_a_lone_writer_takes_none(turn: Turn, tmp_path: Path) -> None:
    with turn.taken():
        assert not turn.held
    assert list(tmp_path.iterdir()) == [], "not even a file"


def test_who_met_another_takes_one_and_keeps_it_for_the_next_commit(
    turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fairness, "_IDLE", PATIENCE)
    monkeypatch.setattr(fairness, "_SLICE", PATIENCE)
    turn.met_another()
    with turn.taken():
        assert turn.held
        assert not is_free(turn)
    assert turn.held, "kept for what comes next"
    with turn.taken():
        assert turn.held


def test_it_is_given_back_when_nothing_more_comes(turn: Turn) -> None:
    turn.met_another()
    with turn.taken():
        assert turn.held
    until(lambda: is_free(turn))
    assert not turn.held


def test_it_ends_with_its_slice(turn: Turn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fairness, "_IDLE", PATIENCE)
    monkeypatch.setattr(fairness, "_SLICE", 0.0)
    turn.met_another()
    with turn.taken():
        assert turn.held
    assert not turn.held
    assert is_free(turn)


def test_who_waits_gets_it_when_it_comes(turn: Turn) -> None:
    other = rival(turn)
    turn.met_another()
    entered = threading.Event()

    def commit() -> None:
        with turn.taken():
            assert turn.held
            entered.set()

    waiting = threading.Thread(target=commit)
    waiting.start()
    assert not entered.is_set()
    os.close(other)
    assert entered.wait(PATIENCE)
    waiting.join(PATIENCE)


def test_a_holder_that_sleeps_is_passed(turn: Turn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fairness, "_PATIENCE", 0.01)
    other = rival(turn)
    turn.met_another()
    with turn.taken():
        assert not turn.held, "went ahead without"
    with monkeypatch.context() as patch:
        patch.setattr(turn, "_open", lambda: pytest.fail("asked again at once"))
        with turn.taken():
            assert not turn.held
    os.close(other)
    # The one who stopped waiting gives back what then comes.
    until(lambda: is_free(turn))


def test_without_a_place_for_the_lock_there_is_no_turn(
    turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied() -> int:
        raise PermissionError(13, "denied")

    monkeypatch.setattr(turn, "_open", denied)
    turn.met_another()
    with turn.taken():
        assert not turn.held


def test_the_watch_ends_too(turn: Turn, monkeypatch: pytest.MonkeyPatch) -> None:
    turn.met_another()
    with turn.taken():
        pass
    watch = turn._watch
    assert watch is not None
    until(lambda: not turn.held)
    monkeypatch.setattr(fairness, "_QUIET", 0.001)
    with turn._state:
        turn._state.notify()
    watch.join(PATIENCE)
    assert not watch.is_alive()
