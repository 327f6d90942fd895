"""Which version of ``__manifest`` is the latest, at the least cost and without being fooled.

Lance numbers versions without gaps, but a clean-up can leave some (it keeps tagged versions). On
an object store one listing tells, newest first. On a disk, where a listing grows with the
versions kept, a few stats do: N is the latest when its own file is there, N+1's is not, and the
hint that every writer leaves is not ahead; anything else is settled by a listing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lance_catalog.storage.manifests import (
    HINT,
    Naming,
    hinted_version,
    manifest_name,
    newest_versions,
)
from lance_catalog.storage.port import Store

__all__ = ["NONE", "Latest", "VersionFinder"]

#: Steps forward before a listing is cheaper than probing on.
_STEPS: Final = 32


@dataclass(frozen=True, slots=True)
class Latest:
    """The latest version, how its file is named, and a tag that changes when it is replaced."""

    version: int
    naming: Naming
    e_tag: str | None


NONE: Final = Latest(0, Naming.V2, None)


class VersionFinder:
    """Finds the latest version of the table in one directory."""

    def __init__(self, store: Store, directory: str) -> None:
        self._store = store
        self._directory = directory
        self._hinted: tuple[str | None, int] | None = None
        self._settled: tuple[Latest, tuple[tuple[str, str | None], ...], str] | None = None

    def find(self, known: Latest) -> Latest:
        """Return the latest version, starting from what is known; ``NONE`` without a table."""
        if self._store.remote:
            return self._from_listing()
        settled = self._settled
        if settled is not None and settled[0] == known and self._store.unchanged(*settled[1:]):
            return known
        # The hint alone is no place to start from: a native writer that slept across a clean-up
        # commits into the past and leaves the hint there (tests/interop/test_sleepers.py). Step
        # by step from a version that is still there no gap is overlooked.
        hint = self._hint()
        start = self._look(known.version, known.naming)
        if start is None:
            return self._from_listing()
        for _ in range(_STEPS):
            after = self._look(start.version + 1, start.naming)
            if after is None:
                if start.version < hint:
                    return self._from_listing()
                self._settle(start)
                return start
            start = after
        return self._from_listing()

    def _hint(self) -> int:
        """Return what the hint says, read only when it was written since."""
        info = self._store.head(f"{self._directory}/_versions/{HINT}")
        tag = None if info is None else info.e_tag
        if self._hinted is None or self._hinted[0] != tag or tag is None:
            self._hinted = (tag, hinted_version(self._store, self._directory))
        return self._hinted[1]

    def _settle(self, latest: Latest) -> None:
        """Note what the next look has to find as it is now, for nothing to have changed."""
        assert self._hinted is not None
        present = (
            (self._path(latest.version, latest.naming), latest.e_tag),
            (f"{self._directory}/_versions/{HINT}", self._hinted[0]),
        )
        self._settled = (latest, present, self._path(latest.version + 1, latest.naming))

    def _path(self, version: int, naming: Naming) -> str:
        return f"{self._directory}/_versions/{manifest_name(version, naming)}"

    def _look(self, version: int, naming: Naming) -> Latest | None:
        if version == 0:
            return None
        info = self._store.head(self._path(version, naming))
        return Latest(version, naming, info.e_tag) if info is not None and info.size else None

    def _from_listing(self) -> Latest:
        found = newest_versions(self._store, self._directory)
        if not found:
            return NONE
        version = max(found)
        return Latest(version, *found[version])
