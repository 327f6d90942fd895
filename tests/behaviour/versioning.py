"""What the suites of managed versions share: writing as a stock client does, and looking at what
the registry, the listing and plain Lance say of it.
"""

from __future__ import annotations

from typing import Any, Final

import lance

from tests.behaviour.catalogs import Catalog, rows

#: The table most tests are about; the fixture ``managed`` makes its namespace.
T: Final = ["ns", "t"]


def write(catalog: Catalog, id: list[str], numbers: list[int], mode: str = "append") -> Any:
    """Write as a stock writer does: Lance with the namespace as its client."""
    options = catalog.root.options or None
    return lance.write_dataset(
        rows(numbers), namespace_client=catalog.ns, table_id=id, mode=mode, storage_options=options
    )


def opened(catalog: Catalog, id: list[str] = T, **how: Any) -> Any:
    """Open as a stock reader does."""
    options = catalog.root.options or None
    return lance.dataset(namespace_client=catalog.ns, table_id=id, storage_options=options, **how)


def plain(catalog: Catalog, id: list[str] = T, **how: Any) -> Any:
    """Open by the place alone: as somebody who has never heard of the catalog."""
    location = catalog.describe_table({"id": id}).location
    return lance.dataset(location, storage_options=catalog.root.options or None, **how)


def values(dataset: Any) -> list[int]:
    return sorted(dataset.to_table(columns=["n"])["n"].to_pylist())


def numbers(catalog: Catalog, id: list[str] = T, **how: Any) -> list[int]:
    """The versions that the catalog lists."""
    return [v.version for v in catalog.list_table_versions({"id": id, **how}).versions]


def version_rows(catalog: Catalog) -> dict[str, dict[str, Any]]:
    """The rows of the registry, read by Lance alone."""
    return {k: r for k, r in catalog.rows().items() if r["object_type"] == "table_version"}


def staged(catalog: Catalog, id: list[str] = T) -> list[str]:
    """What lies staged beside the versions of a table."""
    return [p for p in catalog.root.paths(catalog.place(id)) if ".manifest-" in p]


def settled(catalog: Catalog, expected: list[int], id: list[str] = T) -> int:
    """Registry, listing, stock and plain readers agree, and nothing is staged; the latest."""
    latest = int(opened(catalog, id).version)
    key = "$".join(id)
    assert {k for k in version_rows(catalog) if k.rpartition("$")[0] == key} == {
        f"{key}${number}" for number in range(1, latest + 1)
    }
    assert numbers(catalog, id) == list(range(latest, 0, -1))
    assert values(opened(catalog, id)) == values(plain(catalog, id)) == expected
    assert plain(catalog, id).version == latest
    assert staged(catalog, id) == []
    return latest
