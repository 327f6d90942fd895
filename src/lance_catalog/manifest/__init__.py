"""The strict log: ``__manifest`` read, changed one validated version at a time, kept in memory."""

from lance_catalog.manifest.change import Change
from lance_catalog.manifest.draft import Draft
from lance_catalog.manifest.indexed import PointView
from lance_catalog.manifest.log import ManifestLog, open_log
from lance_catalog.manifest.snapshot import Snapshot

__all__ = ["Change", "Draft", "ManifestLog", "PointView", "Snapshot", "open_log"]
