"""A table whose versions the catalog manages: its row, its place, its highest version."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace

from lance_catalog.directory.context import Context
from lance_catalog.directory.resolve import FoundTable
from lance_catalog.errors import (
    ConcurrentModificationError,
    InvalidTableStateError,
    TableNotFoundError,
    storage_errors,
)
from lance_catalog.failpoints import hit
from lance_catalog.identifiers import is_internal_key
from lance_catalog.manifest import Snapshot
from lance_catalog.model import Entry
from lance_catalog.storage.manifests import Naming, manifest_name
from lance_catalog.storage.port import ObjectInfo
from lance_catalog.versions import registry
from lance_catalog.versions.registry import Registered

__all__ = ["TakenBackError", "Target", "managed_target", "put_in_place"]


class TakenBackError(ConcurrentModificationError):
    """A view shows a version that does not exist any more; a newer view does not."""


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
        """Return the same table at the latest version of the catalog, under the name it has there.

        4 for one that left it.
        """
        view = self.ctx.exact()
        known = view.get(self.key)
        if known is None or known.location != self.entry.location:
            at = view.at_location(self.entry.location or "")
            known = next((row for row in at if not is_internal_key(row.object_id)), None)
        if known is None:
            raise TableNotFoundError(f"table '{self.key}' was dropped meanwhile")
        return replace(self, view=view, entry=known)

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

    def latest(self, head: int) -> Registered | None:
        """Return the highest version, to be read; None where it is not registered (any more)."""
        assert self.ctx.log is not None
        return registry.latest(self.ctx.log, self.view, self.key, head) if head else None

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
            if self.is_past():
                self._require_same(version)
            return info
        moved = self.file(version.version)
        if moved is not None:
            return moved[1]  # Lance gave the manifests of the table names of the other scheme.
        self._require_kept(version)
        for one in self._left_with(version):
            staged = one.staged_path(self.directory)
            # Gone: somebody else put it in place and removed it, between our two looks.
            with contextlib.suppress(FileNotFoundError):
                if staged is not None:
                    store.copy_if_absent(staged, one.final_path(self.directory))
                    hit("version.healed")
        info = store.head(final)
        if info is None:
            self._require_kept(version)
            raise InvalidTableStateError(
                f"version {version.version} of '{self.key}' is registered, but its manifest is "
                f"neither at {final} nor where it was staged; `lance-catalog check` tells more"
            )
        return info

    def is_past(self) -> bool:
        """Whether the catalog is known to have gone on since this view was the latest."""
        assert self.ctx.log is not None
        past = self.ctx.settings.as_of is not None
        return past or self.ctx.log.snapshot_version > self.view.version

    def _require_same(self, version: Registered) -> None:
        """Raise when the number of a version of the past is another version's by now.

        It was taken back, and its number free again. Rows that were made from the files, after an
        undrop say, do not tell whose they are; then the size has to do.
        """
        settings, present = self.ctx.settings, self
        if settings.as_of is not None:
            ctx = Context.build(replace(settings, as_of=None), self.ctx.store)
            present = replace(self, ctx=ctx)
        try:
            row = present.now().registered(version.version).get(version.version)
        except TableNotFoundError:
            return  # Dropped since, its data kept.
        if row is None or row.staged == version.staged:
            return
        if row.staged is not None or row.size != version.size:
            raise TakenBackError(
                f"version {version.version} of '{self.key}' was taken back, because a writer that "
                "ignores the catalog took its name; look at another moment of the catalog"
            )

    def _require_kept(self, version: Registered) -> None:
        """Raise when a version was taken back since this view was the latest (see ``voiding``).

        Putting it in place now would bring back what its writer was told has failed.
        """
        try:
            now = self.now()
        except TableNotFoundError:
            return  # Dropped since, its data kept.
        row = now.registered(version.version).get(version.version)
        if row is None or row.staged != version.staged:
            raise TakenBackError(
                f"version {version.version} of '{self.key}' is not registered any more: it was "
                "deleted, or taken back because its name was taken. Look again."
            )

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

    def ready(self) -> tuple[int, Naming | None]:
        """Return the highest version, its manifest in place: only then may another come on top.

        And how the table names its manifests, None where it has none.
        """
        head = self.head()
        file = self.file(head) if head else None
        if file is not None:
            return head, file[0]
        found = self.registered(head) if head else {}
        if head not in found:
            return head, None
        self.put_in_place(found[head])
        return head, found[head].naming


def managed_target(ctx: Context, view: Snapshot, found: FoundTable) -> Target | None:
    """Return a table as managed; None where its files alone are the truth.

    That is a catalog without managed versions, and a table that only its directory tells of.
    """
    if found.entry is None or not registry.is_managed(view.table_metadata):
        return None
    return Target(ctx, view, found.entry, found.location)


def put_in_place(ctx: Context, found: FoundTable) -> None:
    """Put in place what a committer left of a table, before its files are looked at."""
    if found.entry is None or ctx.settings.as_of is not None:
        return
    if not registry.is_managed(ctx.glance().table_metadata):
        return
    target = managed_target(ctx, ctx.exact(), found)
    if target is not None:
        with storage_errors(f"looking at '{target.key}'"):
            target.ready()
