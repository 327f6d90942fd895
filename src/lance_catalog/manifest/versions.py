"""Which version of ``__manifest`` is the latest, at the least cost and without being fooled.

Lance numbers versions without gaps. Version N is the latest when N's own file is there and N+1's
is not; if N is gone, a clean-up passed and only a listing tells. Empty files are the placeholders
that retention leaves under removed versions: not versions.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from lance_catalog.storage.gate import Naming, manifest_name, parse_manifest_name
from lance_catalog.storage.port import ObjectInfo, Store

__all__ = ["Latest", "VersionFinder"]

_HINT: Final = "latest_version_hint.json"
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
        self._versions = f"{directory}/_versions"

    def find(self, known: Latest | None) -> Latest:
        """Return the latest version, starting from what is known; ``NONE`` without a table."""
        start = self._still(known) if known is not None and known.version else None
        if start is None and not self._store.remote:
            # A local listing grows with the versions kept; the hint makes it a few stats.
            start = self._from_hint()
        if start is None:
            return self._from_listing()
        for _ in range(_STEPS):
            after = self._look(start.version + 1, start.naming)
            if after is None:
                return start
            start = after
        return self._from_listing()

    def _still(self, known: Latest) -> Latest | None:
        return self._look(known.version, known.naming)

    def _look(self, version: int, naming: Naming) -> Latest | None:
        info = self._store.head(f"{self._versions}/{manifest_name(version, naming)}")
        return Latest(version, naming, info.e_tag) if _is_version(info) and info else None

    def _from_hint(self) -> Latest | None:
        data = self._store.get(f"{self._versions}/{_HINT}")
        if data is None:
            return None
        try:
            version = int(json.loads(data)["version"])
        except (ValueError, KeyError, TypeError):
            return None
        return self._look(version, Naming.V2) or self._look(version, Naming.V1)

    def _from_listing(self) -> Latest:
        best = NONE
        for info in self._store.list_level(self._versions).objects:
            name = info.path.rsplit("/", 1)[-1]
            parsed = parse_manifest_name(name)
            if parsed is None or not _is_version(info):
                continue
            version, naming = parsed
            if version > best.version:
                best = Latest(version, naming, info.e_tag)
        return best


def _is_version(info: ObjectInfo | None) -> bool:
    return info is not None and info.size > 0
