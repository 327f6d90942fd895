"""Several handles on one managed table: who comes second rebases or is refused, and a handle that
slept writes on top, or not at all (O06).
"""

from __future__ import annotations

from typing import Any

import lance
import pytest
from lance.commit import CommitConflictError

from lance_catalog.config import Mode
from tests.behaviour.catalogs import STORES, Catalog, code, rows
from tests.behaviour.versioning import T, numbers, opened, settled, values, version_rows, write

pytestmark = [pytest.mark.modes(Mode.V2), pytest.mark.stores("local")]


def pair(managed: Catalog) -> tuple[Any, Any]:
    """Two handles at the same version of a table of three rows."""
    write(managed, T, [1, 2, 3], "create")
    return opened(managed), opened(managed)


class TestTwoHandles:
    @pytest.mark.stores(*STORES)
    def test_appends_both_land(self, managed: Catalog) -> None:
        one, other = pair(managed)
        one.insert(rows([4]))
        other.insert(rows([5]))
        one.insert(rows([6]))
        assert settled(managed, [1, 2, 3, 4, 5, 6]) == 4

    def test_changes_of_other_rows_both_land(self, managed: Catalog) -> None:
        one, other = pair(managed)
        one.insert(rows([4]))
        other.delete("n = 1")
        one.update({"n": "n + 10"}, where="n = 2")
        assert settled(managed, [3, 4, 12]) == 4

    def test_a_change_of_the_same_row_is_made_again(self, managed: Catalog) -> None:
        """Lance runs the second one on what the first has made: it finds nothing any more."""
        one, other = pair(managed)
        one.update({"n": "n + 10"}, where="n = 1")
        assert other.update({"n": "n + 20"}, where="n = 1")["num_rows_updated"] == 0
        assert values(opened(managed)) == [2, 3, 11]
        one, other = opened(managed), opened(managed)
        one.delete("n = 11")
        other.update({"n": "n + 30"}, where="n = 11")
        assert settled(managed, [2, 3]) == numbers(managed)[0]

    def test_an_append_to_what_was_overwritten_is_refused(self, managed: Catalog) -> None:
        one, other = pair(managed)
        lance.write_dataset(rows([7]), one, mode="overwrite")
        with pytest.raises(OSError, match="incompatible with concurrent transaction"):
            other.insert(rows([8]))
        assert settled(managed, [7]) == 2

    def test_two_indices_of_one_column(self, managed: Catalog) -> None:
        """14, as Lance says it."""
        one, other = pair(managed)
        one.create_scalar_index("n", "BTREE")
        with pytest.raises(CommitConflictError, match=r"[Rr]etry"):
            other.create_scalar_index("n", "BTREE")
        assert settled(managed, [1, 2, 3]) == 2

    def test_of_two_requests_for_a_number_one_lands(self, managed: Catalog) -> None:
        """R1, O06: 12, a conflict (14) for who does not know it; what landed stays as it is."""
        one, other = pair(managed)
        one.insert(rows([4]))
        told = managed.describe_table_version({"id": T, "version": 2}).version
        path = f"{managed.place(T)}/_versions/late.manifest-2"
        managed.root.put(path, b"other bytes")
        asked = {"id": T, "version": 2, "manifest_path": path}
        assert code(managed.create_table_version, asked) == 12
        assert managed.describe_table_version({"id": T, "version": 2}).version == told
        managed.root.remove(path)
        other.insert(rows([5]))
        assert settled(managed, [1, 2, 3, 4, 5]) == 3


class TestHandlesThatSlept:
    def test_many_versions_behind(self, managed: Catalog) -> None:
        """And behind what a cleanup took away."""
        stale, other = pair(managed)
        for number in range(10, 16):
            opened(managed).insert(rows([number]))
        stale.insert(rows([4]))
        other.delete("n = 1")
        assert settled(managed, [2, 3, 4, *range(10, 16)]) == 9

    def test_another_handle_of_the_catalog(self, managed: Catalog) -> None:
        """One process opened the catalog before another switched managed versions on and wrote."""
        ours = managed.open()
        # A process shares one view per root; this is how another process begins.
        ours.context.log = type(ours.context.log)(ours.context.store)
        ours.list_tables({"id": ["ns"]})
        write(managed, T, [1], "create")
        for number in (2, 3):
            opened(managed).insert(rows([number]))
        options = managed.root.options or None
        theirs = lance.dataset(namespace_client=ours, table_id=T, storage_options=options)
        opened(managed).insert(rows([4]))
        theirs.insert(rows([5]))
        opened(managed).insert(rows([6]))
        theirs.insert(rows([7]))
        assert settled(managed, [1, 2, 3, 4, 5, 6, 7]) == 7

    def test_after_a_drop_it_fails_and_leaves_no_version(self, managed: Catalog) -> None:
        stale, _ = pair(managed)
        managed.drop_table({"id": T})
        with pytest.raises(OSError, match="Commit result for version 2 is unknown"):
            stale.insert(rows([4]))
        managed.undrop_table(T)
        assert set(version_rows(managed)) == {"ns$t$1"}
        assert managed.data(T) == [1, 2, 3]
        # The table is the one it knows: it may go on.
        stale.insert(rows([5]))
        assert managed.data(T) == [1, 2, 3, 5]

    def test_another_table_of_the_name_is_not_written_to(self, managed: Catalog) -> None:
        """The name means another table by now, with a version of the number it wants."""
        stale, other = pair(managed)
        managed.drop_table({"id": T})
        write(managed, T, [100], "create")
        with pytest.raises(OSError, match="Commit result for version 2 is unknown"):
            stale.insert(rows([4]))
        opened(managed).insert(rows([101]))
        parts = lance.fragment.write_fragments(rows([5]), other)
        # With its twenty tries Lance takes seconds to give up.
        with pytest.raises(OSError, match=r"[Cc]ommit conflict|unknown"):
            lance.LanceDataset.commit(
                other, lance.LanceOperation.Append(parts), read_version=1, max_retries=1
            )
        assert settled(managed, [100, 101]) == 2

    def test_after_a_rename_it_fails(self, managed: Catalog) -> None:
        """Its name is gone; under the new one nothing of it shows."""
        stale, _ = pair(managed)
        managed.rename_table({"id": T, "new_table_name": "u"})
        with pytest.raises(OSError, match="Commit result for version 2 is unknown"):
            stale.insert(rows([4]))
        assert set(version_rows(managed)) == {"ns$u$1"}
        assert managed.data(["ns", "u"]) == [1, 2, 3]
        opened(managed, ["ns", "u"]).insert(rows([5]))
        assert managed.data(["ns", "u"]) == [1, 2, 3, 5]
