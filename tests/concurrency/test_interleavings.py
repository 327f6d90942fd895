"""Interleavings that once lost something, each forced step by step in one process.

Found by reading the protocols; the races of this folder meet them by chance only.
"""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

from lance_catalog.config import Mode
from lance_catalog.directory import dropping, first_version, places, registration, resolve
from lance_catalog.lifecycle import markers
from lance_catalog.manifest import gated
from tests.concurrency.interleaving import Root, T, data, root, tables_of
from tests.concurrency.racing import attempt, ipc, open_catalog

__all__ = ["root"]


@pytest.mark.parametrize("behavior", ["purge", "trash"])
@pytest.mark.parametrize("mode", [Mode.V1, Mode.COMPAT])
def test_a_creator_that_was_dropped_meanwhile_leaves_the_next_creator_alone(
    root: Root, mode: Mode, behavior: str
) -> None:
    """C1 wrote version 1 | D drops the directory | C2 creates, acknowledged | C1 goes on.

    C1's version 1 has the same path as C2's: withdrawing it by name destroyed C2's table. Unless
    D purges, C2 writes the next version of C1's table: created, dropped, created over.
    """
    one, two = root.first(mode), root.second(mode)
    drop = {"id": ["t"], "context": {"lance_catalog.drop_behavior": behavior}}

    def meanwhile() -> None:
        # In compatibility mode nobody sees the directory before its row is there.
        assert attempt(two.drop_table, drop)[0] == (4 if mode is Mode.COMPAT else None)
        two.create_table(T, ipc([2]))

    root.around(first_version, "write_first_version", after=meanwhile)
    code, text = attempt(one.create_table, T, ipc([1]))
    revived = mode is Mode.V1 and behavior == "trash"
    assert code is None if revived else code in (5, 14), text
    assert data(two, "t") == [2]
    assert tables_of(one) == ["t"]
    if mode is Mode.COMPAT:
        assert one.snapshot().get("t") is not None
    root.clean(mode)


def test_a_creator_that_finds_a_half_made_table_registers_what_it_completes(root: Root) -> None:
    """C wrote data files | E creates: finds the directory, is first at version 1 | C loses.

    E's table was acknowledged without a row (C17): dir_listing_enabled=false did not show it.
    """
    one, two = root.first(Mode.COMPAT), root.second(Mode.COMPAT)
    root.at("table.data_written", lambda: two.create_table(T, ipc([2])))
    code, text = attempt(one.create_table, T, ipc([1]))
    assert code in (5, 14), text
    assert data(two, "t") == [2]
    assert tables_of(open_catalog(root.path, Mode.V2)) == ["t"]
    root.clean(Mode.COMPAT)


@pytest.mark.parametrize("verb", ["create", "declare"])
def test_a_creator_that_meets_a_purge_leaves_no_ghost(root: Root, verb: str) -> None:
    """E has taken `t.lance` | A creates t elsewhere | D drops it, has moved it aside | E goes on.

    When A shared the place, E's files stayed because the trash row "owned" it; after D ended, t
    was back. Now E's is simply the next t.
    """
    one, two = root.first(Mode.COMPAT), root.second(Mode.COMPAT)
    chosen, go = threading.Event(), threading.Event()
    real = places._claim_v1

    def slow(*args: Any) -> Any:
        claim = real(*args)
        if threading.current_thread() is thread:
            chosen.set()
            assert go.wait(60)
        return claim

    root.patch.setattr(places, "_claim_v1", slow)
    outcome: list[tuple[int | None, str]] = []

    def late() -> None:
        if verb == "create":
            outcome.append(attempt(one.create_table, T, ipc([1])))
        else:
            outcome.append(attempt(one.declare_table, T))

    thread = threading.Thread(target=late)
    thread.start()
    assert chosen.wait(60)
    two.create_table(T, ipc([2]))

    def meanwhile() -> None:
        go.set()
        thread.join(60)

    root.at("purge.moved_aside", meanwhile)
    two.drop_table(T, purge=True)
    assert outcome[0][0] is None, outcome
    assert tables_of(one) == tables_of(two) == ["t"]
    found = two.describe_table({"id": ["t"], "check_declared": True})
    assert found.is_only_declared == (verb == "declare")
    if verb == "create":
        assert data(two, "t") == [1]
    root.clean(Mode.COMPAT)


def test_a_refused_creation_does_not_fill_another_table(root: Root) -> None:
    """E has taken `t.lance` | A declares t and renames it to u | E writes version 1.

    When both had the same place, u, declared, suddenly held E's rows.
    """
    one, two = root.first(Mode.COMPAT), root.second(Mode.COMPAT)

    def meanwhile() -> None:
        two.declare_table(T)
        two.rename_table({"id": ["t"], "new_table_name": "u"})

    root.around(first_version, "write_first_version", before=meanwhile)
    code, text = attempt(one.create_table, T, ipc([1]))
    assert code is None, text
    found = two.describe_table({"id": ["u"], "check_declared": True})
    assert found.is_only_declared
    assert tables_of(one) == ["t", "u"]
    assert data(two, "t") == [1]
    root.clean(Mode.COMPAT)


def test_a_registration_between_the_row_and_the_marker_of_a_deregistration(root: Root) -> None:
    """H's row is in the trash | R brings it back, sees no marker | H writes its marker.

    The live table carried a marker for ever; filling it took the marker for a drop and removed
    the acknowledged row.
    """
    one, two = root.first(Mode.COMPAT), root.second(Mode.COMPAT)
    one.declare_table(T)

    def meanwhile() -> None:
        two.register_table({"id": ["t"], "location": "t.lance"})

    root.around(registration, "mark_v1", before=meanwhile)
    one.deregister_table(T)
    assert tables_of(two) == ["t"]
    assert not os.path.exists(f"{root.path}/t.deleted")
    two.create_table(T, ipc([1]))
    assert data(one, "t") == [1]
    root.clean(Mode.COMPAT)


@pytest.mark.parametrize("verb", ["register", "rename"])
@pytest.mark.parametrize("ending", ["drop", "deregister"])
def test_a_row_for_a_directory_that_goes_away_meanwhile(root: Root, verb: str, ending: str) -> None:
    """R looked at `t.lance`, its row not landed | D drops (or hides) it by its directory | R lands.

    Both were acknowledged, and a row without data stayed.
    """
    one, two = root.first(Mode.COMPAT), root.second(Mode.COMPAT)
    open_catalog(root.path, Mode.V1).create_table(T, ipc([1]))
    outcome: list[tuple[int | None, str]] = []
    call = two.drop_table if ending == "drop" else two.deregister_table

    def meanwhile() -> None:
        outcome.append(attempt(call, T))

    if verb == "register":
        root.around(registration, "_require_table_at", after=meanwhile)
        mine = attempt(one.register_table, {"id": ["t"], "location": "t.lance"})
    else:
        root.around(registration, "require_table", after=meanwhile)
        mine = attempt(one.rename_table, {"id": ["t"], "new_table_name": "u"})
    other = outcome[0]
    listed = tables_of(one)
    if mine[0] is None:
        # Rename or register first; then t is not there to be dropped, or was hidden and came back.
        new = "t" if verb == "register" else "u"
        assert listed == [new]
        assert data(one, new) == [1]
        assert other[0] in (4, 14) or (verb, ending) == ("register", "deregister"), (mine, other)
    else:
        assert mine[0] in (4, 13, 14), mine
        assert other[0] is None, (mine, other)
        assert listed == []
    root.clean(Mode.COMPAT)


def test_an_overwrite_that_lost_its_table_leaves_no_ghost(root: Root) -> None:
    """E found t | D drops t, acknowledged | E overwrites: Lance makes the directory anew."""
    one, two = root.first(Mode.COMPAT), root.second(Mode.COMPAT)
    one.create_table(T, ipc([1]))
    root.around(first_version, "has_versions", after=lambda: two.drop_table(T))
    code, text = attempt(one.create_table, {"id": ["t"], "mode": "overwrite"}, ipc([2]))
    if code is None:
        assert data(two, "t") == [2]
    else:
        assert code in (4, 14), text
        assert tables_of(two) == []
        # Refused is refused: it does not come back with what was dropped.
        two.undrop_table(["t"])
        assert data(one, "t") == [1]
    root.clean(Mode.COMPAT)


@pytest.mark.parametrize("purge", [False, True])
def test_an_overwrite_in_v2_that_lost_its_table_leaves_no_directory(
    root: Root, purge: bool
) -> None:
    one, two = root.first(Mode.V2), root.second(Mode.V2)
    one.create_table(T, ipc([1]))
    root.around(first_version, "has_versions", after=lambda: two.drop_table(T, purge=purge))
    code, text = attempt(one.create_table, {"id": ["t"], "mode": "overwrite"}, ipc([2]))
    assert code in (4, 14), text
    if purge:
        assert sorted(os.listdir(root.path)) == ["__manifest"]
    else:
        two.undrop_table(["t"])
        assert data(one, "t") == [1]
    root.clean(Mode.V2)


@pytest.mark.parametrize("mode", [Mode.V2, Mode.COMPAT])
def test_a_creation_with_properties_that_loses_leaves_nothing(root: Root, mode: Mode) -> None:
    """Properties are a second version of the table: its manifest stayed behind."""
    one, two = root.first(mode), root.second(mode)
    root.around(
        first_version,
        "write_first_version",
        after=lambda: attempt(two.create_namespace, {"id": ["t"]}),
    )
    request = {"id": ["t"], "properties": {"a": "b"}}
    code, text = attempt(one.create_table, request, ipc([1]))
    assert code in (5, 14), text
    assert sorted(os.listdir(root.path)) == ["__manifest"]


def test_a_table_deregistered_before_its_creation_ended_stays_deregistered(root: Root) -> None:
    """V1: C wrote version 1 | H hides it, acknowledged | C goes on: created, then hidden."""
    one, two = root.first(Mode.V1), root.second(Mode.V1)
    root.around(first_version, "write_first_version", after=lambda: two.deregister_table(T))
    assert attempt(one.create_table, T, ipc([1]))[0] is None
    assert tables_of(one) == []
    two.register_table({"id": ["t"], "location": "t.lance"})
    assert data(one, "t") == [1]
    root.clean(Mode.V1)


def test_a_drop_that_loses_to_a_deregistration_says_so(root: Root) -> None:
    """A deregistered table can be dropped, so "not found" was no answer; 14 is."""
    one, two = root.first(Mode.V1), root.second(Mode.V1)
    one.create_table(T, ipc([1]))
    root.around(dropping, "require_table", after=lambda: two.deregister_table(T))
    assert attempt(one.drop_table, T)[0] == 14
    one.drop_table(T)
    root.clean(Mode.V1)


def test_a_folder_pruned_under_a_drop(root: Root) -> None:
    """One drop removes the emptied `__trash` while another makes its folder in it."""
    ns = root.first(Mode.V1)
    ns.create_table(T, ipc([1]))
    real = os.mkdir
    left = [True]

    def mkdir(path: Any, *args: Any, **kwargs: Any) -> None:
        if left and str(path).startswith(f"{root.path}/__trash/"):
            left.clear()
            os.rmdir(f"{root.path}/__trash")
        real(path, *args, **kwargs)

    root.patch.setattr(os, "mkdir", mkdir)
    ns.drop_table(T, purge=True)
    assert not left
    root.clean(Mode.V1)


def test_a_folder_pruned_under_a_creation(root: Root) -> None:
    """A loser removes the `_transactions` that Lance has made and not yet written into."""
    ns = root.first(Mode.V1)
    real = gated.commit
    left = [True]

    def commit(gate: Any, *args: Any) -> Any:
        if left:
            left.clear()
            raise OSError("LanceError(IO): No such file or directory (os error 2)")
        return real(gate, *args)

    root.patch.setattr(gated, "commit", commit)
    ns.create_table(T, ipc([1]))
    assert not left
    assert data(ns, "t") == [1]
    root.clean(Mode.V1)


def test_what_is_not_born_cannot_be_deregistered(root: Root) -> None:
    """C wrote version 1, no row yet | H deregisters it, L creates t elsewhere | C is refused.

    H was acknowledged while the directory was a table before its row was (C15), and C's
    withdrawal then removed what H's hiding was about.
    """
    one, two = root.first(Mode.COMPAT), root.second(Mode.COMPAT)

    def meanwhile() -> None:
        assert attempt(two.deregister_table, T)[0] == 4
        register = {"id": ["u"], "location": "t.lance"}
        assert attempt(two.register_table, register)[0] == 14
        two.create_table(T, ipc([2]))

    root.around(first_version, "write_first_version", after=meanwhile)
    code, text = attempt(one.create_table, T, ipc([1]))
    assert code in (5, 14), text
    assert data(two, "t") == [2]
    assert tables_of(one) == ["t"]
    root.clean(Mode.COMPAT)


def test_a_drop_before_the_creation_showed_its_directory(root: Root) -> None:
    """C's row is there, its marker not yet removed | D drops t | C removes its marker.

    The directory must not come back into view of those who look at directories only.
    """
    one, two = root.first(Mode.COMPAT), root.second(Mode.COMPAT)
    root.around(places, "_release", before=lambda: two.deregister_table(T))
    assert attempt(one.create_table, T, ipc([1]))[0] is None
    assert tables_of(one) == tables_of(open_catalog(root.path, Mode.V1)) == []
    root.clean(Mode.COMPAT)
    two.register_table({"id": ["t"], "location": "t.lance"})
    assert data(one, "t") == [1]
    assert tables_of(open_catalog(root.path, Mode.V1)) == ["t"]
    root.clean(Mode.COMPAT)


def test_a_read_between_the_row_and_the_directory(root: Root) -> None:
    """R sees no row yet | C creates t, done | R sees the directory, and no properties with it."""
    one, two = root.first(Mode.COMPAT), root.second(Mode.COMPAT)
    request = {"id": ["t"], "properties": {"a": "b"}}
    root.around(resolve, "require_table", before=lambda: two.create_table(request, ipc([1])))
    assert one.describe_table(T).properties == {"a": "b"}


@pytest.mark.parametrize("purge", [False, True])
@pytest.mark.parametrize("verb", ["drop_table", "deregister_table"])
def test_a_drop_that_comes_after_another_has_ended(root: Root, verb: str, purge: bool) -> None:
    """V1: L finds t | D drops it, all the way | L hides what is not there any more: 4, not done."""
    one, two = root.first(Mode.V1), root.second(Mode.V1)
    one.create_table(T, ipc([1]))
    root.around(markers, "hide", before=lambda: two.drop_table(T, purge=purge))
    assert attempt(getattr(one, verb), T)[0] == 4
    assert sorted(os.listdir(root.path)) == ([] if purge else ["t.deleted", "t.lance"])
    root.clean(Mode.V1)


@pytest.mark.parametrize("mode", [Mode.V1, Mode.COMPAT])
def test_a_purge_that_a_row_refused_has_not_begun(root: Root, mode: Mode) -> None:
    """R creates over a drop by marker | P takes its claim over | R's row lands | P sees it.

    P's claim stayed, so nobody could bring the table back, and the next repair deleted it.
    """
    one, two = root.first(Mode.COMPAT), root.second(mode)
    root.first(Mode.V1).create_table(T, ipc([1]))
    root.first(Mode.V1).drop_table(T, ttl=0)
    # Whoever comes finds that the other's claim has lapsed.
    two.context.lease_ms = 0
    claimed, go = threading.Event(), threading.Event()
    outcome: list[tuple[int | None, str]] = []
    thread = threading.Thread(target=lambda: outcome.append(attempt(two.purge_table, ["t"])))

    def hook(name: str) -> None:
        if threading.current_thread() is thread:
            if name == "purge.before_move":
                claimed.set()
                assert go.wait(60)
        elif name == "revive.landed":
            thread.start()
            assert claimed.wait(60)
        elif name == "revive.registered":
            go.set()
            thread.join(60)

    root.on_hit(hook)
    code, text = attempt(one.create_table, T, ipc([2]))
    assert code == 14, text
    assert outcome[0][0] == (19 if mode is Mode.V1 else 14), outcome
    assert not one.table_status(["t"]).purging
    one.undrop_table(["t"])
    assert data(one, "t") == [1]
    root.clean(Mode.COMPAT)


@pytest.mark.parametrize("purge", [False, True])
def test_an_undrop_that_a_drop_passed_by(root: Root, purge: bool) -> None:
    """V1 brings back what it dropped | D drops its row, not yet its marker | V1 takes its own away.

    V1 was told that the table is back, and what it wrote then went with the drop.
    """
    one, two = root.first(Mode.COMPAT), root.second(Mode.V1)
    one.create_table(T, ipc([1]))
    two.drop_table(T)

    def meanwhile() -> None:
        with root.patch.context() as patch:
            patch.setattr(dropping, "mark_v1", lambda *args: None)
            one.drop_table(T, purge=purge)

    root.at("undrop.claimed", meanwhile)
    code, text = attempt(two.undrop_table, ["t"])
    assert code == 14, text
    if purge:
        assert sorted(os.listdir(root.path)) == ["__manifest"]
    else:
        assert not os.path.exists(f"{root.path}/__claims")
        one.undrop_table(["t"])
        assert data(one, "t") == data(two, "t") == [1]
    root.clean(Mode.COMPAT)
