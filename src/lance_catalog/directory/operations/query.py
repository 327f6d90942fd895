"""Query: scan, vector search and full text search, and how Lance would run them."""

from __future__ import annotations

from typing import Any

import lance
import pyarrow as pa
from lance_namespace import (
    AnalyzeTableQueryPlanRequest,
    ExplainTableQueryPlanRequest,
    QueryTableRequest,
    QueryTableResponse,
)
from lance_namespace_urllib3_client.models.query_table_request_columns import (
    QueryTableRequestColumns,
)

from lance_catalog.directory.operations.access import (
    TableAccess,
    lance_errors,
    open_target,
)
from lance_catalog.directory.operations.arrow import file_bytes
from lance_catalog.directory.operations.full_text import full_text_search
from lance_catalog.errors import InvalidInputError

__all__ = ["analyze_table_query_plan", "explain_table_query_plan", "query_table"]

DEFAULT_K = 10
"""How many neighbours a vector search returns when ``k`` is 0, which native reads as not given."""

# These decide which rows come back, so without a vector they would be ignored in silence. The
# other vector options only tune a search; clients send them with plain queries too.
_NEED_A_VECTOR = ("vector_column", "distance_type", "lower_bound", "upper_bound")


def query_table(access: TableAccess, request: QueryTableRequest) -> QueryTableResponse:
    """Run the query; the answer holds an Arrow IPC file."""
    dataset = open_target(access, request, version=request.version)
    options = _options(dataset, request)
    with lance_errors("query_table"):
        return QueryTableResponse(data=file_bytes(dataset.scanner(**options).to_reader()))


def explain_table_query_plan(access: TableAccess, request: ExplainTableQueryPlanRequest) -> str:
    """Return the plan of the query, without running it."""
    query = request.query.model_copy(
        update={
            "id": _agreed("id", request.id, request.query.id),
            "branch": _agreed("branch", request.branch, request.query.branch),
        }
    )
    dataset = open_target(access, query, version=query.version)
    options = _options(dataset, query)
    with lance_errors("explain_table_query_plan"):
        return dataset.scanner(**options).explain_plan(bool(request.verbose))


def analyze_table_query_plan(access: TableAccess, request: AnalyzeTableQueryPlanRequest) -> str:
    """Run the query and return its plan with what each step took."""
    query = QueryTableRequest.model_validate(request.model_dump(exclude_none=True))
    dataset = open_target(access, query, version=query.version)
    options = _options(dataset, query)
    with lance_errors("analyze_table_query_plan"):
        return dataset.scanner(**options).analyze_plan()


def _agreed(field: str, outer: Any, inner: Any) -> Any:
    """A plan request names the table twice; either will do, two that differ will not."""
    if outer is not None and inner is not None and outer != inner:
        raise InvalidInputError(f"'{field}' and 'query.{field}' differ: {outer} and {inner}")
    return inner if outer is None else outer


def _options(dataset: lance.LanceDataset, request: QueryTableRequest) -> dict[str, Any]:
    """The scanner's keywords for a request."""
    offset = request.offset or 0
    vectors = _vectors(request)
    text = full_text_search(dataset, request.full_text_query)
    if vectors is not None and text is not None:
        raise InvalidInputError("'vector' and 'full_text_query' cannot be searched together")
    options: dict[str, Any] = {
        "filter": request.filter,
        "prefilter": bool(request.prefilter),
        "with_row_id": bool(request.with_row_id),
        "fast_search": bool(request.fast_search),
        "offset": offset or None,
        "limit": request.k or None,
    }
    score = None
    if vectors is not None:
        batch = isinstance(vectors[0], list)
        if batch and offset:
            raise InvalidInputError("'offset' has no meaning for several vectors; leave it out")
        k = request.k or DEFAULT_K
        options["nearest"] = _nearest(dataset, request, vectors, k + offset)
        # The search itself stops at k, and a batch returns k rows for each of its vectors.
        options["limit"] = None
        score = "_distance"
    elif text is not None:
        options["full_text_query"] = text
        score = "_score"
    options["columns"] = _columns(request.columns, score)
    # The score is among the columns by now; otherwise Lance logs a warning on each query.
    options["disable_scoring_autoprojection"] = options["columns"] is not None
    return options


def _vectors(request: QueryTableRequest) -> list[Any] | None:
    """One vector, a list of them, or None: the field is required, so empty means no search."""
    single, several = request.vector.single_vector, request.vector.multi_vector
    if single and several:
        raise InvalidInputError("'vector': give single_vector or multi_vector, not both")
    if several and not all(several):
        raise InvalidInputError("'vector.multi_vector' holds an empty vector")
    if single or several:
        return list(single or several or ())
    for field in _NEED_A_VECTOR:
        if getattr(request, field) is not None:
            raise InvalidInputError(f"'{field}' needs a vector to search for; 'vector' is empty")
    return None


def _nearest(
    dataset: lance.LanceDataset, request: QueryTableRequest, vectors: list[Any], k: int
) -> dict[str, Any]:
    if request.bypass_vector_index and request.fast_search:
        raise InvalidInputError(
            "'fast_search' reads the index only and 'bypass_vector_index' never does; choose one"
        )
    nearest: dict[str, Any] = {
        "column": request.vector_column or _vector_column(dataset.schema),
        "q": vectors,
        "k": k,
        "metric": request.distance_type,
        "refine_factor": request.refine_factor or None,
        "ef": request.ef or None,
        "use_index": not request.bypass_vector_index,
    }
    if request.minimum_nprobes is not None or request.maximum_nprobes is not None:
        nearest["minimum_nprobes"] = request.minimum_nprobes
        nearest["maximum_nprobes"] = request.maximum_nprobes
    else:
        nearest["nprobes"] = request.nprobes or None
    if request.lower_bound is not None or request.upper_bound is not None:
        nearest["distance_range"] = (request.lower_bound, request.upper_bound)
    return nearest


def _vector_column(schema: pa.Schema) -> str:
    """The column called ``vector``, which is native's default, or else the only one there is."""
    if "vector" in schema.names:
        return "vector"
    columns = [field.name for field in schema if _is_vector(field.type)]
    if len(columns) != 1:
        raise InvalidInputError(
            f"'vector_column' is required: the vector columns are {', '.join(columns) or 'none'}"
        )
    return str(columns[0])


def _is_vector(kind: pa.DataType) -> bool:
    kind = getattr(kind, "storage_type", kind)
    if pa.types.is_list(kind):
        kind = kind.value_type
    return bool(pa.types.is_fixed_size_list(kind))


def _columns(
    request: QueryTableRequestColumns | None, score: str | None
) -> list[str] | dict[str, str] | None:
    names = list((request and request.column_names) or ())
    aliases = dict((request and request.column_aliases) or {})
    if not names and not aliases:
        return None
    repeated = set(names) & set(aliases)
    if repeated or len(set(names)) != len(names):
        raise InvalidInputError(f"'columns' gives a name twice: {sorted(repeated) or names}")
    if score is not None and score not in names and score not in aliases:
        names.append(score)
    if not aliases:
        return names
    # Aliases are expressions to Lance, so here a plain name has to be made one.
    return {name: _as_expression(name) for name in names} | aliases


def _as_expression(path: str) -> str:
    """Quote a field path; one with backticks in it is quoted by its writer already."""
    if "`" in path:
        return path
    return ".".join(f"`{segment}`" for segment in path.split("."))
