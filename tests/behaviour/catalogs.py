"""What the behaviour suite runs on: a catalog of each mode on each store, and what modes lack."""

from __future__ import annotations

import hashlib
import io
import itertools
import os
import uuid
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, unquote

import lance
import obstore
import pyarrow as pa
import pytest

from lance_catalog import DirectoryNamespace
from lance_catalog.config import Mode
from lance_catalog.errors import LanceNamespaceError

#: The layout flag, spelled out: a root that has it keeps it under this name.
FLAG: Final = ".lance-catalog-layout"

#: The one place that says what a mode cannot do: the rest of the suite runs where it can,
#: test_capabilities.py proves that everything else is refused with 0 and names the mode.
CAPABILITIES: Final[dict[Mode, frozenset[str]]] = {
    Mode.V1: frozenset(),
    Mode.V2: frozenset({"namespaces", "rename", "root properties", "declared properties"}),
    Mode.COMPAT: frozenset({"namespaces", "rename", "root properties", "declared properties"}),
}
ALL_CAPABILITIES: Final = frozenset().union(*CAPABILITIES.values())

SWITCHES: Final[dict[Mode, dict[str, str]]] = {
    Mode.V1: {"manifest_enabled": "false"},
    Mode.V2: {"dir_listing_enabled": "false"},
    Mode.COMPAT: {},
}
LOCAL_STORES: Final = ("local", "memory")
CLOUD_STORES: Final = ("s3", "azurite")
STORES: Final = LOCAL_STORES + CLOUD_STORES
#: For what is decided before any store is asked, or by one store as by another.
local_only = pytest.mark.stores(*LOCAL_STORES)
CLOUD_HOMES: Final = {Mode.V1: "root", Mode.V2: "nested", Mode.COMPAT: "root"}


@dataclass
class Root:
    """A root on some store, looked at without the code under test."""

    uri: str
    options: dict[str, str] = field(default_factory=dict)
    #: The folder behind it, where there is one.
    folder: str | None = None
    #: obstore's view of the bucket, and the prefix in it, where there is one.
    bucket: Any = None
    prefix: str = ""

    def paths(self, below: str = "") -> list[str]:
        """Every object below the root, relative to it, sorted."""
        if self.folder is not None:
            found = [
                os.path.relpath(os.path.join(folder, name), self.folder)
                for folder, _, names in os.walk(self.folder)
                for name in names
            ]
        else:
            chunks = obstore.list(self.bucket, self.prefix + "/")
            found = [str(meta["path"]) for chunk in chunks for meta in chunk]
            found = [path.removeprefix(self.prefix + "/") for path in found]
        return sorted(path for path in found if path.startswith(below))

    def level(self) -> set[str]:
        """The names directly in the root."""
        return {path.split("/")[0] for path in self.paths()}

    def get(self, path: str) -> bytes:
        if self.folder is not None:
            with open(os.path.join(self.folder, path), "rb") as file:
                return file.read()
        return bytes(obstore.get(self.bucket, f"{self.prefix}/{path}").bytes())

    def put(self, path: str, data: bytes) -> None:
        if self.folder is not None:
            target = os.path.join(self.folder, path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "wb") as file:
                file.write(data)
        else:
            obstore.put(self.bucket, f"{self.prefix}/{path}", data)

    def remove(self, path: str) -> None:
        if self.folder is not None:
            os.unlink(os.path.join(self.folder, path))
        else:
            obstore.delete(self.bucket, f"{self.prefix}/{path}")

    def digest(self) -> str:
        """A digest of names and bytes, empty folders included: equal means nothing was written."""
        total = hashlib.sha256()
        for path in self.paths():
            total.update(path.encode(errors="surrogateescape") + b"\0" + self.get(path) + b"\0")
        if self.folder is not None:
            total.update(str(os.path.exists(self.folder)).encode())
            for folder, _, _ in sorted(os.walk(self.folder)):
                stat = os.stat(folder)
                total.update(f"{folder} {stat.st_mtime_ns}\0".encode())
        return total.hexdigest()

    def lance_uri(self, path: str) -> str:
        """Where Lance finds a plainly named path."""
        base = self.uri if self.folder is None else "file://" + quote(self.folder)
        return f"{base}/{path}"

    def dataset(self, path: str) -> Any:
        """A table below the root, opened by Lance alone."""
        return lance.dataset(self.lance_uri(path), storage_options=self.options or None)

    def write(self, path: str, table: pa.Table, **how: Any) -> Any:
        """Write a table below the root, by Lance alone."""
        options = self.options or None
        return lance.write_dataset(table, self.lance_uri(path), storage_options=options, **how)


@dataclass
class Catalog:
    """A namespace of one mode on one root; attributes it lacks are the namespace's."""

    mode: Mode
    kind: str
    root: Root
    home: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.ns = self.open()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ns, name)

    def properties(self, mode: Mode | None = None, **more: Any) -> dict[str, str]:
        storage = {f"storage.{key}": value for key, value in self.root.options.items()}
        return {"root": self.root.uri, **SWITCHES[mode or self.mode], **storage, **more}

    def open(self, mode: Mode | None = None, **more: Any) -> DirectoryNamespace:
        """Another namespace object on the same root, in this mode or another."""
        return DirectoryNamespace(**self.properties(mode, **more))

    def can(self, capability: str) -> bool:
        assert capability in ALL_CAPABILITIES
        return capability in CAPABILITIES[self.mode]

    @property
    def flag(self) -> set[str]:
        """What the first table of a root leaves beside it: on object stores the layout flag."""
        by_directory = self.mode is not Mode.V2
        return {FLAG} if self.kind in CLOUD_STORES and by_directory else set()

    def at(self, name: str) -> list[str]:
        """The id of a table in the namespace this run is about."""
        return [*self.home, name]

    def make_home(self) -> None:
        for depth in range(1, len(self.home) + 1):
            self.ns.create_namespace({"id": list(self.home[:depth])})

    def create(self, id: list[str], numbers: Iterable[int] = (1, 2, 3), **more: Any) -> Any:
        return self.ns.create_table({"id": id, **more}, ipc(rows(numbers)))

    def namespace(self, *names: str, **more: Any) -> Any:
        return self.ns.create_namespace({"id": list(names), **more})

    def tables(self, id: Iterable[str] = (), **more: Any) -> list[str]:
        return list(self.ns.list_tables({"id": list(id), **more}).tables)

    def namespaces(self, id: Iterable[str] = (), **more: Any) -> list[str]:
        return list(self.ns.list_namespaces({"id": list(id), **more}).namespaces)

    def all_tables(self, id: Iterable[str] = (), **more: Any) -> list[str]:
        return list(self.ns.list_all_tables({"id": list(id), **more}).tables)

    def exists(self, id: list[str]) -> bool:
        found = outcome(self.ns.table_exists, {"id": id})
        assert found in (None, 1, 4)
        return found is None

    def place(self, id: list[str]) -> str:
        """Where a table lies, relative to the root, as plain names."""
        location = self.ns.describe_table({"id": id}).location
        return relative(self, location)

    def data(self, id: list[str]) -> list[int]:
        """What Lance alone reads at the location that describe_table answers, sorted."""
        location = self.ns.describe_table({"id": id}).location
        dataset = lance.dataset(location, storage_options=self.root.options or None)
        return sorted(dataset.to_table()["n"].to_pylist())

    def manifest(self) -> Any:
        """The ``__manifest`` table, opened by Lance alone."""
        return self.root.dataset("__manifest")

    def rows(self) -> dict[str, dict[str, Any]]:
        """The rows of ``__manifest`` by object_id, read by Lance alone; ids are unique."""
        found = self.manifest().to_table().to_pylist()
        ids = [row["object_id"] for row in found]
        assert len(ids) == len(set(ids)), ids
        return {row["object_id"]: row for row in found}


def relative(catalog: Catalog, location: str) -> str:
    if catalog.root.folder is not None:
        assert location.startswith("file://")
        path = unquote(location.removeprefix("file://"))
        assert path.startswith(catalog.root.folder + "/")
        return path.removeprefix(catalog.root.folder + "/")
    assert location.startswith(catalog.root.uri + "/")
    return unquote(location.removeprefix(catalog.root.uri + "/"))


def rows(numbers: Iterable[int]) -> pa.Table:
    return pa.table({"n": pa.array(list(numbers), pa.int64())})


def ipc(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def refusal(call: Callable[..., Any], *args: Any, **kwargs: Any) -> LanceNamespaceError:
    """The error a call ends in."""
    with pytest.raises(LanceNamespaceError) as caught:
        call(*args, **kwargs)
    return caught.value


def outcome(call: Callable[..., Any], *args: Any, **kwargs: Any) -> int | None:
    """The code of the error a call ends in, None when it answers."""
    try:
        call(*args, **kwargs)
    except LanceNamespaceError as error:
        return int(error.code)
    return None


def code(call: Callable[..., Any], *args: Any, **kwargs: Any) -> int:
    """The code of the error a call ends in."""
    return int(refusal(call, *args, **kwargs).code)


def variants(
    test: str, modes: Sequence[Mode], stores: Iterable[str], homes: Sequence[str]
) -> list[Any]:
    """The parameters of the ``catalog`` fixture: every combination that exists.

    On the second of the servers a test runs in one of its modes, another for each test: what they
    differ in shows on the first. `make soak` runs the others.
    """
    found = []
    shown = modes[zlib.crc32(test.encode()) % len(modes)] if modes else None
    for mode, store, home in itertools.product(modes, stores, homes):
        if home == "nested" and "namespaces" not in CAPABILITIES[mode]:
            continue
        # A request to a server costs; there each mode shows one of the two.
        if store in CLOUD_STORES and len(homes) > 1 and home != CLOUD_HOMES[mode]:
            continue
        marks = [pytest.mark.integration] if store in CLOUD_STORES else []
        if store == "azurite" and mode is not shown:
            marks.append(pytest.mark.soak)
        text = f"{mode.value}-{store}" + (f"-{home}" if home == "nested" else "")
        found.append(pytest.param((mode, store, home), id=text, marks=marks))
    return found


def fresh_name() -> str:
    return uuid.uuid4().hex
