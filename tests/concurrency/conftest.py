"""The racers: eight processes, started once for all races of a session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.concurrency.racing import Racers


@pytest.fixture(scope="session")
def racers() -> Iterator[Racers]:
    made = Racers(8)
    yield made
    made.stop()


@pytest.fixture(params=["ci", pytest.param("soak", marks=pytest.mark.soak)])
def full(request: pytest.FixtureRequest) -> bool:
    """Whether this run has the full figures of the issue."""
    return bool(request.param == "soak")
