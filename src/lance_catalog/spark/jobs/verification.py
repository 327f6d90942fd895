"""``verify``: every fragment of every table read in full, counted and given a checksum.

The checksum is of the rows as they are read, so it is the same for as long as the fragment is.
Most bytes of a file can change without Lance noticing; a comparison with an earlier run finds it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lance_catalog.directory.operations.access import lance_errors
from lance_catalog.errors import InvalidInputError, InvalidTableStateError
from lance_catalog.spark.catalogs import CatalogLike, resolve
from lance_catalog.spark.jobs.scope import Scope, chosen, frame
from lance_catalog.spark.jobs.sweep import Item, Progress, Row, attempt, sweep

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lance_catalog.directory.namespace import DirectoryNamespace

__all__ = ["COLUMNS", "verify"]

COLUMNS: Final = (
    "version bigint, fragment bigint, rows bigint, deleted_rows bigint, bytes bigint, "
    "files string, checksum string"
)
_FRAGMENTS: Final = "version bigint, fragments array<bigint>"
#: How much of a fragment is held at a time; rows may be a MiB each.
_BATCH_BYTES: Final = 4 << 20
_IO_BUFFER: Final = 32 << 20
_MOST_ROWS: Final = 8192
#: What an earlier run said: for each table and fragment, of which files it was, and its checksum.
Known = dict[tuple[tuple[str, ...], int], dict[str, str]]


def verify(
    spark: SparkSession,
    catalog: CatalogLike,
    scope: Scope = None,
    *,
    against: DataFrame | Iterable[Mapping[str, Any]] | None = None,
    tasks: int | None = None,
    threads: int = 2,
    retries: int = 3,
    progress: Progress | None = None,
) -> DataFrame:
    """Scan every fragment of the latest version of each table; return a row for each fragment.

    ``status`` is ``ok``, or ``failed`` with what could not be read or does not add up. A table that
    cannot be opened has one row, without a fragment; so has one without fragments. ``against`` is
    what an earlier run returned: a fragment that is made of the same files and has another
    checksum has ``failed`` as well.
    """
    ref = resolve(catalog)
    known = _known(against)
    tables = [Item(names) for names in chosen(ref.open(), scope)]
    listed = sweep(
        spark,
        ref,
        tables,
        _fragments,
        _FRAGMENTS,
        least=100,
        retries=retries,
        tasks=tasks,
        live=True,
    )
    items = [
        Item(names, (row["version"], fragment, retries, known.get((names, fragment), {})))
        for row in listed
        for names in [tuple(row["id"])]
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
        live=True,
    )
    rows = sorted([*found, *rest], key=lambda row: (row["id"], row.get("fragment") or 0))
    return frame(spark, rows, COLUMNS)


def _known(against: DataFrame | Iterable[Mapping[str, Any]] | None) -> Known:
    if against is None:
        return {}
    collect = getattr(against, "collect", None)
    rows: Any = against if collect is None else [row.asDict() for row in collect()]
    found: Known = {}
    try:
        for row in rows:
            if row["checksum"] is not None:
                place = tuple(row["id"]), int(row["fragment"])
                found.setdefault(place, {})[row["files"]] = row["checksum"]
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInputError(
            "against is not what a verify returned: each row has id, fragment, files and checksum"
        ) from error
    return found


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
    version, number, retries, known = item.payload
    base: Row = {"version": version, "fragment": number}

    def work() -> list[Row]:
        dataset: Any = catalog.open_table(list(item.names), version=version)
        return [_scanned(dataset, number, known)]

    # Here and not by the sweep: a row that fails names its fragment too.
    return [{**row, **base} for row in attempt(work, item.names, retries)]


def _scanned(dataset: Any, number: int, known: Mapping[str, str]) -> Row:
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
            io_buffer_size=_IO_BUFFER,
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
    files, checksum = _files(fragment.metadata), digest.hexdigest()
    if known.get(files, checksum) != checksum:
        raise InvalidTableStateError(
            f"fragment {number} is made of the same files as when it was verified before, and its "
            "rows are others: the files were changed in place. Bring them back from a copy, or "
            "restore an earlier version"
        )
    return {
        "rows": rows,
        "deleted_rows": deleted,
        "bytes": size,
        "files": files,
        "checksum": checksum,
    }


def _files(metadata: Any) -> str:
    """A short text for what a fragment is made of: the same as long as nobody committed to it."""
    deletion = metadata.deletion_file
    parts = [[file.path, list(file.fields)] for file in metadata.files]
    told = json.dumps([parts, None if deletion is None else deletion.json()])
    return hashlib.blake2b(told.encode(), digest_size=8).hexdigest()


def _batch_rows(size: int, rows: int) -> int:
    each = max(size // max(rows, 1), 1)
    return max(1, min(_MOST_ROWS, _BATCH_BYTES // each))


def _canonical(batch: pa.RecordBatch) -> bytes:
    """The bytes of a batch, whatever buffers it is a slice of."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())
