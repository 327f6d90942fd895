"""``index``: an index built in segments by executors, and committed as one.

Each task indexes some fragments and leaves a segment; the commit here makes the segments one index.
An index that is there already gets segments for the fragments it does not cover. All types that
Lance 14 has are built this way; a table with few rows gets one segment, for each is searched by
itself, and a vector segment trains its own centroids.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lance_catalog.directory.operations.access import lance_errors
from lance_catalog.errors import (
    CommitOutcomeUnknownError,
    ConcurrentModificationError,
    InvalidInputError,
    TableColumnNotFoundError,
    TableIndexAlreadyExistsError,
    TableNotFoundError,
    storage_errors,
)
from lance_catalog.identifiers import Identifier, format_text
from lance_catalog.spark.catalogs import CatalogLike, resolve, table_names
from lance_catalog.spark.jobs.index_types import IndexSpec
from lance_catalog.spark.jobs.pinned import Pinned
from lance_catalog.spark.jobs.scope import frame
from lance_catalog.spark.jobs.sweep import Item, Progress, Row, attempt, sweep

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from lance_catalog.directory.namespace import DirectoryNamespace

__all__ = ["COLUMNS", "index"]

COLUMNS: Final = (
    "index string, type string, column string, version bigint, rows bigint, segments int, "
    "fragments int, tasks int"
)
_BUILT: Final = "segment binary"
#: Fewer rows are not worth a segment of their own. Product quantization needs 256 to train on.
_LEAST_ROWS: Final = 100_000


def index(
    spark: SparkSession,
    catalog: CatalogLike,
    table: str | Sequence[str],
    column: str,
    type: str = "BTREE",
    *,
    name: str | None = None,
    replace: bool = False,
    options: Mapping[str, Any] | None = None,
    tasks: int | None = None,
    retries: int = 3,
    progress: Progress | None = None,
) -> DataFrame:
    """Build an index on a column: BTREE, BITMAP, INVERTED (full text), IVF_PQ, IVF_HNSW_SQ, ...

    ``options`` are those of the type, as ``num_partitions`` or ``metric``. An index of this name
    and type is completed; ``replace`` builds it anew. The row has ``status`` ``built``, or
    ``complete`` when it covered every fragment already. ``retries`` is how often it begins again
    when the table was compacted meanwhile.
    """
    spec = IndexSpec.of(column, type, name, replace, options)
    ref = resolve(catalog)
    names = table_names(table)
    build = _Build(spark, ref, ref.open(), names, spec, tasks, progress)
    # A table or a column that is not there is the caller's mistake, and not one table of many.
    build.look()
    return frame(spark, attempt(build.run, names, retries), COLUMNS)


class _Build:
    """One index on its way."""

    def __init__(
        self,
        spark: SparkSession,
        ref: Any,
        catalog: DirectoryNamespace,
        names: Identifier,
        spec: IndexSpec,
        tasks: int | None,
        progress: Progress | None,
    ) -> None:
        self._spark, self._ref, self._catalog = spark, ref, catalog
        self._names, self._spec, self._tasks, self._progress = names, spec, tasks, progress

    def look(self) -> tuple[Pinned, list[Any]]:
        """Open the table; return it with the fragments that have to be indexed."""
        spec = self._spec
        pinned = Pinned.of(self._catalog, self._names)
        dataset = pinned.dataset
        field = dataset.lance_schema.field_case_insensitive(spec.column)
        text = format_text(self._names)
        if field is None:
            raise TableColumnNotFoundError(
                f"table '{text}' has no column '{spec.column}'; it has "
                f"{', '.join(dataset.schema.names)}"
            )
        if spec.is_vector and not _is_vector(field.to_arrow().type):
            raise InvalidInputError(
                f"index type {spec.type} is for vectors, and column '{spec.column}' of '{text}' "
                f"is {field.to_arrow().type}"
            )
        covered: set[int] = set()
        for found in dataset.describe_indices():
            if found.name != spec.name or spec.replace:
                continue
            if found.index_type.upper().replace("_", "") != spec.type.replace("_", ""):
                raise TableIndexAlreadyExistsError(
                    f"index '{spec.name}' of table '{text}' is of type {found.index_type}; "
                    "replace it, or choose another name"
                )
            covered = {number for part in found.segments for number in part.fragment_ids}
        left = [f for f in dataset.get_fragments() if f.fragment_id not in covered]
        return pinned, left

    def run(self) -> list[Row]:
        """Build what is missing, and commit it."""
        spec = self._spec
        pinned, fragments = self.look()
        groups = _groups(fragments, self._tasks)
        items = [Item(self._names, (pinned.dataset.version, spec, group)) for group in groups]
        built = sweep(
            self._spark,
            self._ref,
            items,
            _segment,
            _BUILT,
            threads=1,
            tasks=len(items),
            progress=self._progress,
        )
        failed = [row for row in built if row["status"] != "ok"]
        segments = [pickle.loads(row["segment"]) for row in built if row["status"] == "ok"]
        if failed:
            self._discard(pinned, segments)
            return [{**self._described(), "status": "failed", "error": failed[0]["error"]}]
        if segments:
            self._commit(pinned, segments)
        ended = {"tasks": len(items), "status": "built" if built else "complete"}
        return [{**self._described(), **ended}]

    def _commit(self, pinned: Pinned, segments: list[Any]) -> None:
        spec = self._spec
        try:
            pinned.require()
            with lance_errors(f"committing index '{spec.name}'"):
                pinned.dataset.commit_existing_index_segments(spec.name, spec.column, segments)
        except CommitOutcomeUnknownError:
            raise  # The next look finds out; what it names must stay.
        except (ConcurrentModificationError, TableNotFoundError):
            self._discard(pinned, segments)
            raise

    def _discard(self, pinned: Pinned, segments: list[Any]) -> None:
        """Remove segments that are known not to be part of an index."""
        store = self._catalog.context.store
        with storage_errors(f"removing segments of index '{self._spec.name}'"):
            for segment in segments:
                store.delete_tree(f"{pinned.place}/_indices/{segment.uuid}")

    def _described(self) -> Row:
        spec = self._spec
        dataset: Any = self._catalog.open_table(list(self._names))
        row: Row = {
            "index": spec.name,
            "type": spec.type,
            "column": spec.column,
            "version": dataset.version,
            "rows": 0,
            "segments": 0,
            "fragments": 0,
        }
        for found in dataset.describe_indices():
            if found.name == spec.name:
                row["rows"] = found.num_rows_indexed
                row["segments"] = len(found.segments)
                row["fragments"] = sum(len(part.fragment_ids) for part in found.segments)
        return row


def _is_vector(kind: pa.DataType) -> bool:
    if pa.types.is_list(kind):
        kind = kind.value_type
    return bool(pa.types.is_fixed_size_list(kind))


def _groups(fragments: Sequence[Any], tasks: int | None) -> list[list[int]]:
    """Deal fragments out to tasks, by rows."""
    if not fragments:
        return []
    rows = sum(fragment.physical_rows for fragment in fragments)
    count = min(tasks or max(rows // _LEAST_ROWS, 1), len(fragments))
    share = max(rows / count, 1)
    groups: list[list[int]] = [[] for _ in range(count)]
    seen = 0
    for fragment in fragments:
        groups[min(int(seen / share), count - 1)].append(fragment.fragment_id)
        seen += fragment.physical_rows
    return [group for group in groups if group]


def _segment(catalog: DirectoryNamespace, item: Item) -> list[Row]:
    version, spec, fragments = item.payload
    dataset: Any = catalog.open_table(list(item.names), version=version)
    keywords = dict(spec.options)
    if spec.type.endswith("_PQ") and "num_sub_vectors" not in keywords:
        keywords["num_sub_vectors"] = _sub_vectors(dataset, spec.column)
    with lance_errors(f"building index '{spec.name}'"):
        # "replace" here: an index of the name may be there, and gets this segment beside its own.
        # When this fails Lance leaves a part of it under a name that it does not tell.
        segment = dataset.create_index_uncommitted(
            spec.column, spec.type, name=spec.name, replace=True, fragment_ids=fragments, **keywords
        )
    return [{"segment": pickle.dumps(segment)}]


def _sub_vectors(dataset: Any, column: str) -> int:
    """Sixteen values to a code, else eight, else all in one."""
    kind = dataset.lance_schema.field_case_insensitive(column).to_arrow().type
    kind = kind.value_type if pa.types.is_list(kind) else kind
    dimension = int(kind.list_size)
    return next((dimension // size for size in (16, 8) if dimension % size == 0), 1)
