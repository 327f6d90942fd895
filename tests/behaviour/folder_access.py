"""The least a namespace can be: a folder of Lance tables, to run the data operations on."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa

from lance_catalog.directory.operations import DataOperations
from lance_catalog.directory.operations.access import checkout, lance_errors
from lance_catalog.errors import InvalidInputError, TableNotFoundError


class FolderAccess(DataOperations):
    """Tables are ``<root>/<name>.lance``, where native's V1 mode looks for them too."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def make_table(self, table_id: list[str], table: pa.Table) -> None:
        lance.write_dataset(table, self._path(table_id))

    def open_table(
        self,
        table_id: list[str] | None,
        *,
        version: int | None = None,
        branch: str | None = None,
        tag: str | None = None,
    ) -> lance.LanceDataset:
        if not table_id:
            raise InvalidInputError("a table id is required")
        path = self._path(table_id)
        if not path.exists():
            raise TableNotFoundError(f"no table {table_id}")
        what = f"open {table_id}"
        with lance_errors(what):
            dataset = lance.dataset(path)
        return checkout(dataset, what, version=version, branch=branch, tag=tag)

    def _path(self, table_id: list[str]) -> Path:
        return self.root / ("$".join(table_id) + ".lance")
