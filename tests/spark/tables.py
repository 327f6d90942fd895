"""What the suites of writes share: catalogs, and looks at a table without the code under test."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import lance
import pyarrow as pa
import pytest

from lance_catalog import DirectoryNamespace
from lance_catalog.errors import LanceNamespaceError
from lance_catalog.maintenance.check import check
from lance_catalog.maintenance.repair import apply, plan


def created(catalog: DirectoryNamespace, id: Sequence[str], rows: pa.Table) -> None:
    """A table that Spark has no part in."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    catalog.create_table({"id": list(id)}, sink.getvalue().to_pybytes())


def folder(catalog: DirectoryNamespace, id: Sequence[str]) -> Path:
    location = catalog.describe_table({"id": list(id)}).location
    return Path(unquote(location.removeprefix("file://")))


def opened(catalog: DirectoryNamespace, id: Sequence[str]) -> Any:
    return lance.dataset(str(folder(catalog, id)))


def column(catalog: DirectoryNamespace, id: Sequence[str], name: str) -> list[Any]:
    return sorted(opened(catalog, id).to_table(columns=[name])[name].to_pylist())


def strays(catalog: DirectoryNamespace, id: Sequence[str]) -> set[str]:
    """Data files that no version names, and what jobs left."""
    base = folder(catalog, id)
    told = set(opened(catalog, id).tracked_files().read_all()["path"].to_pylist())
    found = {str(path.relative_to(base)) for path in base.rglob("*") if path.is_file()}
    ours = {p for p in found if p.startswith(("data/", "_deletions/", "_lance_catalog/"))}
    # What the table remembers of jobs that are done.
    kept = ("_lance_catalog/committed/", "_lance_catalog/jobs/")
    return {p for p in ours - told if not p.startswith(kept)}


def mended(catalog: DirectoryNamespace) -> None:
    """After a repair nothing is left to report."""
    ctx = catalog.context
    apply(ctx, plan(ctx, grace_seconds=-3600))
    assert check(ctx, grace_seconds=-3600).problems == []


def refused(call: Any, *given: Any, **how: Any) -> tuple[int, str]:
    with pytest.raises(LanceNamespaceError) as caught:
        call(*given, **how)
    return int(caught.value.code), str(caught.value)
