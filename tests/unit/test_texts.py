"""Strings read from Arrow's buffers are those that Arrow itself gives."""

from __future__ import annotations

from bisect import bisect_left

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_catalog.manifest.texts import Texts

strings = st.lists(st.none() | st.text(max_size=6), max_size=40)


def agree(column: pa.Array) -> None:
    texts = Texts(column)
    expected = column.to_pylist()
    assert len(texts) == len(expected)
    assert [texts.get(index) for index in range(len(texts))] == expected
    assert [texts[index] for index in range(len(texts))] == [text or "" for text in expected]


@given(strings, st.integers(0, 40), st.integers(0, 40))
def test_as_arrow_has_them(values: list[str | None], start: int, length: int) -> None:
    """NULLs and empty strings, any alphabet, and slices, whose buffers begin before them."""
    column = pa.array(values, pa.string())
    agree(column)
    agree(column.slice(min(start, len(values)), length))


@pytest.mark.parametrize("column", [pa.array([], pa.string()), pa.nulls(9, pa.string())])
def test_columns_without_content(column: pa.Array) -> None:
    agree(column)
    agree(column[3:5])


@given(st.lists(st.text(max_size=3), max_size=30).map(sorted), st.text(max_size=3))
def test_a_search_ends_where_it_does_in_a_list(values: list[str], wanted: str) -> None:
    texts = Texts(pa.array(values, pa.string()))
    assert bisect_left(texts, wanted) == bisect_left(values, wanted)


def test_other_columns_are_refused() -> None:
    """Their buffers have another form, and what was read from them would be nonsense."""
    with pytest.raises(TypeError, match="large_string"):
        Texts(pa.array(["a"], pa.large_string()))
