"""The data and index operations as methods, for a namespace that can open tables."""

from __future__ import annotations

from typing import Any, NoReturn

import lance_namespace as m

from lance_catalog.directory.operations import (
    columns,
    indices,
    query,
    refs,
    rows,
    stats,
    transactions,
)
from lance_catalog.directory.operations.access import TableAccess
from lance_catalog.directory.requests import parse
from lance_catalog.errors import UnsupportedOperationError

__all__ = ["DataOperations"]


class DataOperations:
    """Mix into a class with ``open_table``, ahead of ``LanceNamespace``.

    Requests may be models or dicts, hence ``Any``; what they mean is documented where they are
    carried out.
    """

    def insert_into_table(
        self: TableAccess, request: Any, request_data: bytes
    ) -> m.InsertIntoTableResponse:
        return rows.insert_into_table(self, parse(request, m.InsertIntoTableRequest), request_data)

    def merge_insert_into_table(
        self: TableAccess, request: Any, request_data: bytes
    ) -> m.MergeInsertIntoTableResponse:
        return rows.merge_insert_into_table(
            self, parse(request, m.MergeInsertIntoTableRequest), request_data
        )

    def update_table(self: TableAccess, request: Any) -> m.UpdateTableResponse:
        return rows.update_table(self, parse(request, m.UpdateTableRequest))

    def delete_from_table(self: TableAccess, request: Any) -> m.DeleteFromTableResponse:
        return rows.delete_from_table(self, parse(request, m.DeleteFromTableRequest))

    def count_table_rows(self: TableAccess, request: Any) -> m.CountTableRowsResponse:
        return rows.count_table_rows(self, parse(request, m.CountTableRowsRequest))

    def query_table(self: TableAccess, request: Any) -> m.QueryTableResponse:
        return query.query_table(self, parse(request, m.QueryTableRequest))

    def explain_table_query_plan(self: TableAccess, request: Any) -> str:
        return query.explain_table_query_plan(self, parse(request, m.ExplainTableQueryPlanRequest))

    def analyze_table_query_plan(self: TableAccess, request: Any) -> str:
        return query.analyze_table_query_plan(self, parse(request, m.AnalyzeTableQueryPlanRequest))

    def create_table_index(self: TableAccess, request: Any) -> m.CreateTableIndexResponse:
        return indices.create_table_index(self, parse(request, m.CreateTableIndexRequest))

    def create_table_scalar_index(
        self: TableAccess, request: Any
    ) -> m.CreateTableScalarIndexResponse:
        return indices.create_table_scalar_index(self, parse(request, m.CreateTableIndexRequest))

    def list_table_indices(self: TableAccess, request: Any) -> m.ListTableIndicesResponse:
        return indices.list_table_indices(self, parse(request, m.ListTableIndicesRequest))

    def describe_table_index_stats(
        self: TableAccess, request: Any
    ) -> m.DescribeTableIndexStatsResponse:
        return indices.describe_table_index_stats(
            self, parse(request, m.DescribeTableIndexStatsRequest)
        )

    def drop_table_index(self: TableAccess, request: Any) -> m.DropTableIndexResponse:
        return indices.drop_table_index(self, parse(request, m.DropTableIndexRequest))

    def alter_table_add_columns(self: TableAccess, request: Any) -> m.AlterTableAddColumnsResponse:
        return columns.alter_table_add_columns(self, parse(request, m.AlterTableAddColumnsRequest))

    def alter_table_alter_columns(
        self: TableAccess, request: Any
    ) -> m.AlterTableAlterColumnsResponse:
        return columns.alter_table_alter_columns(
            self, parse(request, m.AlterTableAlterColumnsRequest)
        )

    def alter_table_drop_columns(
        self: TableAccess, request: Any
    ) -> m.AlterTableDropColumnsResponse:
        return columns.alter_table_drop_columns(
            self, parse(request, m.AlterTableDropColumnsRequest)
        )

    def update_table_schema_metadata(
        self: TableAccess, request: Any
    ) -> m.UpdateTableSchemaMetadataResponse:
        return columns.update_table_schema_metadata(
            self, parse(request, m.UpdateTableSchemaMetadataRequest)
        )

    def update_field_metadata(self: TableAccess, request: Any) -> m.UpdateFieldMetadataResponse:
        return columns.update_field_metadata(self, parse(request, m.UpdateFieldMetadataRequest))

    def list_table_tags(self: TableAccess, request: Any) -> m.ListTableTagsResponse:
        return refs.list_table_tags(self, parse(request, m.ListTableTagsRequest))

    def get_table_tag_version(self: TableAccess, request: Any) -> m.GetTableTagVersionResponse:
        return refs.get_table_tag_version(self, parse(request, m.GetTableTagVersionRequest))

    def create_table_tag(self: TableAccess, request: Any) -> m.CreateTableTagResponse:
        return refs.create_table_tag(self, parse(request, m.CreateTableTagRequest))

    def update_table_tag(self: TableAccess, request: Any) -> m.UpdateTableTagResponse:
        return refs.update_table_tag(self, parse(request, m.UpdateTableTagRequest))

    def delete_table_tag(self: TableAccess, request: Any) -> m.DeleteTableTagResponse:
        return refs.delete_table_tag(self, parse(request, m.DeleteTableTagRequest))

    def list_table_branches(self: TableAccess, request: Any) -> m.ListTableBranchesResponse:
        return refs.list_table_branches(self, parse(request, m.ListTableBranchesRequest))

    def create_table_branch(self: TableAccess, request: Any) -> m.CreateTableBranchResponse:
        return refs.create_table_branch(self, parse(request, m.CreateTableBranchRequest))

    def delete_table_branch(self: TableAccess, request: Any) -> m.DeleteTableBranchResponse:
        return refs.delete_table_branch(self, parse(request, m.DeleteTableBranchRequest))

    def get_table_stats(self: TableAccess, request: Any) -> m.GetTableStatsResponse:
        return stats.get_table_stats(self, parse(request, m.GetTableStatsRequest))

    def restore_table(self: TableAccess, request: Any) -> m.RestoreTableResponse:
        return stats.restore_table(self, parse(request, m.RestoreTableRequest))

    def describe_transaction(self: TableAccess, request: Any) -> m.DescribeTransactionResponse:
        return transactions.describe_transaction(self, parse(request, m.DescribeTransactionRequest))

    def alter_transaction(self: TableAccess, request: Any) -> m.AlterTransactionResponse:
        return transactions.alter_transaction(self, parse(request, m.AlterTransactionRequest))

    # What needs a service that runs jobs; a catalog on storage alone has none.

    def alter_table_backfill_columns(self, request: Any) -> NoReturn:
        raise UnsupportedOperationError(
            "alter_table_backfill_columns: nothing here runs backfill jobs. Fill the column with "
            "update_table, or drop it and add it again with alter_table_add_columns"
        )

    def create_materialized_view(self, request: Any) -> NoReturn:
        raise UnsupportedOperationError(
            "create_materialized_view: nothing here keeps views up to date. Run the query and "
            "store its answer with create_table"
        )

    def refresh_materialized_view(self, request: Any) -> NoReturn:
        raise UnsupportedOperationError(
            "refresh_materialized_view: there are no materialized views here. Run the query again "
            "and store its answer with insert_into_table in mode overwrite"
        )
