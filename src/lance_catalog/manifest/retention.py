"""Old versions of ``__manifest``: their files go, oldest first; their names stay as placeholders.

A native handle that slept while names were removed commits into the past, and its acknowledged
write is lost; with an empty file under each removed version's name it lands correctly. So names
are removed only on demand, for roots without native writers (``upkeep --prune-names``).

A file is named by an unbroken run of versions, from the commit that wrote it to the one that
replaced it. So what version v names and v+1 does not, nobody after v names either; the latest
version is asked as well, in case somebody restored an old one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import lance

from lance_catalog.manifest.inspection import named_by
from lance_catalog.manifest.schema import DIRECTORY
from lance_catalog.storage.manifests import manifest_name, newest_versions
from lance_catalog.storage.port import Store

__all__ = ["KEEP_MS", "Retained", "retain"]

log = logging.getLogger(__name__)

#: Versions younger than this are kept whole: seven days.
KEEP_MS: Final = 7 * 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class Retained:
    """What a run removed."""

    versions: int
    files: int


def retain(
    store: Store,
    uri: str,
    *,
    older_than_ms: int,
    limit: int | None = None,
    prune_names: bool = False,
) -> Retained:
    """Remove the files of versions that ended before a time, oldest first, at most ``limit``.

    A version ends when the next one is written. Safe against any writer: what is removed is
    named by no version that is left, and the newest two are never touched.
    """
    present = newest_versions(store, DIRECTORY, everything=True)
    order = sorted(present)
    ended = _ended(store, older_than_ms)
    removed = files = 0
    if len(order) < 3:
        return Retained(0, 0)
    latest = _names(store, uri, order[-1])
    current = None
    for version, following in pairwise(order[:-1]):
        if version not in ended or (limit is not None and removed >= limit):
            break
        mine = current if current is not None else _names(store, uri, version)
        current = _names(store, uri, following)
        gone = mine - current - latest
        # Files first: a crash in between leaves a version that cannot be read, not a file that
        # nobody would ever look for again.
        files += _delete(store, gone)
        path = f"{DIRECTORY}/_versions/{manifest_name(version, present[version][0])}"
        if prune_names:
            store.delete([path])
        else:
            store.put(path, b"")
        removed += 1
    return Retained(removed, files)


def _ended(store: Store, older_than_ms: int) -> set[int]:
    """Return the versions whose successor was written before a time."""
    from lance_catalog.storage.manifests import parse_manifest_name

    written: dict[int, int] = {}
    for info in store.list_level(f"{DIRECTORY}/_versions").objects:
        parsed = parse_manifest_name(info.path.rsplit("/", 1)[-1])
        if parsed is not None:
            written[parsed[0]] = info.modified_ms
    return {v for v in written if written.get(v + 1, older_than_ms + 1) <= older_than_ms}


def _names(store: Store, uri: str, version: int) -> set[str]:
    options = dict(store.lance_options) or None
    dataset: Any = lance.dataset(uri, version=version, storage_options=options)
    made = dataset.read_transaction(version)
    named = named_by(dataset)
    if made is not None:
        named.add(f"_transactions/{made.read_version}-{made.uuid}.txn")
    return named


def _delete(store: Store, gone: Iterable[str]) -> int:
    count = 0
    for path in gone:
        if path.startswith("_indices/"):
            count += store.delete_tree(f"{DIRECTORY}/{path}")
        else:
            store.delete([f"{DIRECTORY}/{path}"])
            count += 1
    return count
