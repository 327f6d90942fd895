"""Scans: one set of options, asked on the driver for its schema and run by tasks for its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import types as st

from lance_catalog.directory.operations.access import lance_errors
from lance_catalog.errors import TableColumnNotFoundError
from lance_catalog.spark.batches import slices
from lance_catalog.spark.options import ReadOptions
from lance_catalog.spark.planning import Piece
from lance_catalog.spark.types import is_blob, spark_schema

__all__ = ["MADE_BY_SCAN", "batches_of", "read_schema", "stored_columns"]

#: Columns that no table stores.
MADE_BY_SCAN: Final = ("_distance", "_score", "_rowid")
#: What Lance may read ahead; its own default is as large as a task may become.
_IO_BUFFER: Final = 64 << 20


def read_schema(dataset: Any, options: ReadOptions, what: str) -> st.StructType:
    """Return the schema of a read, and refuse on the way what Lance would refuse in a task."""
    stored = dataset.schema
    for name in options.columns or ():
        if name not in MADE_BY_SCAN and name.split(".")[0] not in stored.names:
            raise TableColumnNotFoundError(
                f"{what}: no column '{name}'; the table has {', '.join(stored.names)}"
            )
    columns = list(options.columns or stored.names)
    with lance_errors(what):
        scanner = _scanner(dataset, options, columns, Piece(None), 1)
        # Parses the filter and finds the index of a search; nothing is read.
        scanner.explain_plan()
        projected = scanner.projected_schema
    fields = []
    for field in projected:
        index = stored.get_field_index(field.name)
        # A scan calls a blob what it makes of it.
        fields.append(stored.field(index) if index >= 0 and is_blob(stored.field(index)) else field)
    return spark_schema(pa.schema(fields), blobs=options.blobs)


def stored_columns(schema: st.StructType) -> list[str]:
    """Return the columns of a read that come from the table, in the order asked for."""
    return [name for name in schema.names if name not in MADE_BY_SCAN]


def batches_of(
    dataset: Any,
    options: ReadOptions,
    schema: st.StructType,
    piece: Piece,
    rows: int,
) -> Iterator[pa.RecordBatch]:
    """Yield what a task reads, in batches of about ``batch_bytes``."""
    names = stored_columns(schema)
    scanner = _scanner(dataset, options, names, piece, rows, row_id="_rowid" in schema.names)
    for batch in scanner.to_reader():
        yield from slices(batch, 2 * options.batch_bytes)


def _scanner(
    dataset: Any,
    options: ReadOptions,
    columns: Sequence[str],
    piece: Piece,
    rows: int,
    *,
    row_id: bool = False,
) -> Any:
    search = options.nearest is not None or options.full_text is not None
    chosen = [name for name in columns if name not in MADE_BY_SCAN]
    if options.nearest is not None:
        chosen.append("_distance")
    elif options.full_text is not None:
        chosen.append("_score")
    fragments = None
    if piece.fragments is not None:
        fragments = [dataset.get_fragment(number) for number in piece.fragments]
    return dataset.scanner(
        columns=chosen,
        filter=options.filter,
        # The best of those the filter leaves, not what it leaves of the best.
        prefilter=True if search and options.filter is not None else None,
        nearest=None if options.nearest is None else dict(options.nearest),
        full_text_query=None if options.full_text is None else dict(options.full_text),
        fragments=fragments,
        offset=piece.offset,
        limit=piece.limit,
        with_row_id=options.with_row_id or row_id or "_rowid" in columns,
        blob_handling="all_binary" if options.blobs == "bytes" else "blobs_descriptions",
        batch_size=rows,
        batch_readahead=2,
        fragment_readahead=1,
        io_buffer_size=_IO_BUFFER,
        disable_scoring_autoprojection=True if search else None,
    )
