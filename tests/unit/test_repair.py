"""One repair is enough: what mending leaves is not the next check's finding."""

from __future__ import annotations

import os
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


@pytest.mark.parametrize("hidden", [True, False], ids=["deregistered", "visible"])
def test_a_creation_that_died_over_another_s_table_leaves_it_alone(
    tmp_path: Path, hidden: bool
) -> None:
    """Invariant 4: a creation marks before it writes, so what is older is not of its making."""
    paths = ["t.lance/_versions/1.manifest", "t.lance/data/1.lance"]
    paths += ["t.lance/.lance-deregistered"] if hidden else []
    for number, path in enumerate(paths):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(b"x")
        os.utime(tmp_path / path, (1_000_000 + number, 1_000_000 + number))
    body = b'{"deleted_at_ms":1,"drop_id":"x","state":"creating"}'
    (tmp_path / "t.deleted").write_bytes(body)
    catalog = lance_catalog.connect(str(tmp_path))
    done = repair.apply(catalog.context, repair.plan(catalog.context, grace_seconds=-60))
    assert [why for _, why in done] == [None]
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == set(paths)
