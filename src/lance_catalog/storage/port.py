"""What we need of a store. Paths are relative to the root, ``/``-separated, names as they are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from itertools import chain, islice

__all__ = ["Content", "Level", "Names", "ObjectInfo", "Progress", "Store", "check_path"]

#: Called with the number of objects and bytes deleted so far.
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One object: its path below the root, size, time of change and e_tag."""

    path: str
    size: int
    modified_ms: int
    e_tag: str | None = None


@dataclass(frozen=True, slots=True)
class Level:
    """One level of a listing: names of folders, and the objects directly there."""

    folders: list[str] = field(default_factory=list)
    objects: list[ObjectInfo] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Names:
    """One level of a listing by name only: what costs nothing beyond the listing itself."""

    folders: list[str] = field(default_factory=list)
    objects: list[str] = field(default_factory=list)


class Content(Enum):
    """What a look into a folder shows."""

    NOTHING = "nothing"
    #: At least one object, at any depth.
    FILES = "files"
    #: The object that was asked for lies directly there, whatever else does.
    MARKED = "marked"


class Store(ABC):
    """A root on some storage. Building one does no I/O."""

    #: The root as Lance and users are given it, without a trailing slash.
    uri: str
    #: What Lance gets as ``storage_options``.
    lance_options: Mapping[str, str]
    #: Whether a request costs a network round trip (listings then beat probes).
    remote: bool

    @abstractmethod
    def uri_of(self, path: str) -> str:
        """Return the URI of a path below the root, so that Lance opens exactly that path."""

    @abstractmethod
    def list_level(self, prefix: str = "") -> Level:
        """List one level; an absent prefix is an empty level."""

    def list_first(self, prefix: str) -> list[ObjectInfo]:
        """List the objects of a level that come first by name, at the cost of one request.

        At least the first, where there is one; a store without an order lists them all.
        """
        return self.list_level(prefix).objects

    def list_root(self) -> Names:
        """List the root itself, names only: one listing, however large the objects' part of it."""
        level = self.list_level()
        return Names(level.folders, [info.path for info in level.objects])

    def sample(self, limit: int) -> list[str]:
        """Return the paths of up to ``limit`` objects of the root, at any depth.

        Fewer than ``limit`` are all there are. Where requests cost, one request.
        """
        level = self.list_level()
        trees = chain.from_iterable(self.list_tree(folder) for folder in level.folders)
        return [info.path for info in islice(chain(level.objects, trees), limit)]

    def look_into(
        self, folders: Sequence[str], mark: str, likely: Sequence[str] = ()
    ) -> list[Content]:
        """Look into folders of the root, each for an object ``mark`` and for anything at all.

        Exact. ``likely`` names objects that folders tend to hold: a store where looking at a name
        is cheaper than listing asks for these first.
        """
        return [self._content(folder, mark) for folder in folders]

    def _content(self, folder: str, mark: str) -> Content:
        """Look into one folder by listing it: usually one level is enough."""
        level = self.list_level(folder)
        names = {info.path.rsplit("/", 1)[-1] for info in level.objects}
        if mark in names:
            return Content.MARKED
        filled = bool(names) or any(self.any_object(f"{folder}/{part}") for part in level.folders)
        return Content.FILES if filled else Content.NOTHING

    @abstractmethod
    def list_tree(self, prefix: str) -> Iterator[ObjectInfo]:
        """List every object below a prefix, in no particular order."""

    @abstractmethod
    def get(self, path: str) -> bytes | None:
        """Return the bytes, or None when there is no such object."""

    @abstractmethod
    def head(self, path: str) -> ObjectInfo | None:
        """Return what is known of an object, or None when there is none."""

    @abstractmethod
    def put(self, path: str, data: bytes) -> None:
        """Write an object, whole or not at all, over whatever is there."""

    def unchanged(self, present: Sequence[tuple[str, str | None]], absent: str) -> bool:
        """Whether objects still have these e_tags, and another one is not there."""
        for path, e_tag in present:
            info = self.head(path)
            if (None if info is None else info.e_tag) != e_tag:
                return False
        return self.head(absent) is None

    def put_hint(self, path: str, data: bytes) -> None:
        """Leave a few bytes that readers check and may find torn. Object stores need none."""
        check_path(path)

    @abstractmethod
    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write an object unless one exists: False then. Of many callers exactly one wins.

        When the store answered nothing usable (a lost reply), the outcome is looked up by the
        bytes: callers that race put something unique into them.
        """

    def put_flag(self, path: str, data: bytes) -> bool:
        """As :meth:`put_if_absent`, for a file that says all by being there, or that none knows of.

        Readers may find it empty for a moment.
        """
        return self.put_if_absent(path, data)

    @abstractmethod
    def copy(self, source: str, target: str) -> None:
        """Copy an object over whatever is at the target."""

    @abstractmethod
    def copy_if_absent(self, source: str, target: str) -> bool:
        """Copy an object unless the target exists: False then."""

    @abstractmethod
    def delete(self, paths: Iterable[str]) -> None:
        """Delete objects; one that is already gone is fine."""

    @abstractmethod
    def delete_tree(
        self, prefix: str, progress: Progress | None = None, *, keep: bool = False
    ) -> int:
        """Delete everything below a prefix; return the object count. Links are not followed.

        ``keep`` leaves the emptied folder itself, where there are folders.
        """

    @abstractmethod
    def prune(self, path: str) -> None:
        """Remove a folder, and its parents below the root, where nothing is left in them.

        Stores without folders do nothing. Never removes a folder that holds anything.
        """

    def prune_tree(self, path: str) -> None:
        """Remove the empty folders at and below a path, deepest first; never a file."""
        return

    @abstractmethod
    def probe_put_if_absent(self) -> str | None:
        """Return None when put-if-absent is safe here, else why it is not. May cost requests."""

    def exclusive(self) -> AbstractContextManager[None]:
        """Return a lock over the root that its holder's death frees; nothing where none exists."""
        return nullcontext()

    def move_aside(self, source: str, target: str) -> bool | None:
        """Move a folder in one step: True moved, False not there, None the store cannot."""
        return None

    def list_staging(self, prefix: str = "") -> list[ObjectInfo]:
        """List our own files on their way in, directly at a prefix: what a crash may leave."""
        return []

    def any_object(self, prefix: str) -> bool:
        """Whether at least one object lies below a prefix (C02)."""
        return next(iter(self.list_tree(prefix)), None) is not None


@lru_cache(maxsize=4096)
def check_path(path: str) -> str:
    """Refuse a path that could leave the root: the last line of defence, not the first."""
    parts = path.split("/")
    if path.startswith("/") or any(part in ("", ".", "..") for part in parts) or "\0" in path:
        raise ValueError(f"not a path below the root: {path!r}")
    return path
