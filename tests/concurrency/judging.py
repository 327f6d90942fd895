"""The judge of a race for a dropped table: every answer, and what readers found, in one order.

Nobody drops the table again, so of undrop and create at most one is done, and a purge only before
a create. Where V1 clients race beside others there may be two tables of one name in the end: in
compatibility mode one in a directory of its own, which V1 does not see (R8), and V1's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from tests.concurrency.histories import Operation, linearizable

#: How a refusal of each verb may sound; anything else is a finding.
REFUSALS = {"purge": {4, 14, 19}, "revive": {5, 14}, "undrop": {4, 5, 14}, "drop": {4, 14}}
ROWS = (1, 2, 3)

#: What there is of a table: "dropped", "gone", or its rows.
State = str | tuple[int, ...]


class Seen(NamedTuple):
    """What both see who share a root: in compatibility mode, and in V1."""

    here: State
    beside: State


class Side(Enum):
    """Who calls: one of many alike, or where modes are mixed one of either side."""

    ALONE = "alone"
    HERE = "compatibility mode, beside V1"
    #: What the manifest decides about, it is refused with 19.
    BESIDE = "V1, beside compatibility mode"


class Model(NamedTuple):
    """What is to be seen, and what is not."""

    shown: tuple[int, ...] | None
    #: "there", "begun" (to be deleted) or nothing.
    trash: str = ""
    #: A table in a directory of its own, because a deletion was still in the way.
    apart: tuple[int, ...] | None = None

    def here(self) -> State:
        return self.apart or self.beside()

    def beside(self) -> State:
        return self.shown or ("dropped" if self.trash == "there" else "gone")


DROPPED = Model(None, "there")
LIVE = Model(ROWS)


@dataclass(frozen=True)
class Call:
    """One call of one racer: done (None), refused with a code, or nobody knows."""

    name: str
    verb: str
    client: int
    began: int
    ended: int | None
    code: int | None = None
    text: str = ""
    side: Side = Side.ALONE

    @property
    def rows(self) -> tuple[int, ...]:
        return own_rows(self.client)

    @property
    def is_finding(self) -> bool:
        allowed = REFUSALS[self.verb] | ({19} if self.side is Side.BESIDE else set())
        return self.code is not None and self.code not in allowed


def own_rows(client: int) -> tuple[int, ...]:
    return tuple(range(client * 100 + 100, client * 100 + 104))


def step(state: Model, operation: Operation) -> Iterator[Model]:
    """The states that a call that was done, or may have been, leads to."""
    if operation.verb == "look":
        found = operation.answer
        seen = Seen(state.here(), state.beside()) if isinstance(found, Seen) else state.here()
        if found == seen:
            yield state
        return
    made: Call = operation.answer
    trash = state.trash
    free = state.shown is None and (state.apart is None or made.side is Side.BESIDE)
    if made.verb == "purge":
        if trash in ("there", "begun"):
            yield state._replace(trash="")
        # One that did not end has begun perhaps; another ends it, maybe after a new table came.
        if trash == "there" and made.ended is None:
            yield state._replace(trash="begun")
    elif made.verb == "revive" and free:
        yield state._replace(shown=made.rows, trash="" if trash == "there" else trash)
        if made.side is Side.HERE and trash != "there":
            yield state._replace(apart=made.rows)
    elif made.verb == "undrop" and free:
        # One that was overtaken, and told so, may have been first for all that: the purge stopped.
        if trash == "there" or (trash == "begun" and made.ended is None):
            yield state._replace(shown=ROWS, trash="")
    elif made.verb == "drop" and state.shown == ROWS:
        yield DROPPED


def explained(calls: Sequence[Call], looks: Sequence[State | Seen], start: Model = DROPPED) -> bool:
    """Whether some order of the calls, true to their times, leads to what readers found."""
    counted = [one for one in calls if one.code is None or one.ended is None]
    history = [
        Operation(one.client, one.verb, (one.name,), 0, one, one.began, one.ended)
        for one in counted
    ]
    after = max((one.ended or one.began for one in calls), default=0)
    for number, found in enumerate(looks):
        began = after + 2 * number + 1
        history.append(Operation(-1, "look", (), 0, found, began, began + 1))
    return bool(linearizable(history, start, step))


def violations(
    calls: Sequence[Call], looks: Sequence[dict[str, State | Seen]], start: Model = DROPPED
) -> list[str]:
    """What contradicts the claim, per name."""
    wrong = [
        f"{one.name}: {one.verb} answers {one.code} {one.text}" for one in calls if one.is_finding
    ]
    for name in looks[0]:
        mine = [one for one in calls if one.name == name]
        found = [look[name] for look in looks]
        if not explained(mine, found, start):
            lines = (
                f"{c.verb}/{c.client} {c.began // 1000 % 10**8}-{(c.ended or 0) // 1000 % 10**8}"
                f" {'done' if c.code is None else c.code} {c.text[:60]}"
                for c in sorted(mine, key=lambda one: one.began)
            )
            wrong.append(f"{name}: readers found {found} after " + "; ".join(lines))
    return wrong
