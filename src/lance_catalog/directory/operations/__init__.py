"""The data and index operations of the interface, on a Lance table however it was found."""

from lance_catalog.directory.operations.access import TableAccess
from lance_catalog.directory.operations.mixin import DataOperations

__all__ = ["DataOperations", "TableAccess"]
