"""Tables that come, go and are renamed while managed versions are switched on or off.

Deterministic: the others come exactly between two steps of the switch.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lance_catalog import DirectoryNamespace
from lance_catalog.config import Mode
from lance_catalog.directory.managed import switch
from lance_catalog.errors import ConcurrentModificationError
from lance_catalog.versions import registry
from tests.concurrency.managed import disagreements, numbers, read, write
from tests.concurrency.managed import registry as version_rows
from tests.concurrency.racing import ipc, open_catalog
from tests.crash.test_kill import mend

Run = Callable[[DirectoryNamespace], object]


def prepare(root: str, mode: Mode, *, managed: bool) -> tuple[DirectoryNamespace, Run]:
    """A catalog of a few tables, and somebody else with a memory of its own."""
    ns = open_catalog(root, mode)
    for name in ("gone", "moved", "again", "stays"):
        ns.create_table({"id": [name]}, ipc([0]))
        ns.insert_into_table({"id": [name]}, ipc([1]))
    if managed:
        ns.enable_managed_versions()
    os.symlink(root, f"{root}-alias")
    other = open_catalog(f"{root}-alias", mode)

    def change(_: object) -> None:
        other.drop_table({"id": ["gone"]})
        other.rename_table({"id": ["moved"], "new_table_name": "there"})
        # Another table under the name, with fewer versions.
        other.drop_table({"id": ["again"]}, purge=True)
        other.create_table({"id": ["again"]}, ipc([5]))
        write(other, ["stays"], [2])
        other.create_table({"id": ["new"]}, ipc([6]))

    return ns, change


def at(patch: pytest.MonkeyPatch, point: str, run: Callable[[], object]) -> None:
    """Let somebody come when a step of the switch is done, once."""
    left = [run]

    def hit(name: str) -> None:
        if name == point and left:
            left.pop()()

    patch.setattr(switch, "hit", hit)


ROWS = {"again": [5], "new": [6], "stays": [0, 1, 2], "there": [0, 1]}


def violations(root: str, ns: DirectoryNamespace) -> list[str]:
    wrong = disagreements(root, ns)
    for name, rows in ROWS.items():
        found = read(ns, [name])
        wrong += [] if found == rows else [f"{name}: {found}"]
        write(ns, [name], [9])
        wrong += [] if read(ns, [name]) == [*rows, 9] else [f"{name}: {read(ns, [name])}"]
    ns.undrop_table(["gone"])
    wrong += [] if read(ns, ["gone"]) == [0, 1] else ["gone did not come back"]
    return wrong + disagreements(root, ns)


@pytest.mark.parametrize("mode", [Mode.V2, Mode.COMPAT])
@pytest.mark.parametrize("point", ["version.imported", "version.enabled"])
def test_changes_while_switching_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Mode, point: str
) -> None:
    root = str(tmp_path / "root")
    ns, change = prepare(root, mode, managed=False)
    at(monkeypatch, point, lambda: change(ns))
    assert ns.enable_managed_versions().changed
    assert violations(root, ns) == []
    mend(ns)


def test_rows_that_nobody_keeps_right_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted bug: until the switch is on, drops and renames leave version rows alone."""
    root = str(tmp_path / "root")
    ns, change = prepare(root, Mode.V2, managed=False)
    monkeypatch.setattr(registry, "keeps_rows", registry.is_managed)
    monkeypatch.setattr(
        switch,
        "_switch_on",
        lambda now: (switch.Change(table_metadata={registry.FLAG: "true"}), None),
    )
    at(monkeypatch, "version.imported", lambda: change(ns))
    ns.enable_managed_versions()
    try:
        wrong = violations(root, ns)
    except (OSError, ValueError) as error:
        wrong = [f"it broke a reader or a writer: {error}"]
    print(wrong[:3])
    assert wrong


@pytest.mark.parametrize("mode", [Mode.V2, Mode.COMPAT])
@pytest.mark.parametrize("again", [False, True])
def test_changes_while_switching_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Mode, again: bool
) -> None:
    """Also when it is interrupted there, and switched on again: nothing old comes back."""
    root = str(tmp_path / "root")
    ns, change = prepare(root, mode, managed=True)

    def come() -> None:
        change(ns)
        if again:
            raise OSError("interrupted")

    at(monkeypatch, "version.disabled", come)
    if again:
        with pytest.raises(Exception, match="interrupted"):
            ns.disable_managed_versions()
        assert version_rows(root) != []
        ns.enable_managed_versions()
        assert numbers(ns, ["again"]) == [1]
    else:
        ns.disable_managed_versions()
        assert version_rows(root) == []
    assert violations(root, ns) == []
    mend(ns)


@pytest.mark.parametrize(
    ("managed", "point"), [(False, "version.imported"), (True, "version.disabled")]
)
def test_both_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, managed: bool, point: str
) -> None:
    """One switches on while another switches off: who comes second is told, nothing is lost."""
    root = str(tmp_path / "root")
    ns, _ = prepare(root, Mode.V2, managed=managed)
    other = open_catalog(f"{root}-alias", Mode.V2)
    run, opposite = (
        (ns.disable_managed_versions, other.enable_managed_versions)
        if managed
        else (ns.enable_managed_versions, other.disable_managed_versions)
    )
    at(monkeypatch, point, opposite)
    with pytest.raises(ConcurrentModificationError):
        run()
    assert ns.managed_versions_status().managed is managed
    for name in ("gone", "moved", "again", "stays"):
        assert read(ns, [name]) == [0, 1]
        write(ns, [name], [2])
        assert read(ns, [name]) == [0, 1, 2]
    assert disagreements(root, ns) == []
