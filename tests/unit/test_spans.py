"""Version numbers as short texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_catalog.lifecycle.spans import Spans


@given(st.sets(st.integers(1, 60)))
def test_all_that_went_in_and_nothing_else(numbers: set[int]) -> None:
    found = Spans.parse(Spans.of(numbers).text())
    assert {n for n in range(62) if n in found} == numbers
    assert found.last == max(numbers, default=0)


def test_runs_are_short() -> None:
    assert Spans.of(range(1, 10_001)).text() == "1-10000"
    assert Spans.of([5, 1, 2, 3]).text() == "1-3,5"
    assert Spans.of([]).text() == ""


@pytest.mark.parametrize("text", ["x", "1-x", "-"])
def test_others_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        Spans.parse(text)
