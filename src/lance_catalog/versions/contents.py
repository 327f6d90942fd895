"""Which files of a table a manifest names: what a version that is not to be leaves behind.

A manifest is self-contained, so Lance opens it alone in a folder of its own.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import lance

from lance_catalog.storage.manifests import Naming, manifest_name
from lance_catalog.storage.port import ObjectInfo, Store

__all__ = ["Contents", "contents_of", "only_in"]

_ENDINGS: Final = {"array": "arrow", "bitmap": "bin"}


@dataclass(frozen=True, slots=True)
class Contents:
    """Files, and folders of indices, relative to the table."""

    files: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()
    #: Whether it may name files of versions older than the one it builds upon.
    looks_back: bool = False


def contents_of(manifest: bytes, version: int) -> Contents:
    """Return what a manifest names."""
    with tempfile.TemporaryDirectory(prefix="lance-catalog-") as folder:
        path = Path(folder) / "_versions" / manifest_name(version, Naming.V2)
        path.parent.mkdir()
        path.write_bytes(manifest)
        dataset = lance.dataset(folder)
        files: set[str] = set()
        for fragment in dataset.get_fragments():
            files.update(f"data/{file.path}" for file in fragment.metadata.files)
            files.update(_deletions(fragment.metadata))
        indices = (part for index in dataset.describe_indices() for part in index.segments)
        folders = frozenset(f"_indices/{part.uuid}" for part in indices)
        return Contents(frozenset(files), folders, _looks_back(dataset))


def _looks_back(dataset: Any) -> bool:
    try:
        transaction = dataset.read_transaction(dataset.version)
    except TypeError:
        return True  # pylance 14.0.2 cannot read that of a compaction below an index.
    return transaction is None or isinstance(transaction.operation, lance.LanceOperation.Restore)


def _deletions(fragment: Any) -> Iterable[str]:
    if fragment.deletion_file is not None:
        told = json.loads(fragment.deletion_file.json())
        name = f"{fragment.id}-{told['read_version']}-{told['id']}.{_ENDINGS[told['file_type']]}"
        yield f"_deletions/{name}"


def only_in(store: Store, directory: str, some: Iterable[Contents], base: ObjectInfo) -> list[str]:
    """Return the paths of what was written for some manifests, and not for the one before them.

    Sure or not at all: what is as old as that one, or may be, is not told.
    """
    found = list(some)
    data = store.get(base.path)
    if not data or any(one.looks_back for one in found):
        return []
    before = contents_of(data, 1)
    paths = [f"{directory}/{f}" for one in found for f in one.files - before.files]
    infos = [info for path in dict.fromkeys(paths) if (info := store.head(path)) is not None]
    for folder in {folder for one in found for folder in one.folders} - before.folders:
        infos += store.list_tree(f"{directory}/{folder}")
    return [info.path for info in infos if info.modified_ms > base.modified_ms]
