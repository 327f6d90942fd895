"""What one mutation does to the manifest: rows out, rows in, table metadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lance_catalog.model import Entry

__all__ = ["Change"]


@dataclass(frozen=True, slots=True)
class Change:
    """Rows to remove (as the snapshot knows them) and entries to add, in one version.

    ``replaces`` names, for an added entry, the removed row whose other columns it inherits.
    ``table_metadata`` changes the metadata of the ``__manifest`` table itself; Lance cannot put
    that and rows into one version, so a change has one or the other.
    """

    remove: tuple[Entry, ...] = ()
    add: tuple[Entry, ...] = ()
    replaces: Mapping[str, Entry] = field(default_factory=dict)
    table_metadata: Mapping[str, str | None] = field(default_factory=dict)
    #: Make an empty manifest: the first of two versions when metadata is the first change.
    initialise: bool = False

    def __post_init__(self) -> None:
        if self.table_metadata and (self.remove or self.add):
            raise ValueError("rows and table metadata cannot change in one version")

    @property
    def is_empty(self) -> bool:
        return not (self.remove or self.add or self.table_metadata or self.initialise)
