"""Both implementations behind one set of verbs, and a world that says what both must show."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import lance
import lance.namespace
import lance_namespace as ln
import pyarrow as pa

import lance_catalog
from lance_catalog.manifest import ManifestLog

V1, V2, COMPAT, MIGRATING = "v1", "v2", "compat", "migrating"
MODES = (V1, V2, COMPAT, MIGRATING)
MANIFEST_MODES = (V2, COMPAT, MIGRATING)
Names = tuple[str, ...]

_OURS: dict[str, dict[str, str]] = {
    V1: {"manifest_enabled": "false"},
    V2: {"dir_listing_enabled": "false"},
    COMPAT: {},
    MIGRATING: {},
}
_NATIVE: dict[str, dict[str, str]] = {
    **_OURS,
    MIGRATING: {"dir_listing_to_manifest_migration_enabled": "true"},
}


def ipc(*numbers: int) -> bytes:
    """Return rows with these numbers as an Arrow stream."""
    table = pa.table({"n": pa.array(numbers, pa.int64())})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


class Peer:
    """One implementation on one root."""

    def __init__(
        self, kind: str, root: Path, mode: str, *, fresh: bool = False, **properties: str
    ) -> None:
        self.kind, self.root, self.mode = kind, Path(root), mode
        self.api: Any
        if kind == "native":
            self.api = lance.namespace.DirectoryNamespace(
                root=str(root), **_NATIVE[mode], **properties
            )
        else:
            self.api = lance_catalog.connect(str(root), **_OURS[mode], **properties)
            if fresh and self.api.context.log is not None:
                # A process shares one view per root; this is how another process begins.
                self.api.context.log = ManifestLog(self.api.context.store)

    def __repr__(self) -> str:
        return f"{self.kind}:{self.mode}"

    # Writing.

    def create_namespace(self, *names: str, **properties: str) -> None:
        self.api.create_namespace(
            ln.CreateNamespaceRequest(id=list(names), properties=properties or None)
        )

    def drop_namespace(self, *names: str, behavior: str | None = None) -> None:
        self.api.drop_namespace(ln.DropNamespaceRequest(id=list(names), behavior=behavior))

    def declare(self, *names: str, **properties: str) -> str:
        request = ln.DeclareTableRequest(id=list(names), properties=properties or None)
        return self.place(self.api.declare_table(request).location)

    def create(
        self, *names: str, rows: tuple[int, ...] = (1, 2, 3), mode: str = "create", **props: str
    ) -> str:
        request = ln.CreateTableRequest(id=list(names), mode=mode, properties=props or None)
        return self.place(self.api.create_table(request, ipc(*rows)).location)

    def insert(self, *names: str, rows: tuple[int, ...], mode: str = "append") -> None:
        request = ln.InsertIntoTableRequest(id=list(names), mode=mode)
        self.api.insert_into_table(request, ipc(*rows))

    def register(self, *names: str, location: str, **properties: str) -> None:
        self.api.register_table(
            ln.RegisterTableRequest(
                id=list(names), location=location, properties=properties or None
            )
        )

    def deregister(self, *names: str) -> None:
        self.api.deregister_table(ln.DeregisterTableRequest(id=list(names)))

    def drop(self, *names: str) -> None:
        self.api.drop_table(ln.DropTableRequest(id=list(names)))

    def undrop(self, *names: str, to: Names | None = None, drop_id: str | None = None) -> str:
        return str(self.api.undrop_table(names, as_id=to, drop_id=drop_id).location)

    def purge(self, *names: str) -> None:
        self.api.purge_table(names, force=True)

    def trash(self) -> list[Names]:
        return [one.id for one in self.api.list_dropped_tables()]

    def keeps_what_it_drops(self, place: str) -> bool:
        """Whether what this implementation dropped is on disk as it should be: ours stays."""
        return (self.root / place).exists() == (self.kind == "ours")

    def rename(self, *names: str, to: Names) -> None:
        self.api.rename_table(
            ln.RenameTableRequest(
                id=list(names), new_table_name=to[-1], new_namespace_id=list(to[:-1])
            )
        )

    # Reading.

    def place(self, location: str) -> str:
        """Return a location as it is relative to the root, however it was spelled."""
        path = location
        if path.startswith("file://"):
            path = unquote(path.removeprefix("file://"))
        return os.path.relpath(path, self.root)

    def namespaces(self, *names: str) -> list[str]:
        return list(self.api.list_namespaces(ln.ListNamespacesRequest(id=list(names))).namespaces)

    def tables(self, *names: str) -> list[str]:
        return list(self.api.list_tables(ln.ListTablesRequest(id=list(names))).tables)

    def all_tables(self) -> list[str]:
        return list(self.api.list_all_tables(ln.ListTablesRequest(id=[])).tables)

    def namespace_properties(self, *names: str) -> dict[str, str]:
        request = ln.DescribeNamespaceRequest(id=list(names))
        return dict(self.api.describe_namespace(request).properties or {})

    def describe(self, *names: str, **asked: Any) -> Any:
        return self.api.describe_table(ln.DescribeTableRequest(id=list(names), **asked))

    def has_namespace(self, *names: str) -> bool:
        try:
            self.api.namespace_exists(ln.NamespaceExistsRequest(id=list(names)))
        except ln.NamespaceNotFoundError:
            return False
        return True

    def has_table(self, *names: str) -> bool:
        try:
            self.api.table_exists(ln.TableExistsRequest(id=list(names)))
        except (ln.TableNotFoundError, ln.NamespaceNotFoundError):
            return False
        return True

    def rows(self, *names: str) -> list[int]:
        """Return the numbers in a table, read through this implementation."""
        dataset = lance.dataset(namespace_client=self.api, table_id=list(names))
        return sorted(dataset.to_table()["n"].to_pylist())

    def count(self, *names: str) -> int:
        answer = self.api.count_table_rows(ln.CountTableRowsRequest(id=list(names)))
        return int(answer.count)

    def can_write(self) -> None:
        """Do and undo one change of each kind that goes through the manifest (invariant 6)."""
        if self.mode == V1:
            self.declare("probe_table")
            self.drop("probe_table")
            return
        self.create_namespace("probe")
        self.declare("probe", "probe_table")
        assert self.tables("probe") == ["probe_table"]
        self.drop("probe", "probe_table")
        self.drop_namespace("probe")


@dataclass
class Table:
    """What both must show of a table: its place and rows, None when only declared."""

    place: str
    rows: tuple[int, ...] | None
    properties: dict[str, str] = field(default_factory=dict)


@dataclass
class World:
    """A root, both implementations on it, and what the operations so far have made."""

    root: Path
    mode: str
    ours: Peer
    native: Peer
    namespaces: dict[Names, dict[str, str]] = field(default_factory=dict)
    tables: dict[Names, Table] = field(default_factory=dict)
    gone: set[Names] = field(default_factory=set)
    checks: int = 0

    @classmethod
    def at(cls, root: Path, mode: str) -> World:
        return cls(root, mode, Peer("ours", root, mode), Peer("native", root, mode))

    def fresh(self, kind: str, root: Path | None = None) -> Peer:
        return Peer(kind, root or self.root, self.mode, fresh=True)

    def check(self) -> None:
        """Both show the same, through the handle that is open and through a new one.

        Then native changes something: on a copy, so that our next change finds our own last one.
        """
        self.checks += 1
        for peer in (self.ours, self.native, self.fresh("ours"), self.fresh("native")):
            self._check_peer(peer)
        with self.copied() as copy:
            Peer("native", copy, self.mode).can_write()
            self._check_peer(self.fresh("ours", copy))

    @contextlib.contextmanager
    def copied(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(dir=self.root.parent) as folder:
            copy = Path(folder) / "root"
            if self.root.exists():
                shutil.copytree(self.root, copy)
            yield copy

    def _check_peer(self, peer: Peer) -> None:
        for names in [(), *self.namespaces] if self.mode != V1 else [()]:
            children = sorted(n[-1] for n in self.namespaces if n[:-1] == names)
            tables = sorted(self._visible(peer, names))
            if self.mode != V1:
                assert peer.namespaces(*names) == children, peer
            assert peer.tables(*names) == tables, (peer, names)
        for names, properties in self.namespaces.items():
            assert peer.has_namespace(*names), (peer, names)
            shown = peer.namespace_properties(*names)
            if peer.kind == "native":  # Limit: it shows our bookkeeping too.
                shown = {k: v for k, v in shown.items() if not k.startswith("lance_catalog.")}
            assert shown == properties, (peer, names)
        for names, table in self.tables.items():
            if names[-1] in self._visible(peer, names[:-1]):
                self._check_table(peer, names, table)
        for names in self.gone - set(self.tables) - set(self.namespaces):
            assert not peer.has_table(*names), (peer, names)
            if self.mode != V1:
                assert not peer.has_namespace(*names), (peer, names)

    def _visible(self, peer: Peer, parent: Names) -> set[str]:
        names = {names[-1] for names in self.tables if names[:-1] == parent}
        if parent == () and peer.kind == "native" and self.mode == COMPAT:
            # Limit: its default compatibility mode shows root tables by their directories only.
            places = {table.place for table in self.tables.values()}
            return {p.removesuffix(".lance") for p in places if p.endswith(".lance")}
        return names

    def _check_table(self, peer: Peer, names: Names, table: Table) -> None:
        assert peer.has_table(*names), (peer, names)
        told = peer.describe(*names, check_declared=True)
        assert peer.place(told.location) == table.place, (peer, names)
        assert bool(told.is_only_declared) == (table.rows is None), (peer, names)
        by_directory = len(names) == 1 and (
            self.mode == V1 or (self.mode == COMPAT and peer.kind == "native")
        )
        if not by_directory:  # Limit: what is found by its directory has no row to show.
            assert dict(told.properties or {}) == table.properties, (peer, names)
        if table.rows is not None:
            assert peer.rows(*names) == sorted(table.rows), (peer, names)
            assert peer.count(*names) == len(table.rows), (peer, names)


# The manifest as a plain Lance table, for those who write it without either of us.


def manifest(root: Path) -> Any:
    return lance.dataset(root / "__manifest")


def manifest_rows(root: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = manifest(root).to_table().to_pylist()
    return sorted(rows, key=lambda row: row["object_id"])


def append_rows(root: Path, *rows: dict[str, Any]) -> None:
    """Append rows to the manifest with plain Lance; columns left out are NULL."""
    schema = manifest(root).schema
    table = pa.Table.from_pylist(
        [{name: row.get(name) for name in schema.names} for row in rows], schema=schema
    )
    lance.write_dataset(table, root / "__manifest", mode="append")
