"""Catalogs and tables made by pylance itself, for the tests of reading."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import lance_namespace as ln
import pyarrow as pa

import lance_catalog

__all__ = ["append", "catalog_at", "create"]


def catalog_at(path: Path, *namespaces: str, **properties: Any) -> lance_catalog.DirectoryNamespace:
    catalog = lance_catalog.connect(str(path), **properties)
    for name in namespaces:
        catalog.create_namespace(ln.CreateNamespaceRequest(id=name.split(".")))
    return catalog


def create(catalog: Any, name: str, data: pa.Table, **how: Any) -> Any:
    """Any type and file version can be had this way."""
    declared = catalog.declare_table(ln.DeclareTableRequest(id=name.split(".")))
    lance.write_dataset(data, declared.location, **how)
    return catalog.open_table(name.split("."))


def append(catalog: Any, name: str, data: pa.Table, **how: Any) -> Any:
    return lance.write_dataset(data, catalog.open_table(name.split(".")), mode="append", **how)
