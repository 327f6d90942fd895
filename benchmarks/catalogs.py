"""Seeded catalogs: one seed per size, a copy of it for each side, brought to its working state."""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lance
import lance_namespace
import pyarrow as pa

from benchmarks.sides import OURS, Names, connect
from lance_catalog.manifest.schema import DIRECTORY, SCHEMA, STORAGE_VERSION

__all__ = ["Catalogs", "rows_of", "seed", "seed_rows", "seed_v1", "warm_up"]

#: A million rows lie in four fragments.
_ROWS_PER_FRAGMENT = 250_000
#: The indices of the manifest, by the names that both sides give them.
_INDICES = {"object_id_btree", "object_type_bitmap", "base_objects_label_list"}
#: Our upkeep looks for missing indices at the first commit, and then every few.
_MOST_WARMING = 40


def rows_of(rows: int) -> pa.Table:
    """Return a manifest of this many rows: namespaces of a hundred tables, in the order of ids."""
    namespaces = Names(rows).namespaces
    ids = [f"n{i:06d}" for i in range(namespaces)]
    tables = [f"n{i % namespaces:06d}$t{i // namespaces:05d}" for i in range(rows - namespaces)]
    nothing: list[None] = [None] * rows
    return pa.table(
        {
            "object_id": ids + tables,
            "object_type": ["namespace"] * len(ids) + ["table"] * len(tables),
            # As real ones: eight hex digits, then the id.
            "location": [None] * len(ids)
            + [f"{zlib.crc32(table.encode()):08x}_{table}" for table in tables],
            "metadata": nothing,
            "base_objects": nothing,
        },
        schema=SCHEMA,
    )


def seed(root: str, rows: int, options: Mapping[str, str] | None = None) -> None:
    """Write a manifest of this many rows, as one version."""
    seed_rows(root, rows_of(rows), options)


def seed_rows(root: str, rows: pa.Table, options: Mapping[str, str] | None = None) -> None:
    """Write a manifest of these rows, as one version."""
    lance.write_dataset(
        rows,
        f"{root}/{DIRECTORY}",
        data_storage_version=STORAGE_VERSION,
        max_rows_per_file=_ROWS_PER_FRAGMENT,
        storage_options=dict(options) if options else None,
    )


def seed_v1(root: Path, directories: int) -> None:
    """Make the directories of declared V1 tables."""
    for number in range(directories):
        directory = root / f"table{number:06d}.lance"
        directory.mkdir(parents=True)
        (directory / ".lance-reserved").write_bytes(b"reserved")


def warm_up(side: str, root: str, namespace: Any, options: Mapping[str, str] | None = None) -> None:
    """Change the catalog until it is as one in use.

    One change does it for native, whose default makes none, and for ours, whose upkeep comes
    after a commit. Nothing of this is timed.
    """
    for number in range(_MOST_WARMING):
        request = lance_namespace.CreateNamespaceRequest(id=[f"warming{number}"])
        namespace.create_namespace(request)
        if side != OURS or _has_indices(root, options):
            return
    message = f"our upkeep made no indices in {_MOST_WARMING} changes of {root}"
    raise RuntimeError(message)


def _has_indices(root: str, options: Mapping[str, str] | None) -> bool:
    dataset = lance.dataset(
        f"{root}/{DIRECTORY}", storage_options=dict(options) if options else None
    )
    present = {index.name for index in dataset.describe_indices()}
    return present >= _INDICES


class Catalogs:
    """Hands out fresh copies of seeds. Each side works on its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made = 0

    def fresh(self, side: str, rows: int) -> Path:
        """Return the root of a new copy, in its working state."""
        root = self._copy(self._seed(rows))
        warm_up(side, str(root), connect(side, str(root)))
        return root

    def empty(self) -> Path:
        """Return the root of a catalog with nothing in it."""
        self._made += 1
        root = self._folder / f"catalog-{self._made}"
        root.mkdir(parents=True)
        return root

    def v1(self, directories: int) -> Path:
        """Return the root of a new V1 catalog."""
        root = self.empty()
        seed_v1(root, directories)
        return root

    @staticmethod
    def discard(root: Path) -> None:
        """Remove a copy: native's at a million rows are gigabytes."""
        shutil.rmtree(root, ignore_errors=True)

    def _seed(self, rows: int) -> Path:
        root = self._folder / f"seed-{rows}"
        if not root.exists():
            seed(str(root), rows)
        return root

    def _copy(self, source: Path) -> Path:
        root = self.empty()
        shutil.copytree(source, root, dirs_exist_ok=True)
        return root
