"""The only code that touches bytes: one port, local disk and object stores behind it."""

from lance_catalog.storage.port import Level, ObjectInfo, Store
from lance_catalog.storage.roots import open_store

__all__ = ["Level", "ObjectInfo", "Store", "open_store"]
