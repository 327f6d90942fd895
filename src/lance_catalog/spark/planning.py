"""Which task reads what: fragments grouped by their bytes, large ones cut by rows.

A task costs tens of milliseconds, so a hundred small fragments are one task. A large fragment is
several, where nothing but its rows decides what is in them. How many rows go in a batch follows
from how wide they are: that bounds the memory of a task, whatever the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from lance_catalog.directory.operations.access import lance_errors
from lance_catalog.spark.options import ReadOptions
from lance_catalog.spark.shares import even_shares, task_bytes_for
from lance_catalog.spark.types import is_blob

__all__ = ["Piece", "Width", "batch_rows", "measure_width", "plan_pieces"]

MOST_ROWS: Final = 32_768
#: How many rows are looked at to learn how wide they are.
SAMPLE: Final = 64
#: What a value of a type without a fixed width counts for, when only shares are wanted.
_GUESSED_WIDTH: Final = 32


class Piece(InputPartition):
    """What one task reads: some fragments, perhaps only some of their rows."""

    def __init__(
        self,
        fragments: Sequence[int] | None,
        *,
        offset: int | None = None,
        limit: int | None = None,
    ) -> None:
        #: None: the whole table, as for a search.
        self.fragments = None if fragments is None else tuple(fragments)
        self.offset = offset
        self.limit = limit
        #: How many rows Lance decodes at a time.
        self.rows = MOST_ROWS

    def __repr__(self) -> str:
        return f"Piece({self.fragments}, offset={self.offset}, limit={self.limit})"


@dataclass(frozen=True, slots=True)
class _Fragment:
    number: int
    rows: int
    size: int


def plan_pieces(dataset: Any, options: ReadOptions, columns: Sequence[str]) -> list[Piece]:
    """Return what the tasks of a read are; an empty list when there is nothing to read."""
    if options.limit == 0:
        return []
    if options.nearest is not None or options.full_text is not None:
        # The best of all are not among the best of each part unless somebody sorts them again.
        return [Piece(None, limit=options.limit)]
    if options.limit is not None and options.filter is not None:
        # How many rows a fragment gives is not known before; one task stops at the right one.
        return [Piece(None, limit=options.limit)]
    with lance_errors("planning a read"):
        fragments = list(_fragments(dataset, _share(dataset.schema, columns)))
    target = _target(fragments, options)
    if options.filter is not None:
        return [Piece([one.number for one in group]) for group in _groups(fragments, target)]
    return list(_cut(fragments, target, options.limit))


def _fragments(dataset: Any, share: float) -> Iterator[_Fragment]:
    for fragment in dataset.get_fragments():
        rows = fragment.count_rows()
        if rows:
            sizes = [file.file_size_bytes for file in fragment.metadata.files]
            # Old writers did not note the size.
            size = sum(sizes) if all(sizes) else rows * _GUESSED_WIDTH
            yield _Fragment(fragment.fragment_id, rows, max(1, int(size * share)))


def _target(fragments: Sequence[_Fragment], options: ReadOptions) -> int:
    total = sum(one.size for one in fragments)
    return task_bytes_for(total, options.partition_bytes, options.parallelism)


def _groups(fragments: Sequence[_Fragment], target: int) -> Iterator[list[_Fragment]]:
    for share in even_shares([one.size for one in fragments], target):
        yield [fragments[number] for number in share]


def _cut(fragments: Sequence[_Fragment], target: int, limit: int | None) -> Iterator[Piece]:
    """Groups and cuts; with a limit, exactly so many rows in all."""
    left = limit
    for group in _groups(fragments, target):
        rows = sum(one.rows for one in group)
        if left is not None:
            if left <= 0:
                return
            rows = min(rows, left)
            left -= rows
        parts = max(1, -(-group[0].size // target)) if len(group) == 1 else 1
        numbers = [one.number for one in group]
        if parts == 1:
            whole = rows == sum(one.rows for one in group)
            yield Piece(numbers, limit=None if whole else rows)
            continue
        step = -(-rows // parts)
        for start in range(0, rows, step):
            yield Piece(numbers, offset=start, limit=min(step, rows - start))


# Widths.


def _fixed_width(kind: pa.DataType) -> float | None:
    """Bytes of a value, None where they differ from row to row."""
    kind = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    if pa.types.is_fixed_size_list(kind):
        item = _fixed_width(kind.value_type)
        return None if item is None else item * kind.list_size
    if pa.types.is_struct(kind):
        widths = [_fixed_width(field.type) for field in kind]
        return None if None in widths else sum(w for w in widths if w is not None)
    if pa.types.is_null(kind):
        return 0.0
    if pa.types.is_nested(kind) or pa.types.is_dictionary(kind):
        return None
    try:
        return float(kind.bit_width / 8)
    except ValueError:
        return None


def _share(schema: pa.Schema, columns: Sequence[str]) -> float:
    """Which part of a file some columns are, roughly."""
    widths = {field.name: _fixed_width(field.type) or _GUESSED_WIDTH for field in schema}
    total = sum(widths.values())
    chosen = sum(width for name, width in widths.items() if name in columns)
    return chosen / total if total and chosen else 1.0


@dataclass(frozen=True, slots=True)
class Width:
    """How wide rows are: on average, and at most among those looked at."""

    average: float
    most: float


def measure_width(dataset: Any, columns: Sequence[str]) -> Width:
    """Return how wide the rows of some columns are, from their types or a few of the rows."""
    fields = [field for field in dataset.schema if field.name in columns]
    fixed = sum((0 if is_blob(f) else _fixed_width(f.type)) or 0 for f in fields)
    varying = [f for f in fields if is_blob(f) or _fixed_width(f.type) is None]
    rows = dataset.count_rows() if varying else 0
    if not rows:
        return Width(fixed, fixed)
    step = max(1, rows // SAMPLE)
    chosen = list(range(0, rows, step))[:SAMPLE]
    table = dataset.take(chosen, columns=[f.name for f in varying])
    widths = [0.0] * table.num_rows
    for one, column in zip(varying, table.columns, strict=True):
        for row, width in enumerate(_row_widths(column, blob=is_blob(one))):
            widths[row] += width
    return Width(fixed + sum(widths) / len(widths), fixed + max(widths))


def _row_widths(column: pa.ChunkedArray, *, blob: bool) -> Iterator[float]:
    for chunk in column.chunks:
        for row in range(len(chunk)):
            if blob:
                found = chunk[row].as_py()
                yield float((found or {}).get("size") or 0)
            else:
                yield float(chunk.slice(row, 1).nbytes)


def batch_rows(width: Width, batch_bytes: int) -> int:
    """Return how many rows Lance decodes at a time.

    The widest row seen counts too: where one of 64 is a MiB, a batch may well hold more of them.
    """
    wide = max(width.average, width.most / 2, 1.0)
    return int(max(1, min(MOST_ROWS, batch_bytes // wide)))
