"""Upkeep on demand: everything that commits do bit by bit, at once and to the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import lance
from lance.fragment import write_fragments

from lance_catalog.errors import ConcurrentModificationError, storage_errors
from lance_catalog.manifest import indices
from lance_catalog.manifest.fairness import Turn
from lance_catalog.manifest.log import ManifestLog
from lance_catalog.manifest.own_version import OwnVersion
from lance_catalog.manifest.retention import Removed, Retention
from lance_catalog.manifest.schema import DIRECTORY
from lance_catalog.manifest.upkeep import pack, sizes_of
from lance_catalog.manifest.versions import NONE, VersionFinder
from lance_catalog.storage.manifests import Naming

__all__ = ["UpkeepReport", "upkeep"]

#: How often a step is tried against other writers, each time in turn with those of this machine.
_ATTEMPTS: Final = 50

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class UpkeepReport:
    """What upkeep did, or with ``dry_run`` would do."""

    dry_run: bool
    #: Fragments of the manifest before and after.
    fragments_before: int
    fragments_after: int
    #: Whether indices were made or brought up to date.
    indices_refreshed: bool
    #: Versions whose files were removed, the files and bytes, and names removed for good.
    versions_removed: int = 0
    files_removed: int = 0
    bytes_removed: int = 0
    names_removed: int = 0


def upkeep(
    log: ManifestLog,
    *,
    older_than_ms: int | None,
    prune_names: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> UpkeepReport:
    """Merge small fragments, complete the indices, remove versions that ended before a time.

    Safe beside any writer: the first two are commits through the gate. ``older_than_ms`` None
    removes no version. ``progress`` is told (versions done, of how many). 14 when other writers
    kept the first two from landing; the versions are removed all the same.
    """
    crowded: ConcurrentModificationError | None = None
    with storage_errors("looking after the manifest"):
        found = _latest(log)
        if found is None:
            return UpkeepReport(dry_run, 0, 0, False)
        before = len(found[0].fragment_ids())
        if dry_run:
            after = before - sum(len(group) - 1 for group in pack(sizes_of(found[0])))
            refreshed = indices.is_incomplete(found[0])
        else:
            refreshed = False
            try:
                _until_landed(log, lambda dataset, naming: _merge(log, dataset, naming))
                refreshed = _until_landed(log, lambda dataset, naming: _index(log, dataset, naming))
            except ConcurrentModificationError as error:
                crowded = error
            found = _latest(log) or found
            after = len(found[0].fragment_ids())
        removed = Removed()
        if older_than_ms is not None:
            removed = Retention(log.store, log.uri).all(
                found[0],
                older_than_ms=older_than_ms,
                prune_names=prune_names,
                dry_run=dry_run,
                progress=progress,
            )
    if crowded is not None:
        raise crowded
    return UpkeepReport(
        dry_run,
        before,
        after,
        refreshed,
        removed.versions,
        removed.files,
        removed.size,
        removed.names,
    )


def _latest(log: ManifestLog) -> tuple[Any, Naming] | None:
    """Return Lance's handle at the latest version: without loading the catalog for it."""
    latest = VersionFinder(log.store, DIRECTORY).find(NONE)
    if latest.version == 0:
        return None
    options = dict(log.store.lance_options) or None
    return lance.dataset(log.uri, version=latest.version, storage_options=options), latest.naming


def _until_landed(log: ManifestLog, step: Callable[[Any, Naming], bool | None]) -> bool:
    """Repeat a step on ever newer versions until it landed (True) or had nothing to do."""
    turn = Turn(log.store)
    try:
        for _ in range(_ATTEMPTS):
            found = _latest(log)
            landed = None if found is None else step(*found)
            if landed is not False:
                return bool(landed)
            turn.wait()
    finally:
        turn.end()
    raise ConcurrentModificationError(
        f"other writers changed the catalog {_ATTEMPTS} times while its fragments and indices "
        "were looked after; they stay as they are. Run upkeep again when there is less to do."
    )


def _index(log: ManifestLog, dataset: Any, naming: Naming) -> bool | None:
    if not indices.is_incomplete(dataset):
        return None
    return indices.refresh(log.store, log.uri, dataset, naming)


def _merge(log: ManifestLog, dataset: Any, naming: Naming) -> bool | None:
    groups = pack(sizes_of(dataset))
    if not groups:
        return None

    def build(attempt: OwnVersion) -> tuple[Any, Sequence[str]]:
        new: list[Any] = []
        for group in groups:
            rows = dataset.scanner(
                fragments=[dataset.get_fragment(number) for number in group]
            ).to_table()
            made = write_fragments(
                rows, dataset, mode="append", data_storage_version=dataset.data_storage_version
            )
            attempt.files += [f"data/{file._path}" for part in made for file in part.files]
            new += made
        operation = lance.LanceOperation.Update(
            removed_fragment_ids=[number for group in groups for number in group],
            updated_fragments=[],
            new_fragments=new,
        )
        return operation, ()

    return OwnVersion(log.store, log.uri, dataset, naming).run(build)
