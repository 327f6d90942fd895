"""Full text queries of the interface, as Lance's."""

from __future__ import annotations

import lance
from lance import query as fts
from lance_namespace_urllib3_client.models.fts_query import FtsQuery
from lance_namespace_urllib3_client.models.match_query import MatchQuery
from lance_namespace_urllib3_client.models.multi_match_query import MultiMatchQuery
from lance_namespace_urllib3_client.models.phrase_query import PhraseQuery
from lance_namespace_urllib3_client.models.query_table_request_full_text_query import (
    QueryTableRequestFullTextQuery,
)

from lance_catalog.directory.operations.access import lance_errors
from lance_catalog.errors import InvalidInputError, UnsupportedOperationError

__all__ = ["full_text_search"]


def full_text_search(
    dataset: lance.LanceDataset, request: QueryTableRequestFullTextQuery | None
) -> fts.FullTextQuery | dict[str, object] | None:
    """Return what a scanner takes as its full text query; None when nothing is asked."""
    if request is None or (request.string_query is None and request.structured_query is None):
        return None
    if request.string_query is not None and request.structured_query is not None:
        raise InvalidInputError("full_text_query: give string_query or structured_query, not both")
    if request.string_query is not None:
        simple: dict[str, object] = {"query": request.string_query.query}
        if request.string_query.columns:
            simple["columns"] = request.string_query.columns
        return simple
    assert request.structured_query is not None
    with lance_errors("full_text_query"):
        return _Translation(dataset).query(request.structured_query.query, "structured_query.query")


class _Translation:
    """One request's translation; it knows the table, to fill in columns that are left out."""

    def __init__(self, dataset: lance.LanceDataset) -> None:
        self._dataset = dataset

    def query(self, given: FtsQuery, where: str) -> fts.FullTextQuery:
        kinds = [name for name in FtsQuery.model_fields if getattr(given, name) is not None]
        if len(kinds) != 1:
            raise InvalidInputError(
                f"full_text_query.{where}: set exactly one of {', '.join(FtsQuery.model_fields)}"
            )
        where = f"{where}.{kinds[0]}"
        if given.match is not None:
            return self._match(given.match, where)
        if given.phrase is not None:
            return self._phrase(given.phrase, where)
        if given.multi_match is not None:
            return self._multi_match(given.multi_match, where)
        if given.boost is not None:
            factor = given.boost.negative_boost
            return fts.BoostQuery(
                self.query(given.boost.positive, f"{where}.positive"),
                self.query(given.boost.negative, f"{where}.negative"),
                negative_boost=0.5 if factor is None else float(factor),
            )
        assert given.boolean is not None
        parts = (
            (fts.Occur.MUST, "must", given.boolean.must),
            (fts.Occur.MUST_NOT, "must_not", given.boolean.must_not),
            (fts.Occur.SHOULD, "should", given.boolean.should),
        )
        return fts.BooleanQuery(
            [
                (occur, self.query(part, f"{where}.{name}[{number}]"))
                for occur, name, queries in parts
                for number, part in enumerate(queries)
            ]
        )

    def _match(self, given: MatchQuery, where: str) -> fts.FullTextQuery:
        if given.column is None:
            columns = self._indexed_columns()
            if len(columns) > 1:
                copies = [given.model_copy(update={"column": column}) for column in columns]
                return self._multi_match(MultiMatchQuery(match_queries=copies), where)
        return fts.MatchQuery(
            given.terms,
            self._column(given.column, where),
            boost=_boost(given),
            fuzziness=given.fuzziness or 0,
            max_expansions=50 if given.max_expansions is None else given.max_expansions,
            operator=_operator(given, where),
            prefix_length=given.prefix_length or 0,
        )

    def _phrase(self, given: PhraseQuery, where: str) -> fts.FullTextQuery:
        return fts.PhraseQuery(given.terms, self._column(given.column, where), slop=given.slop or 0)

    def _multi_match(self, given: MultiMatchQuery, where: str) -> fts.FullTextQuery:
        queries = given.match_queries
        if len(queries) == 1:
            return self._match(queries[0], where)
        # Lance's Python side takes one text for all columns; anything else would be dropped.
        same = {(one.terms, _operator(one, where)) for one in queries}
        fuzzy = any(one.fuzziness or one.max_expansions or one.prefix_length for one in queries)
        if len(same) != 1 or fuzzy:
            raise UnsupportedOperationError(
                f"full_text_query.{where}: over several columns, only the same terms and operator "
                "without fuzziness can be searched; name one column, or use boolean.should"
            )
        return fts.MultiMatchQuery(
            queries[0].terms,
            [self._column(one.column, where) for one in queries],
            boosts=[_boost(one) for one in queries],
            operator=_operator(queries[0], where),
        )

    def _column(self, column: str | None, where: str) -> str:
        if column is not None:
            return column
        columns = self._indexed_columns()
        if len(columns) != 1:
            raise InvalidInputError(
                f"full_text_query.{where}: name the column; full text indices are on: "
                f"{', '.join(columns) or 'none'}"
            )
        return columns[0]

    def _indexed_columns(self) -> list[str]:
        return sorted(
            {
                name
                for index in self._dataset.describe_indices()
                if index.index_type == "Inverted"
                for name in index.field_names
            }
        )


def _boost(given: MatchQuery) -> float:
    return 1.0 if given.boost is None else float(given.boost)


def _operator(given: MatchQuery, where: str) -> fts.FullTextOperator:
    name = (given.operator or "or").upper()
    if name not in ("AND", "OR"):
        raise InvalidInputError(
            f"full_text_query.{where}.operator: '{given.operator}'; use And or Or"
        )
    return fts.FullTextOperator(name)
