"""Keeping the manifest small in fragments and its indices useful (C08). Never on a read.

Small fragments are merged by the very commit that would add another one: no version of its own,
and the same strict validation. Indices are made once, and again when a native writer dropped
them or many rows are not covered.
"""

from __future__ import annotations

import logging
import uuid
from typing import Any, Final

import lance

from lance_catalog.errors import LanceNamespaceError
from lance_catalog.manifest.schema import DIRECTORY
from lance_catalog.storage.gate import CommitGate, Outcome
from lance_catalog.storage.manifests import Naming
from lance_catalog.storage.port import Store

__all__ = ["INDICES", "after_commit", "choose_merge"]

log = logging.getLogger(__name__)

#: (column, index type, name): the names native gives them.
INDICES: Final = (
    ("object_id", "BTREE", "object_id_btree"),
    ("object_type", "BITMAP", "object_type_bitmap"),
    ("base_objects", "LABEL_LIST", "base_objects_label_list"),
)
_MAX_FRAGMENTS: Final = 16
#: Rows without index cover before the indices are brought up to date.
_UNINDEXED: Final = 4096


def choose_merge(dataset: Any) -> list[int]:
    """Return the fragments a commit should merge: none, until there are too many.

    The smallest first, as long as the next is not much larger than what is gathered already: so
    every row is rewritten a logarithmic number of times.
    """
    fragments = dataset.get_fragments()
    if len(fragments) < _MAX_FRAGMENTS:
        return []
    sizes = sorted((part.metadata.num_rows, part.fragment_id) for part in fragments)
    chosen: list[int] = []
    gathered = 0
    for rows, number in sizes:
        if len(chosen) >= _MAX_FRAGMENTS // 2 and rows > 2 * gathered:
            break
        chosen.append(number)
        gathered += rows
    return chosen


def is_indexed(dataset: Any) -> bool:
    """Whether a lookup by id goes through the index for all but a few rows."""
    names = {index.name for index in dataset.describe_indices()}
    if INDICES[0][2] not in names:
        return False
    stats = dataset.stats.index_stats(INDICES[0][2])
    return int(stats.get("num_unindexed_rows", 0)) <= _UNINDEXED


def is_time(version: int) -> bool:
    """Whether a commit that made this version looks after indices: the first ones, then some."""
    return version <= 2 or version % _MAX_FRAGMENTS == 0


def after_commit(store: Store, uri: str, dataset: Any, naming: Naming) -> None:
    """Make or refresh the indices when that is due. Failing is no harm: the next commit tries."""
    try:
        wanted = _due(dataset)
        if wanted is not None:
            _index(store, uri, dataset.version, wanted, naming)
    except (OSError, RuntimeError, ValueError, LanceNamespaceError) as error:
        log.debug("upkeep of %s left for later: %s", uri, error)


def _due(dataset: Any) -> tuple[tuple[str, str, str], ...] | None:
    """Return the indices to make, an empty tuple to refresh them all, or None for neither."""
    present = {index.name for index in dataset.describe_indices()}
    missing = tuple(index for index in INDICES if index[2] not in present)
    if missing:
        return missing
    stats = dataset.stats.index_stats(INDICES[0][2])
    return () if stats.get("num_unindexed_rows", 0) > _UNINDEXED else None


def _index(
    store: Store, uri: str, version: int, wanted: tuple[tuple[str, str, str], ...], naming: Naming
) -> None:
    for column, kind, name in wanted or ((None, None, None),):
        gate = CommitGate(store, DIRECTORY, version, naming)
        # Typed as any: the gate is not a whole namespace, and Lance does not ask it to be.
        client: Any = gate
        dataset: Any = lance.LanceDataset(
            uri,
            version,
            storage_options=dict(store.lance_options) or None,
            namespace_client=client,
            table_id=[DIRECTORY],
            namespace_client_managed_versioning=True,
        )
        own = str(uuid.uuid4())
        try:
            if column is None:
                dataset.optimize.optimize_indices()
            else:
                dataset.create_scalar_index(column, kind, name=name, replace=True, index_uuid=own)
        finally:
            gate.discard_staged()
            if gate.outcome in (Outcome.REFUSED, Outcome.NOT_TRIED):
                # A refused commit leaves nothing (invariant 2), an index neither.
                store.delete_tree(f"{DIRECTORY}/_indices/{own}")
        version += 1
