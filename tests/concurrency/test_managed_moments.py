"""Somebody changes the table in the middle of a managed append: between its look and its commit, or
between the commit and the manifest.

Deterministic. Acknowledged or not, in the end the row is there once or not at all, what others
wrote is there, and rows and files agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import pytest

from lance_catalog import DirectoryNamespace
from lance_catalog.config import Mode
from lance_catalog.directory import dropping
from lance_catalog.directory.managed import deletion
from tests.concurrency.managed import (
    disagreements,
    location,
    managed_catalog,
    read,
    stage,
    table,
    write,
)
from tests.concurrency.managed_bugs import planted
from tests.concurrency.racing import ipc, open_catalog
from tests.concurrency.together import WINDOWS, between
from tests.crash.managed import dying_before_publishing
from tests.crash.test_kill import mend

#: What somebody else does to the table ``t``; afterwards what must be done to have it back.
Move = Callable[[DirectoryNamespace], object]


def nothing(ns: DirectoryNamespace) -> None:
    return None


def drop(ns: DirectoryNamespace) -> None:
    ns.drop_table({"id": ["t"]})


def undrop(ns: DirectoryNamespace) -> None:
    ns.undrop_table(["t"])


def drop_and_undrop(ns: DirectoryNamespace) -> None:
    drop(ns)
    undrop(ns)


def drop_undrop_and_append(ns: DirectoryNamespace) -> None:
    drop_and_undrop(ns)
    append(ns)


def append(ns: DirectoryNamespace) -> None:
    write(ns, ["t"], [2])


def append_twice(ns: DirectoryNamespace) -> None:
    write(ns, ["t"], [2])
    write(ns, ["t"], [3])


def foreign(ns: DirectoryNamespace) -> None:
    lance.write_dataset(table([2]), location(ns, ["t"]), mode="append")


def rename(ns: DirectoryNamespace) -> None:
    ns.rename_table({"id": ["t"], "new_table_name": "u"})


def rename_back(ns: DirectoryNamespace) -> None:
    ns.rename_table({"id": ["u"], "new_table_name": "t"})


def there_and_back(ns: DirectoryNamespace) -> None:
    rename(ns)
    rename_back(ns)


def register_again(ns: DirectoryNamespace) -> None:
    place = location(ns, ["t"]).rpartition("/")[2]
    ns.deregister_table({"id": ["t"]})
    ns.register_table({"id": ["t"], "location": place})


def switch_off(ns: DirectoryNamespace) -> None:
    ns.disable_managed_versions()


def off_and_on(ns: DirectoryNamespace) -> None:
    ns.disable_managed_versions()
    ns.enable_managed_versions()


def switch_on(ns: DirectoryNamespace) -> None:
    ns.enable_managed_versions()


def transaction(ns: DirectoryNamespace) -> None:
    with ns.transaction() as tx:
        tx.write(["t"], table([2]))
        tx.write(["t"], table([3]))


def overwrite(ns: DirectoryNamespace) -> None:
    ns.insert_into_table({"id": ["t"], "mode": "overwrite"}, ipc([2]))


def another(ns: DirectoryNamespace) -> None:
    """Another table under the name; in compatibility mode at the same place."""
    ns.drop_table({"id": ["t"]}, purge=True)
    ns.create_table({"id": ["t"]}, ipc([7]))


#: (what happens, what brings it back, the rows that must be there beside that of the append).
MOVES: list[tuple[Move, Move, set[int]]] = [
    (append, nothing, {0, 2}),
    (append_twice, nothing, {0, 2, 3}),
    (transaction, nothing, {0, 2, 3}),
    (foreign, nothing, {0, 2}),
    (drop, undrop, {0}),
    (drop_and_undrop, nothing, {0}),
    (drop_undrop_and_append, nothing, {0, 2}),
    (rename, rename_back, {0}),
    (there_and_back, nothing, {0}),
    (register_again, nothing, {0}),
    (switch_off, switch_on, {0}),
    (off_and_on, nothing, {0}),
    (overwrite, nothing, {2}),
    (another, nothing, {7}),
]


def violations(
    root: str, mode: Mode, window: str, move: Move, back: Move, kept: set[int]
) -> list[str]:
    ns = managed_catalog(root, mode, ["t"])
    Path(f"{root}-alias").symlink_to(root)
    other = open_catalog(f"{root}-alias", mode)
    came: list[int] = []

    def come() -> None:
        came.append(1)
        move(other)

    failed = None
    with between(window, come):
        try:
            write(ns, ["t"], [1])
        except Exception as error:  # Of Lance's and of ours.
            failed = error
    assert came, "the window was never open"
    back(other)
    rows = read(open_catalog(root, mode), ["t"])
    wrong = []
    # After an overwrite the append may be before it, and then it is gone with the rest.
    allowed = [sorted(kept | {1})]
    if failed is not None or move in (overwrite, another):
        allowed.append(sorted(kept))
    if rows not in allowed:
        wrong.append(f"rows {rows}, not one of {allowed}; {failed!r}")
    for number, one in enumerate((ns, other)):
        write(one, ["t"], [50 + number])
    wrong += disagreements(root, ns)
    mend(ns)
    return wrong + disagreements(root, ns)


def _cases() -> Iterator[Any]:
    for number, (move, back, kept) in enumerate(MOVES):
        for turn, window in enumerate(WINDOWS):
            for mode in (Mode.V2, Mode.COMPAT):
                # Places tell only where another table takes the same one; else by turns.
                turns = (number + turn) % 2 == (mode is Mode.COMPAT)
                marks = () if turns or move is another else pytest.mark.soak
                name = f"{move.__name__}-{window}-{mode.value}"
                yield pytest.param(mode, window, move, back, kept, marks=marks, id=name)


@pytest.mark.parametrize(("mode", "window", "move", "back", "kept"), list(_cases()))
def test_at_the_same_moment(
    tmp_path: Path, mode: Mode, window: str, move: Move, back: Move, kept: set[int]
) -> None:
    assert violations(str(tmp_path / "root"), mode, window, move, back, kept) == []


@pytest.mark.parametrize("bug", ["foreign overwritten", "rows stay"])
def test_a_planted_bug_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bug: str
) -> None:
    move, kept = {
        "foreign overwritten": (foreign, {0, 2}),
        "rows stay": (drop_and_undrop, {0}),
    }[bug]
    if bug == "rows stay":
        monkeypatch.setattr(dropping, "leaving", lambda ctx, view, entry: ())
    root = str(tmp_path / "root")
    try:
        with planted(None if bug == "rows stay" else bug):
            wrong = violations(root, Mode.V2, WINDOWS[1], move, nothing, kept)
    except (OSError, ValueError, AssertionError) as error:
        wrong = [f"it broke a reader, a writer or a repair: {error}"]
    print(f"{bug}: {wrong[:1]}"[:300])
    assert wrong


def test_versions_below_a_commit_that_died_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deleted after a look at what is there, before which nobody had died yet."""
    root = str(tmp_path / "root")
    ns = managed_catalog(root, Mode.V2, ["t"])
    real = deletion.Lineage.of

    def look(target: Any) -> Any:
        found = real(target)
        with dying_before_publishing():
            ns.create_table_version(stage(ns, ["t"], [1]))
        return found

    monkeypatch.setattr(deletion.Lineage, "of", look)
    ranges = [{"start_version": 1, "end_version": 2}]
    assert ns.batch_delete_table_versions({"id": ["t"], "ranges": ranges}).deleted_count == 1
    monkeypatch.undo()
    # Another path to the same place: nobody there remembers anything.
    Path(f"{root}-alias").symlink_to(root)
    for one in (open_catalog(f"{root}-alias", Mode.V2), ns):
        assert read(one, ["t"]) == [0, 1]
