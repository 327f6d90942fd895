"""Local disk, with the system calls themselves: exact names, hard links as put-if-absent.

obstore's local store hides names that end in ``#<digits>`` and has no link of an existing file,
which is what finalizing a staged manifest is (facts: versions-and-wire §5).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import quote

from lance_catalog.storage.locking import locked
from lance_catalog.storage.port import (
    Content,
    Level,
    Names,
    ObjectInfo,
    Progress,
    Store,
    check_path,
)

__all__ = ["STAGING_PREFIX", "LocalStore"]

#: Names of files on their way in; what a crash leaves of them, `repair` removes.
STAGING_PREFIX: Final = ".lance-catalog-staging-"
#: How many objects :meth:`LocalStore.list_first` looks at.
_FIRST: Final = 32
#: Bytes of one read; a file may be larger.
_READ: Final = 1 << 20
# Lance reads these as they are; a location without %24 is what people recognise.
_SAFE: Final = "/$"


class LocalStore(Store):
    """A folder."""

    remote = False

    def __init__(self, path: str, lance_options: Mapping[str, str] | None = None) -> None:
        self.path = path.rstrip("/") or "/"
        self._prefix = self.path if self.path == "/" else self.path + "/"
        self.uri = "file://" + quote(self.path, safe=_SAFE)
        self.lance_options = dict(lance_options or {})

    def uri_of(self, path: str) -> str:
        return "file://" + quote(self._absolute(path), safe=_SAFE)

    def _absolute(self, path: str) -> str:
        # Not os.path.join: this is most of what a look at the latest version takes.
        return f"{self._prefix}{check_path(path)}"

    def list_level(self, prefix: str = "") -> Level:
        level = Level()
        where = self._absolute(prefix) if prefix else self.path
        try:
            with os.scandir(where) as entries:
                for entry in entries:
                    path = f"{prefix}/{entry.name}" if prefix else entry.name
                    if entry.is_dir():
                        level.folders.append(entry.name)
                    elif not entry.name.startswith(STAGING_PREFIX):
                        with contextlib.suppress(FileNotFoundError):
                            level.objects.append(_info(path, entry.stat()))
        except FileNotFoundError:
            return Level()
        return level

    def list_root(self) -> Names:
        names = Names()
        with contextlib.suppress(FileNotFoundError), os.scandir(self.path) as entries:
            for entry in entries:
                # The listing itself tells folders from files: no stat, but for links.
                if entry.is_dir():
                    names.folders.append(entry.name)
                elif not entry.name.startswith(STAGING_PREFIX):
                    names.objects.append(entry.name)
        return names

    def look_into(
        self, folders: Sequence[str], mark: str, likely: Sequence[str] = ()
    ) -> list[Content]:
        # Two system calls a folder: 10 000 take 50 ms of processor time, their listings 260.
        if not folders:
            return []
        order = list(likely)
        try:
            root = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            return [Content.NOTHING] * len(folders)
        try:
            return [
                Content.FILES
                if not os.access(f"{folder}/{mark}", os.F_OK, dir_fd=root)
                and _holds_file(root, folder, order)
                # Seldom: marked, without any of the likely files, or not to be looked into.
                else self._content(folder, mark)
                for folder in folders
            ]
        finally:
            os.close(root)

    def list_first(self, prefix: str) -> list[ObjectInfo]:
        # Names cost little, a stat for each of thousands of them does not.
        try:
            names = sorted(os.listdir(self._absolute(prefix)))
        except FileNotFoundError:
            return []
        except NotADirectoryError:
            if os.path.isfile(self.path):
                raise  # The root itself is a file: not the same as nothing in it.
            return []
        found: list[ObjectInfo] = []
        for name in names:
            if len(found) == _FIRST:
                break
            path = self._absolute(f"{prefix}/{name}")
            if name.startswith(STAGING_PREFIX) or os.path.isdir(path):
                continue
            with contextlib.suppress(FileNotFoundError):
                found.append(_info(f"{prefix}/{name}", os.stat(path)))
        return found

    def list_tree(self, prefix: str) -> Iterator[ObjectInfo]:
        base = self._absolute(prefix)
        if os.path.isfile(base):
            return  # An object of that name, nothing below it; as object stores see it.
        for folder, _, files in os.walk(base, onerror=_raise_unless_gone):
            relative = os.path.relpath(folder, self.path)
            for name in files:
                path = f"{relative}/{name}"
                with contextlib.suppress(FileNotFoundError):
                    yield _info(path, os.stat(os.path.join(folder, name), follow_symlinks=False))

    def get(self, path: str) -> bytes | None:
        try:
            # Without Python's buffers, which cost more than reading what is mostly small.
            number = os.open(self._absolute(path), os.O_RDONLY)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            parts = [os.read(number, _READ)]
            while len(parts[-1]) == _READ:
                parts.append(os.read(number, _READ))
            return parts[0] if len(parts) == 1 else b"".join(parts)
        finally:
            os.close(number)

    def head(self, path: str) -> ObjectInfo | None:
        try:
            found = os.stat(self._absolute(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        return None if stat.S_ISDIR(found.st_mode) else _info(path, found)

    def unchanged(self, present: Sequence[tuple[str, str | None]], absent: str) -> bool:
        # Every read asks this: three system calls, and nothing made of what they say.
        for path, e_tag in present:
            try:
                tag = _tag(os.stat(self._prefix + path))
            except OSError:
                tag = None
            if tag != e_tag:
                return False
        return not os.access(self._prefix + absent, os.F_OK)

    def put(self, path: str, data: bytes) -> None:
        target = self._absolute(path)
        staged = self._stage(target, data)
        os.replace(staged, target)

    def put_hint(self, path: str, data: bytes) -> None:
        # In place: ext4 writes a file that replaces another to the disk at once, 0.5 ms each.
        number = os.open(self._absolute(path), os.O_WRONLY | os.O_CREAT, 0o666)
        try:
            os.pwrite(number, data, 0)
            if os.fstat(number).st_size != len(data):
                os.ftruncate(number, len(data))
        finally:
            os.close(number)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        target = self._absolute(path)
        if os.path.lexists(target):
            return False
        staged = self._stage(target, data)
        try:
            os.link(staged, target)
        except FileExistsError:
            return False
        finally:
            os.unlink(staged)
        return True

    def put_flag(self, path: str, data: bytes) -> bool:
        # One new name instead of two and a removal: a third of what declaring a table takes.
        target = self._absolute(path)
        for attempt in range(16):
            try:
                number = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            except FileExistsError:
                return False
            except FileNotFoundError:
                if attempt == 15:
                    raise
                _make_folder(os.path.dirname(target))
                continue
            try:
                os.write(number, data)
            finally:
                os.close(number)
            return True
        raise AssertionError("unreachable")

    def _stage(self, target: str, data: bytes) -> str:
        folder = os.path.dirname(target)
        staged = os.path.join(folder, STAGING_PREFIX + uuid.uuid4().hex)
        # The folder is mostly there; and another process may prune an empty one between the calls.
        for attempt in range(16):
            try:
                with open(staged, "xb") as file:
                    file.write(data)
                return staged
            except FileNotFoundError:
                if attempt == 15:
                    raise
                _make_folder(folder)
        raise AssertionError("unreachable")

    def copy(self, source: str, target: str) -> None:
        data = self.get(source)
        if data is None:
            raise FileNotFoundError(f"no such object: {source}")
        self.put(target, data)

    def copy_if_absent(self, source: str, target: str) -> bool:
        try:
            os.link(self._absolute(source), self._absolute(target))
        except FileExistsError:
            return False
        return True

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                os.unlink(self._absolute(path))

    def delete_tree(
        self, prefix: str, progress: Progress | None = None, *, keep: bool = False
    ) -> int:
        base = self._absolute(prefix)
        if os.path.islink(base):
            # The data behind a link is not below the root: never followed (invariant 4).
            os.unlink(base)
            return 1
        count = size = 0
        for folder, folders, files in os.walk(base, topdown=False, onerror=_raise_unless_gone):
            for name in files:
                path = os.path.join(folder, name)
                with contextlib.suppress(FileNotFoundError):
                    size += os.stat(path, follow_symlinks=False).st_size
                    os.unlink(path)
                    count += 1
                if progress is not None:
                    progress(count, size)
            for name in folders:
                path = os.path.join(folder, name)
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path) if os.path.islink(path) else os.rmdir(path)
        if not keep:
            with contextlib.suppress(FileNotFoundError):
                os.rmdir(base)
        return count

    def prune(self, path: str) -> None:
        parts = check_path(path).split("/")
        while parts:
            try:
                os.rmdir(os.path.join(self.path, *parts))
            except OSError:
                return
            parts.pop()

    def prune_tree(self, path: str) -> None:
        for folder, _, _ in os.walk(self._absolute(path), topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(folder)

    def exclusive(self) -> contextlib.AbstractContextManager[None]:
        return locked(self.path)

    def move_aside(self, source: str, target: str) -> bool | None:
        destination = self._absolute(target)
        _make_folder(os.path.dirname(destination))
        try:
            os.rename(self._absolute(source), destination)
        except FileNotFoundError:
            return False
        return True

    def any_object(self, prefix: str) -> bool:
        base = self._absolute(prefix)
        if os.path.isfile(base):
            return False
        for _, _, files in os.walk(base, onerror=_raise_unless_gone):
            if any(not name.startswith(STAGING_PREFIX) for name in files):
                return True
        return False

    def list_staging(self, prefix: str = "") -> list[ObjectInfo]:
        where = self._absolute(prefix) if prefix else self.path
        found: list[ObjectInfo] = []
        with contextlib.suppress(FileNotFoundError), os.scandir(where) as entries:
            for entry in entries:
                if entry.name.startswith(STAGING_PREFIX):
                    path = f"{prefix}/{entry.name}" if prefix else entry.name
                    found.append(_info(path, entry.stat()))
        return found

    def probe_put_if_absent(self) -> str | None:
        return None

    def remove_all(self) -> None:
        """Delete the root itself: for the memory root, whose folder is ours alone."""
        shutil.rmtree(self.path, ignore_errors=True)


def _info(path: str, found: os.stat_result) -> ObjectInfo:
    return ObjectInfo(path, found.st_size, found.st_mtime_ns // 1_000_000, _tag(found))


def _tag(found: os.stat_result) -> str:
    return f"{found.st_ino:x}-{found.st_mtime_ns // 1000:x}-{found.st_size:x}"


def _holds_file(root: int, folder: str, likely: list[str]) -> bool:
    """Whether one of the likely files is in a folder; False proves nothing.

    Neighbours are alike: what was found moves to the front of ``likely`` for the next folder.
    """
    for number, name in enumerate(likely):
        try:
            found = os.stat(f"{folder}/{name}", dir_fd=root)
        except OSError:
            continue
        # A folder of that name is no file.
        if not stat.S_ISDIR(found.st_mode):
            if number:
                likely.insert(0, likely.pop(number))
            return True
    return False


def _make_folder(path: str) -> None:
    """Make a folder and those above it, though others may remove empty ones at the same time."""
    for _ in range(16):
        try:
            os.makedirs(path, exist_ok=True)
            return
        except (FileNotFoundError, FileExistsError):
            # Gone while the one below it was made, or since it was found to be there.
            continue
    os.makedirs(path, exist_ok=True)


def _raise_unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error
