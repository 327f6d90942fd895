"""Several tables published by one commit: all of it is seen, or nothing (issue 5.5)."""

from __future__ import annotations

from typing import Any

import pytest

from lance_catalog.config import Mode
from tests.behaviour.catalogs import STORES, Catalog, code, refusal, rows
from tests.behaviour.versioning import (
    T,
    numbers,
    opened,
    plain,
    settled,
    staged,
    values,
    version_rows,
    write,
)

pytestmark = [pytest.mark.modes(Mode.V2), pytest.mark.stores("local")]

A, B = ["ns", "a"], ["ns", "b"]


@pytest.fixture
def pair(managed: Catalog) -> Catalog:
    """Two tables of one row."""
    write(managed, A, [1], "create")
    write(managed, B, [1], "create")
    return managed


def files(catalog: Catalog) -> set[str]:
    """Everything below the root but the notes that Lance keeps of transactions."""
    return {path for path in catalog.root.paths() if "/_transactions/" not in path}


class TestPublishing:
    @pytest.mark.stores(*STORES)
    def test_all_at_once(self, managed: Catalog) -> None:
        """Nothing before the end, everything after it, by one version of the manifest."""
        before = managed.snapshot().version
        with managed.transaction() as tx:
            tx.write(A, rows([1]), "create")
            tx.write(B, rows([2]), "create", properties={"owner": "me"})
            tx.write(A, rows([3]))
            assert managed.tables(["ns"]) == []
        assert managed.snapshot().version == before + 1
        assert settled(managed, [1, 3], A) == 2
        assert settled(managed, [2], B) == 1
        assert managed.describe_table({"id": B}).properties == {"owner": "me"}

    def test_a_snapshot_has_all_or_nothing(self, pair: Catalog) -> None:
        before = pair.snapshot()
        with pair.transaction() as tx:
            tx.open(A).delete("n = 1")
            tx.write(B, rows([4]))
            during = pair.snapshot()
        after = pair.snapshot()
        for old in (before, during):
            assert (values(old.open_table(A)), values(old.open_table(B))) == ([1], [1])
        assert (values(after.open_table(A)), values(after.open_table(B))) == ([], [1, 4])
        assert (after.table_version(A), after.table_version(B)) == (2, 2)

    def test_one_s_own_writes_are_read(self, pair: Catalog) -> None:
        with pair.transaction() as tx:
            tx.write(A, rows([2]))
            tx.open(A).update({"n": "n + 10"}, where="n = 1")
            assert values(tx.open(A)) == [2, 11]
            tx.write(B, rows([5]), "overwrite")
            assert values(tx.open(B)) == [5]
            assert values(opened(pair, A)) == [1]
        assert settled(pair, [2, 11], A) == 3
        assert settled(pair, [5], B) == 2

    def test_a_declared_table(self, managed: Catalog) -> None:
        """It exists, so it is not created; what is written is its first version."""
        managed.declare_table({"id": T})
        with managed.transaction() as tx:
            assert code(tx.open, T) == 13
            tx.write(T, rows([1]), "overwrite")
        assert settled(managed, [1]) == 1

    def test_deregistered_with_the_rest(self, pair: Catalog) -> None:
        with pair.transaction() as tx:
            tx.write(A, rows([2]))
            tx.deregister(B)
            assert pair.tables(["ns"]) == ["a", "b"]
        assert pair.tables(["ns"]) == ["a"]
        assert set(version_rows(pair)) == {"ns$a$1", "ns$a$2"}

    def test_versions_of_others_are_built_upon(self, pair: Catalog) -> None:
        """One behind the catalog's back is a conflict at first, and then the base."""
        plain(pair, A).insert(rows([2]))
        tries: list[int] = []

        def work(tx: Any) -> None:
            tries.append(1)
            tx.write(B, rows([3]))
            tx.write(A, rows([3]))

        pair.run_transaction(work)
        assert len(tries) == 2
        assert settled(pair, [1, 2, 3], A) == 3
        assert settled(pair, [1, 3], B) == 2

    def test_nothing_to_publish(self, pair: Catalog) -> None:
        before = pair.snapshot().version
        with pair.transaction() as tx:
            assert values(tx.open(A)) == [1]
        assert pair.snapshot().version == before


class TestNothing:
    @pytest.mark.modes(Mode.V2, Mode.COMPAT)
    def test_on_an_error(self, pair: Catalog) -> None:
        """Nothing is seen of it, and nothing of it is left."""
        before = files(pair)
        tx = pair.transaction()
        with pytest.raises(RuntimeError, match="mine"):
            _work_and_fail(tx)
        assert pair.tables(["ns"]) == ["a", "b"]
        assert files(pair) == before
        assert (settled(pair, [1], A), settled(pair, [1], B)) == (1, 1)
        assert code(tx.write, A, rows([1])) == 13

    def test_on_rollback(self, pair: Catalog) -> None:
        before = files(pair)
        with pair.transaction() as tx:
            tx.write(A, rows([2]))
            tx.rollback()
        assert files(pair) == before
        assert values(opened(pair, A)) == [1]

    def test_of_deletions_and_indices(self, managed: Catalog) -> None:
        """Object stores tell the time by the second: there what is as old as the base stays."""
        write(managed, T, [1, 2, 3], "create")
        before = files(managed)
        with managed.transaction() as tx:
            tx.open(T).delete("n = 1")
            tx.open(T).create_scalar_index("n", "BTREE")
            assert files(managed) - before
            tx.rollback()
        assert files(managed) == before
        assert settled(managed, [1, 2, 3]) == 1

    @pytest.mark.stores("local", "s3")
    def test_but_not_what_others_need(self, managed: Catalog) -> None:
        """A version that was to come back from the past names files that are not ours."""
        write(managed, T, [1, 2, 3], "create")
        write(managed, T, [4], "overwrite")
        with managed.transaction() as tx:
            tx.open(T).checkout_version(1).restore()
            tx.rollback()
        assert values(opened(managed, version=1)) == [1, 2, 3]
        assert settled(managed, [4]) == 2

    @pytest.mark.stores("local", "s3")
    def test_when_another_was_first(self, pair: Catalog) -> None:
        """14; the other's version stays, ours leaves nothing."""
        tx = pair.transaction()
        tx.write(A, rows([2]))
        tx.write(B, rows([2]))
        opened(pair, B).insert(rows([9]))
        before = files(pair) - set(staged(pair, A)) - set(staged(pair, B))
        assert refusal(tx.commit).code in (12, 14)
        assert (settled(pair, [1], A), settled(pair, [1, 9], B)) == (1, 2)
        assert files(pair) <= before

    def test_when_a_table_has_gone(self, pair: Catalog) -> None:
        tx = pair.transaction()
        tx.write(A, rows([2]))
        tx.write(B, rows([2]))
        pair.drop_table({"id": B})
        assert code(tx.commit) == 4
        assert settled(pair, [1], A) == 1
        pair.undrop_table(B)
        assert settled(pair, [1], B) == 1

    def test_when_a_name_was_taken(self, pair: Catalog) -> None:
        tx = pair.transaction()
        tx.write(A, rows([2]))
        tx.write(T, rows([2]), "create")
        write(pair, T, [7], "create")
        before = files(pair)
        assert code(tx.commit) == 5
        assert (settled(pair, [1], A), settled(pair, [7])) == (1, 1)
        # The table that was not to be leaves nothing, its folder included.
        gone = {path.split("/")[0] for path in before} - {p.split("/")[0] for p in files(pair)}
        assert len(gone) == 1

    def test_not_without_managed_versions(self, catalog: Catalog) -> None:
        assert code(catalog.transaction) == 0


def _work_and_fail(tx: Any) -> None:
    with tx:
        tx.write(A, rows([2]))
        tx.open(B).delete("n = 1")
        tx.write(["ns", "new"], rows([3]), "create")
        raise RuntimeError("mine")


class TestRetrying:
    def test_from_the_beginning(self, pair: Catalog) -> None:
        """All or none, and on what the other has made of it."""
        seen: list[list[int]] = []

        def work(tx: Any) -> int:
            seen.append(values(tx.open(B)))
            tx.write(A, rows([2]))
            tx.write(B, rows([2]))
            if len(seen) == 1:
                opened(pair, B).insert(rows([9]))
            return 7

        assert pair.run_transaction(work) == 7
        assert seen == [[1], [1, 9]]
        assert settled(pair, [1, 2], A) == 2
        assert settled(pair, [1, 2, 9], B) == 3

    def test_not_for_ever(self, pair: Catalog) -> None:
        tries: list[int] = []

        def work(tx: Any) -> None:
            tries.append(len(tries))
            tx.write(A, rows([2]))
            tx.write(B, rows([2]))
            opened(pair, B).insert(rows([9]))

        assert refusal(pair.run_transaction, work, retries=2).code in (12, 14)
        assert tries == [0, 1, 2]
        assert settled(pair, [1], A) == 1
        assert settled(pair, [1, 9, 9, 9], B) == 4

    def test_not_for_one_s_own_errors(self, pair: Catalog) -> None:
        tries: list[int] = []

        def work(tx: Any) -> None:
            tries.append(1)
            raise KeyError("mine")

        with pytest.raises(KeyError):
            pair.run_transaction(work)
        assert tries == [1]


class TestBadInput:
    def test_modes_and_names(self, pair: Catalog) -> None:
        with pair.transaction() as tx:
            assert code(tx.write, A, rows([2]), "replace") == 13
            assert code(tx.write, A, rows([2]), "create") == 5
            assert code(tx.write, ["ns", "no"], rows([2])) == 4
            assert code(tx.write, ["no", "t"], rows([2]), "create") == 1
            assert code(tx.open, ["ns", "no"]) == 4
            tx.write(T, rows([1]), "create")
            assert code(tx.write, T, rows([1]), "create") == 13
            tx.rollback()
        assert pair.tables(["ns"]) == ["a", "b"]
        assert numbers(pair, A) == [1]

    def test_the_end_is_the_end(self, pair: Catalog) -> None:
        with pair.transaction() as tx:
            tx.write(A, rows([2]))
        for call in (tx.commit, lambda: tx.open(A), lambda: tx.deregister(A)):
            assert code(call) == 13
        assert settled(pair, [1, 2], A) == 2
