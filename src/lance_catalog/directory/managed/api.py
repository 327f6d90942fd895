"""Managed versions, as the namespace offers them beside the library's interface."""

from __future__ import annotations

from collections.abc import Callable

from lance_catalog.directory.context import Context
from lance_catalog.directory.edge import operation
from lance_catalog.directory.managed import switch
from lance_catalog.directory.managed.switch import SwitchReport, VersionStatus

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
