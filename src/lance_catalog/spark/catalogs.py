"""Which catalog and which table: what callers give, and what travels to the executors.

A catalog travels as its properties, storage credentials included, and is built anew in each
process that needs it. Nothing here shows them: not ``repr``, not an error, not a plan of Spark's.
"""

from __future__ import annotations

import base64
import functools
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lance_catalog.config import Settings
from lance_catalog.directory.namespace import DirectoryNamespace
from lance_catalog.errors import InvalidInputError
from lance_catalog.identifiers import Identifier, parse_text

__all__ = ["CatalogLike", "CatalogRef", "resolve", "table_names"]


@dataclass(frozen=True)
class CatalogRef:
    """A catalog as its root and properties: pickled to executors, which ``open()`` it there."""

    root: str
    #: Everything else ``connect`` takes. May hold credentials, so it is never shown.
    properties: Mapping[str, Any] = field(default_factory=dict, repr=False)
    #: The caller's own object, used in the caller's process only.
    _opened: DirectoryNamespace | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        # A worker has a folder of its own to start from.
        object.__setattr__(self, "root", _absolute(self.root))
        # A mistake is told where it was made, not by a task later.
        Settings.from_properties({"root": self.root, **self.properties})

    def __hash__(self) -> int:
        return hash((self.root, _key(self.properties)))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.root, dict(self.properties))

    def open(self) -> DirectoryNamespace:
        """Return the catalog: the caller's object, or one shared by all users in this process."""
        if self._opened is not None:
            return self._opened
        return _shared(_key({"root": self.root, **self.properties}))

    def at(self, moment: Any) -> CatalogRef:
        """Return the same catalog as of a moment: a version of the manifest or a time."""
        return CatalogRef(self.root, {**self.properties, "as_of": moment})

    def to_token(self) -> str:
        """Return one opaque text for an option of Spark's that is never shown in the clear."""
        text = json.dumps({"root": self.root, **self.properties}, default=str, sort_keys=True)
        return base64.urlsafe_b64encode(text.encode()).decode()

    @classmethod
    def from_token(cls, token: str) -> CatalogRef:
        """Return the catalog of :meth:`to_token`; 13 for a text that is none."""
        try:
            found = json.loads(base64.urlsafe_b64decode(token.encode()))
            root = found.pop("root")
        except (ValueError, KeyError, AttributeError) as error:
            raise InvalidInputError(
                "the option 'catalog_token' is not one that lance-catalog made; "
                "give 'root' and 'table' instead"
            ) from error
        return cls(root, found)


CatalogLike = DirectoryNamespace | CatalogRef | str


def resolve(catalog: CatalogLike) -> CatalogRef:
    """Return the reference for a namespace object, a root (path or URI), or a reference."""
    if isinstance(catalog, CatalogRef):
        return catalog
    if isinstance(catalog, DirectoryNamespace):
        # How the object itself travels to a worker: what it was built from.
        _, (_, given) = catalog.__reduce__()
        properties = dict(given)
        root = str(properties.pop("root"))
        if "://" not in root:
            # Where it was opened: the caller may have changed its folder since.
            root = str(getattr(catalog.context.store, "path", root))
        return CatalogRef(root, properties, catalog)
    if isinstance(catalog, str) and catalog:
        return CatalogRef(catalog)
    raise InvalidInputError(
        f"a catalog is a namespace object of lance_catalog.connect, or its root as text; "
        f"got {type(catalog).__name__}"
    )


def table_names(table: str | Sequence[str]) -> Identifier:
    """Return the names of a table: a list of names, or dotted text as ``db.events``."""
    names = parse_text(table) if isinstance(table, str) else tuple(table)
    if not names or not all(isinstance(name, str) and name for name in names):
        raise InvalidInputError(
            f"a table is a list of names or dotted text as 'db.events'; got {table!r}"
        )
    return names


def _absolute(root: str) -> str:
    return root if "://" in root or not root else os.path.abspath(os.path.expanduser(root))


def _key(properties: Mapping[str, Any]) -> str:
    return json.dumps(dict(properties), default=str, sort_keys=True)


@functools.lru_cache(maxsize=16)
def _shared(key: str) -> DirectoryNamespace:
    return DirectoryNamespace(**json.loads(key))
