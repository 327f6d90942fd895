"""Group commit: what waits in one process lands together, as one version.

Whoever comes first leads: it folds every change that waits, in order, each planned on top of the
ones before, and commits them as one. Meanwhile others queue up; when it is done it hands the
lead to one of them. A lone caller pays nothing for it: it leads at once.

Order of acknowledgement is the order in the batch, so it is a serial order. A member that its
plan refuses gets its error when the batch has landed, because what refused it may be another
member; one member's error is nobody else's.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from lance_catalog.errors import ThrottlingError
from lance_catalog.manifest.change import Change
from lance_catalog.manifest.draft import Draft
from lance_catalog.manifest.snapshot import Snapshot

__all__ = ["Batcher", "Ticket"]

#: Changes that may wait in one process before further ones are turned away.
MAX_WAITING: Final = 4096
#: Changes folded into one version.
MAX_BATCH: Final = 512

Plan = Callable[[Snapshot], tuple[Change, Any]]


@dataclass(eq=False)
class Ticket:
    """One caller's change, and what became of it."""

    plan: Plan
    deadline: float
    max_conflicts: int | None
    conflicts: int = 0
    result: Any = None
    error: BaseException | None = None
    done: bool = False
    #: Set when the outcome is known, or when it is this caller's turn to lead.
    wake: threading.Event = field(default_factory=threading.Event)

    def finish(self, result: Any, error: BaseException | None) -> None:
        """Record the outcome; the caller is woken by whoever calls this."""
        self.result, self.error, self.done = result, error, True

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
        self._leading = False

    def run(self, ticket: Ticket) -> Any:
        """Queue a change, and return its outcome when it is known."""
        with self._lock:
            if len(self._waiting) >= MAX_WAITING:
                raise ThrottlingError(
                    f"{len(self._waiting)} changes of this process wait already; "
                    "nothing was written. Slow down and retry."
                )
            self._waiting.append(ticket)
            lead = not self._leading
            self._leading = True
        if not lead:
            ticket.wake.wait()
        if not ticket.done:
            self._lead(ticket)
        return ticket.answer()

    def _lead(self, own: Ticket) -> None:
        """Commit batches until the own change is decided, then hand over."""
        try:
            while not own.done:
                with self._lock:
                    batch = [
                        self._waiting.popleft() for _ in range(min(MAX_BATCH, len(self._waiting)))
                    ]
                try:
                    self._land(batch)
                except BaseException as error:
                    for ticket in batch:
                        if not ticket.done:
                            ticket.finish(None, error)
                for ticket in batch:
                    if ticket is not own:
                        ticket.wake.set()
            self._afterwards()
        finally:
            with self._lock:
                heir = self._waiting[0] if self._waiting else None
                self._leading = heir is not None
            if heir is not None:
                heir.wake.set()


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
        if change.table_metadata:
            # Lance cannot put metadata and rows into one version.
            if members:
                return draft.change(), members, batch[number:]
            ticket.result, ticket.error = result, None
            return change, [ticket], batch[1:]
        ticket.result, ticket.error = result, None
        draft.apply(change)
        members.append(ticket)
    return draft.change(), members, []
