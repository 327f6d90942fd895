"""The indices of the manifest (C08): made once, made again when a native writer dropped them,
and brought up to date when too many rows are not covered.

All three in one version. What is built has a name before it is committed, so a refused commit can
take it away again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import lance
from lance.dataset import Index

from lance_catalog.manifest.own_version import OwnVersion
from lance_catalog.storage.manifests import Naming
from lance_catalog.storage.port import Store

__all__ = ["INDICES", "is_due", "is_incomplete", "is_indexed", "refresh"]

#: (column, index type, name): the names native gives them.
INDICES: Final = (
    ("object_id", "BTREE", "object_id_btree"),
    ("object_type", "BITMAP", "object_type_bitmap"),
    ("base_objects", "LABEL_LIST", "base_objects_label_list"),
)
#: Rows without cover that are not worth a refresh: a flat scan of them takes well below 1 ms.
_UNINDEXED: Final = 4096
#: And a share of all rows, because a refresh writes the whole BTREE anew (13 MB and 0.2-0.5 s at
#: a million rows): so each row is written into it a bounded number of times.
_SHARE: Final = 16


def is_indexed(dataset: Any) -> bool:
    """Whether a lookup by id goes through the index for all but a few rows."""
    present = _present(dataset)
    return INDICES[0][2] in present and not _stale(dataset, present)


def is_due(dataset: Any) -> bool:
    """Whether an index is missing, or covers too little."""
    present = _present(dataset)
    return any(name not in present for _, _, name in INDICES) or _stale(dataset, present)


def is_incomplete(dataset: Any) -> bool:
    """Whether an index is missing, or leaves any row out."""
    present = _present(dataset)
    fragments = {fragment.fragment_id for fragment in dataset.get_fragments()}
    return any(
        name not in present or not fragments <= _covered(present[name]) for _, _, name in INDICES
    )


def refresh(store: Store, uri: str, dataset: Any, naming: Naming) -> bool:
    """Make every index that is missing and complete the others; False if another was first."""
    return OwnVersion(store, uri, dataset, naming).run(_build)


def _present(dataset: Any) -> dict[str, Any]:
    names = {name for _, _, name in INDICES}
    return {index.name: index for index in dataset.describe_indices() if index.name in names}


def _stale(dataset: Any, present: Mapping[str, Any]) -> bool:
    """Whether the key's index leaves too many rows to a flat scan.

    Counted by fragments, from the manifest alone: Lance's own statistics open the index.
    """
    covered = _covered(present.get(INDICES[0][2]))
    total = outside = 0
    for fragment in dataset.get_fragments():
        rows = fragment.metadata.num_rows
        total += rows
        if fragment.fragment_id not in covered:
            outside += rows
    return outside > max(_UNINDEXED, total // _SHARE)


def _covered(index: Any) -> set[int]:
    if index is None:
        return set()
    return {number for segment in index.segments for number in segment.fragment_ids}


def _build(attempt: OwnVersion) -> tuple[Any, Sequence[str]]:
    """Return the operation, and what was built only to be merged into something else."""
    dataset = attempt.dataset
    present = _present(dataset)
    fragments = {fragment.fragment_id for fragment in dataset.get_fragments()}
    new: list[Any] = []
    old: list[Any] = []
    spare: list[str] = []
    for column, kind, name in INDICES:
        existing = present.get(name)
        missing = sorted(fragments - _covered(existing))
        if existing is not None and not missing:
            continue
        try:
            made = _segment(attempt, column, kind, name, missing)
            if existing is not None:
                replaced = [_as_index(part, made) for part in existing.segments]
                part, made = made, dataset.merge_existing_index_segments([*replaced, made])
                spare.append(f"_indices/{part.uuid}")
                attempt.folders.append(f"_indices/{made.uuid}")
                old += replaced
        except (RuntimeError, ValueError):
            if existing is None:
                raise
            # Somebody else's index under that name, of a kind that ours does not merge with.
            made = _segment(attempt, column, kind, name, sorted(fragments))
            old += [_as_index(part, made) for part in existing.segments]
        new.append(made)
    return lance.LanceOperation.CreateIndex(new_indices=new, removed_indices=old), spare


def _segment(
    attempt: OwnVersion, column: str, kind: str, name: str, fragments: Sequence[int]
) -> Any:
    made = attempt.dataset.create_index_uncommitted(
        column, kind, name=name, replace=True, fragment_ids=list(fragments)
    )
    attempt.folders.append(f"_indices/{made.uuid}")
    return made


def _as_index(segment: Any, like: Any) -> Any:
    """A committed segment in the form that Lance merges and removes."""
    return Index(
        uuid=segment.uuid,
        name=like.name,
        fields=like.fields,
        dataset_version=segment.dataset_version_at_last_update,
        fragment_ids=segment.fragment_ids,
        index_version=segment.index_version,
        index_details=like.index_details,
    )
