"""Moving one table to its V2 path: data intact, the old place gone, changes noticed (R8)."""

from __future__ import annotations

import io
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_catalog
from lance_catalog.errors import ConcurrentModificationError, InvalidInputError
from lance_catalog.maintenance import relocate
from lance_catalog.maintenance.check import check


def ipc(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


@pytest.fixture
def catalog(tmp_path: Path) -> lance_catalog.DirectoryNamespace:
    made = lance_catalog.connect(str(tmp_path / "root"))
    made.create_table({"id": ["t"], "properties": {"a": "1"}}, ipc(pa.table({"id": [1, 2, 3]})))
    return made


def test_a_table_moves_to_its_v2_path(
    catalog: lance_catalog.DirectoryNamespace, tmp_path: Path
) -> None:
    move = relocate.plan_relocation(catalog.context, ("t",))
    assert (tmp_path / "root" / "t.lance").exists()
    target = relocate.relocate(catalog.context, move)
    described = catalog.describe_table({"id": ["t"]})
    assert described.location == (tmp_path / "root" / target).as_uri()
    assert described.properties == {"a": "1"}
    assert lance.dataset(described.location).to_table()["id"].to_pylist() == [1, 2, 3]
    assert not (tmp_path / "root" / "t.lance").exists()
    assert check(catalog.context, grace_seconds=0).problems == []
    with pytest.raises(InvalidInputError):
        relocate.plan_relocation(catalog.context, ("t",))


def test_a_directory_without_a_row_moves_too(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"id": [7]}), tmp_path / "root" / "d.lance")
    catalog = lance_catalog.connect(str(tmp_path / "root"))
    relocate.relocate(catalog.context, relocate.plan_relocation(catalog.context, ("d",)))
    assert catalog.list_tables({"id": []}).tables == ["d"]
    assert catalog.count_table_rows({"id": ["d"]}).count == 1
    assert not (tmp_path / "root" / "d.lance").exists()
    assert check(catalog.context, grace_seconds=0).problems == []


def test_a_write_during_the_move_stops_it(
    catalog: lance_catalog.DirectoryNamespace, tmp_path: Path
) -> None:
    move = relocate.plan_relocation(catalog.context, ("t",))
    wrote = False

    def write(copied: int, size: int) -> None:
        nonlocal wrote
        if not wrote:
            wrote = True
            lance.write_dataset(pa.table({"id": [4]}), tmp_path / "root" / "t.lance", mode="append")

    with pytest.raises(ConcurrentModificationError):
        relocate.relocate(catalog.context, move, write)
    assert catalog.count_table_rows({"id": ["t"]}).count == 4
    assert not (tmp_path / "root" / move.target).exists()
    assert check(catalog.context, grace_seconds=0).problems == []
