"""The files of a table's ``_versions`` folder: their names, and which of them is the newest."""

from __future__ import annotations

import contextlib
import json
import re
from enum import Enum
from typing import Final

from lance_catalog.storage.port import Store

__all__ = [
    "HINT",
    "Naming",
    "hinted_version",
    "leave_hint",
    "manifest_name",
    "newest_versions",
    "parse_manifest_name",
]

HINT: Final = "latest_version_hint.json"
_MAX: Final = 2**64 - 1
_V2_NAME: Final = re.compile(r"^(\d{20})\.manifest$")
_V1_NAME: Final = re.compile(r"^(\d{1,19})\.manifest$")


class Naming(Enum):
    """How a table names its manifests; a table keeps the scheme it was made with (I37)."""

    V1 = "V1"
    V2 = "V2"


def manifest_name(version: int, naming: Naming) -> str:
    """Return the file name of a version's manifest."""
    return f"{_MAX - version:020d}.manifest" if naming is Naming.V2 else f"{version}.manifest"


def parse_manifest_name(name: str) -> tuple[int, Naming] | None:
    """Return (version, naming scheme) of a manifest's file name; None for anything else."""
    match = _V2_NAME.match(name)
    if match:
        return _MAX - int(match[1]), Naming.V2
    match = _V1_NAME.match(name)
    return (int(match[1]), Naming.V1) if match else None


def hinted_version(store: Store, directory: str) -> int:
    """Return the version Lance's hint names, 0 without a usable one.

    Only a hint: it may lag behind, or lie. Ahead of what we believe it is a reason to list.
    """
    data = store.get(f"{directory}/_versions/{HINT}")
    try:
        return 0 if data is None else int(json.loads(data)["version"])
    except (ValueError, KeyError, TypeError):
        return 0


def leave_hint(store: Store, directory: str, version: int) -> None:
    """Leave the hint after a commit, on disks, where Lance and we start looking from it."""
    with contextlib.suppress(OSError):
        store.put_hint(f"{directory}/_versions/{HINT}", b'{"version":%d}' % version)


def newest_versions(
    store: Store, directory: str, *, everything: bool = False
) -> dict[int, tuple[Naming, str | None]]:
    """Return versions with their naming scheme and e_tag; empty files are placeholders, not them.

    V2 names sort newest first, so the first page of a listing is enough: one request on an object
    store, a few stats on a disk; ``everything`` asks for all of them.
    """
    prefix = f"{directory}/_versions"
    found: dict[int, tuple[Naming, str | None]] = {}
    objects = store.list_level(prefix).objects if everything else store.list_first(prefix)
    for info in objects:
        parsed = parse_manifest_name(info.path.rsplit("/", 1)[-1])
        if parsed is not None and info.size > 0:
            found[parsed[0]] = (parsed[1], info.e_tag)
    if objects and not everything and not any(n is Naming.V2 for n, _ in found.values()):
        return newest_versions(store, directory, everything=True)
    return found
