"""One repair is enough: what mending leaves is not the next check's finding."""

from __future__ import annotations

from pathlib import Path

import pytest

import lance_catalog
from lance_catalog.maintenance import repair
from lance_catalog.maintenance.check import check
from lance_catalog.storage.local import STAGING_PREFIX

V1 = {"manifest_enabled": "false"}


@pytest.mark.parametrize(
    "leftover",
    [
        f"t.lance/{STAGING_PREFIX}1",
        "t.lance/data/1.lance",
        "t.lance/_versions/1.manifest-2",
        "t.deleted",
    ],
)
@pytest.mark.parametrize("switches", [V1, {}], ids=["v1", "compat"])
def test_nothing_is_left_of_a_write_that_died(
    tmp_path: Path, leftover: str, switches: dict[str, str]
) -> None:
    for folder in ("t.lance/data", "t.lance/_versions", "t.lance/_transactions"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / leftover).write_bytes(b"x")
    catalog = lance_catalog.connect(str(tmp_path), **switches)
    assert check(catalog.context, grace_seconds=-60).problems != []
    done = repair.apply(catalog.context, repair.plan(catalog.context, grace_seconds=-60))
    assert [why for _, why in done] == [None] * len(done)
    assert check(catalog.context, grace_seconds=-60).problems == []
    assert list(tmp_path.iterdir()) == []
