"""What workers hold is given back at the end of a task, however it ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lance_catalog.spark import fragments, source
from lance_catalog.spark.allocator import give_back
from lance_catalog.spark.opening import PinnedTable
from lance_catalog.spark.options import ReadOptions
from lance_catalog.spark.scanning import read_schema
from tests.spark.lance_tables import catalog_at, create


@pytest.fixture
def given_back(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    calls: list[int] = []
    for module in (source, fragments):
        monkeypatch.setattr(module, "give_back", lambda: calls.append(1))
    return calls


@pytest.mark.parametrize("whole", [True, False], ids=["to its end", "left in the middle"])
def test_a_read(tmp_path: Path, given_back: list[int], whole: bool) -> None:
    dataset = create(catalog_at(tmp_path), "t", pa.table({"id": range(10)}))
    asked = ReadOptions(batch_bytes=8)
    table = PinnedTable(dataset.uri, dataset.version, "t")
    reader = source.LanceReader(table, asked, read_schema(dataset, asked, "test"))
    [piece] = reader.partitions()
    batches: Any = reader.read(piece)
    next(batches)
    assert given_back == []
    if whole:
        assert sum(batch.num_rows for batch in batches) > 0
    else:
        batches.close()
    assert given_back == [1]


def test_a_write_that_fails(tmp_path: Path, given_back: list[int]) -> None:
    catalog = catalog_at(tmp_path)
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    target = fragments.FragmentTarget("t", "t.lance", schema, "t.lance/tasks/1")
    nulls = pa.record_batch({"id": pa.array([None], pa.int64())})
    with pytest.raises(Exception, match="null"):
        target._write(catalog.context.store, fragments._Feed(target, [nulls]))
    assert given_back == [1]


def test_it_can_be_called_at_any_time() -> None:
    give_back()
    give_back()
