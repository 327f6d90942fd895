"""Indices: create, list, describe, drop."""

from __future__ import annotations

import json
from typing import Any, Final

import lance
import pyarrow as pa
from lance_namespace import (
    CreateTableIndexRequest,
    CreateTableIndexResponse,
    CreateTableScalarIndexResponse,
    DescribeTableIndexStatsRequest,
    DescribeTableIndexStatsResponse,
    DropTableIndexRequest,
    DropTableIndexResponse,
    ListTableIndicesRequest,
    ListTableIndicesResponse,
)
from lance_namespace_urllib3_client.models.index_content import IndexContent

from lance_catalog.directory.operations.access import (
    TableAccess,
    lance_errors,
    open_target,
    transaction_id,
)
from lance_catalog.directory.operations.paging import page
from lance_catalog.errors import InvalidInputError, TableIndexNotFoundError

__all__ = [
    "create_table_index",
    "create_table_scalar_index",
    "describe_table_index_stats",
    "drop_table_index",
    "list_table_indices",
]

_IVF: Final = (
    "distance_type",
    "num_partitions",
    "sample_rate",
    "max_iterations",
    "target_partition_size",
)
_TEXT: Final = (
    "with_position",
    "base_tokenizer",
    "language",
    "max_token_length",
    "lower_case",
    "stem",
    "remove_stop_words",
    "ascii_folding",
)
_PQ: Final = (*_IVF, "num_sub_vectors", "num_bits")
_GRAPH: Final = ("m", "ef_construction")

# The options each type takes. A request has room for all of them, and one that the type does not
# know is refused rather than dropped.
_VECTOR_TYPES: Final[dict[str, tuple[str, ...]]] = {
    "IVF_FLAT": _IVF,
    "IVF_PQ": _PQ,
    "IVF_SQ": (*_IVF, "num_bits"),
    "IVF_RQ": (*_IVF, "num_bits"),
    "IVF_HNSW_FLAT": (*_IVF, *_GRAPH),
    "IVF_HNSW_PQ": (*_PQ, *_GRAPH),
    "IVF_HNSW_SQ": (*_IVF, "num_bits", *_GRAPH),
}
_SCALAR_TYPES: Final[dict[str, tuple[str, ...]]] = {
    "BTREE": (),
    "BITMAP": (),
    "LABEL_LIST": (),
    "NGRAM": (),
    "ZONEMAP": (),
    "BLOOMFILTER": (),
    "RTREE": (),
    "INVERTED": _TEXT,
}
_ALIASES: Final = {"FTS": "INVERTED", "VECTOR": "IVF_PQ"}
_OPTIONS: Final = tuple(dict.fromkeys((*_PQ, *_GRAPH, *_TEXT)))

# Where Lance's keyword is not the request's.
_KEYWORDS: Final = {"distance_type": "metric", "max_iterations": "max_iters"}


def create_table_index(
    access: TableAccess, request: CreateTableIndexRequest
) -> CreateTableIndexResponse:
    """Build a vector or scalar index on one column."""
    return CreateTableIndexResponse(transaction_id=_create(access, request, _ALL_TYPES))


def create_table_scalar_index(
    access: TableAccess, request: CreateTableIndexRequest
) -> CreateTableScalarIndexResponse:
    """Build a scalar index on one column."""
    return CreateTableScalarIndexResponse(transaction_id=_create(access, request, _SCALAR_TYPES))


_ALL_TYPES: Final = _VECTOR_TYPES | _SCALAR_TYPES


def _create(
    access: TableAccess, request: CreateTableIndexRequest, types: dict[str, tuple[str, ...]]
) -> str | None:
    given = request.index_type.upper()
    kind = _ALIASES.get(given, given)
    if kind not in types:
        raise InvalidInputError(
            f"create index: 'index_type' {request.index_type} is not one of "
            f"{', '.join([*types, 'FTS'])}"
        )
    options = {name: value for name in _OPTIONS if (value := getattr(request, name)) is not None}
    for name in options:
        if name not in types[kind]:
            raise InvalidInputError(f"create index: '{name}' is no option of {given}")
    dataset = open_target(access, request)
    what = f"create index on '{request.column}'"
    with lance_errors(what):
        if kind in _VECTOR_TYPES:
            keywords = _vector_keywords(dataset, request, kind, options)
            dataset.create_index(request.column, kind, name=request.name, replace=False, **keywords)
        else:
            scalar: Any = kind  # annotated as one of ten literals
            dataset.create_scalar_index(
                request.column, scalar, name=request.name, replace=False, **options
            )
        return transaction_id(dataset)


def _vector_keywords(
    dataset: lance.LanceDataset,
    request: CreateTableIndexRequest,
    kind: str,
    options: dict[str, Any],
) -> dict[str, Any]:
    if request.num_partitions is not None and request.target_partition_size is not None:
        raise InvalidInputError(
            "create index: give 'num_partitions' or 'target_partition_size', not both"
        )
    if kind.endswith("_SQ") and request.num_bits not in (None, 8):
        raise InvalidInputError(f"create index: 'num_bits' of {kind} can only be 8")
    keywords = {_KEYWORDS.get(name, name): value for name, value in options.items()}
    if kind.endswith("_PQ") and request.num_sub_vectors is None:
        keywords["num_sub_vectors"] = _sub_vectors(_dimension(dataset, request.column))
    return keywords


def _dimension(dataset: lance.LanceDataset, column: str) -> int:
    # lance's stub of a field lacks to_arrow.
    field: Any = dataset.lance_schema.field_case_insensitive(column)
    kind = None if field is None else field.to_arrow().type
    kind = getattr(kind, "storage_type", kind)
    if kind is not None and pa.types.is_list(kind):
        kind = kind.value_type
    # For a column that is missing or no vector, Lance says so itself.
    if kind is None or not pa.types.is_fixed_size_list(kind):
        return 1
    return int(kind.list_size)


def _sub_vectors(dimension: int) -> int:
    """Sixteen values to a code, else eight, else all in one.

    Native always takes 16 codes and fails on every dimension that 16 does not divide.
    """
    return next((dimension // size for size in (16, 8) if dimension % size == 0), 1)


def list_table_indices(
    access: TableAccess, request: ListTableIndicesRequest
) -> ListTableIndicesResponse:
    """The indices by name, a page at a time."""
    dataset = open_target(access, request, version=request.version)
    with lance_errors("list_table_indices"):
        indices = {index.name: index for index in dataset.describe_indices()}
        names, token = page(indices, request.page_token, request.limit)
        rows = dataset.count_rows() if names else 0
    return ListTableIndicesResponse(
        indexes=[_content(indices[name], rows) for name in names], page_token=token
    )


def _content(index: Any, rows: int) -> IndexContent:
    newest = max(index.segments, key=lambda segment: segment.dataset_version_at_last_update)
    return IndexContent(
        index_name=index.name,
        index_uuid=newest.uuid,
        columns=index.field_names,
        status="SUCCEEDED",
        index_type=index.index_type,
        type_url=index.type_url,
        num_indexed_rows=index.num_rows_indexed,
        num_unindexed_rows=max(rows - index.num_rows_indexed, 0),
        size_bytes=index.total_size_bytes,
        num_segments=len(index.segments),
        created_at=newest.created_at,
        index_version=newest.index_version,
        index_details=json.dumps(index.details, separators=(",", ":")),
    )


def describe_table_index_stats(
    access: TableAccess, request: DescribeTableIndexStatsRequest
) -> DescribeTableIndexStatsResponse:
    """How much of the table an index covers, and what kind it is."""
    name = _index_name(request.index_name, "describe_table_index_stats")
    dataset = open_target(access, request, version=request.version)
    # Not Lance's own index statistics: those load the centroids of a vector index for it.
    with lance_errors("describe_table_index_stats"):
        found = [index for index in dataset.describe_indices() if index.name == name]
        if not found:
            raise TableIndexNotFoundError(
                f"describe_table_index_stats: no index '{name}'; "
                "list_table_indices shows those there are"
            )
        index, rows = found[0], dataset.count_rows()
    metric = index.details.get("metric_type")
    return DescribeTableIndexStatsResponse(
        distance_type=metric.lower() if isinstance(metric, str) else None,
        index_type=index.index_type,
        num_indexed_rows=index.num_rows_indexed,
        num_unindexed_rows=max(rows - index.num_rows_indexed, 0),
        num_indices=len(index.segments),
    )


def drop_table_index(access: TableAccess, request: DropTableIndexRequest) -> DropTableIndexResponse:
    """Remove an index; its files go with the version that last used them."""
    name = _index_name(request.index_name, "drop_table_index")
    dataset = open_target(access, request)
    with lance_errors("drop_table_index"):
        dataset.drop_index(name)
        return DropTableIndexResponse(transaction_id=transaction_id(dataset))


def _index_name(name: str | None, operation: str) -> str:
    if not name:
        raise InvalidInputError(f"{operation}: 'index_name' is required")
    return name
