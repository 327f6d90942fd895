"""``verify``: every fragment of every table read in full, counted and given a checksum.

The checksum is of the rows as they are read, so it is the same for as long as the fragment is:
compare it with that of an earlier run to find what changed without a new version.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lance_catalog.directory.operations.access import lance_errors
from lance_catalog.errors import InvalidTableStateError
from lance_catalog.spark.catalogs import CatalogLike, resolve
from lance_catalog.spark.jobs.scope import Scope, chosen, frame
from lance_catalog.spark.jobs.sweep import Item, Progress, Row, attempt, sweep

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lance_catalog.directory.namespace import DirectoryNamespace

__all__ = ["COLUMNS", "verify"]

COLUMNS: Final = (
    "version bigint, fragment bigint, rows bigint, deleted_rows bigint, bytes bigint, "
    "checksum string"
)
_FRAGMENTS: Final = "version bigint, fragments array<bigint>"
#: How much of a fragment is held at a time; rows may be a MiB each.
_BATCH_BYTES: Final = 16 << 20
_MOST_ROWS: Final = 8192


def verify(
    spark: SparkSession,
    catalog: CatalogLike,
    scope: Scope = None,
    *,
    tasks: int | None = None,
    threads: int = 2,
    retries: int = 3,
    progress: Progress | None = None,
) -> DataFrame:
    """Scan every fragment of the latest version of each table; return a row for each fragment.

    ``status`` is ``ok``, or ``failed`` with what could not be read or does not add up. A table that
    cannot be opened has one row, without a fragment; so has one without fragments.
    """
    ref = resolve(catalog)
    tables = [Item(names) for names in chosen(ref.open(), scope)]
    listed = sweep(
        spark, ref, tables, _fragments, _FRAGMENTS, least=100, retries=retries, tasks=tasks
    )
    items = [
        Item(tuple(row["id"]), (row["version"], fragment))
        for row in listed
        for fragment in row["fragments"] or ()
    ]
    rest = [row for row in listed if not row["fragments"]]
    found = sweep(
        spark,
        ref,
        items,
        _scan,
        COLUMNS,
        threads=threads,
        tasks=tasks,
        retries=retries,
        progress=progress,
    )
    rows = sorted([*found, *rest], key=lambda row: (row["id"], row.get("fragment") or 0))
    return frame(spark, rows, COLUMNS)


def _fragments(catalog: DirectoryNamespace, item: Item) -> list[Row]:
    try:
        dataset: Any = catalog.open_table(list(item.names))
    except InvalidTableStateError:
        described = catalog.describe_table({"id": list(item.names), "check_declared": True})
        if not described.is_only_declared:
            raise
        return [{"status": "declared", "fragments": []}]
    numbers = [fragment.fragment_id for fragment in dataset.get_fragments()]
    return [{"version": dataset.version, "fragments": numbers}]


def _scan(catalog: DirectoryNamespace, item: Item) -> list[Row]:
    version, number = item.payload
    base: Row = {"version": version, "fragment": number}

    def work() -> list[Row]:
        dataset: Any = catalog.open_table(list(item.names), version=version)
        return [_scanned(dataset, number)]

    # Here and not by the sweep: a row that fails names its fragment too.
    return [{**row, **base} for row in attempt(work, item.names, 0)]


def _scanned(dataset: Any, number: int) -> Row:
    fragment = dataset.get_fragment(number)
    physical, deleted = fragment.physical_rows, fragment.num_deletions
    sizes = [file.file_size_bytes for file in fragment.metadata.files]
    size = sum(found or 0 for found in sizes)
    rows = 0
    digest = hashlib.blake2b(digest_size=16)
    with lance_errors(f"fragment {number}"):
        batches = fragment.to_batches(
            batch_size=_batch_rows(size, physical),
            batch_readahead=1,
            blob_handling="all_binary",
        )
        for batch in batches:
            rows += batch.num_rows
            digest.update(_canonical(batch))
    if rows != physical - deleted:
        raise InvalidTableStateError(
            f"fragment {number} has {rows} rows, and its metadata says {physical - deleted}; "
            "restore an earlier version, or write the rows again"
        )
    return {
        "rows": rows,
        "deleted_rows": deleted,
        "bytes": size,
        "checksum": digest.hexdigest(),
    }


def _batch_rows(size: int, rows: int) -> int:
    each = max(size // max(rows, 1), 1)
    return max(1, min(_MOST_ROWS, _BATCH_BYTES // each))


def _canonical(batch: pa.RecordBatch) -> bytes:
    """The bytes of a batch, whatever buffers it is a slice of."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())
