"""Interleavings in which a managed catalog once lost, doubled or showed too much."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import lance
import pytest

from lance_catalog import CommitOutcomeUnknownError
from lance_catalog.config import Mode
from lance_catalog.directory import describing
from lance_catalog.directory.managed import batch, cleanup, commit, deletion, switch
from lance_catalog.errors import ConcurrentModificationError, LanceNamespaceError
from lance_catalog.maintenance.repair import apply, plan
from lance_catalog.manifest.log import ManifestLog
from lance_catalog.manifest.writing import Attempt
from tests.behaviour.catalogs import Catalog, ipc, outcome, rows
from tests.behaviour.versioning import numbers, opened, plain, values, write

pytestmark = [pytest.mark.modes(Mode.V2, Mode.COMPAT), pytest.mark.stores("local", "s3")]

A, B = ["a"], ["b"]


class DiedError(BaseException):
    """As if the process was gone: nothing of ours catches it."""


def at(patch: pytest.MonkeyPatch, module: Any, point: str, work: Callable[[], object]) -> None:
    """Do something, once, when a fail point is passed."""
    real, left = module.hit, [True]

    def meet(name: str) -> None:
        real(name)
        if name == point and left:
            left.clear()
            work()

    patch.setattr(module, "hit", meet)


def write_plain(catalog: Catalog, id: list[str], numbers: list[int]) -> None:
    """Append as one who ignores the catalog."""
    lance.write_dataset(
        rows(numbers),
        catalog.describe_table({"id": id}).location,
        mode="append",
        storage_options=catalog.root.options or None,
    )


def die() -> None:
    raise DiedError


def dies(catalog: Catalog, numbers: dict[str, Iterable[int]]) -> None:
    """Write rows, a version each, in a transaction whose process dies after its commit."""
    transaction = catalog.transaction()
    for name, each in numbers.items():
        for number in each:
            transaction.write([name], rows([number]))
    with pytest.raises(DiedError):
        transaction.commit()


def mend(catalog: Catalog) -> None:
    results = apply(catalog.ns.context, plan(catalog.ns.context, grace_seconds=-3600))
    assert [why for _, why in results if why is not None] == []


@pytest.fixture
def two(catalog: Catalog) -> Catalog:
    """Two managed tables, three versions each."""
    catalog.enable_managed_versions()
    for table in (A, B):
        write(catalog, table, [1], "create")
        write(catalog, table, [2])
        write(catalog, table, [3])
    return catalog


class TestTransactions:
    @pytest.mark.parametrize("verb", ["tag", "compact", "branch"])
    def test_nothing_is_published_before_its_end(self, two: Catalog, verb: str) -> None:
        """Lance puts in place what it is told of; so it is not told of what is kept back."""
        transaction = two.transaction()
        handle = transaction.write(A, rows([4]))
        call = {
            "tag": lambda: handle.tags.create("x", 4),
            "compact": handle.optimize.compact_files,
            "branch": lambda: handle.create_branch("side", 4),
        }[verb]
        with pytest.raises((OSError, ValueError)):
            call()
        assert numbers(two, A) == [3, 2, 1]
        assert values(plain(two, A)) == [1, 2, 3]
        transaction.rollback()
        assert values(plain(two, A)) == [1, 2, 3]
        write(two, A, [5])
        assert values(opened(two, A)) == [1, 2, 3, 5]

    def test_a_handle_that_outlives_it(self, two: Catalog) -> None:
        """What nobody would publish is refused."""
        with two.transaction() as transaction:
            handle = transaction.write(A, rows([4]))
        with pytest.raises(OSError, match=r"ended|unknown"):
            handle.insert(rows([5]))
        assert values(opened(two, A)) == [1, 2, 3, 4]

    def test_it_reads_one_moment(self, two: Catalog) -> None:
        """Not half of what another published meanwhile; and it does not commit on top of it."""
        transaction = two.transaction()
        assert values(transaction.open(B)) == [1, 2, 3]
        with two.transaction() as other:
            other.write(A, rows([4]))
            other.write(B, rows([4]))
        assert values(transaction.open(A)) == [1, 2, 3]
        with pytest.raises(ConcurrentModificationError, match="since the transaction began"):
            transaction.write(A, rows([5]))
        transaction.rollback()
        assert (values(plain(two, A)), values(plain(two, B))) == ([1, 2, 3, 4], [1, 2, 3, 4])

    def test_a_landing_that_cannot_be_read_back(
        self, two: Catalog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Landed is landed: the transaction is published, and not rolled back."""

        def fails(self: object, version: int) -> None:
            raise OSError("the cable")

        with two.transaction() as transaction, monkeypatch.context() as patch:
            transaction.write(A, rows([4]))
            transaction.write(B, rows([4]))
            patch.setattr(Attempt, "_next_snapshot", lambda *args: None)
            patch.setattr(ManifestLog, "_open", fails)
            transaction.commit()
        assert (values(plain(two, A)), values(plain(two, B))) == ([1, 2, 3, 4], [1, 2, 3, 4])


class TestDeletions:
    @pytest.mark.parametrize("verb", ["delete", "batch", "cleanup"])
    def test_one_that_sleeps_while_the_table_is_made_anew(
        self, two: Catalog, verb: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The same place and numbers in compatibility mode, another table."""

        def anew() -> None:
            monkeypatch.undo()
            two.drop_table({"id": A}, purge=True)
            write(two, A, [7], "create")
            write(two, A, [8])

        gone = {"id": A, "ranges": [{"start_version": 1, "end_version": 3}]}
        if verb == "delete":
            at(monkeypatch, deletion, "version.rows_deleted", anew)
            two.batch_delete_table_versions(gone)
        elif verb == "batch":
            at(monkeypatch, batch, "version.row_written", anew)
            two.batch_commit_tables({"operations": [{"delete_table_versions": gone}]})
        else:
            at(monkeypatch, cleanup, "version.cleanup_forgotten", anew)
            two.cleanup_table_versions(A, keep=1)
        assert numbers(two, A) == [2, 1]
        assert values(plain(two, A)) == [7, 8]
        assert values(plain(two, A, version=1)) == [7]

    def test_a_batch_whose_table_is_renamed(
        self, two: Catalog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The files go of the table it was about, whoever has the name by then."""

        def rename() -> None:
            two.rename_table({"id": A, "new_table_name": "old"})
            two.rename_table({"id": B, "new_table_name": "a"})

        at(monkeypatch, batch, "version.row_written", rename)
        gone = {"id": A, "ranges": [{"start_version": 1, "end_version": 3}]}
        two.batch_commit_tables({"operations": [{"delete_table_versions": gone}]})
        assert (numbers(two, A), numbers(two, ["old"])) == ([3, 2, 1], [3])
        assert [v["version"] for v in plain(two, A).versions()] == [1, 2, 3]
        assert [v["version"] for v in plain(two, ["old"]).versions()] == [3]

    def test_no_number_twice(self, two: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
        """A transaction of many versions dies after its rows, then a deletion of most of them."""
        with monkeypatch.context() as patch:
            at(patch, batch, "version.row_written", die)
            dies(two, {"a": range(4, 9)})
        with monkeypatch.context() as patch:
            at(patch, deletion, "version.rows_deleted", die)
            with pytest.raises(DiedError):
                two.batch_delete_table_versions(
                    {"id": A, "ranges": [{"start_version": 2, "end_version": 8}]}
                )
        fresh = Catalog(two.mode, two.kind, two.root, two.home)
        write(fresh, A, [9])
        assert numbers(fresh, A) == [9, 8, 1]
        table = fresh.manifest().to_table(columns=["object_id"])["object_id"].to_pylist()
        assert len(table) == len(set(table))
        assert values(plain(fresh, A)) == [*range(1, 10)]

    def test_switching_off_brings_nothing_back(
        self, two: Catalog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch:
            at(patch, deletion, "version.rows_deleted", die)
            with pytest.raises(DiedError):
                two.batch_delete_table_versions(
                    {"id": A, "ranges": [{"start_version": 1, "end_version": 3}]}
                )
        two.disable_managed_versions()
        assert numbers(two, A) == [3]
        two.enable_managed_versions()
        assert numbers(two, A) == [3]


class TestNames:
    @pytest.mark.parametrize("how", ["enable", "disable", "repair"])
    def test_a_table_named_like_a_version(
        self, two: Catalog, how: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """``a$2`` is version 2 of ``a``, and table ``2`` of namespace ``a``."""
        with monkeypatch.context() as patch:
            at(patch, switch, "version.disabled", die)
            with pytest.raises(DiedError):
                two.disable_managed_versions()
        two.drop_table({"id": A})
        two.namespace("a")
        two.create(["a", "2"], [42])
        stored = two.manifest().to_table(columns=["object_id"])["object_id"].to_pylist()
        assert stored.count("a$2") == 2
        if how == "enable":
            two.enable_managed_versions()
        elif how == "disable":
            two.disable_managed_versions()
        else:
            mend(two)
        assert two.tables(["a"]) == ["2"]
        assert two.data(["a", "2"]) == [42]
        assert outcome(two.create, ["a", "2"]) == 5


class TestOthers:
    def test_a_name_that_was_taken_and_tidied(
        self, two: Catalog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A committer sleeps, another takes its number without the catalog, repair tidies up."""
        source = two.root.get(f"{two.place(A)}/_versions/{2**64 - 4:020d}.manifest")
        path = f"{two.place(A)}/_versions/{2**64 - 5:020d}.manifest-ours"
        two.root.put(path, source)

        def meanwhile() -> None:
            two.root.write(two.place(A), rows([66]), mode="append")
            mend(two)

        at(monkeypatch, commit, "version.row_written", meanwhile)
        request = {"id": A, "version": 4, "manifest_path": path, "naming_scheme": "V2"}
        with pytest.raises(LanceNamespaceError) as caught:
            two.create_table_version(request)
        assert isinstance(caught.value, (CommitOutcomeUnknownError, ConcurrentModificationError))
        assert values(opened(two, A)) == values(plain(two, A)) == [1, 2, 3, 66]
        write(two, A, [5])
        assert values(plain(two, A)) == [1, 2, 3, 5, 66]

    def test_one_who_commits_and_cleans_up(self, two: Catalog) -> None:
        """Without the catalog: the registered latest is gone, and others lie above a gap."""
        for number in (4, 5, 6):
            two.root.write(two.place(A), rows([number]), mode="append")
        plain(two, A).cleanup_old_versions(versions=[1, 2, 3, 4])
        assert numbers(two, A)[:2] == [6, 5]
        mend(two)
        write(two, A, [7])
        assert values(plain(two, A)) == [*range(1, 8)]

    def test_a_stale_look(self, two: Catalog) -> None:
        """An old view of the catalog does not stand in the way of a commit."""
        other = two.open(read_consistency_interval=600)
        other.list_tables({"id": []})
        write(two, A, [4])
        write(two, A, [5])
        other.insert_into_table({"id": A}, ipc(rows([6])))
        assert values(plain(two, A)) == [1, 2, 3, 4, 5, 6]

    @pytest.mark.parametrize("ask", ["describe", "exists", "exist_ok"])
    def test_whoever_asks_finds_it_finished(
        self, two: Catalog, ask: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A batch whose committer died is there with all of it, whatever is asked first."""
        with monkeypatch.context() as patch:
            at(patch, batch, "version.row_written", die)
            dies(two, {"a": [4], "b": [4]})
        assert values(opened(two, A)) == [1, 2, 3, 4]
        if ask == "describe":
            request = {"id": B, "load_detailed_metadata": True}
            assert two.describe_table(request).version == 4
        elif ask == "exists":
            two.table_exists({"id": B, "version": 4})
        else:
            answer = two.ns.create_table({"id": B, "mode": "exist_ok"}, ipc(rows([0])))
            assert answer.version == 4

    def test_a_version_deleted_while_it_is_opened(
        self, two: Catalog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Lance has chosen the latest, and before it reads it there is another and this one not."""
        real, left = lance.dataset, [True]

        def slow(*args: Any, **how: Any) -> Any:
            if left and str(args and args[0]).endswith(two.place(A)):
                left.clear()
                write(two, A, [4])
                ranges = [{"start_version": 1, "end_version": 4}]
                two.batch_delete_table_versions({"id": A, "ranges": ranges})
                return real(*args, **how, version=3)
            return real(*args, **how)

        now = two.snapshot()
        monkeypatch.setattr(describing.lance, "dataset", slow)
        assert outcome(now.open_table, A) == 11
        assert not left
        assert two.describe_table({"id": A, "load_detailed_metadata": True}).version == 4

    def test_a_first_version_that_is_not_in_place(
        self, two: Catalog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It is registered: nobody creates the table over it."""
        two.declare_table({"id": ["new"]})
        with monkeypatch.context() as patch:
            at(patch, batch, "version.row_written", die)
            dies(two, {"new": [4], "b": [4]})
        assert outcome(two.create, ["new"]) == 5
        assert values(plain(two, ["new"])) == [4]


@pytest.mark.parametrize("past", ["snapshot", "as_of"])
def test_a_number_that_was_taken_back(
    catalog: Catalog, past: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another put under it later does not show as of the moment at which it was registered."""
    catalog.enable_managed_versions()
    for name in ("a", "b"):
        catalog.create([name], [1])
    moments: list[Any] = []

    def foreign() -> None:
        moments.append(catalog.ns.snapshot())
        write_plain(catalog, B, [9])

    with monkeypatch.context() as patch:
        at(patch, batch, "version.row_written", foreign)
        with pytest.raises(LanceNamespaceError):
            catalog.ns.run_transaction(
                lambda tx: [tx.write([name], rows([2])) for name in ("a", "b")], retries=0
            )
    assert values(opened(catalog, A)) == [1]
    write(catalog, A, [3])
    assert values(opened(catalog, A)) == [1, 3]
    if past == "snapshot":
        found = outcome(moments[0].open_table, A)
    else:
        then = catalog.open(as_of=moments[0].version)
        found = outcome(then.describe_table_version, {"id": A, "version": 2})
        # What Lance asks when it opens a table.
        assert outcome(then.list_table_versions, {"id": A, "limit": 1}) == 14
    assert found == 14
    assert values(catalog.snapshot().open_table(A)) == [1, 3]


@pytest.mark.parametrize("kept", [True, False])
def test_the_past_is_not_written_to(catalog: Catalog, kept: bool) -> None:
    """By stock Lance neither, which has the place of the table."""
    if kept:
        catalog.enable_managed_versions()
    catalog.create(A, [1])
    past = catalog.open(as_of=catalog.snapshot().version)
    options = catalog.root.options or None
    with pytest.raises((OSError, ValueError)):
        lance.write_dataset(
            rows([2]), namespace_client=past, table_id=A, mode="append", storage_options=options
        )
    assert catalog.data(A) == [1]
    read = lance.dataset(namespace_client=past, table_id=A, storage_options=options)
    assert values(read) == [1]
