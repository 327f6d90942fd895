"""Is there an order? A small checker of histories: depth-first, with a memory of where it was."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

S = TypeVar("S", bound=Hashable)

#: Steps after which the checker gives up: an answer of None is "unknown", never "fine".
PATIENCE = 1_000_000


@dataclass(frozen=True)
class Operation:
    """One call: when it began and ended (None: nobody knows whether it took effect)."""

    client: int
    verb: str
    names: tuple[str, ...]
    generation: int
    answer: Any
    began: int
    ended: int | None = field(default=None)


def linearizable(
    history: Sequence[Operation], start: S, step: Callable[[S, Operation], Iterable[S]]
) -> bool | None:
    """Whether some order of the operations, true to their times, explains every answer.

    ``step`` yields the states that an operation with its answer can lead to: none when the answer
    is impossible in that state.
    """
    calls = sorted(history, key=lambda call: call.began)
    ends = [call.ended if call.ended is not None else 1 << 62 for call in calls]
    must = sum(1 << i for i, call in enumerate(calls) if call.ended is not None)
    stack: list[tuple[int, S]] = [(0, start)]
    known = {(0, start)}
    for _ in range(PATIENCE):
        if not stack:
            return False
        done, state = stack.pop()
        if done & must == must:
            return True
        following = []
        earliest_end = 1 << 62
        for i, call in enumerate(calls):
            if done >> i & 1:
                continue
            # Whatever began after something undone has ended comes after it.
            if call.began > earliest_end:
                break
            earliest_end = min(earliest_end, ends[i])
            for after in step(state, call):
                place = (done | 1 << i, after)
                if place not in known:
                    known.add(place)
                    following.append((ends[i], place))
        # What ended first most likely took effect first: tried first.
        following.sort(key=lambda one: -one[0])
        stack.extend(place for _, place in following)
    return None
