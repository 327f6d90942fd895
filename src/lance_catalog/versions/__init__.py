"""Table versions. Unmanaged: the manifest files in ``_versions/`` are the truth."""

from lance_catalog.versions.deletion import delete_versions, select_versions
from lance_catalog.versions.files import describe_version, list_versions
from lance_catalog.versions.finalize import check_version, create_version

__all__ = [
    "check_version",
    "create_version",
    "delete_versions",
    "describe_version",
    "list_versions",
    "select_versions",
]
