"""What the catalog holds, as frozen values. Pure: no storage, no Lance."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lance_catalog.errors import InvalidInputError, InvalidTableStateError

__all__ = [
    "INTERNAL_PREFIX",
    "PROTECTED",
    "Entry",
    "Kind",
    "check_user_properties",
    "dump_metadata",
    "parse_metadata",
    "user_properties",
]

INTERNAL_PREFIX: Final = "lance_catalog."
PROTECTED: Final = "lance_catalog.protected"
CREATED_AT: Final = "lance_catalog.created_at"


class Kind(StrEnum):
    """``object_type`` of a row that we know; others are tolerated and left alone."""

    NAMESPACE = "namespace"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of ``__manifest``: a namespace, a table, or something of another writer's.

    ``address`` is where the row lies (fragment id << 32 | offset), valid for the snapshot that
    handed it out; -1 for a row that is not written yet.
    """

    object_id: str
    object_type: str
    location: str | None = None
    metadata: str | None = None
    address: int = -1

    @property
    def is_table(self) -> bool:
        return self.object_type == Kind.TABLE.value

    @property
    def is_namespace(self) -> bool:
        return self.object_type == Kind.NAMESPACE.value

    def properties(self) -> dict[str, str]:
        """All properties, ours included; 19 when another writer left something unreadable."""
        return parse_metadata(self.metadata, self.object_id)


def parse_metadata(text: str | None, object_id: str) -> dict[str, str]:
    """Return the properties of a metadata column: a JSON object of strings (C07)."""
    if text is None:
        return {}
    try:
        value = json.loads(text)
    except ValueError as error:
        raise InvalidTableStateError(
            f"metadata of '{object_id}' is not JSON; `lance-catalog check` shows the row"
        ) from error
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
        raise InvalidTableStateError(
            f"metadata of '{object_id}' is not a JSON object of strings; "
            "`lance-catalog check` shows the row"
        )
    return value


def dump_metadata(properties: Mapping[str, str]) -> str | None:
    """Return the metadata column: compact, sorted, NULL for none (as native writes it)."""
    if not properties:
        return None
    return json.dumps(dict(properties), ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def user_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return what users see: without our bookkeeping, but with the protection flag (R14)."""
    return {
        key: value
        for key, value in properties.items()
        if not key.startswith(INTERNAL_PREFIX) or key == PROTECTED
    }


def check_user_properties(properties: Mapping[str, str] | None) -> dict[str, str]:
    """Return properties a user may set; 13 for keys that are ours (R14)."""
    given = dict(properties or {})
    for key, value in given.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise InvalidInputError(f"property {key!r}: names and values are strings")
        if key.startswith(INTERNAL_PREFIX) and key != PROTECTED:
            raise InvalidInputError(
                f"property '{key}': names below '{INTERNAL_PREFIX}' belong to lance-catalog; "
                "choose another name"
            )
        # JSON can carry a lone surrogate, Arrow and stores cannot.
        try:
            (key + value).encode("utf-8")
        except UnicodeEncodeError as error:
            raise InvalidInputError(f"property {key!r} is not valid Unicode") from error
    return given
