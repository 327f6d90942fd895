"""What a table holds, and a return to an older version of it."""

from __future__ import annotations

from typing import Any

from lance_namespace import (
    GetTableStatsRequest,
    GetTableStatsResponse,
    RestoreTableRequest,
    RestoreTableResponse,
)
from lance_namespace_urllib3_client.models.fragment_stats import FragmentStats
from lance_namespace_urllib3_client.models.fragment_summary import FragmentSummary

from lance_catalog.directory.operations.access import (
    TableAccess,
    lance_errors,
    open_target,
    transaction_id,
)

__all__ = ["get_table_stats", "restore_table"]

SMALL_FRAGMENT_ROWS = 1024 * 1024
"""Below this a fragment counts as not compacted, as for native; it is compaction's target size."""


def get_table_stats(access: TableAccess, request: GetTableStatsRequest) -> GetTableStatsResponse:
    """Count bytes, live rows, indices and fragments."""
    dataset = open_target(access, request)
    with lance_errors("get_table_stats"):
        fragments = dataset.get_fragments()
        # Annotated as a single FieldStatistics; it is a list of them.
        columns: Any = dataset.stats.data_stats().fields
        # Live rows. Native counts deleted rows too, so its num_rows is not count_table_rows.
        lengths = sorted(fragment.physical_rows - fragment.num_deletions for fragment in fragments)
        return GetTableStatsResponse(
            total_bytes=sum(field.bytes_on_disk for field in columns),
            num_rows=sum(lengths),
            num_indices=len(dataset.describe_indices()),
            fragment_stats=FragmentStats(
                num_fragments=len(lengths),
                num_small_fragments=sum(
                    fragment.physical_rows < SMALL_FRAGMENT_ROWS for fragment in fragments
                ),
                lengths=_summary(lengths),
            ),
        )


def _summary(ordered: list[int]) -> FragmentSummary:
    if not ordered:
        return FragmentSummary(min=0, max=0, mean=0, p25=0, p50=0, p75=0, p99=0)

    def percentile(percent: int) -> int:
        return ordered[(len(ordered) - 1) * percent // 100]

    return FragmentSummary(
        min=ordered[0],
        max=ordered[-1],
        mean=sum(ordered) // len(ordered),
        p25=percentile(25),
        p50=percentile(50),
        p75=percentile(75),
        p99=percentile(99),
    )


def restore_table(access: TableAccess, request: RestoreTableRequest) -> RestoreTableResponse:
    """Make an older version current again, as a new version on top; 11 when it is not there."""
    dataset = open_target(access, request, version=request.version)
    with lance_errors("restore_table"):
        dataset.restore()  # type: ignore[no-untyped-call]  # lance leaves it unannotated
        return RestoreTableResponse(transaction_id=transaction_id(dataset))
