"""The record of each run: a row in a table of the catalog it published to.

Rows are only ever added. The table is ``<namespace>.pipeline_runs``; the namespace is what the file
says (``[run] namespace``), else the property ``pipeline_runs_namespace`` of the catalog's root
namespace, else ``lance_catalog_runs``. In V1, which has no namespaces, it lies at the root.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import lance
import pyarrow as pa
import pyarrow.compute as pc

from lance_catalog.config import Mode
from lance_catalog.directory.operations.access import lance_errors
from lance_catalog.errors import (
    NamespaceAlreadyExistsError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from lance_catalog.identifiers import Identifier, format_text, parse_text
from lance_catalog.spark.pipeline.report import RunReport

if TYPE_CHECKING:
    from lance_catalog.directory.namespace import DirectoryNamespace

__all__ = ["DEFAULT_NAMESPACE", "NAMESPACE_PROPERTY", "TABLE", "Records"]

DEFAULT_NAMESPACE: Final = "lance_catalog_runs"
NAMESPACE_PROPERTY: Final = "pipeline_runs_namespace"
TABLE: Final = "pipeline_runs"

_SCHEMA: Final = pa.schema(
    [
        ("job_id", pa.string()),
        ("pipeline", pa.string()),
        ("digest", pa.string()),
        ("status", pa.string()),
        ("started", pa.timestamp("us", "UTC")),
        ("ended", pa.timestamp("us", "UTC")),
        ("who", pa.string()),
        ("error", pa.string()),
        (
            "targets",
            pa.list_(
                pa.struct(
                    [
                        ("name", pa.string()),
                        ("table", pa.string()),
                        ("mode", pa.string()),
                        ("version", pa.int64()),
                        ("rows", pa.int64()),
                        ("bytes", pa.int64()),
                        ("seconds", pa.float64()),
                        ("repeated", pa.bool_()),
                        ("indices", pa.list_(pa.string())),
                    ]
                )
            ),
        ),
    ]
)


class Records:
    """The records of one catalog."""

    def __init__(self, catalog: DirectoryNamespace, namespace: str | None) -> None:
        self._catalog = catalog
        self._given = namespace

    @property
    def table(self) -> Identifier:
        """The table that holds them."""
        if self._catalog.mode is Mode.V1:
            return (TABLE,)
        given = self._given
        if given is None:
            found = self._catalog.describe_namespace({"id": []}).properties or {}
            given = found.get(NAMESPACE_PROPERTY, DEFAULT_NAMESPACE)
        return (*parse_text(given), TABLE)

    def find(self, job_id: str) -> Mapping[str, Any] | None:
        """Return the latest record of a job that ended well, or None."""
        try:
            dataset: Any = self._catalog.open_table(list(self.table))
        except (TableNotFoundError, NamespaceNotFoundError):
            return None
        with lance_errors(f"reading {format_text(self.table)}"):
            # An expression and not a text: a job id may hold a quote.
            same = pc.field("job_id") == job_id
            found = dataset.to_table(filter=same).to_pylist()
        done = [row for row in found if row["status"] in ("published", "repeated")]
        return max(done, key=lambda row: row["ended"], default=None)

    def write(self, report: RunReport) -> None:
        """Add the record of a run."""
        names = self.table
        self._make_namespace(names[:-1])
        row = {
            "job_id": report.job_id,
            "pipeline": report.pipeline,
            "digest": report.digest,
            "status": report.status,
            "started": report.started,
            "ended": report.ended or datetime.now(UTC),
            "who": report.who,
            "error": report.error,
            "targets": [target.as_dict() for target in report.targets],
        }
        data = pa.Table.from_pylist([row], _SCHEMA)
        empty = pa.BufferOutputStream()
        with pa.ipc.new_stream(empty, _SCHEMA):
            pass
        # Two first runs at once: one makes it, and the other is told so even though it asks for
        # whichever there is.
        with contextlib.suppress(TableAlreadyExistsError):
            self._catalog.create_table(
                {"id": list(names), "mode": "exist_ok"}, bytes(empty.getvalue())
            )
        with lance_errors(f"writing {format_text(names)}"):
            dataset: Any = self._catalog.open_table(list(names))
            lance.write_dataset(data, dataset, mode="append")

    def _make_namespace(self, names: Identifier) -> None:
        for end in range(1, len(names) + 1):
            with contextlib.suppress(NamespaceAlreadyExistsError):
                self._catalog.create_namespace({"id": list(names[:end])})
