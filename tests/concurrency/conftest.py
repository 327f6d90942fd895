"""The racers: eight processes, started once for all races of a session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.concurrency.racing import Racers
from tests.concurrency.victims import Victim


@pytest.fixture(scope="session")
def racers() -> Iterator[Racers]:
    made = Racers(8)
    yield made
    made.stop()


@pytest.fixture(scope="session")
def idle() -> Iterator[list[Victim]]:
    """Processes that wait for something to do: starting one takes longer than most of it."""
    made: list[Victim] = []
    yield made
    for one in made:
        one.end()


@pytest.fixture(params=["ci", pytest.param("soak", marks=pytest.mark.soak)])
def full(request: pytest.FixtureRequest) -> bool:
    """Whether this run has the full figures of the issue."""
    return bool(request.param == "soak")
