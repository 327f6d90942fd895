"""Managed versions, as the namespace offers them beside the library's interface."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lance_catalog.directory.context import Context
from lance_catalog.directory.edge import operation
from lance_catalog.directory.managed import cleanup, switch
from lance_catalog.directory.managed.cleanup import Rule, Told, VersionCleanup
from lance_catalog.directory.managed.switch import SwitchReport, VersionStatus
from lance_catalog.directory.resolve import table_id

__all__ = ["ManagedVersions"]


class ManagedVersions:
    """Turning managed versions on and off; mixed into the namespace."""

    _ctx: Context

    @operation
    def enable_managed_versions(
        self, progress: Callable[[int, int], None] | None = None
    ) -> SwitchReport:
        """Let the catalog decide over the versions of all its tables (I32).

        Registers those that exist. From now on native writers of this catalog's manifest fail,
        and writers of its tables commit through it. ``progress`` is told (tables done, of how
        many).
        """
        return switch.enable(self._ctx, progress)

    @operation
    def disable_managed_versions(
        self, progress: Callable[[int, int], None] | None = None
    ) -> SwitchReport:
        """Leave the versions to the tables' own files again; native writers work again."""
        return switch.disable(self._ctx, progress)

    @operation
    def managed_versions_status(self) -> VersionStatus:
        """Tell whether versions are managed, and how many are registered."""
        return switch.status(self._ctx)

    @operation
    def cleanup_table_versions(
        self,
        id: Sequence[str] | None = None,
        older_than: str | float | None = None,
        keep: int | None = None,
        dry_run: bool = False,
        progress: Told | None = None,
    ) -> VersionCleanup:
        """Remove old versions of a table, or of all, and the data that only they use.

        Old is what is older than ``older_than`` (as 14d, 12h, or seconds; by default 14 days) and
        not among the newest ``keep``. The latest version stays, and what a tag or a branch relies
        on. Managed or not; where versions are managed the registry is kept in step. ``progress``
        is told (table, tables done, of how many).
        """
        names = None if id is None else table_id(self._ctx, id, "cleanup_table_versions")
        rule = Rule.of(older_than, keep)
        return cleanup.cleanup(self._ctx, names, rule, dry_run=dry_run, told=progress)
