"""Who may end a hiding: the rules, for rows and for markers alike. Pure.

A claim says that somebody is bringing a hidden table back, or deleting it. At most one counts:
the latest. A deletion is never given up in favour of anything else, only carried on; whatever
else is left lying (its process died) may be taken over after the lease. Safety never rests on the
lease: whoever was overtaken finds a claim that is not its own at its next step, and stops.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

__all__ = ["LEASE_MS", "Claim", "Verb", "new_claim", "obstacle"]

#: After this long without a sign of life a claim may be taken over.
LEASE_MS: Final = 60_000


class Verb(StrEnum):
    """What a claim is for."""

    PURGE = "purge"
    #: create_table over the dropped table.
    REVIVE = "revive"
    UNDROP = "undrop"
    REGISTER = "register"
    #: A deregistered table is being dropped.
    DROP = "drop"
    #: A migration made the row, and has not looked yet whether its marker still hides the table.
    MIGRATE = "migrate"
    #: The holder gave it back; nothing was changed.
    FREE = "free"


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim on one hiding; ``number`` counts how often it changed hands."""

    verb: Verb
    holder: str
    at_ms: int
    number: int = 0

    def text(self) -> str:
        """Return the claim as rows and claim files keep it."""
        return f"{self.verb.value} {self.holder} {self.at_ms} {self.number}"

    @classmethod
    def parse(cls, text: str, number: int | None = None) -> Claim | None:
        """Read a claim; None when it is not one."""
        parts = text.split(" ")
        try:
            count = int(parts[3]) if number is None else number
            return cls(Verb(parts[0]), parts[1], int(parts[2]), count)
        except (ValueError, IndexError):
            return None

    def is_stale(self, now_ms: int, lease_ms: int) -> bool:
        """Whether its holder gave no sign of life for the lease.

        A time from the future is somebody's wrong clock, and must not close the table for ever.
        """
        return abs(now_ms - self.at_ms) >= lease_ms

    def renewed(self, now_ms: int) -> Claim:
        """Return the same claim with a fresh sign of life."""
        return replace(self, at_ms=now_ms)

    def freed(self) -> Claim:
        """Return it given back: anybody may take it, those before it never again."""
        return replace(self, verb=Verb.FREE)


def new_claim(verb: Verb, now_ms: int, before: Claim | None = None) -> Claim:
    """Return a claim of a new holder."""
    number = 0 if before is None else before.number + 1
    return Claim(verb, uuid.uuid4().hex, now_ms, number)


def obstacle(
    latest: Claim | None, verb: Verb, now_ms: int, lease_ms: int = LEASE_MS, *, force: bool = False
) -> str | None:
    """Return what keeps a verb from claiming a hiding now, or None when nothing does.

    ``force`` does not wait for the lease: for repair, and for people who know the holder is dead.
    """
    if latest is None or latest.verb is Verb.FREE:
        return None
    if latest.verb is Verb.PURGE and verb is not Verb.PURGE:
        return "its data is being deleted"
    if latest.verb is Verb.MIGRATE:
        # However old: that look decides, and is nobody's to pass by.
        return "a migration is bringing it into the manifest"
    if force or latest.is_stale(now_ms, lease_ms):
        return None
    if latest.verb is Verb.PURGE:
        return "another process is deleting its data"
    return "another process is bringing it back"
