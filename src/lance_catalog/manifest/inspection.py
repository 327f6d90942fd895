"""Which files of ``__manifest`` no version needs: what crashes and refusals may leave."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import lance

from lance_catalog.errors import storage_errors
from lance_catalog.manifest.schema import DIRECTORY
from lance_catalog.storage.manifests import parse_manifest_name
from lance_catalog.storage.port import ObjectInfo

if TYPE_CHECKING:
    from lance_catalog.manifest.log import ManifestLog

__all__ = ["named_by", "stray_files"]

_KNOWN: Final = ("latest_version_hint.json",)


def stray_files(log: ManifestLog, older_than_ms: int) -> list[ObjectInfo]:
    """Return objects below ``__manifest`` that belong to no version and are not brand new.

    Younger ones may be a commit on its way. Versions are read first and files listed before
    that, so a commit that lands meanwhile is never taken for a stray.
    """
    store = log.store
    with storage_errors("inspecting the manifest"):
        files = [info for info in store.list_tree(DIRECTORY) if info.modified_ms <= older_than_ms]
        if not files:
            return []
        needed = _needed(log)
    return [info for info in files if not _is_needed(info.path[len(DIRECTORY) + 1 :], needed)]


def _needed(log: ManifestLog) -> set[str]:
    """Return the paths that some version names."""
    store = log.store
    options = dict(store.lance_options) or None
    found: set[str] = set()
    for info in store.list_level(f"{DIRECTORY}/_versions").objects:
        name = info.path.rsplit("/", 1)[-1]
        parsed = parse_manifest_name(name)
        if parsed is None:
            continue
        # A placeholder is part of the history although it names nothing.
        found.add(f"_versions/{name}")
        if info.size > 0:
            try:
                dataset = lance.dataset(log.uri, version=parsed[0], storage_options=options)
            except (OSError, RuntimeError, ValueError):
                now = store.head(info.path)
                if now is not None and now.size > 0:
                    raise
                continue  # Retention was there in between: the version names nothing any more.
            found |= named_by(dataset)
    return found


def named_by(dataset: Any) -> set[str]:
    """Return the files and index folders that one version names."""
    named: set[str] = set()
    for fragment in dataset.get_fragments():
        meta = fragment.metadata
        # Lance's public `path` builds a class on every read: 40 µs, times the fragments.
        named |= {f"data/{file._path}" for file in meta.files}
        if meta.deletion_file is not None:
            made = json.loads(meta.deletion_file.json())
            ending = "arrow" if made["file_type"] == "array" else "bin"
            named.add(f"_deletions/{meta.id}-{made['read_version']}-{made['id']}.{ending}")
    for index in dataset.describe_indices():
        named |= {f"_indices/{part.uuid}" for part in index.segments}
    return named


def _is_needed(path: str, needed: set[str]) -> bool:
    folder, _, name = path.partition("/")
    if folder == "_versions":
        return name in _KNOWN or path in needed
    if folder in ("data", "_deletions"):
        return path in needed
    if folder == "_indices":
        return "/".join(path.split("/")[:2]) in needed
    # Transaction files, tags and what others keep here are not ours to judge.
    return True
