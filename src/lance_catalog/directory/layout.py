"""Names of paths below the root. Pure: nothing here touches a store."""

from __future__ import annotations

import secrets
from typing import Final
from urllib.parse import unquote

from lance_catalog.errors import InvalidInputError
from lance_catalog.identifiers import CLAIMS, TRASH, Identifier, check_component, encode
from lance_catalog.lifecycle.locations import SUFFIX, normalise
from lance_catalog.manifest.schema import DIRECTORY as MANIFEST
from lance_catalog.storage.port import Store

__all__ = [
    "RESERVED",
    "fresh_directory",
    "relative_location",
    "v1_directory",
]

RESERVED: Final = ".lance-reserved"
#: What native writes into its markers.
RESERVED_BODY: Final = b"reserved"
_HASH_BYTES: Final = 8


def v1_directory(name: str, names: Identifier | None = None) -> str:
    """Return the directory of a V1 table (C01); 13 when it could not be a path component."""
    directory = name + SUFFIX
    check_component(directory, names or (name,))
    # The marker that hides the table later is one byte pair longer: checked while it is cheap.
    check_component(f"{name}.deleted", names or (name,))
    return directory


def fresh_directory(names: Identifier) -> str:
    """Return a new V2 directory: ``<hash>_<object_id>``, never twice the same (C10)."""
    directory = f"{secrets.token_hex(_HASH_BYTES)}_{encode(names)}"
    check_component(directory, names)
    return directory


def relative_location(given: str, store: Store) -> str:
    """Return the location a user gave (relative, absolute or URI) relative to the root; or 13."""
    text = given
    if "://" in text:
        if not store.remote:
            text = unquote(text.removeprefix("file://").removeprefix("localhost"))
        elif text.startswith(store.uri + "/"):
            text = unquote(text[len(store.uri) + 1 :])
    if not store.remote and text.startswith("/"):
        base = unquote(store.uri.removeprefix("file://")).rstrip("/")
        if text.startswith(base + "/"):
            text = text[len(base) + 1 :]
    plain = normalise(text)
    if plain is None:
        raise InvalidInputError(
            f"location '{given}' is not a table's place below {store.uri}: give a folder inside "
            f"the root, not the root itself, {MANIFEST}, {TRASH} or {CLAIMS}"
        )
    return plain
