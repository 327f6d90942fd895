"""Stock pylance on a managed catalog, end to end: everything that makes a version (issue 5.4)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_catalog.config import Mode
from tests.behaviour.catalogs import Catalog, rows
from tests.behaviour.versioning import T, numbers, opened, plain, settled, values, write

pytestmark = [pytest.mark.modes(Mode.V2), pytest.mark.stores("local")]


def vectors(*numbers: int) -> pa.Table:
    flat = np.repeat(np.array(numbers, np.float32), 4)
    column = pa.FixedSizeListArray.from_arrays(pa.array(flat), 4)
    return pa.table({"n": pa.array(numbers, pa.int64()), "v": column})


class TestRows:
    @pytest.mark.modes(Mode.V2, Mode.COMPAT)
    def test_each_kind_of_change(self, managed: Catalog) -> None:
        """O06: after each the registry, a stock and a plain reader say the same."""
        table = write(managed, T, [1, 2, 3, 4], "create")
        assert settled(managed, [1, 2, 3, 4]) == 1
        table.insert(rows([5]))
        assert settled(managed, [1, 2, 3, 4, 5]) == 2
        table.delete("n = 1")
        assert settled(managed, [2, 3, 4, 5]) == 3
        table.update({"n": "n + 10"}, where="n = 2")
        assert settled(managed, [3, 4, 5, 12]) == 4
        table.merge_insert("n").when_not_matched_insert_all().execute(rows([5, 6]))
        assert settled(managed, [3, 4, 5, 6, 12]) == 5
        upsert = table.merge_insert("n").when_matched_update_all().when_not_matched_insert_all()
        upsert.execute(rows([6, 7]))
        assert settled(managed, [3, 4, 5, 6, 7, 12]) == 6
        table.add_columns({"twice": "n * 2"})
        assert settled(managed, [3, 4, 5, 6, 7, 12]) == 7
        table.drop_columns(["twice"])
        table.update_config({"a": "b"})
        assert settled(managed, [3, 4, 5, 6, 7, 12]) == 9
        lance.write_dataset(rows([8]), table, mode="append")
        lance.write_dataset(rows([9]), table, mode="overwrite")
        assert settled(managed, [9]) == 11

    def test_create_again_is_refused(self, managed: Catalog) -> None:
        write(managed, T, [1], "create")
        with pytest.raises(Exception, match="exists already"):
            write(managed, T, [2], "create")
        assert settled(managed, [1]) == 1

    def test_naming_scheme_v1(self, managed: Catalog) -> None:
        """I37: a table keeps the scheme it was made with."""
        options = managed.root.options or None
        table = lance.write_dataset(
            rows([1]),
            namespace_client=managed.ns,
            table_id=T,
            storage_options=options,
            enable_v2_manifest_paths=False,
        )
        table.insert(rows([2]))
        table.delete("n = 1")
        assert settled(managed, [2]) == 3
        names = {p.rsplit("/", 1)[-1] for p in managed.root.paths(f"{managed.place(T)}/_versions")}
        assert {"1.manifest", "2.manifest", "3.manifest"} <= names
        assert values(opened(managed, version=2)) == [1, 2]
        stale = opened(managed)
        table.migrate_manifest_paths_v2()
        assert values(opened(managed, version=1)) == [1]
        told = managed.describe_table_version({"id": T, "version": 2}).version
        assert not told.manifest_path.endswith("/2.manifest")
        # A handle with the old names would make a version that plain readers do not see.
        with pytest.raises(OSError, match="Commit result for version 4 is unknown"):
            stale.insert(rows([9]))
        opened(managed).insert(rows([3]))
        assert numbers(managed) == [4, 3, 2, 1]
        assert managed.data(T) == [2, 3]


class TestUpkeepOfTables:
    @pytest.mark.stores("local", "s3")
    def test_compaction(self, managed: Catalog) -> None:
        """It commits twice: it reserves fragments first."""
        table = write(managed, T, [0], "create")
        for number in range(1, 6):
            table.insert(rows([number]))
        assert len(opened(managed).get_fragments()) == 6
        before = settled(managed, list(range(6)))
        found = opened(managed).optimize.compact_files()
        assert (found.fragments_removed, found.fragments_added) == (6, 1)
        assert settled(managed, list(range(6))) > before
        assert len(opened(managed).get_fragments()) == 1

    def test_indices(self, managed: Catalog) -> None:
        """Made, used, brought up to date."""
        options = managed.root.options or None
        table = lance.write_dataset(
            vectors(*range(64)),
            namespace_client=managed.ns,
            table_id=T,
            storage_options=options,
        )
        table.create_scalar_index("n", "BTREE")
        table.create_index("v", "IVF_FLAT", num_partitions=2)
        assert settled(managed, list(range(64))) == 3
        table.insert(vectors(64, 65))
        assert opened(managed).stats.index_stats("n_idx")["num_unindexed_rows"] == 2
        opened(managed).optimize.optimize_indices()
        assert settled(managed, list(range(66))) == 5
        now = opened(managed)
        assert now.stats.index_stats("n_idx")["num_unindexed_rows"] == 0
        assert now.stats.index_stats("v_idx")["num_indexed_rows"] == 66
        near = now.to_table(nearest={"column": "v", "q": np.full(4, 65, np.float32), "k": 2})
        assert sorted(near["n"].to_pylist()) == [64, 65]
        assert now.to_table(filter="n = 65").num_rows == 1
        now.drop_index("n_idx")
        assert settled(managed, list(range(66))) == 6
        assert [index.name for index in opened(managed).describe_indices()] == ["v_idx"]


class TestTimeTravel:
    def made(self, managed: Catalog) -> Any:
        table = write(managed, T, [1], "create")
        table.insert(rows([2]))
        table.delete("n = 1")
        return table

    def test_by_version_tag_and_time(self, managed: Catalog) -> None:
        table = self.made(managed)
        table.tags.create("both", 2)
        for version, expected in ((1, [1]), (2, [1, 2]), (3, [2])):
            assert values(opened(managed, version=version)) == expected
            assert values(table.checkout_version(version)) == expected
        assert values(opened(managed, version="both")) == [1, 2]
        assert values(table.checkout_version("both")) == [1, 2]
        for told in table.versions():
            # Lance takes the last version before a moment.
            moment = told["timestamp"] + timedelta(microseconds=1)
            assert opened(managed, asof=moment).version == told["version"]
        with pytest.raises(ValueError, match="no version 4"):
            opened(managed, version=4)

    def test_tags_move_and_go(self, managed: Catalog) -> None:
        table = self.made(managed)
        table.tags.create("here", 1)
        table.tags.update("here", 3)
        assert opened(managed).tags.list()["here"]["version"] == 3
        assert values(opened(managed, version="here")) == [2]
        table.tags.delete("here")
        assert opened(managed).tags.list() == {}
        # A tag is no version.
        assert settled(managed, [2]) == 3

    @pytest.mark.stores("local", "s3")
    def test_restore(self, managed: Catalog) -> None:
        """The past comes back as a new version on top, from a stale handle as well."""
        table = self.made(managed)
        opened(managed, version=2).restore()
        assert settled(managed, [1, 2]) == 4
        table.checkout_version(1).restore()
        assert settled(managed, [1]) == 5
        opened(managed).insert(rows([7]))
        assert settled(managed, [1, 7]) == 6


class TestBranches:
    @pytest.mark.stores("local", "s3")
    def test_work_and_are_not_registered(self, managed: Catalog) -> None:
        """Issue 5.1: their versions are files; main does not notice."""
        table = write(managed, T, [1], "create")
        table.insert(rows([2]))
        branch = table.create_branch("feature/x")
        assert numbers(managed, branch="feature/x") == [2]
        branch.insert(rows([3]))
        branch.delete("n = 1")
        assert values(branch) == [2, 3]
        assert numbers(managed, branch="feature/x") == [4, 3, 2]
        assert settled(managed, [1, 2]) == 2
        # Found by somebody else, and main goes on meanwhile.
        opened(managed).insert(rows([9]))
        found = opened(managed).checkout_version(("feature/x", None))
        assert (values(found), found.version) == ([2, 3], 4)
        assert values(opened(managed).checkout_version(("feature/x", 3))) == [1, 2, 3]
        assert settled(managed, [1, 2, 9]) == 3

    def test_from_the_past_from_a_tag_and_from_a_branch(self, managed: Catalog) -> None:
        table = write(managed, T, [1], "create")
        table.insert(rows([2]))
        table.tags.create("first", 1)
        old = table.create_branch("old", 1)
        tagged = table.create_branch("tagged", "first")
        old.insert(rows([5]))
        twig = old.create_branch("twig")
        twig.insert(rows([6]))
        assert (values(old), values(tagged), values(twig)) == ([1, 5], [1], [1, 5, 6])
        assert numbers(managed, branch="old") == [2, 1]
        assert numbers(managed, branch="tagged") == [1]
        assert numbers(managed, branch="twig") == [3, 2]
        assert set(opened(managed).branches.list()) == {"old", "tagged", "twig"}
        table.branches.delete("tagged")
        assert set(opened(managed).branches.list()) == {"old", "twig"}
        assert settled(managed, [1, 2]) == 2

    def test_two_writers_of_a_branch(self, managed: Catalog) -> None:
        """Of two who want the same version one rebases, as on main."""
        branch = write(managed, T, [1], "create").create_branch("b")
        other = opened(managed).checkout_version(("b", None))
        branch.insert(rows([2]))
        other.insert(rows([3]))
        assert numbers(managed, branch="b") == [3, 2, 1]
        assert values(opened(managed).checkout_version(("b", None))) == [1, 2, 3]

    def test_a_tag_on_a_branch(self, managed: Catalog) -> None:
        table = write(managed, T, [1], "create")
        branch = table.create_branch("b")
        branch.insert(rows([2]))
        table.tags.create("there", ("b", branch.version))
        assert values(opened(managed, version="there")) == [1, 2]
        assert values(plain(managed)) == [1]
