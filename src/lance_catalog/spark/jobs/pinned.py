"""A table as a job found it: whether the name still means that very table when it commits.

A table that was dropped and made anew while a job ran has versions and fragments of the same
numbers. What was made for the one must not become part of the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lance_catalog.directory.resolve import find_table, require_table
from lance_catalog.errors import ConcurrentModificationError
from lance_catalog.identifiers import Identifier, format_text

if TYPE_CHECKING:
    from lance_catalog.directory.namespace import DirectoryNamespace

__all__ = ["Pinned", "is_gone"]


def is_gone(catalog: DirectoryNamespace, names: Identifier) -> bool:
    """Whether no table has this name now."""
    return find_table(catalog.context, catalog.context.exact(), names) is None


@dataclass(frozen=True)
class Pinned:
    """A table at a version."""

    catalog: DirectoryNamespace
    names: Identifier
    #: Its folder below the root.
    place: str
    dataset: Any

    @classmethod
    def of(cls, catalog: DirectoryNamespace, names: Identifier) -> Pinned:
        """Open a table at its latest version; 4 when there is none."""
        place = _place(catalog, names)
        dataset: Any = catalog.open_table(list(names))
        if _place(catalog, names) != place:
            raise ConcurrentModificationError(f"table '{format_text(names)}' was just made anew")
        return cls(catalog, names, place, dataset)

    def require(self) -> Any:
        """Return the table at its latest version; 14 when it is another by now, 4 without one."""
        same = _place(self.catalog, self.names) == self.place
        now: Any = self.catalog.open_table(list(self.names))
        before, after = _files(self.dataset), _files(now)
        # A table made anew at the same place: numbers come again there, names of files do not.
        same = same and now.version >= self.dataset.version
        if not same or any(before[one].isdisjoint(after[one]) for one in before.keys() & after):
            raise ConcurrentModificationError(
                f"table '{format_text(self.names)}' was made anew while the job ran; nothing was "
                "committed. Run it again."
            )
        return now


def _files(dataset: Any) -> dict[int, set[str]]:
    """The names of the files of each fragment."""
    found = dataset.get_fragments()
    return {one.fragment_id: {file.path for file in one.metadata.files} for one in found}


def _place(catalog: DirectoryNamespace, names: Identifier) -> str:
    return require_table(catalog.context, catalog.context.exact(), names).location
