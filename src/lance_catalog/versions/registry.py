"""The registry of table versions, where the catalog manages them: rows ``<table id>$<version>``.

A row says that a version is committed; its manifest lies under the final name, or, when the
committer died in between, still under the staged name that the row remembers, and whoever reads
it next puts it in place. Only the highest version of a table can be in that state, because the
next one is refused until its manifest is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow.compute as pc

from lance_catalog.identifiers import DELIMITER
from lance_catalog.manifest import ManifestLog, Snapshot
from lance_catalog.manifest.base import VERSION_TYPE
from lance_catalog.model import Entry, dump_metadata, parse_metadata
from lance_catalog.storage.manifests import Naming, manifest_name, newest_versions
from lance_catalog.storage.port import Store

__all__ = [
    "FLAG",
    "ROWS",
    "Registered",
    "all_rows",
    "floor_of",
    "head",
    "is_managed",
    "keeps_rows",
    "key_of",
    "latest",
    "registered",
    "without_floor",
]

#: In the metadata of ``__manifest`` itself: the catalog manages the versions of its tables (I32).
FLAG: Final = "table_version_management"
#: Beside it, from before the first row on: whoever drops or renames a table keeps its rows right.
ROWS: Final = "lance_catalog.version_rows"
#: In a table's row: no version up to this one may be registered again.
FLOOR: Final = "lance_catalog.version_floor"

_PATH: Final = "manifest_path"
_SIZE: Final = "manifest_size"
_TAG: Final = "e_tag"
_TIME: Final = "timestamp_millis"
_NAMING: Final = "naming_scheme"
_STAGED: Final = "staged_name"
_OWN: Final = frozenset({_PATH, _SIZE, _TAG, _TIME, _NAMING, _STAGED})
#: How far around the newest file a first lookup looks for rows.
_AHEAD: Final = 2
_BEHIND: Final = 14


def is_managed(metadata: Mapping[str, str]) -> bool:
    """Whether the metadata of the manifest says that versions are managed."""
    return metadata.get(FLAG, "").lower() == "true"


def keeps_rows(metadata: Mapping[str, str]) -> bool:
    """Whether there may be rows of versions: where they are managed, and soon will be."""
    return is_managed(metadata) or ROWS in metadata


def key_of(table: str, version: int) -> str:
    """Return the id of a version's row."""
    return f"{table}{DELIMITER}{version}"


def floor_of(entry: Entry) -> int:
    """Return the highest number a table may never register again, beside those it has."""
    text = entry.properties().get(FLOOR, "0")
    return int(text) if text.isdecimal() else 0


def without_floor(entry: Entry) -> Entry:
    """Return a table's row that knows of no such number."""
    kept = {key: value for key, value in entry.properties().items() if key != FLOOR}
    return Entry(entry.object_id, entry.object_type, entry.location, dump_metadata(kept))


@dataclass(frozen=True, slots=True)
class Registered:
    """One registered version."""

    version: int
    naming: Naming
    size: int
    e_tag: str | None
    timestamp_ms: int
    #: The name the manifest was staged under, beside the final one; None for an imported one.
    staged: str | None = None
    #: What the committer said of it.
    metadata: Mapping[str, str] | None = None
    #: Where the row lies, once it is read.
    entry: Entry | None = None

    def final_path(self, directory: str) -> str:
        """Return where the manifest belongs."""
        return f"{directory}/_versions/{manifest_name(self.version, self.naming)}"

    def staged_path(self, directory: str) -> str | None:
        """Return where the manifest was before."""
        return None if self.staged is None else f"{directory}/_versions/{self.staged}"

    def row(self, table: str, directory: str) -> Entry:
        """Return the row that registers it."""
        values = {
            _PATH: self.final_path(directory),
            _SIZE: str(self.size),
            _TIME: str(self.timestamp_ms),
            _NAMING: self.naming.value,
        }
        if self.e_tag is not None:
            values[_TAG] = self.e_tag
        if self.staged is not None:
            values[_STAGED] = self.staged
        given = {k: v for k, v in (self.metadata or {}).items() if k not in _OWN}
        return Entry(
            key_of(table, self.version), VERSION_TYPE, None, dump_metadata({**given, **values})
        )


def parse(entry: Entry) -> Registered | None:
    """Read a version's row; None for one that is not ours."""
    number = entry.object_id.rpartition(DELIMITER)[2]
    values = parse_metadata(entry.metadata, entry.object_id)
    try:
        return Registered(
            int(number),
            Naming(values.get(_NAMING, "V2")),
            int(values.get(_SIZE, "0")),
            values.get(_TAG),
            int(values.get(_TIME, "0")),
            values.get(_STAGED),
            {key: value for key, value in values.items() if key not in _OWN} or None,
            entry,
        )
    except ValueError:
        return None


def registered(
    log: ManifestLog, view: Snapshot, table: str, numbers: Iterable[int]
) -> dict[int, Registered]:
    """Return those of some versions that are registered."""
    keys = [key_of(table, number) for number in numbers]
    drafted = [view.overlay.get(key) for key in keys]
    found = [e for e in drafted if isinstance(e, Entry) and e.object_type == VERSION_TYPE]
    known = {entry.object_id for entry in found}
    rest = [key for key in keys if key not in known]
    if rest:
        found += log.version_rows(view, pc.field("object_id").isin(rest))
    parsed = (parse(entry) for entry in found)
    return {one.version: one for one in parsed if one is not None}


def all_rows(log: ManifestLog, view: Snapshot, table: str) -> list[Entry]:
    """Return every version row of a table, drafted ones too."""
    low, high = table + DELIMITER, table + chr(ord(DELIMITER) + 1)
    field = pc.field("object_id")
    stored = log.version_rows(view, (field >= low) & (field < high))
    drafted = {
        key: entry
        for key in view.overlay.keys(low.count(DELIMITER), low, high)
        if isinstance(entry := view.overlay.get(key), Entry) and entry.object_type == VERSION_TYPE
    }
    rows = [*(e for e in stored if e.object_id not in drafted), *drafted.values()]
    return [entry for entry in rows if _is_of(entry, table)]


def _is_of(entry: Entry, table: str) -> bool:
    parent, _, number = entry.object_id.rpartition(DELIMITER)
    return parent == table and number.isdecimal()


def head(log: ManifestLog, view: Snapshot, entry: Entry, store: Store, directory: str) -> int:
    """Return the highest number a table ever registered, 0 for none.

    From memory, where this process knows it; else from the rows around the newest file, which is
    never further behind than one.
    """
    table = entry.object_id
    # What is kept in memory is of the latest version; a pinned view looks for itself.
    steps = log.heads.steps()
    current = log.snapshot_version <= view.version
    known = log.heads.get(table, steps) if current else None
    if known is None:
        files = newest_versions(store, directory)
        known = _look(log, view, table, max(files, default=0))
        if current:
            log.heads.learn(table, known, steps)
    while _is_drafted(view, key_of(table, known + 1)):
        known += 1  # Registered by an earlier member of the same batch.
    return max(known, floor_of(entry))


def latest(log: ManifestLog, view: Snapshot, table: str, number: int) -> Registered | None:
    """Return the row of a table's highest version, to be read; from memory where that is known."""
    if _is_drafted(view, key_of(table, number)):
        return registered(log, view, table, [number]).get(number)
    steps = log.heads.steps()
    current = log.snapshot_version <= view.version
    row = log.heads.row(table, number, steps) if current else None
    if row is not None:
        return parse(row)
    found = registered(log, view, table, [number]).get(number)
    if current and found is not None and found.entry is not None:
        log.heads.learn_row(table, number, found.entry, steps)
    return found


def _is_drafted(view: Snapshot, key: str) -> bool:
    entry = view.overlay.get(key)
    return isinstance(entry, Entry) and entry.object_type == VERSION_TYPE


def _look(log: ManifestLog, view: Snapshot, table: str, newest: int) -> int:
    top, span = newest + _AHEAD, _AHEAD + _BEHIND
    while top > 0:
        low = max(1, top - span)
        found = registered(log, view, table, range(low, top + 1))
        if found:
            return _further(log, view, table, max(found), top)
        top, span = low - 1, span * 8
    return 0


def _further(log: ManifestLog, view: Snapshot, table: str, best: int, top: int) -> int:
    """Look on where the last number asked for was there: one commit may register many versions."""
    while best == top:
        top += _AHEAD + _BEHIND
        best = max(registered(log, view, table, range(best + 1, top + 1)), default=best)
    return best
