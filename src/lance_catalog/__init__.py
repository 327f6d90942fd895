"""The catalog for Lance tables that needs nothing but storage."""

from __future__ import annotations

from typing import Any

import lance_namespace as _ln

from lance_catalog.directory.dropped import DroppedTable, TableState, TableStatus
from lance_catalog.directory.history import CatalogChange
from lance_catalog.directory.managed.cleanup import CleanedTable, VersionCleanup
from lance_catalog.directory.managed.switch import SwitchReport, VersionStatus
from lance_catalog.directory.namespace import DirectoryNamespace
from lance_catalog.directory.pinned import CatalogSnapshot
from lance_catalog.directory.purging import PurgedTable, PurgeReport
from lance_catalog.directory.transaction import Transaction
from lance_catalog.directory.undropping import Undropped
from lance_catalog.errors import (
    CommitOutcomeUnknownError,
    TableVersionAlreadyExistsError,
)

__all__ = [
    "CatalogChange",
    "CatalogSnapshot",
    "CleanedTable",
    "CommitOutcomeUnknownError",
    "DirectoryNamespace",
    "DroppedTable",
    "PurgeReport",
    "PurgedTable",
    "SwitchReport",
    "TableState",
    "TableStatus",
    "TableVersionAlreadyExistsError",
    "Transaction",
    "Undropped",
    "VersionCleanup",
    "VersionStatus",
    "__version__",
    "connect",
]

__version__ = "0.1.0"

_ln.register_namespace_impl("lance-catalog", "lance_catalog.DirectoryNamespace")


def connect(root: str, **properties: Any) -> DirectoryNamespace:
    """Open the catalog at a root: a path or a URI (file, s3, gs, az, memory). No I/O.

    Properties are those of the reference page, for example ``manifest_enabled=False``; names with
    a dot go in by ``**{"storage.region": "eu-central-1"}``.
    """
    return DirectoryNamespace(root=root, **properties)
