"""Identifiers: parse, validate, encode. The only file that knows the ``$`` of stored ids.

An identifier is a tuple of names; the root namespace is the empty tuple (O03) and an object with
``n`` names is at level ``n`` (O04). Stored, the names are joined by ``$`` (C05). Because a name
with a ``$`` would be the same stored id as a nested object, such names can neither be created nor
looked up where ids are stored; V1 has no stored ids and allows them (R9).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Final

from lance_catalog.errors import InvalidInputError

__all__ = [
    "DELIMITER",
    "MAX_COMPONENT_BYTES",
    "RESERVED_AT_ROOT",
    "ROOT",
    "Identifier",
    "check_new_name",
    "decode",
    "encode",
    "format_text",
    "from_request",
    "is_addressable",
    "is_internal",
    "is_internal_key",
    "name_of",
    "parent_of",
    "parse_text",
    "split_key",
]

Identifier = tuple[str, ...]

DELIMITER: Final = "$"
ROOT: Final[Identifier] = ()
TRASH: Final = "__trash"
CLAIMS: Final = "__claims"
# Names that would collide with what we or Lance keep at the root (R9). Other names with "__"
# are used by tools in the field and stay legal.
RESERVED_AT_ROOT: Final = frozenset({"__manifest", TRASH, CLAIMS})
MAX_COMPONENT_BYTES: Final = 255


def encode(names: Sequence[str]) -> str:
    """Return the stored id of a list-style identifier."""
    return DELIMITER.join(names)


def decode(key: str) -> Identifier:
    """Return the names of a stored id. The empty id is one empty name: natives can make one."""
    return tuple(key.split(DELIMITER))


def split_key(key: str) -> tuple[str, str]:
    """Return (stored id of the parent, name) of a stored id; the root's stored id is ``""``."""
    parent, found, name = key.rpartition(DELIMITER)
    return (parent, name) if found else ("", key)


def parent_of(names: Identifier) -> Identifier:
    """Return the identifier of the parent namespace."""
    return names[:-1]


def name_of(names: Identifier) -> str:
    """Return the last name."""
    return names[-1]


def is_addressable(names: Sequence[str]) -> bool:
    """Whether a lookup by stored id means exactly these names, and nobody else's."""
    return not any(DELIMITER in name for name in names)


def is_internal(names: Sequence[str]) -> bool:
    """Whether the identifier lies in our own bookkeeping: NotFound for ordinary operations."""
    return len(names) > 0 and names[0] in (TRASH, CLAIMS)


def is_internal_key(key: str) -> bool:
    """Whether a stored id lies in our own bookkeeping."""
    head = key.split(DELIMITER, 1)[0]
    return head in (TRASH, CLAIMS)


def from_request(value: Sequence[str] | str | None, what: str) -> Identifier:
    """Return the identifier of a request: a list of names, or string style with ``$`` (O02)."""
    if value is None:
        raise InvalidInputError(f"{what}: an id is required; the root namespace is []")
    if isinstance(value, str):
        return () if value in ("", DELIMITER) else tuple(value.split(DELIMITER))
    names = tuple(value)
    if not all(isinstance(name, str) for name in names):
        raise InvalidInputError(f"{what}: every name of an id is a string, got {value!r}")
    return names


def parse_text(text: str, delimiter: str = ".") -> Identifier:
    """Return the identifier a person typed, as ``prod.analytics.users``; ``.`` is the root."""
    if not delimiter:
        raise InvalidInputError("the delimiter is empty; give one character, for example '.'")
    if text in ("", ".", delimiter):
        return ROOT
    names = tuple(text.split(delimiter))
    if any(name == "" for name in names):
        raise InvalidInputError(
            f"'{text}' has an empty name between two '{delimiter}'; "
            "if a name holds that character, choose another with --delimiter"
        )
    return names


def format_text(names: Sequence[str], delimiter: str = ".") -> str:
    """Return the identifier as a person types it."""
    return delimiter.join(names) if names else "."


def check_new_name(names: Identifier, *, stored: bool) -> None:
    """Refuse (13) an identifier whose last name cannot be created (R9).

    ``stored`` says that ids are kept joined by ``$`` (V2 and compatibility mode).
    """
    if not names:
        raise InvalidInputError("the root namespace has no name and cannot be created")
    name = names[-1]
    why = _refusal(name, stored=stored)
    if why is None and len(names) == 1 and name in RESERVED_AT_ROOT:
        why = "is reserved at the root"
    if why is not None:
        raise InvalidInputError(f"name {name!r} {why}; choose another name")


def _refusal(name: str, *, stored: bool) -> str | None:
    if name == "":
        return "is empty"
    if name in (".", ".."):
        return "means a folder"
    for char in name:
        if char in "/\\" or (stored and char == DELIMITER):
            return f"holds {char!r}"
        if unicodedata.category(char) in ("Cc", "Cs"):
            return f"holds the control character U+{ord(char):04X}"
    return None


def check_component(component: str, names: Identifier) -> None:
    """Refuse (13) a path component that file systems and stores would not take (R9)."""
    size = len(component.encode("utf-8", errors="surrogatepass"))
    if size > MAX_COMPONENT_BYTES:
        raise InvalidInputError(
            f"the directory name for {format_text(names)!r} would have {size} bytes, "
            f"more than {MAX_COMPONENT_BYTES}; use shorter names"
        )
