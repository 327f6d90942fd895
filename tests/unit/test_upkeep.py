"""Which fragments a commit merges: few stay, and no row is written again too often."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_catalog.manifest import upkeep
from lance_catalog.manifest.upkeep import Size, choose, pack

MOST = 32


class Fragments:
    """Fragments as commits leave them, and what they cost."""

    def __init__(self, sizes: list[int] | None = None) -> None:
        self.sizes = {number: [rows, 0] for number, rows in enumerate(sizes or [])}
        self.next = len(self.sizes)
        self.rewritten = 0
        self.most = len(self.sizes)
        self.largest = 0

    def seen(self) -> list[Size]:
        return [Size(number, rows, gone) for number, (rows, gone) in self.sizes.items()]

    @property
    def total(self) -> int:
        return sum(rows for rows, _ in self.sizes.values())

    def commit(self, rows: int = 1) -> None:
        sizes = self.seen()
        # As choose_merge does it: the sizes are looked at only when there are many.
        chosen = choose(sizes) if len(sizes) >= upkeep._MANY else []
        assert len(chosen) == len(set(chosen))
        moved = sum(self.sizes.pop(number)[0] for number in chosen)
        self.rewritten += moved
        self.largest = max(self.largest, moved)
        if moved + rows:
            self.sizes[self.next] = [moved + rows, 0]
            self.next += 1
        self.most = max(self.most, len(self.sizes))

    def delete(self, number: int, rows: int) -> None:
        live, gone = self.sizes[number]
        rows = min(rows, live)
        if rows == live:
            del self.sizes[number]
        else:
            self.sizes[number] = [live - rows, gone + rows]


def test_a_hundred_thousand_commits_of_one_row() -> None:
    """Issue 3: never more than 32 fragments, and each row moves a logarithmic number of times."""
    fragments = Fragments()
    for _ in range(100_000):
        fragments.commit()
    assert fragments.most <= 16
    assert fragments.total == 100_000
    moves = fragments.rewritten / fragments.total
    print(f"{moves:.1f} moves a row, at most {fragments.most} fragments")
    assert moves <= math.log2(fragments.total)


@pytest.mark.parametrize("start", [0, 1_000_000, 10_000_000, 1_000_000_000])
def test_at_every_size_a_commit_rewrites_a_bounded_share(start: int) -> None:
    """Grown by tenths beyond any full fragment: the count, the largest commit and the mean hold."""
    rows = max(1, start // 2_500)
    fragments = Fragments([start] if start else [])
    before = fragments.total
    for number in range(5_000):
        fragments.commit(rows * (1 + number % 3))
        allowed = 2 * max(131_072, fragments.total // 8)
        assert fragments.largest <= allowed, number
    assert fragments.most <= MOST
    written = fragments.total - before
    assert fragments.rewritten / written <= math.log(fragments.total, 1.5)


@given(
    st.lists(st.integers(1, 10**7), max_size=200),
    st.lists(
        st.tuples(st.integers(0, 5_000), st.integers(0, 3), st.integers(0, 10**6)), max_size=120
    ),
)
def test_whatever_others_left_the_count_comes_down_and_stays(
    sizes: list[int], steps: list[tuple[int, int, int]]
) -> None:
    """Any fragments, any commits and deletions in any order."""
    fragments = Fragments(sizes)
    for _ in range(len(sizes)):
        fragments.commit()
    assert len(fragments.sizes) <= MOST
    fragments.most = 0
    chance = random.Random(len(steps))
    for rows, deletions, gone in steps:
        for _ in range(deletions):
            if fragments.sizes:
                fragments.delete(chance.choice(list(fragments.sizes)), gone)
        fragments.commit(rows)
    assert fragments.most <= MOST


def test_a_full_fragment_stays_until_most_of_it_is_deleted() -> None:
    ones = [Size(number, 1) for number in range(1, 16)]
    assert 0 not in choose([Size(0, 200_000), *ones, Size(99, 1)])
    assert choose([Size(0, 200_000), *ones]) == []
    mostly_gone = Size(0, 200_000, 200_001)
    assert pack([mostly_gone]) == [[0]]
    assert pack([Size(0, 200_000, 200_000)]) == []
    assert 0 not in choose([mostly_gone, *ones])
    halves = [Size(number, 100_000) for number in range(1, 3)]
    assert 0 in [n for group in pack([mostly_gone, *halves]) for n in group]


def test_few_fragments_are_left_alone() -> None:
    assert choose([]) == []
    assert choose([Size(number, 1) for number in range(15)]) == []
    assert choose([Size(number, 1) for number in range(16)]) == list(range(16))


def test_a_large_one_waits_for_others_of_its_kind() -> None:
    sizes = [Size(0, 10_000), *(Size(number, 1) for number in range(1, 16))]
    assert choose(sizes) == list(range(1, 16))


def test_packing_leaves_one_that_is_not_full() -> None:
    sizes = [Size(number, 2**number) for number in range(18)]
    groups = pack(sizes)
    assert sorted(number for group in groups for number in group) == list(range(17))
    assert pack([Size(100, 2**17), Size(101, 5)]) == []
    many = pack([Size(number, 60_000) for number in range(10)])
    assert many == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
