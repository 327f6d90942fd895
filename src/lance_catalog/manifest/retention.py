"""Old versions of ``__manifest``: their files go, oldest first; their names stay as placeholders.

A native handle that slept while names were removed commits into the past, and its acknowledged
write is lost; with an empty file under each removed version's name it lands correctly. So names
are removed only on demand, for roots without native writers (``upkeep --prune-names``).

What may go. A file is named by an unbroken run of versions, from the commit that wrote it to the
one that replaced it. So what version v names and the next one left does not, no later version
names. There are two exceptions, and both are asked: a version that a tag or a branch keeps, and
the latest, which may have been restored from an old one. What a restore brought back and later
commits replaced again is the one thing that can go before its time: those versions lose it
together with the version they were restored from. Nobody reads them but by number.

Two processes may do this at once: each step may be repeated, and files go before the name, so
that a crash leaves a version to be looked at again rather than files nobody would look for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import lance

from lance_catalog.errors import ConcurrentModificationError
from lance_catalog.failpoints import hit
from lance_catalog.manifest.inspection import named_by
from lance_catalog.manifest.schema import DIRECTORY
from lance_catalog.storage.manifests import Naming, manifest_name, parse_manifest_name
from lance_catalog.storage.port import ObjectInfo, Store

__all__ = ["Removed", "Retention"]

#: The newest versions are never touched, however short the time: commits build on them.
_NEWEST: Final = 2
#: How wide a gap in the versions may be for a commit to see across it.
_LOOKS: Final = 128

_VERSIONS: Final = f"{DIRECTORY}/_versions"
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Removed:
    """What a run removed, or with a dry run would remove."""

    versions: int = 0
    files: int = 0
    size: int = 0
    names: int = 0


class Retention:
    """Removes expired versions of one manifest. Remembers where the removed ones end."""

    def __init__(self, store: Store, uri: str) -> None:
        self._store = store
        self._uri = uri
        #: Below this version nothing is left to remove but what a full run finds.
        self._first: int | None = None
        #: What kept versions name; they do not change.
        self._kept: dict[int, set[str]] = {}

    # A bounded piece, after a commit.

    def some(self, dataset: Any, naming: Naming, *, older_than_ms: int, limit: int) -> Removed:
        """Remove at most ``limit`` versions that ended before a time, oldest first.

        Lists nothing: placeholders stay for ever, and a listing would grow with them. The first
        version that is left is found by a binary search once, and remembered.
        """
        last = dataset.version - _NEWEST
        if self._first is None or self._first > dataset.version:
            self._first = self._search(last, naming, _kept_versions(dataset))
        run: _Run | None = None
        found = self._next(self._first, last, naming)
        while found is not None and found[0] <= last:
            version = self._first = found[0]
            found = self._next(version + 1, dataset.version, naming)
            # A version ends when the next one is written. Most of the time nothing is due, and
            # two looks tell.
            if found is None or found[1].modified_ms > older_than_ms:
                break
            run = run or _Run(self, dataset, naming)
            if run.seen >= limit:
                break
            run.remove(version, found[0])
        return Removed() if run is None else run.removed()

    def _search(self, last: int, naming: Naming, kept: Iterable[int]) -> int:
        """Return where removed versions end: below, names are absent or empty.

        A gap above the end can lead it too high: what lies below then waits for a full run.
        """
        skip = set(kept)
        low, high = 1, max(1, last)
        while low < high:
            middle = (low + high) // 2
            if middle not in skip and self._is_there(middle, naming):
                high = middle
            else:
                low = middle + 1
        return low

    def _head(self, version: int, naming: Naming) -> ObjectInfo | None:
        return self._store.head(f"{_VERSIONS}/{manifest_name(version, naming)}")

    def _is_there(self, version: int, naming: Naming) -> bool:
        info = self._head(version, naming)
        return info is not None and info.size > 0

    def _next(self, version: int, last: int, naming: Naming) -> tuple[int, ObjectInfo] | None:
        """Return the first version from here on that is there, within reach."""
        for number in range(version, min(last, version + _LOOKS) + 1):
            info = self._head(number, naming)
            if info is not None and info.size > 0:
                return number, info
        return None

    # Everything, on demand.

    def all(
        self,
        dataset: Any,
        *,
        older_than_ms: int,
        prune_names: bool = False,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Removed:
        """Remove every version that ended before a time; with ``prune_names`` the names too."""
        listed = _listed(self._store)
        live = [version for version, (_, info) in listed.items() if info.size > 0]
        newest = set(live[-_NEWEST:])
        run = _Run(self, dataset, Naming.V2, dry_run=dry_run, sizes=_sizes(self._store))
        todo = [
            (version, after)
            for version, after in pairwise(live)
            if version not in newest
            and version not in run.kept
            and listed[after][1].modified_ms <= older_than_ms
        ]
        for done, (version, after) in enumerate(todo):
            if progress is not None:
                progress(done, len(todo))
            run.naming = listed[version][0]
            run.remove(version, after)
        names = 0
        if prune_names:
            gone = {version for version, _ in todo}
            paths = [
                info.path
                for version, (_, info) in listed.items()
                if version in gone or (info.size == 0 and version < dataset.version)
            ]
            names = len(paths)
            if not dry_run:
                self._store.delete(paths)
        if progress is not None:
            progress(len(todo), len(todo))
        return run.removed(names)


class _Run:
    """One pass: what must stay, what was removed."""

    def __init__(
        self,
        owner: Retention,
        dataset: Any,
        naming: Naming,
        *,
        dry_run: bool = False,
        sizes: Mapping[str, tuple[int, int]] | None = None,
    ) -> None:
        self._store, self._uri = owner._store, owner._uri
        self._dry_run, self._sizes = dry_run, sizes
        self.naming = naming
        self.kept = _kept_versions(dataset)
        self.seen = self._versions = self._files = self._size = 0
        needed = self._named(dataset.version, dataset)
        if needed is None:
            raise ConcurrentModificationError(
                f"version {dataset.version} of the catalog was removed while it was looked at: "
                "another upkeep is at work. Retry later."
            )
        self._needed = needed
        for version in self.kept:
            if version not in owner._kept:
                owner._kept[version] = self._named(version) or set()
            self._needed |= owner._kept[version]
        self._following: tuple[int, set[str]] | None = None

    def remove(self, version: int, after: int) -> None:
        """Remove the files that a version names and the next one left does not; then its name."""
        self.seen += 1
        if version in self.kept:
            return
        mine = self._names_at(version)
        following = self._names_at(after)
        if mine is None or following is None:
            return  # Another process is at it.
        self._following = (after, following)
        self._delete(mine - following - self._needed)
        if not self._dry_run:
            hit("upkeep.files_gone")
            self._store.put(f"{_VERSIONS}/{manifest_name(version, self.naming)}", b"")
        self._versions += 1

    def removed(self, names: int = 0) -> Removed:
        return Removed(self._versions, self._files, self._size, names)

    def _names_at(self, version: int) -> set[str] | None:
        if self._following is not None and self._following[0] == version:
            return self._following[1]
        return self._named(version)

    def _named(self, version: int, opened: Any = None) -> set[str] | None:
        """Return what a version names; None when it was removed meanwhile, or while it was read."""
        options = dict(self._store.lance_options) or None
        try:
            if opened is None:
                opened = lance.dataset(self._uri, version=version, storage_options=options)
            return _names(opened)
        except (OSError, RuntimeError, ValueError):
            info = self._store.head(f"{_VERSIONS}/{manifest_name(version, self.naming)}")
            if info is None or info.size == 0:
                return None
            raise

    def _delete(self, gone: Iterable[str]) -> None:
        files: list[str] = []
        for path in gone:
            self._count(path)
            if path.startswith("_indices/"):
                if not self._dry_run:
                    self._store.delete_tree(f"{DIRECTORY}/{path}")
            else:
                files.append(f"{DIRECTORY}/{path}")
        if not self._dry_run:
            self._store.delete(files)

    def _count(self, path: str) -> None:
        count, size = (1, 0) if self._sizes is None else self._sizes.get(path, (0, 0))
        self._files += count
        self._size += size


def _names(dataset: Any) -> set[str]:
    """Return what one version names, its own transaction included."""
    named = named_by(dataset)
    made = dataset.read_transaction(dataset.version)
    if made is not None:
        named.add(f"_transactions/{made.read_version}-{made.uuid}.txn")
    return named


def _kept_versions(dataset: Any) -> set[int]:
    """Return the versions that a tag or a branch holds on to."""
    tagged = {tag["version"] for tag in dataset.tags.list().values() if not tag.get("branch")}
    branched = {
        branch["parent_version"]
        for branch in dataset.branches.list().values()
        if not branch.get("parent_branch")
    }
    return tagged | branched


def _listed(store: Store) -> dict[int, tuple[Naming, ObjectInfo]]:
    """Return every name in order of versions."""
    found: dict[int, tuple[Naming, ObjectInfo]] = {}
    for info in store.list_level(_VERSIONS).objects:
        parsed = parse_manifest_name(info.path.rsplit("/", 1)[-1])
        if parsed is not None:
            found[parsed[0]] = (parsed[1], info)
    return dict(sorted(found.items()))


def _sizes(store: Store) -> dict[str, tuple[int, int]]:
    """Return (files, bytes) of every file, and of every index folder as a whole."""
    found: dict[str, tuple[int, int]] = {}
    for info in store.list_tree(DIRECTORY):
        key = "/".join(info.path.split("/")[1:3])
        count, size = found.get(key, (0, 0))
        found[key] = (count + 1, size + info.size)
    return found
