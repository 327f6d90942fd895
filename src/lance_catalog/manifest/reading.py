"""From one snapshot to the next by what changed: new fragments, changed deletions, nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_catalog.manifest.base import VERSION_TYPE, Base
from lance_catalog.manifest.heads import Delta
from lance_catalog.manifest.overlay import Overlay
from lance_catalog.manifest.schema import COLUMNS, check_schema
from lance_catalog.manifest.snapshot import FragmentState, Snapshot
from lance_catalog.model import Entry

__all__ = ["advance", "entries_of", "fragment_states"]


def advance(old: Snapshot, dataset: Any, where: str) -> tuple[Snapshot, Delta]:
    """Return the snapshot of ``dataset``'s version, reading only what ``old`` does not hold.

    And what changed, for those who follow more than the snapshot holds.
    """
    check_schema(dataset.schema, where)
    states = fragment_states(dataset)
    metadata = dict(dataset.metadata)
    gone = {n for n, state in old.fragments.items() if states.get(n, ((), None))[0] != state[0]}
    fresh = {n for n, state in states.items() if n not in old.fragments or n in gone}
    trimmed = {n for n in states if n not in fresh and states[n][1] != old.fragments[n][1]}
    if old.version == 0 or len(fresh) == len(states):
        return _load(dataset, states, metadata), Delta(whole=True)
    removed = old.rows_in(gone)
    if trimmed:
        still = set(_scan(dataset, trimmed, [])["_rowaddr"].to_pylist())
        removed += [entry for entry in old.rows_in(trimmed) if entry.address not in still]
    added = entries_of(_scan(dataset, fresh, COLUMNS)) if fresh else []
    after = old.replaced(dataset.version, removed, added, states, metadata)
    if after is None:
        return _load(dataset, states, metadata), Delta(whole=True)
    rows = tuple(e for e in added if e.object_type == VERSION_TYPE)
    versions = tuple(e.object_id for e in rows)
    others = tuple(e.object_id for e in added if e.object_type != VERSION_TYPE)
    return after, Delta(versions, tuple(e.object_id for e in removed), others, rows=rows)


def _load(dataset: Any, states: dict[int, FragmentState], metadata: dict[str, str]) -> Snapshot:
    # Version rows are not held: a million of them would be most of the time and of the memory.
    rows = dataset.scanner(
        columns=list(COLUMNS),
        filter=pc.field("object_type") != VERSION_TYPE,
        with_row_address=True,
        use_scalar_index=False,
    ).to_table()
    return Snapshot(dataset.version, Base.build(rows), Overlay(), states, metadata)


def _scan(dataset: Any, fragments: Iterable[int], columns: Iterable[str]) -> pa.Table:
    # One scan over all of them: reading each one-row fragment on its own costs 20 times as much.
    chosen = [dataset.get_fragment(number) for number in sorted(fragments)]
    return dataset.scanner(
        fragments=chosen, columns=list(columns), with_row_address=True
    ).to_table()


def entries_of(rows: pa.Table) -> list[Entry]:
    """Return the rows of a scan as entries."""
    columns = [rows[name].to_pylist() for name in (*COLUMNS, "_rowaddr")]
    return [Entry(*values) for values in zip(*columns, strict=True)]


def fragment_states(dataset: Any) -> dict[int, FragmentState]:
    """Return what identifies the rows of each fragment."""
    states: dict[int, FragmentState] = {}
    for fragment in dataset.get_fragments():
        meta = fragment.metadata
        deletions = meta.deletion_file
        states[meta.id] = (
            # Lance's public `path` builds a class on every read: 40 µs, times the fragments.
            tuple(file._path for file in meta.files),
            None if deletions is None else deletions.json(),
        )
    return states
