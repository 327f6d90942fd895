"""Group commit: one version for all who wait, an outcome for each (invariants 1 and 3)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance_namespace
import pytest

from lance_catalog import DirectoryNamespace
from lance_catalog.config import Mode
from lance_catalog.errors import CommitOutcomeUnknownError, PermissionDeniedError, ThrottlingError
from lance_catalog.maintenance.check import check
from lance_catalog.manifest import batcher, upkeep
from lance_catalog.manifest.batcher import Batcher, Ticket
from lance_catalog.manifest.change import Change
from lance_catalog.manifest.log import ManifestLog
from lance_catalog.manifest.snapshot import Snapshot
from lance_catalog.storage.local import LocalStore
from tests.concurrency.batches import codes, log_of, together, until, waiting
from tests.concurrency.racing import PATIENCE, ipc, open_catalog


@pytest.fixture
def ns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DirectoryNamespace:
    # Upkeep adds versions of its own, and these tests count versions.
    monkeypatch.setattr(upkeep.Upkeep, "after_commit", lambda care, version, *rest: version)
    catalog = open_catalog(str(tmp_path / "root"), Mode.V2)
    catalog.create_namespace({"id": ["old"]})
    return catalog


def create(ns: DirectoryNamespace, *names: str, **more: Any) -> Callable[[], Any]:
    return lambda: ns.create_namespace({"id": list(names), **more})


def drop(ns: DirectoryNamespace, *names: str) -> Callable[[], Any]:
    return lambda: ns.drop_namespace({"id": list(names)})


def version(ns: DirectoryNamespace) -> int:
    return log_of(ns).snapshot().version


def seen(ns: DirectoryNamespace) -> set[str]:
    """What a process that shares no memory with us would see: native."""
    root = ns.context.settings.root
    native = lance_namespace.connect("dir", {"root": root, "dir_listing_enabled": "false"})
    request = lance_namespace.ListNamespacesRequest(id=[])
    return set(native.list_namespaces(request).namespaces)


def test_many_changes_are_one_version(ns: DirectoryNamespace) -> None:
    before = version(ns)
    answers = together(ns, [create(ns, f"n{i}") for i in range(40)])
    assert codes(answers) == [None] * 40
    assert version(ns) == before + 1
    assert seen(ns) == {"old", *(f"n{i}" for i in range(40))}


def test_a_duplicate_in_the_batch_loses(ns: DirectoryNamespace) -> None:
    calls = [
        create(ns, "a", properties={"who": "first"}),
        create(ns, "a", properties={"who": "second"}),
        create(ns, "b"),
    ]
    assert codes(together(ns, calls)) == [None, 2, None]
    assert ns.describe_namespace({"id": ["a"]}).properties == {"who": "first"}


def test_a_parent_is_used_in_the_batch_that_makes_it(ns: DirectoryNamespace) -> None:
    calls = [create(ns, "p"), create(ns, "p", "c"), create(ns, "q", "c"), create(ns, "p", "c", "d")]
    assert codes(together(ns, calls)) == [None, None, 1, None]
    assert ns.list_namespaces({"id": ["p", "c"]}).namespaces == ["d"]


def test_drop_and_create_of_one_name(ns: DirectoryNamespace) -> None:
    before = version(ns)
    calls = [drop(ns, "old"), create(ns, "old", properties={"new": "yes"}), drop(ns, "x")]
    assert codes(together(ns, calls)) == [None, None, 1]
    assert version(ns) == before + 1
    assert ns.describe_namespace({"id": ["old"]}).properties == {"new": "yes"}
    assert seen(ns) == {"old"}


def test_a_parent_that_goes_in_the_batch_takes_no_child(ns: DirectoryNamespace) -> None:
    calls = [
        drop(ns, "old"),
        create(ns, "old", "c"),
        create(ns, "p"),
        create(ns, "p", "c"),
        drop(ns, "p"),
    ]
    # 3: not empty, because of the member before.
    assert codes(together(ns, calls)) == [None, 1, None, None, 3]


def test_what_comes_and_goes_in_one_batch_is_never_written(ns: DirectoryNamespace) -> None:
    before = version(ns)
    calls = [create(ns, "a"), create(ns, "a"), drop(ns, "a"), drop(ns, "a")]
    assert codes(together(ns, calls)) == [None, 2, None, 1]
    assert version(ns) == before
    assert seen(ns) == {"old"}


def test_a_row_changed_twice_keeps_what_others_wrote_into_it(ns: DirectoryNamespace) -> None:
    """Extra columns of other writers ride along with a row that is rewritten in a batch."""
    log = log_of(ns)
    log.dataset().add_columns({"owner": "concat(object_id, '!')"})

    def alter(**properties: str) -> Callable[[], Any]:
        request = {"id": ["old"], "properties": properties, "mode": "overwrite"}
        return lambda: ns.create_namespace(request)

    assert codes(together(ns, [alter(a="1"), alter(a="2")])) == [None, None]
    row = log.dataset().to_table(filter="object_id = 'old'").to_pylist()
    assert [one["owner"] for one in row] == ["old!"]
    assert ns.describe_namespace({"id": ["old"]}).properties == {"a": "2"}


def test_tables_and_namespaces_share_a_batch(ns: DirectoryNamespace) -> None:
    ns.create_table({"id": ["old", "t"]}, ipc([1]))
    ns.declare_table({"id": ["old", "x"]})
    before = version(ns)
    calls: list[Callable[[], Any]] = [
        lambda: ns.declare_table({"id": ["old", "d"]}),
        lambda: ns.rename_table({"id": ["old", "t"], "new_table_name": "u"}),
        lambda: ns.deregister_table({"id": ["old", "x"]}),
        create(ns, "old", "n"),
    ]
    assert codes(together(ns, calls)) == [None] * 4
    assert version(ns) == before + 1
    assert set(ns.list_tables({"id": ["old"]}).tables) == {"d", "u"}
    assert check(ns.context, grace_seconds=-3600).problems == []


def test_a_conflict_plans_every_member_anew(
    ns: DirectoryNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = lance_namespace.connect(
        "dir", {"root": ns.context.settings.root, "dir_listing_enabled": "false"}
    )
    real = ManifestLog._attempt
    meddled: list[bool] = []

    def attempt(self: ManifestLog, view: Snapshot, change: Change) -> bool:
        if not meddled:
            meddled.append(True)
            other.create_namespace(lance_namespace.CreateNamespaceRequest(id=["a"]))
        return real(self, view, change)

    monkeypatch.setattr(ManifestLog, "_attempt", attempt)
    calls = [create(ns, "a"), create(ns, "b"), create(ns, "a", "c")]
    assert codes(together(ns, calls)) == [2, None, None]
    assert log_of(ns).conflicts >= 1
    assert seen(ns) == {"old", "a", "b"}


def test_whose_patience_is_over_fails_alone(
    ns: DirectoryNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_of(ns)
    real = ManifestLog._attempt
    refusals = iter([False, False])

    def attempt(self: ManifestLog, view: Snapshot, change: Change) -> bool:
        return next(refusals, True) and real(self, view, change)

    def impatient() -> object:
        return log.commit(lambda view: (Change(), None), max_conflicts=0)

    monkeypatch.setattr(ManifestLog, "_attempt", attempt)
    answers = together(ns, [create(ns, "a"), impatient, create(ns, "b")])
    assert codes(answers) == [None, 14, None]


def test_a_store_that_fails_tells_everyone(
    ns: DirectoryNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(self: LocalStore, path: str, data: bytes) -> bool:
        raise PermissionDeniedError("the disk says no")

    monkeypatch.setattr(LocalStore, "put_if_absent", denied)
    monkeypatch.setattr(LocalStore, "get", lambda self, path: None)
    answers = together(ns, [create(ns, "a"), create(ns, "b"), create(ns, "c")])
    assert all(isinstance(answer, Exception) for answer in answers)
    assert len({id(answer) for answer in answers}) == 3, "each raises an exception of its own"
    monkeypatch.undo()
    assert seen(ns) == {"old"}


def test_a_full_queue_says_so(ns: DirectoryNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batcher, "MAX_WAITING", 2)
    log = log_of(ns)
    release, leading = threading.Event(), threading.Event()

    def first(view: Snapshot) -> tuple[Change, None]:
        leading.set()
        assert release.wait(PATIENCE)
        return Change(), None

    threads = [threading.Thread(target=lambda: log.commit(first))]
    threads[0].start()
    assert leading.wait(PATIENCE)
    for number in range(2):
        threads.append(threading.Thread(target=create(ns, f"n{number}")))
        threads[-1].start()
        until(lambda number=number: waiting(log) == number + 1, "a change does not wait")  # type: ignore[misc]
    with pytest.raises(ThrottlingError) as caught:
        ns.create_namespace({"id": ["one too many"]})
    assert int(caught.value.code) == 21
    release.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert seen(ns) == {"old", "n0", "n1"}


def test_a_leader_that_is_interrupted_leaves_nobody_waiting(
    ns: DirectoryNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = ManifestLog._attempt

    def attempt(self: ManifestLog, view: Snapshot, change: Change) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(ManifestLog, "_attempt", attempt)
    answers = together(ns, [create(ns, "a"), create(ns, "b"), create(ns, "c")])
    assert isinstance(answers[0], KeyboardInterrupt)
    assert [type(answer) for answer in answers[1:]] == [CommitOutcomeUnknownError] * 2
    monkeypatch.setattr(ManifestLog, "_attempt", real)
    assert codes(together(ns, [create(ns, "d"), create(ns, "e")])) == [None, None]


class _Interrupted:
    """A lock whose second acquire is interrupted, as Ctrl-C does to who waits."""

    def __init__(self) -> None:
        self.waits = 0

    def acquire(self) -> bool:
        self.waits += 1
        if self.waits == 2:
            raise KeyboardInterrupt
        return True

    def release(self) -> None:
        return None


@pytest.mark.parametrize("heir", [False, True])
def test_who_stops_waiting_is_withdrawn(heir: bool) -> None:
    landed: list[Ticket] = []
    inside, release = threading.Event(), threading.Event()

    def land(batch: list[Ticket]) -> None:
        inside.set()
        assert release.wait(PATIENCE)
        landed.extend(batch)
        for ticket in batch:
            ticket.done = True

    queue = Batcher(land, lambda: None)
    tickets = [Ticket(lambda view: (Change(), None), 1e12) for _ in range(3)]
    first = threading.Thread(target=queue.run, args=(tickets[0],))
    first.start()
    assert inside.wait(PATIENCE)
    gone = tickets[1]
    gone.wake = _Interrupted()  # type: ignore[assignment]
    if heir:
        # It was woken to lead, and the interrupt came first.
        def acquire() -> bool:
            gone.wake.waits += 1  # type: ignore[attr-defined]
            if gone.wake.waits == 2:  # type: ignore[attr-defined]
                queue._leader = gone
                raise KeyboardInterrupt
            return True

        gone.wake.acquire = acquire  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        queue.run(gone)
    release.set()
    first.join(PATIENCE)
    assert queue.run(tickets[2]) is None
    assert landed == [tickets[0], tickets[2]]


def test_a_lone_change_leads_at_once(ns: DirectoryNamespace) -> None:
    before = version(ns)
    threads = threading.active_count()
    for number in range(3):
        ns.create_namespace({"id": [f"n{number}"]})
    assert version(ns) == before + 3
    assert threading.active_count() == threads
