"""A table whose versions the catalog manages: its row, its place, its highest version."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace

from lance_catalog.directory.context import Context
from lance_catalog.directory.resolve import FoundTable
from lance_catalog.errors import InvalidTableStateError, storage_errors
from lance_catalog.failpoints import hit
from lance_catalog.manifest import Snapshot
from lance_catalog.model import Entry
from lance_catalog.storage.manifests import Naming, manifest_name
from lance_catalog.storage.port import ObjectInfo
from lance_catalog.versions import registry
from lance_catalog.versions.registry import Registered

__all__ = ["Target", "managed_target"]


@dataclass(frozen=True, slots=True)
class Target:
    """A table at one version of the catalog."""

    ctx: Context
    view: Snapshot
    entry: Entry
    directory: str

    @property
    def key(self) -> str:
        return self.entry.object_id

    def now(self) -> Target:
        """Return the same table at the latest version of the catalog."""
        view = self.ctx.exact()
        return replace(self, view=view, entry=view.get(self.key) or self.entry)

    def head(self) -> int:
        """Return the highest version that was ever registered."""
        assert self.ctx.log is not None
        with storage_errors(f"looking for the versions of '{self.key}'"):
            return registry.head(
                self.ctx.log, self.view, self.entry, self.ctx.store, self.directory
            )

    def registered(self, *numbers: int) -> dict[int, Registered]:
        """Return those of some versions that are registered."""
        assert self.ctx.log is not None
        return registry.registered(self.ctx.log, self.view, self.key, numbers)

    def file(self, version: int) -> tuple[Naming, ObjectInfo] | None:
        """Return the manifest of a version that lies under a final name."""
        for naming in (Naming.V2, Naming.V1):
            path = f"{self.directory}/_versions/{manifest_name(version, naming)}"
            info = self.ctx.store.head(path)
            if info is not None and info.size > 0:
                return naming, info
        return None

    def put_in_place(self, version: Registered) -> ObjectInfo:
        """Return the manifest of a registered version; put it in place if its committer died.

        Idempotent, and safe against others who do the same: the bytes are those that were
        registered, and the name is only ever written once.
        """
        store = self.ctx.store
        final = version.final_path(self.directory)
        info = store.head(final)
        if info is not None and info.size > 0:
            return info
        for one in self._left_with(version):
            staged = one.staged_path(self.directory)
            # Gone: somebody else put it in place and removed it, between our two looks.
            with contextlib.suppress(FileNotFoundError):
                if staged is not None:
                    store.copy_if_absent(staged, one.final_path(self.directory))
                    hit("version.healed")
        info = store.head(final)
        if info is None:
            raise InvalidTableStateError(
                f"version {version.version} of '{self.key}' is registered, but its manifest is "
                f"neither at {final} nor where it was staged; `lance-catalog check` tells more"
            )
        return info

    def _left_with(self, version: Registered) -> list[Registered]:
        """Return a version and those below that its commit registered too, lowest first.

        In this order they are published: where the highest is in place, all of them are.
        """
        left = [version]
        while (number := left[-1].version - 1) > 0 and self.file(number) is None:
            below = self.registered(number).get(number)
            staged = None if below is None else below.staged_path(self.directory)
            if below is None or staged is None or self.ctx.store.head(staged) is None:
                break
            left.append(below)
        return left[::-1]

    def ready(self) -> int:
        """Return the highest version, its manifest in place: only then may another come on top."""
        head = self.head()
        if head and self.file(head) is None:
            found = self.registered(head)
            if head in found:
                self.put_in_place(found[head])
        return head


def managed_target(ctx: Context, view: Snapshot, found: FoundTable) -> Target | None:
    """Return a table as managed; None where its files alone are the truth.

    That is a catalog without managed versions, and a table that only its directory tells of.
    """
    if found.entry is None or not registry.is_managed(view.table_metadata):
        return None
    return Target(ctx, view, found.entry, found.location)
