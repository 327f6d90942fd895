"""Managed tables as the races and the crash tests write and read them, and what must agree."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import lance
import lance_namespace as ln
import pyarrow as pa

from lance_catalog import DirectoryNamespace
from lance_catalog.config import Mode
from lance_catalog.storage.manifests import parse_manifest_name
from tests.concurrency.racing import open_catalog, rows_at

Names = Sequence[str]


def table(numbers: Iterable[int]) -> pa.Table:
    return pa.table({"g": pa.array(list(numbers), pa.int64())})


def managed_catalog(root: str, mode: Mode, tables: Sequence[str] = ()) -> DirectoryNamespace:
    """A catalog with managed versions, and tables of one version that holds one row: 0."""
    ns = open_catalog(root, mode)
    ns.enable_managed_versions()
    for name in tables:
        write(ns, [name], [0], "create")
    return ns


def write(ns: Any, names: Names, numbers: Iterable[int], mode: str = "append") -> Any:
    """Write as a stock writer does: Lance, with the catalog as its client."""
    return lance.write_dataset(table(numbers), namespace_client=ns, table_id=list(names), mode=mode)


def read(ns: Any, names: Names) -> list[int]:
    """The rows as a stock reader finds them through the catalog."""
    found = lance.dataset(namespace_client=ns, table_id=list(names))
    return sorted(found.to_table()["g"].to_pylist())


def location(ns: DirectoryNamespace, names: Names) -> str:
    return str(ns.describe_table({"id": list(names)}).location)


def numbers(ns: DirectoryNamespace, names: Names) -> list[int]:
    """The versions the catalog tells of, lowest first."""
    found = ns.list_table_versions({"id": list(names), "descending": False}).versions
    return [one.version for one in found]


@dataclass
class Stager:
    """What Lance takes for the catalog: keeps the request for a new version back."""

    ns: DirectoryNamespace
    asked: list[dict[str, Any]] = field(default_factory=list)

    def namespace_id(self) -> str:
        return "stager"

    def describe_table(self, request: Any) -> Any:
        return self.ns.describe_table(request)

    def list_table_versions(self, request: Any) -> Any:
        return self.ns.list_table_versions(request)

    def describe_table_version(self, request: Any) -> Any:
        return self.ns.describe_table_version(request)

    def create_table_version(self, request: Any) -> Any:
        self.asked.append(dict(request))
        kept = {key: request[key] for key in ("version", "manifest_path", "manifest_size")}
        return ln.CreateTableVersionResponse(version=ln.TableVersion(**kept))


def stage(ns: DirectoryNamespace, names: Names, numbers: Iterable[int]) -> dict[str, Any]:
    """Let Lance stage an append; return the request that would make it a version."""
    stager = Stager(ns)
    write(stager, names, numbers)
    (asked,) = stager.asked
    return {**asked, "id": list(names)}


def manifests_of(place: str) -> dict[int, str]:
    """The manifests below a table's folder, by version."""
    folder = f"{place}/_versions"
    names = os.listdir(folder) if os.path.isdir(folder) else []
    found = {name: parse_manifest_name(name) for name in names}
    return {
        parsed[0]: f"{folder}/{name}"
        for name, parsed in found.items()
        if parsed is not None and os.path.getsize(f"{folder}/{name}")
    }


def staged_files(root: str) -> list[str]:
    """Manifests on their way, of every table below a root."""
    return [
        os.path.relpath(os.path.join(folder, name), root)
        for folder, _, names in os.walk(root)
        for name in names
        if ".manifest-" in name and "__manifest" not in folder
    ]


def registry(root: str) -> list[tuple[str, int, dict[str, str]]]:
    """(table, version, metadata) of every version row, read by Lance alone: duplicates show."""
    rows = lance.dataset(f"{root}/__manifest").to_table(
        ["object_id", "metadata"], filter="object_type = 'table_version'"
    )
    found = []
    for key, text in zip(rows["object_id"].to_pylist(), rows["metadata"].to_pylist(), strict=True):
        name, _, number = key.rpartition("$")
        found.append((name, int(number), json.loads(text)))
    return found


def disagreements(root: str, ns: DirectoryNamespace) -> list[str]:
    """Where rows, files and readers contradict each other; the catalog is read first, as it heals.

    For a catalog at rest in which nothing was deleted: then every file has its row, too.
    """
    wrong: list[str] = []
    listed = ns.list_all_tables({"id": []}).tables
    places: dict[str, str] = {}
    for key in listed:
        names = key.split("$")
        places[key] = unquote(location(ns, names).removeprefix("file://"))
        if ns.describe_table({"id": names, "check_declared": True}).is_only_declared:
            continue
        through, alone = read(ns, names), rows_at(places[key])
        if through != alone:
            wrong.append(f"{key}: {through} through the catalog, {alone} without")
        twice = [row for row, count in Counter(through).items() if count > 1]
        wrong += [f"{key}: row {row} is there twice" for row in twice]
    rows = registry(root)
    count = Counter((name, number) for name, number, _ in rows)
    wrong += [f"{name}: version {n} has {c} rows" for (name, n), c in count.items() if c > 1]
    wrong += [f"{name}: versions, and no table" for name in {r[0] for r in rows} - set(listed)]
    for key, place in places.items():
        files = manifests_of(place)
        wrong += _rows_and_files(root, key, files, [row for row in rows if row[0] == key])
    return wrong


def _rows_and_files(
    root: str, key: str, files: dict[int, str], rows: list[tuple[str, int, dict[str, str]]]
) -> list[str]:
    wrong = []
    head = max((number for _, number, _ in rows), default=0)
    for _, number, values in rows:
        if number not in files:
            wrong.append(f"{key}: version {number} has a row and no manifest")
        elif os.path.getsize(files[number]) != int(values["manifest_size"]):
            wrong.append(f"{key}: the manifest of version {number} is not the one of its row")
        elif f"{root}/{values['manifest_path']}" != files[number]:
            wrong.append(f"{key}: version {number} is said to be at {values['manifest_path']}")
    known = {number for _, number, _ in rows}
    # Above the highest registered it was written behind the catalog's back.
    wrong += [f"{key}: version {n} has no row" for n in files if n not in known and n < head]
    return wrong
