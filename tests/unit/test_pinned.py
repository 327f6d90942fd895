"""A pinned view where versions are managed: all of what was published at once, or nothing."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_catalog import DirectoryNamespace, connect
from lance_catalog.errors import InvalidTableStateError

ROWS = pa.table({"n": [1, 2]})


@pytest.fixture
def catalog(tmp_path: Path) -> DirectoryNamespace:
    made = connect(str(tmp_path))
    made.enable_managed_versions()
    made.declare_table({"id": ["new"]})
    lance.write_dataset(ROWS, namespace_client=made, table_id=["old"])
    return made


def _published(catalog: DirectoryNamespace) -> None:
    with catalog.transaction() as tx:
        tx.write(["old"], ROWS)
        tx.write(["new"], ROWS)


def test_the_first_version_of_a_declared_table_came_with_the_rest(
    catalog: DirectoryNamespace,
) -> None:
    before = catalog.snapshot()
    _published(catalog)
    assert before.table_version(["old"]) == 1
    for look in (before.table_version, before.open_table):
        with pytest.raises(InvalidTableStateError, match="had no data yet"):
            look(["new"])
    after = catalog.snapshot()
    assert (after.table_version(["old"]), after.table_version(["new"])) == (2, 1)
    assert after.open_table(["new"]).count_rows() == 2


def test_also_when_it_was_renamed_or_dropped_since(catalog: DirectoryNamespace) -> None:
    before = catalog.snapshot()
    _published(catalog)
    catalog.rename_table({"id": ["new"], "new_table_name": "newer"})
    with pytest.raises(InvalidTableStateError, match="had no data yet"):
        before.table_version(["new"])
    catalog.drop_table({"id": ["newer"]})
    with pytest.raises(InvalidTableStateError, match="had no data yet"):
        before.table_version(["new"])


def test_what_was_written_past_the_catalog_was_there(catalog: DirectoryNamespace) -> None:
    place = catalog.describe_table({"id": ["new"]}).location
    lance.write_dataset(ROWS, place, mode="create")
    before = catalog.snapshot()
    assert before.table_version(["new"]) == 1
    assert before.open_table(["new"]).count_rows() == 2


def test_no_data_at_all(catalog: DirectoryNamespace) -> None:
    with pytest.raises(InvalidTableStateError, match="had no data yet"):
        catalog.snapshot().open_table(["new"])
