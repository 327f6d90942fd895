"""The two implementations, and the operations that both are measured with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import lance_namespace

import lance_catalog

__all__ = ["NATIVE", "OPERATIONS", "OURS", "PER_NAMESPACE", "SIDES", "Names", "connect", "v1_list"]

OURS: Final = "ours"
#: Native as it comes, and with its indices written by every change.
NATIVE: Final = ("native", "native indexed")
SIDES: Final = (OURS, *NATIVE)
#: Tables of each namespace of a seeded catalog.
PER_NAMESPACE: Final = 100


def connect(side: str, root: str, **properties: str) -> Any:
    """Return a new namespace object of a side; V2 unless the properties say otherwise."""
    given = {"root": root, "dir_listing_enabled": "false", **properties}
    if side == OURS:
        return lance_catalog.DirectoryNamespace(**given)
    indexed = "true" if side == "native indexed" else "false"
    return lance_namespace.connect("dir", {**given, "inline_optimization_enabled": indexed})


class Names:
    """Which object the n-th call works on: spread over the catalog, the same on every side.

    A name comes again only after every other: a small catalog has no fewer of them than it must.
    """

    def __init__(self, rows: int) -> None:
        self.namespaces = max(1, rows // (PER_NAMESPACE + 1))

    def namespace(self, number: int) -> str:
        """Return a seeded namespace. The step is prime, so that calls do not follow the order."""
        return f"n{number * 7919 % self.namespaces:06d}"

    def table(self, number: int) -> list[str]:
        """Return the id of a seeded table."""
        # Once through the namespaces, the next table of each at the next time.
        turn = number // self.namespaces + number % self.namespaces
        return [self.namespace(number), f"t{turn * 31 % (PER_NAMESPACE - 1):05d}"]


Operation = Callable[[Any, Names, int], Any]


def _page(ns: Any, names: Names, n: int) -> Any:
    request = lance_namespace.ListTablesRequest(id=[names.namespace(n)], limit=100)
    return ns.list_tables(request)


#: Reads go first: after a change they would also measure how it is taken up.
OPERATIONS: Final[dict[str, Operation]] = {
    "describe_table": lambda ns, names, n: ns.describe_table(
        lance_namespace.DescribeTableRequest(id=names.table(n))
    ),
    "table_exists": lambda ns, names, n: ns.table_exists(
        lance_namespace.TableExistsRequest(id=names.table(n))
    ),
    "list_tables limit 100": _page,
    "create_namespace": lambda ns, names, n: ns.create_namespace(
        lance_namespace.CreateNamespaceRequest(id=[f"new{n:07d}"])
    ),
    "declare_table": lambda ns, names, n: ns.declare_table(
        lance_namespace.DeclareTableRequest(id=[names.namespace(n), f"new{n:07d}"])
    ),
}


def v1_list(ns: Any) -> Any:
    """List every table of a V1 catalog."""
    return ns.list_tables(lance_namespace.ListTablesRequest(id=[]))
