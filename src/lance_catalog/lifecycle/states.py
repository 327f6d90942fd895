"""States of a table that is not to be seen. Pure."""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from lance_catalog.lifecycle.claims import Claim, Verb

__all__ = [
    "CLAIM",
    "DELETED_AT",
    "DROP_ID",
    "EXPIRES_AT",
    "STATE",
    "TTL",
    "VERSIONS",
    "Hidden",
    "HiddenState",
    "drop_id_prefix",
    "is_creating",
    "new_drop_id",
]

DELETED_AT: Final = "lance_catalog.deleted_at_ms"
TTL: Final = "lance_catalog.ttl_ms"
STATE: Final = "lance_catalog.state"
DROP_ID: Final = "lance_catalog.drop_id"
EXPIRES_AT: Final = "lance_catalog.expires_at_ms"
CLAIM: Final = "lance_catalog.claim"
VERSIONS: Final = "lance_catalog.versions"


def drop_id_prefix(object_id: str) -> str:
    """Return what every drop id of one table begins with: its rows in the trash lie together."""
    return hashlib.sha256(object_id.encode(errors="surrogatepass")).hexdigest()[:10]


def new_drop_id(object_id: str) -> str:
    """Return a name for one drop of one table."""
    return f"{drop_id_prefix(object_id)}-{secrets.token_hex(6)}"


class HiddenState(StrEnum):
    """Why a table is hidden."""

    #: Dropped: can come back until it is purged.
    DROPPED = "dropped"
    #: Taken out of the catalog, data kept for ever; register brings it back.
    DEREGISTERED = "deregistered"
    #: On its way in: nobody sees the directory until its row is there.
    CREATING = "creating"
    #: Deleted; the name stays closed for a while, for a purger that slept may still wake up.
    PURGED = "purged"
    #: A marker that nobody can read: hidden all the same, and nothing is ever deleted for it.
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Hidden:
    """One hiding of one table: which, why, since when, and who is ending it."""

    drop_id: str
    state: HiddenState
    deleted_at_ms: int
    #: None: never expires.
    ttl_ms: int | None = None
    claim: Claim | None = None
    #: Which versions were registered, where the catalog manages them (see ``spans``): what was
    #: deleted before must not come back with the table.
    versions: str | None = None

    @property
    def expires_at_ms(self) -> int | None:
        """When a dropped table may be purged by itself; None for never."""
        if self.state is not HiddenState.DROPPED or self.ttl_ms is None:
            return None
        return self.deleted_at_ms + self.ttl_ms

    @property
    def is_purging(self) -> bool:
        """Whether its deletion has begun: then it can only end."""
        return self.claim is not None and self.claim.verb is Verb.PURGE

    def is_expired(self, now_ms: int) -> bool:
        """Whether the time to live has passed. A clock that jumps back expires nothing."""
        at = self.expires_at_ms
        return at is not None and at <= now_ms

    def claimed(self, claim: Claim | None) -> Hidden:
        """Return the same hiding under another claim."""
        return replace(self, claim=claim)

    def properties(self) -> dict[str, str]:
        """Return what the trash row's metadata gains: strings, all below ``lance_catalog.``."""
        found = {
            DROP_ID: self.drop_id,
            STATE: self.state.value,
            DELETED_AT: str(self.deleted_at_ms),
        }
        if self.ttl_ms is not None:
            found[TTL] = str(self.ttl_ms)
        if self.claim is not None:
            found[CLAIM] = self.claim.text()
        if self.versions is not None:
            found[VERSIONS] = self.versions
        return found

    def body(self) -> bytes:
        """Return the body of the V1 marker (S01); claims on it are files of their own."""
        return json.dumps(
            {
                "deleted_at_ms": self.deleted_at_ms,
                "ttl_ms": self.ttl_ms,
                "drop_id": self.drop_id,
                "state": self.state.value,
            },
            separators=(",", ":"),
        ).encode()

    @classmethod
    def from_body(cls, body: bytes, name: str) -> Hidden:
        """Read a marker; one that cannot be read hides the table all the same.

        A marker with nothing but the times is another implementation's drop (S01).
        """
        # Of the bytes, so that a marker put there later is another hiding.
        digest = hashlib.sha256(body).hexdigest()[:12]
        foreign = f"{drop_id_prefix(name)}-x{digest}"
        try:
            value = json.loads(body)
            return cls(
                _drop_id(value.get("drop_id")) or foreign,
                HiddenState(value.get("state") or HiddenState.DROPPED),
                int(value["deleted_at_ms"]),
                None if value.get("ttl_ms") is None else int(value["ttl_ms"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            return cls(foreign, HiddenState.UNREADABLE, 0)

    @classmethod
    def by_nested(cls, name: str, at_ms: int) -> Hidden:
        """Return the hiding that a nested marker alone tells of: another implementation's.

        Its id follows from what all see of it, so that who lifts it to the root and who ends it
        meanwhile mean the same; a later one of the same table has another.
        """
        return cls(f"{drop_id_prefix(name)}-n{at_ms:x}", HiddenState.DEREGISTERED, at_ms)

    @classmethod
    def from_properties(cls, properties: dict[str, str]) -> Hidden | None:
        """Read a trash row's metadata; None when it is not ours."""
        try:
            return cls(
                properties[DROP_ID],
                HiddenState(properties[STATE]),
                int(properties[DELETED_AT]),
                int(properties[TTL]) if TTL in properties else None,
                Claim.parse(properties[CLAIM]) if CLAIM in properties else None,
                properties.get(VERSIONS),
            )
        except (KeyError, ValueError):
            return None


def _drop_id(value: Any) -> str | None:
    """Return a drop id that may be a folder's name; others' are not trusted to be one."""
    if not isinstance(value, str) or not value:
        return None
    if not value.replace("-", "").isalnum() or not value.isascii() or len(value) > 64:
        raise ValueError("not a drop id")
    return value


def is_creating(body: bytes, name: str) -> bool:
    """Whether a marker's body is that of a creation on its way."""
    return Hidden.from_body(body, name).state is HiddenState.CREATING
