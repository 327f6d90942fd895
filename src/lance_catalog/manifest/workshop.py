"""Where the next version's manifest is built: beside the catalog, in memory where there is any.

A manifest is self-contained: paths in it are relative and its transaction is inline. So a folder
that holds nothing but the current one is enough for Lance to make the next. We then put its bytes
ourselves, and nothing of a commit lies in the catalog until it lands but its data file: on an
object store a commit takes 4 requests instead of the 13 of staging it there (decision 0008).
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any, Final

import lance
import pyarrow as pa
from lance.fragment import write_fragments

from lance_catalog.storage.manifests import Naming, manifest_name

__all__ = ["Workshop"]

log = logging.getLogger(__name__)

_PREFIX: Final = "lance-catalog-workshop-"
_CACHE_BYTES: Final = 4 * 2**20
_MEMORY: Final = "/dev/shm"


class Workshop:
    """A folder with one manifest, Lance's handle on it, and the way to the next.

    Not thread-safe: whoever leads a batch has it alone.
    """

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._naming = Naming.V2
        self.dataset: Any = None

    @property
    def version(self) -> int:
        """The version it stands at; 0 for none."""
        return 0 if self.dataset is None else int(self.dataset.version)

    def load(self, version: int, naming: Naming, manifest: bytes) -> None:
        """Stand at a version, given its manifest."""
        self.clear()
        self._naming = naming
        path = self._path(version)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(manifest)
        self.dataset = self._opened(version)

    def build(self, transaction: Any) -> tuple[Any, bytes]:
        """Return Lance's handle on the next version, and its manifest.

        Whether it becomes the next version is not decided here: :meth:`step` or :meth:`discard`.
        """
        made = lance.LanceDataset.commit(
            self._uri() if self.dataset is None else self.dataset,
            transaction,
            enable_v2_manifest_paths=True,
            max_retries=0,
        )
        return made, self._path(made.version).read_bytes()

    def write(self, table: pa.Table) -> tuple[list[Any], dict[str, bytes]]:
        """Return new fragments for rows, and their files by name: ours to put into the catalog.

        For few rows: to make the file in memory and put it is quicker than to let Lance write it
        to a disk, where it makes and renames (a managed append: 2.25 instead of 2.4 plain ones).
        """
        fragments: list[Any] = write_fragments(
            table,
            self.dataset,
            mode="append",
            data_storage_version=self.dataset.data_storage_version,
        )
        made: dict[str, bytes] = {}
        for name in (file._path for fragment in fragments for file in fragment.files):
            path = self._place() / "data" / name
            made[name] = path.read_bytes()
            path.unlink()
        return fragments, made

    def step(self, made: Any) -> None:
        """Stand at a version that :meth:`build` made, because it landed.

        Never fails, because the change is in the catalog: what goes wrong here costs a reload.
        """
        try:
            self._sweep("_transactions")
            if self.dataset is None:
                self.dataset = self._opened(made.version)
            else:
                self._path(self.version).unlink(missing_ok=True)
                self.dataset = made
        except (OSError, ValueError) as error:
            log.debug("the workshop is left: %s", error)
            self.dataset = None

    def discard(self, made: Any) -> None:
        """Stay where we are, because what :meth:`build` made did not land."""
        self._path(made.version).unlink(missing_ok=True)
        self._sweep("_transactions")

    def _opened(self, version: int) -> Any:
        # Bounded: a cache of versions that nobody reads again would grow with every commit.
        # (Typed as any: Lance documents the class and does not export its type.)
        session_type: Any = vars(lance)["Session"]
        session = session_type(
            index_cache_size_bytes=_CACHE_BYTES, metadata_cache_size_bytes=_CACHE_BYTES
        )
        return lance.dataset(self._uri(), version=version, session=session)

    def clear(self) -> None:
        """Stand nowhere."""
        self.dataset = None
        self._naming = Naming.V2
        self._sweep("_versions")
        self._sweep("_transactions")

    def _path(self, version: int) -> Path:
        return self._place() / "_versions" / manifest_name(version, self._naming)

    def _uri(self) -> str:
        return self._place().as_uri()

    def _place(self) -> Path:
        if self._folder is None:
            self._folder, lock = _make_folder()
            weakref.finalize(self, _remove, self._folder, lock, os.getpid())
        return self._folder

    def _sweep(self, part: str) -> None:
        if self._folder is None:
            return
        with contextlib.suppress(FileNotFoundError), os.scandir(self._folder / part) as entries:
            for entry in entries:
                os.unlink(entry.path)


def _make_folder() -> tuple[Path, int]:
    parent = _MEMORY if os.access(_MEMORY, os.W_OK | os.X_OK) else tempfile.gettempdir()
    _sweep_dead(parent)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    # Held until this process ends, however it ends: so others know what is left over.
    lock = os.open(folder, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return folder, lock


def _remove(folder: Path, lock: int, owner: int) -> None:
    if os.getpid() != owner:
        return  # A fork's copy: the folder is its parent's.
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)


def _sweep_dead(parent: str) -> None:
    """Remove the folders of processes that were killed."""
    with os.scandir(parent) as entries:
        found = [entry.path for entry in entries if entry.name.startswith(_PREFIX)]
    for path in found:
        try:
            number = os.open(path, os.O_RDONLY)
        except OSError:
            continue
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Made just now and not locked yet? Then it is empty, and only an empty one stays.
            if os.listdir(number):
                shutil.rmtree(path, ignore_errors=True)
        except OSError:
            pass
        finally:
            os.close(number)
