"""States of a table that has left the catalog. Pure."""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

__all__ = [
    "DELETED_AT",
    "DROP_ID",
    "EXPIRES_AT",
    "STATE",
    "TTL",
    "Hidden",
    "HiddenState",
    "is_creating",
    "new_drop_id",
]

DELETED_AT: Final = "lance_catalog.deleted_at_ms"
TTL: Final = "lance_catalog.ttl_ms"
STATE: Final = "lance_catalog.state"
DROP_ID: Final = "lance_catalog.drop_id"
EXPIRES_AT: Final = "lance_catalog.expires_at_ms"


def new_drop_id() -> str:
    """Return a name for one drop of one table."""
    return secrets.token_hex(8)


class HiddenState(StrEnum):
    """Why a table is hidden."""

    #: Taken out of the catalog, data kept for ever; register brings it back.
    DEREGISTERED = "deregistered"
    #: On its way in: nobody sees the directory until its row is there.
    CREATING = "creating"
    #: Dropped, its bytes being deleted: cannot come back.
    PURGING = "purging"


@dataclass(frozen=True, slots=True)
class Hidden:
    """One hiding of one table: which, why, since when."""

    drop_id: str
    state: HiddenState
    deleted_at_ms: int
    ttl_ms: int | None = None

    def properties(self) -> dict[str, str]:
        """Return what the trash row's metadata gains: strings, all below ``lance_catalog.``."""
        found = {
            DROP_ID: self.drop_id,
            STATE: self.state.value,
            DELETED_AT: str(self.deleted_at_ms),
        }
        if self.ttl_ms is not None:
            found[TTL] = str(self.ttl_ms)
        return found

    def body(self) -> bytes:
        """Return the body of the V1 marker (S01)."""
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
        """Read a marker; one of another writer (or a torn one) hides the table all the same."""
        try:
            value = json.loads(body)
            return cls(
                str(value.get("drop_id") or f"foreign-{name}"),
                HiddenState(value.get("state") or HiddenState.DEREGISTERED),
                int(value["deleted_at_ms"]),
                None if value.get("ttl_ms") is None else int(value["ttl_ms"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            return cls(f"foreign-{name}", HiddenState.DEREGISTERED, 0)

    @classmethod
    def by_nested(cls, name: str, at_ms: int) -> Hidden:
        """Return the hiding that a nested marker alone tells of: another implementation's.

        Its id follows from what all see of it, so that who lifts it to the root and who ends it
        meanwhile mean the same; a later one of the same table has another.
        """
        digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:16]
        return cls(f"foreign-{digest}-{at_ms:x}", HiddenState.DEREGISTERED, at_ms)

    @classmethod
    def from_properties(cls, properties: dict[str, str]) -> Hidden | None:
        """Read a trash row's metadata; None when it is not ours."""
        try:
            return cls(
                properties[DROP_ID],
                HiddenState(properties[STATE]),
                int(properties[DELETED_AT]),
                int(properties[TTL]) if TTL in properties else None,
            )
        except (KeyError, ValueError):
            return None


def is_creating(body: bytes, name: str) -> bool:
    """Whether a marker's body is that of a creation on its way."""
    return Hidden.from_body(body, name).state is HiddenState.CREATING
