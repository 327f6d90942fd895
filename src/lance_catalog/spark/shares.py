"""How work is shared out: tasks of one size, and as many as keep every core busy to the end.

A task costs Spark a tenth of a second whatever it does, and five tasks on two cores leave one of
the two idle in the third turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

__all__ = ["DEFAULT_TASK_BYTES", "SMALLEST_TASK", "even_shares", "task_bytes_for"]

#: A longer task holds no more in memory; but what fails is done again as a whole.
DEFAULT_TASK_BYTES: Final = 512 << 20
SMALLEST_TASK: Final = 8 << 20


def task_bytes_for(total: int, most: int, at_once: int | None) -> int:
    """Return how many bytes make a task: at most ``most``, and all cores have one in every turn."""
    if at_once is None:
        return most
    cores = max(1, at_once)
    turns = max(1, -(-total // (most * cores)))
    return min(most, max(SMALLEST_TASK, -(-total // (turns * cores))))


def even_shares(sizes: Sequence[int], target: int) -> Iterator[range]:
    """Yield neighbours, by number, that together are about the target.

    What is more than that is alone. The others are as few groups as the target allows, of about
    the same size: filled up one after the other there would be one more for what is left over.
    """
    begin = 0
    for number, size in enumerate(sizes):
        if size > target:
            yield from _halves(sizes, begin, number, target)
            yield range(number, number + 1)
            begin = number + 1
    yield from _halves(sizes, begin, len(sizes), target)


def _halves(sizes: Sequence[int], begin: int, end: int, target: int) -> Iterator[range]:
    total = sum(sizes[begin:end])
    groups = max(1, -(-total // target))
    before, group, first = 0, 0, begin
    for number in range(begin, end):
        # Where the middle of it lies.
        its = (2 * before + sizes[number]) * groups // (2 * total) if total else 0
        if its != group and number > first:
            yield range(first, number)
            first = number
        group = its
        before += sizes[number]
    if first < end:
        yield range(first, end)
