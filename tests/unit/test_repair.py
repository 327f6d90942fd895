"""One repair is enough: what mending leaves is not the next check's finding."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_catalog
from lance_catalog.directory import first_version
from lance_catalog.errors import LanceNamespaceError
from lance_catalog.lifecycle import trash
from lance_catalog.maintenance import repair
from lance_catalog.maintenance.check import check
from lance_catalog.storage.local import STAGING_PREFIX
from tests.concurrency.racing import ipc

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


def _creation_meets_repair(root: Path, monkeypatch: pytest.MonkeyPatch, grace: float) -> list[str]:
    """Run a check and its repair between the first version of a table and its row."""
    catalog = lance_catalog.connect(str(root), dir_listing_enabled="false")
    catalog.create_namespace({"id": ["prod"]})
    found: list[str] = []

    def mend() -> None:
        findings = repair.plan(catalog.context, grace_seconds=grace)
        found.extend(kind.kind.value for kind in findings)
        repair.apply(catalog.context, findings)

    def meanwhile(point: str) -> None:
        if point == "table.version_finalized":
            # This is a thread of Lance's own, on which a scan ends the process.
            with ThreadPoolExecutor(1) as own:
                own.submit(mend).result()

    monkeypatch.setattr(first_version, "hit", meanwhile)
    catalog.create_table({"id": ["prod", "new"]}, ipc([1, 2]))
    monkeypatch.undo()
    return found


def test_a_repair_leaves_a_creation_in_flight_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _creation_meets_repair(tmp_path / "root", monkeypatch, 3600) == []
    catalog = lance_catalog.connect(str(tmp_path / "root"), dir_listing_enabled="false")
    assert catalog.count_table_rows({"id": ["prod", "new"]}).count == 2
    assert check(catalog.context, grace_seconds=-60).problems == []


def test_without_a_grace_it_would_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LanceNamespaceError):
        _creation_meets_repair(tmp_path / "root", monkeypatch, -60)


@pytest.mark.parametrize(
    ("folder", "former"),
    [
        ("orphan_dir", "orphan_dir"),
        ("0123456789abcdef_prod$t_1", "prod$t_1"),
        ("01234567_native$t", "native$t"),
        ("0123456_seven", "0123456_seven"),
    ],
)
def test_an_orphan_keeps_the_id_its_folder_names(tmp_path: Path, folder: str, former: str) -> None:
    lance.write_dataset(pa.table({"n": [1]}), tmp_path / folder)
    catalog = lance_catalog.connect(str(tmp_path), dir_listing_enabled="false")
    done = repair.apply(catalog.context, repair.plan(catalog.context, grace_seconds=-60))
    assert [why for _, why in done] == [None]
    assert [action.filed_as for action, _ in done] == [tuple(former.split("$"))]
    (row,) = trash.rows(catalog.context.view())
    assert row.entry.object_id.split("$", 2)[2] == former
    catalog.register_table({"id": ["back"], "location": folder})
    assert catalog.count_table_rows({"id": ["back"]}).count == 1
