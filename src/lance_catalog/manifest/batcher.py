"""Group commit: what waits in one process lands together, as one version.

Whoever comes first leads: it folds every change that waits, in order, each planned on top of the
ones before, and commits them as one. Meanwhile others queue up; when it is done it hands the
lead to one of them. A lone caller pays nothing for it: it leads at once.

Order of acknowledgement is the order in the batch, so it is a serial order. A member that its
plan refuses gets its error when the batch has landed, because what refused it may be another
member; one member's error is nobody else's.
"""

from __future__ import annotations

import copy
import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any, Final

from lance_catalog.errors import CommitOutcomeUnknownError, ThrottlingError
from lance_catalog.manifest.change import Change
from lance_catalog.manifest.draft import Draft
from lance_catalog.manifest.snapshot import Snapshot

__all__ = ["MAX_BATCH", "MAX_WAITING", "Batcher", "Ticket", "fold"]

#: Changes that may wait in one process before further ones are turned away.
MAX_WAITING: Final = 4096
#: Changes folded into one version.
MAX_BATCH: Final = 512

#: From this many members on a batch is large, and seconds its members get to come again.
_LARGE: Final = 8
_GATHER: Final = 0.003

Plan = Callable[[Snapshot], tuple[Change, Any]]


class Ticket:
    """One caller's change, and what became of it."""

    __slots__ = (
        "conflicts",
        "deadline",
        "done",
        "error",
        "max_conflicts",
        "plan",
        "result",
        "wake",
    )

    def __init__(self, plan: Plan, deadline: float, max_conflicts: int | None = None) -> None:
        self.plan = plan
        self.deadline = deadline
        self.max_conflicts = max_conflicts
        self.conflicts = 0
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = False
        #: Released when the outcome is known, or when it is this caller's turn to lead. A bare
        #: lock: an Event costs five times as much, and there is one per change.
        self.wake = threading.Lock()

    def finish(self, error: BaseException) -> None:
        """Record a failure; the caller is woken by whoever leads."""
        self.result, self.error, self.done = None, error, True

    def answer(self) -> Any:
        """Return the result, or raise."""
        if self.error is not None:
            raise self.error
        return self.result

    def gave_up(self) -> bool:
        """Whether the caller's patience is over."""
        over = self.max_conflicts is not None and self.conflicts > self.max_conflicts
        return over or time.monotonic() > self.deadline


class Batcher:
    """The queue of one log. ``land`` commits a batch and finishes its tickets."""

    def __init__(
        self, land: Callable[[list[Ticket]], None], afterwards: Callable[[], None]
    ) -> None:
        self._land = land
        self._afterwards = afterwards
        self._lock = threading.Lock()
        self._waiting: deque[Ticket] = deque()
        self._leader: Ticket | None = None
        self._last = 0

    def run(self, ticket: Ticket) -> Any:
        """Queue a change, and return its outcome when it is known."""
        with self._lock:
            if len(self._waiting) >= MAX_WAITING:
                raise ThrottlingError(
                    f"{len(self._waiting)} changes of this process wait already; this one was "
                    "not written. Slow down and retry."
                )
            self._waiting.append(ticket)
            if self._leader is None:
                self._leader = ticket
            else:
                ticket.wake.acquire()
        if self._leader is not ticket:
            self._wait(ticket)
        if not ticket.done:
            self._lead(ticket)
        return ticket.answer()

    def _wait(self, ticket: Ticket) -> None:
        try:
            ticket.wake.acquire()
        except BaseException:
            # Interrupted: the change is withdrawn if nobody took it up, and the lead passed on.
            with self._lock:
                if ticket in self._waiting:
                    self._waiting.remove(ticket)
                leads = self._leader is ticket
            if leads:
                self._hand_over()
            raise

    def _lead(self, own: Ticket) -> None:
        """Commit batches until the own change is decided, then hand over."""
        try:
            while not own.done:
                batch = self._take()
                try:
                    self._land(batch)
                except Exception as error:
                    self._fail(batch, own, error)
                finally:
                    self._release(batch, own)
            self._afterwards()
        finally:
            self._hand_over()

    def _take(self) -> list[Ticket]:
        self._gather()
        with self._lock:
            batch = list(islice(self._waiting, MAX_BATCH))
            for _ in batch:
                self._waiting.popleft()
            self._last = len(batch)
            return batch

    def _gather(self) -> None:
        """After a large batch, let those it woke queue up again: one version more for all of them.

        A lone caller never waits here, nor does anyone after a small batch.
        """
        if self._last <= _LARGE:
            return
        end = time.perf_counter() + _GATHER
        while len(self._waiting) < self._last * 3 // 4 and time.perf_counter() < end:
            time.sleep(0.0001)

    def _fail(self, batch: list[Ticket], own: Ticket, error: Exception) -> None:
        for ticket in batch:
            if not ticket.done:
                # One object raised in many threads would collect all their tracebacks.
                ticket.finish(error if ticket is own else _again(error))

    def _release(self, batch: list[Ticket], own: Ticket) -> None:
        """Wake the members of a batch."""
        for ticket in batch:
            if not ticket.done:
                # Only an interrupt of the leader comes here: it may have struck after the put.
                ticket.finish(
                    CommitOutcomeUnknownError(
                        "the thread that wrote this change together with others was interrupted; "
                        "it may or may not have landed. Look before retrying."
                    )
                )
            if ticket is not own:
                ticket.wake.release()

    def _hand_over(self) -> None:
        with self._lock:
            self._leader = heir = self._waiting[0] if self._waiting else None
        if heir is not None:
            heir.wake.release()


def _again(error: Exception) -> Exception:
    made = copy.copy(error)
    made.__cause__, made.__traceback__ = error, None
    return made


def fold(batch: list[Ticket], view: Snapshot) -> tuple[Change, list[Ticket], list[Ticket]]:
    """Return (the change of a batch, its members, the rest that needs a version of its own).

    Outcomes are left in the tickets, not yet ``done``: they hold if the change lands.
    """
    draft = Draft(view)
    members: list[Ticket] = []
    for number, ticket in enumerate(batch):
        try:
            change, result = ticket.plan(draft.view)
        except Exception as error:
            # Whatever it is, it is this member's own and no reason for others to fail.
            ticket.result, ticket.error = None, error
            members.append(ticket)
            continue
        if change.table_metadata or change.initialise:
            # Lance cannot put metadata and rows into one version.
            if members:
                return draft.change(), members, batch[number:]
            ticket.result, ticket.error = result, None
            return change, [ticket], batch[1:]
        ticket.result, ticket.error = result, None
        draft.apply(change)
        members.append(ticket)
    return draft.change(), members, []
