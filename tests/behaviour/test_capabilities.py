"""What a mode cannot do is refused with 0, in words that name the mode; everything else it can."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lance_catalog.config import Mode
from tests.behaviour.catalogs import (
    ALL_CAPABILITIES,
    CAPABILITIES,
    Catalog,
    code,
    ipc,
    refusal,
    rows,
)

#: For each capability, every call that needs it.
CALLS: dict[str, list[Callable[[Catalog], Any]]] = {
    "namespaces": [
        lambda c: c.create_namespace({"id": ["a"]}),
        lambda c: c.create_namespace({"id": ["a"], "mode": "exist_ok"}),
        lambda c: c.describe_namespace({"id": ["a"]}),
        lambda c: c.namespace_exists({"id": ["a"]}),
        lambda c: c.list_namespaces({"id": ["a"]}),
        lambda c: c.drop_namespace({"id": ["a"]}),
        lambda c: c.drop_namespace({"id": ["a"], "mode": "skip", "behavior": "cascade"}),
        lambda c: c.list_tables({"id": ["a"]}),
        lambda c: c.list_all_tables({"id": ["a"]}),
        lambda c: c.create_table({"id": ["a", "t"]}, ipc(rows([1]))),
        lambda c: c.declare_table({"id": ["a", "t"]}),
        lambda c: c.create_empty_table({"id": ["a", "t"]}),
        lambda c: c.describe_table({"id": ["a", "t"]}),
        lambda c: c.table_exists({"id": ["a", "b", "t"]}),
        lambda c: c.register_table({"id": ["a", "t"], "location": "t.lance"}),
        lambda c: c.deregister_table({"id": ["a", "t"]}),
        lambda c: c.drop_table({"id": ["a", "t"]}),
        lambda c: c.count_table_rows({"id": ["a", "t"]}),
        lambda c: c.insert_into_table({"id": ["a", "t"]}, ipc(rows([1]))),
    ],
    "rename": [
        lambda c: c.rename_table({"id": ["t"], "new_table_name": "u"}),
        lambda c: c.rename_table({"id": ["t"], "new_table_name": "u", "new_namespace_id": []}),
    ],
    "root properties": [
        lambda c: c.create_namespace({"id": [], "mode": "overwrite", "properties": {"k": "v"}}),
    ],
    "declared properties": [
        lambda c: c.declare_table({"id": ["d"], "properties": {"k": "v"}}),
    ],
}


def test_every_capability_has_its_calls() -> None:
    assert set(CALLS) == ALL_CAPABILITIES
    assert CAPABILITIES[Mode.V2] == CAPABILITIES[Mode.COMPAT] == ALL_CAPABILITIES


@pytest.mark.modes(*(mode for mode in Mode if CAPABILITIES[mode] < ALL_CAPABILITIES))
@pytest.mark.parametrize("capability", sorted(ALL_CAPABILITIES))
def test_lacking_is_0_and_names_the_mode(catalog: Catalog, capability: str) -> None:
    """I03, I10, I26: Unsupported with a message that says which mode, and how to get out of it."""
    catalog.create(["t"])
    before = catalog.root.digest()
    assert not catalog.can(capability)
    for call in CALLS[capability]:
        error = refusal(call, catalog)
        assert error.code == 0
        assert "V1" in str(error)
        assert "manifest_enabled" in str(error)
    assert catalog.root.digest() == before


def test_table_depth_by_mode(catalog: Catalog) -> None:
    """I03, O04: any depth where there are namespaces, exactly one level in V1."""
    names = ["a", "b", "c", "d", "e", "f"]
    if not catalog.can("namespaces"):
        assert code(catalog.create, [*names, "t"]) == 0
        catalog.create(["t"])
        return
    for depth in range(1, len(names) + 1):
        catalog.namespace(*names[:depth])
        catalog.create([*names[:depth], "t"], [depth])
    for depth in range(1, len(names) + 1):
        assert catalog.data([*names[:depth], "t"]) == [depth]
    assert len(catalog.all_tables()) == len(names)


@pytest.mark.modes(Mode.V1)
def test_v1_root_has_no_children(catalog: Catalog) -> None:
    """I11, I12, I14: the root itself answers in V1; there is nothing below it."""
    catalog.create(["t"])
    assert catalog.namespaces() == []
    assert catalog.describe_namespace({"id": []}).properties == {}
    catalog.namespace_exists({"id": []})
