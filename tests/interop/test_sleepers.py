"""Handles that slept while old versions of the manifest were removed, and then write.

Retention by hand, as the design says it: the data of old versions goes, oldest version first, and
an empty file stays under each removed version's name. Native handles that sleep across that land
correctly; with the names gone their writes are silently lost (facts: native §7), ours are not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import lance_namespace as ln
import pytest

from lance_catalog.maintenance.check import check
from lance_catalog.manifest import writing
from lance_catalog.manifest.upkeep import now_ms
from lance_catalog.manifest.versions import Latest, VersionFinder
from lance_catalog.storage.landing import Landing
from tests.interop.peers import COMPAT, V2, Peer, manifest, manifest_rows

MODES = (V2, COMPAT)


def files_of(root: Path, version: int) -> set[Path]:
    """Return what one version of the manifest refers to: data, deletions, indices."""
    folder = root / "__manifest"
    dataset = lance.dataset(folder, version=version)
    found: set[Path] = set()
    for fragment in dataset.get_fragments():
        found |= {folder / "data" / file.path for file in fragment.data_files()}
        deletions = fragment.deletion_file()
        if deletions is not None:
            found.add(folder / deletions)
    for index in dataset.describe_indices():
        for segment in index.segments:
            found |= {p for p in (folder / "_indices" / segment.uuid).rglob("*") if p.is_file()}
    return found


def name_of(root: Path, version: int) -> Path:
    return root / "__manifest" / "_versions" / f"{2**64 - 1 - version:020d}.manifest"


def retire(root: Path) -> int:
    """Remove all versions but the latest, keeping their names; return how many."""
    latest = manifest(root).version
    kept = files_of(root, latest)
    count = 0
    for version in range(1, latest):
        path = name_of(root, version)
        if not path.exists() or path.stat().st_size == 0:
            continue
        for file in files_of(root, version) - kept:
            file.unlink(missing_ok=True)
        placeholder = path.with_suffix(".placeholder")
        placeholder.touch()
        os.replace(placeholder, path)
        count += 1
    return count


def prune_names(root: Path) -> int:
    """Remove all versions but the latest, names too, as plain Lance does it; return how many."""
    before = len(list((root / "__manifest/_versions").glob("*.manifest")))
    manifest(root).cleanup_old_versions(
        older_than=timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False
    )
    return before - len(list((root / "__manifest/_versions").glob("*.manifest")))


def others_write(root: Path, mode: str, count: int = 6) -> list[str]:
    """Let others, by fresh handles of both kinds, move the manifest on."""
    names = []
    for number in range(count):
        kind = ("ours", "native")[number % 2]
        Peer(kind, root, mode, fresh=True).create_namespace(f"{kind}_{number}")
        names.append(f"{kind}_{number}")
    return names


def assert_seen(root: Path, mode: str, names: list[str]) -> None:
    """Fresh readers of both kinds show exactly these namespaces, and no row is there twice."""
    for kind in ("ours", "native"):
        assert Peer(kind, root, mode, fresh=True).namespaces() == sorted(names), kind
    rows = [row["object_id"] for row in manifest_rows(root)]
    assert len(rows) == len(set(rows))


def sleeper(kind: str, root: Path, mode: str) -> Peer:
    """A handle with a view of its own: others in this process do not keep it awake."""
    return Peer(kind, root, mode, fresh=True)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("first", ["ours", "native"])
def test_both_sleep_across_retention_and_both_writes_are_visible(
    root: Path, mode: str, first: str
) -> None:
    handles = {kind: sleeper(kind, root, mode) for kind in ("ours", "native")}
    names = []
    for kind, handle in handles.items():
        handle.create_namespace(f"before_{kind}")
        names.append(f"before_{kind}")
    names += others_write(root, mode)
    assert retire(root) >= 8
    order = sorted(handles, reverse=first == "ours")
    assert order[0] == first
    for kind in order:
        handles[kind].create_namespace(f"after_{kind}")
        names.append(f"after_{kind}")
        assert_seen(root, mode, names)
    # A second night, each having last seen the other's write at most.
    names += others_write(root, mode, 0)
    for kind in reversed(order):
        assert retire(root) >= 1
        handles[kind].drop_namespace(f"after_{kind}")
        names.remove(f"after_{kind}")
        assert_seen(root, mode, names)


def retire_by_upkeep(root: Path) -> int:
    """The same by our own upkeep, on demand."""
    return _others(root).api.upkeep(keep=0).versions_removed


def retire_by_commits(root: Path) -> int:
    """The same by commits of ours, whose clock is a day past the retention of everything."""
    before = _placeholders(root)
    peer = _others(root)
    peer.api.context.log.care.clock = lambda: now_ms() + 8 * 24 * 3600 * 1000
    for number in range(24):
        peer.create_namespace(f"by_commits_{number}")
        peer.drop_namespace(f"by_commits_{number}")
    return _placeholders(root) - before


def _others(root: Path) -> Peer:
    return Peer("ours", root, V2, fresh=True)


def _placeholders(root: Path) -> int:
    versions = (root / "__manifest/_versions").glob("*.manifest")
    return sum(path.stat().st_size == 0 for path in versions)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("first", ["ours", "native"])
@pytest.mark.parametrize("retire_old", [retire_by_upkeep, retire_by_commits])
def test_both_sleep_across_our_own_retention(
    root: Path, mode: str, first: str, retire_old: Callable[[Path], int]
) -> None:
    handles = {kind: sleeper(kind, root, mode) for kind in ("ours", "native")}
    names = []
    for kind, handle in handles.items():
        handle.create_namespace(f"before_{kind}")
        names.append(f"before_{kind}")
    names += others_write(root, mode)
    assert retire_old(root) >= 6
    order = sorted(handles, reverse=first == "ours")
    for kind in order:
        handles[kind].create_namespace(f"after_{kind}")
        names.append(f"after_{kind}")
        assert_seen(root, mode, names)
    for kind in reversed(order):
        assert retire_old(root) >= 1
        handles[kind].drop_namespace(f"after_{kind}")
        names.remove(f"after_{kind}")
        assert_seen(root, mode, names)
    assert check(_others(root).api.context, grace_seconds=-3600).problems == []


@pytest.mark.parametrize("mode", MODES)
def test_our_sleeper_is_safe_when_upkeep_removed_the_names(root: Path, mode: str) -> None:
    handle = sleeper("ours", root, mode)
    handle.create_namespace("mine")
    names = ["mine", *others_write(root, mode)]
    done = _others(root).api.upkeep(keep=0, prune_names=True)
    assert done.names_removed >= 6
    assert _placeholders(root) == 0
    handle.create_namespace("after")
    assert_seen(root, mode, [*names, "after"])


@pytest.mark.parametrize("mode", MODES)
def test_every_kind_of_write_of_a_sleeper_lands(root: Path, mode: str) -> None:
    """Create, declare, register, deregister, rename and drop, each after a night of its own."""
    awake = Peer("native", root, mode)
    awake.create_namespace("n")
    awake.create("n", "t", rows=(1,))
    handle = sleeper("ours", root, mode)
    handle.create_namespace("n", "own")

    def night() -> None:
        Peer("native", root, mode).create_namespace("n", "night")
        Peer("ours", root, mode, fresh=True).drop_namespace("n", "night")
        assert retire(root) >= 2

    expected = {"t"}

    def seen() -> None:
        for kind in ("ours", "native"):
            reader = Peer(kind, root, mode, fresh=True)
            assert set(reader.tables("n")) == expected, kind
            assert reader.namespaces("n") == ["own"], kind

    place = ""
    steps: list[tuple[Callable[[], Any], set[str]]] = [
        (lambda: handle.declare("n", "d"), {"t", "d"}),
        (lambda: handle.create("n", "c", rows=(2,)), {"t", "d", "c"}),
        (lambda: handle.rename("n", "t", to=("n", "u")), {"u", "d", "c"}),
        (lambda: handle.deregister("n", "u"), {"d", "c"}),
        (lambda: handle.register("n", "v", location=place), {"v", "d", "c"}),
        (lambda: handle.insert("n", "v", rows=(3,)), {"v", "d", "c"}),
        (lambda: handle.drop("n", "d"), {"v", "c"}),
    ]
    place = awake.place(awake.describe("n", "t").location)
    for step, after in steps:
        night()
        step()
        expected = after
        seen()
    assert Peer("native", root, mode).rows("n", "v") == [1, 3]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("names_stay", [True, False])
def test_a_sleeper_reads_what_is_there_not_what_it_remembers(
    root: Path, mode: str, names_stay: bool
) -> None:
    handle = sleeper("ours", root, mode)
    handle.create_namespace("mine")
    names = ["mine", *others_write(root, mode)]
    for _ in range(2):
        assert (retire if names_stay else prune_names)(root) >= 4
        assert handle.namespaces() == sorted(names)
        with pytest.raises(ln.NamespaceAlreadyExistsError):
            handle.create_namespace(names[-1])
        for _ in range(3):
            Peer("native", root, mode).create_namespace("x")
            Peer("native", root, mode).drop_namespace("x")
    assert_seen(root, mode, names)


# With the names gone, ours alone: a commit into the past must be impossible.


def sleep_and_write(root: Path, mode: str, *, tagged: bool, **properties: str) -> list[str]:
    """A handle of ours sleeps across a clean-up that removes the names, then writes.

    With a tag the very version it knows stays, alone: "N is there and N+1 is not" then holds far
    in the past.
    """
    handle = Peer("ours", root, mode, fresh=True, **properties)
    handle.create_namespace("mine")
    assert handle.namespaces() == ["mine"]
    if tagged:
        manifest(root).tags.create("keep", manifest(root).version)
    names = ["mine", *others_write(root, mode)]
    assert prune_names(root) >= 4
    handle.create_namespace("after")
    return [*names, "after"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("tagged", [True, False])
def test_our_sleeper_does_not_commit_into_the_past(root: Path, mode: str, tagged: bool) -> None:
    assert_seen(root, mode, sleep_and_write(root, mode, tagged=tagged))


@pytest.mark.parametrize("mode", MODES)
def test_without_our_looks_the_sleeper_does(
    root: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted bug: who asks only for N and N+1 writes into the past, and says it is done."""
    trusting(monkeypatch)
    names = sleep_and_write(root, mode, tagged=True)
    monkeypatch.undo()
    with pytest.raises(AssertionError):
        assert_seen(root, mode, names)
    assert_seen(root, mode, names[:-1])


def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switch off everything that asks whether N is still the latest."""
    original = VersionFinder.find

    def find(finder: VersionFinder, known: Latest) -> Latest:
        if known.version == 0:
            return original(finder, known)
        while (after := finder._look(known.version + 1, known.naming)) is not None:
            known = after
        return known

    monkeypatch.setattr(VersionFinder, "find", find)
    gate_off(monkeypatch)


def gate_off(monkeypatch: pytest.MonkeyPatch) -> None:
    for guard in ("_is_newest", "_present"):
        monkeypatch.setattr(Landing, guard, lambda gate, version: True)


def write_while_cleaned(
    root: Path, mode: str, monkeypatch: pytest.MonkeyPatch, point: str
) -> tuple[list[str], int]:
    """Others move on and remove the names in the middle of our commit, after it read N."""
    handle = sleeper("ours", root, mode)
    handle.create_namespace("mine")
    names = ["mine"]
    armed = [True]

    def meddle(name: str) -> None:
        if name == point and armed:
            armed.clear()
            names.extend(native_only(root, mode))
            assert prune_names(root) >= 4

    monkeypatch.setattr(writing, "hit", meddle)
    handle.create_namespace("after")
    assert not armed, f"{point} was never reached"
    return [*names, "after"], handle.api.context.log.conflicts


def native_only(root: Path, mode: str) -> list[str]:
    """Others that do not run through the patched code."""
    names = []
    for number in range(5):
        Peer("native", root, mode).create_namespace(f"native_{number}")
        names.append(f"native_{number}")
    return names


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("point", ["manifest.data_written", "manifest.staged"])
def test_a_clean_up_in_the_middle_of_our_commit(
    root: Path, mode: str, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, conflicts = write_while_cleaned(root, mode, monkeypatch, point)
    print("conflicts", conflicts)
    assert conflicts >= 1
    assert_seen(root, mode, names)


@pytest.mark.parametrize("mode", MODES)
def test_without_the_gates_guard_a_clean_up_in_the_middle_loses_the_write(
    root: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate_off(monkeypatch)
    names, _ = write_while_cleaned(root, mode, monkeypatch, "manifest.staged")
    monkeypatch.undo()
    with pytest.raises(AssertionError):
        assert_seen(root, mode, names)
    assert_seen(root, mode, names[:-1])


def clean_between_check_and_put(
    root: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[str], int]:
    """The narrowest gap: the gate has looked, the names go, then it puts."""
    handle = sleeper("ours", root, mode)
    handle.create_namespace("mine")
    names = ["mine"]
    store = type(handle.api.context.store)
    put = store.put_if_absent
    armed = [True]

    def late(self: Any, target: str, data: bytes) -> bool:
        if armed and target.startswith("__manifest/"):
            armed.clear()
            names.extend(native_only(root, mode))
            assert prune_names(root) >= 4
        return bool(put(self, target, data))

    monkeypatch.setattr(store, "put_if_absent", late)
    handle.create_namespace("after")
    assert not armed
    return [*names, "after"], handle.api.context.log.conflicts


@pytest.mark.parametrize("mode", MODES)
def test_a_clean_up_between_the_gates_look_and_its_put(
    root: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, conflicts = clean_between_check_and_put(root, mode, monkeypatch)
    print("conflicts", conflicts)
    assert conflicts >= 1
    assert_seen(root, mode, names)
    # What was put into the past is gone again: it would be a version to who looks for that number.
    versions = sorted(
        2**64 - 1 - int(path.stem) for path in (root / "__manifest/_versions").glob("*.manifest")
    )
    assert versions == list(range(versions[0], versions[-1] + 1)), "a version lies in the past"


@pytest.mark.parametrize("mode", MODES)
def test_without_the_second_look_that_gap_loses_the_write(
    root: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Landing, "_judge", lambda gate, version, final: None)
    names, _ = clean_between_check_and_put(root, mode, monkeypatch)
    monkeypatch.undo()
    with pytest.raises(AssertionError):
        assert_seen(root, mode, names)


@pytest.mark.parametrize("mode", MODES)
def test_limit_native_sleeper_loses_its_write_when_names_are_removed(root: Path, mode: str) -> None:
    """Why retention leaves placeholders: this is native alone, without any of ours.

    It commits into the past and leaves the hint there, which must not lead our readers, nor our
    next writer, into the past after it.
    """
    handle = Peer("native", root, mode)
    awake = sleeper("ours", root, mode)
    handle.create_namespace("mine")
    names = ["mine", *native_only(root, mode)]
    assert awake.namespaces() == sorted(names)
    for version in range(1, manifest(root).version):
        name_of(root, version).unlink()
    handle.create_namespace("after")  # Acknowledged.
    hint = json.loads((root / "__manifest/_versions/latest_version_hint.json").read_text())
    assert hint["version"] < manifest(root).version, "it did not commit into the past"
    assert_seen(root, mode, names)  # Invisible.
    assert awake.namespaces() == sorted(names)
    Peer("ours", root, mode, fresh=True).create_namespace("next")
    assert_seen(root, mode, [*names, "next"])
    awake.create_namespace("next_but_one")
    assert_seen(root, mode, [*names, "next", "next_but_one"])


@pytest.mark.parametrize("mode", MODES)
def test_a_native_sleeper_whose_data_is_gone_fails_and_harms_nobody(root: Path, mode: str) -> None:
    """With plain clean-up its old data is gone too: it cannot even read what it would rewrite."""
    handle = Peer("native", root, mode)
    handle.create_namespace("mine")
    names = ["mine", *native_only(root, mode)]
    assert prune_names(root) >= 4
    with pytest.raises(ln.InternalError):
        handle.create_namespace("after")
    assert_seen(root, mode, names)


def test_a_hint_that_runs_ahead_stops_nobody(root: Path) -> None:
    """The hint is only a hint, also for the gate: a wrong one costs a listing, not the commit."""
    handle = sleeper("ours", root, V2)
    handle.create_namespace("a")
    hint = root / "__manifest/_versions/latest_version_hint.json"
    for number, text in enumerate(('{"version":999}', '{"version":1}', "{}", "[]", "x", "")):
        hint.write_text(text)
        Peer("ours", root, V2, fresh=True).create_namespace(f"b{number}")
        hint.write_text(text)
        handle.create_namespace(f"c{number}")
    names = ["a", *(f"{letter}{n}" for letter in "bc" for n in range(6))]
    assert_seen(root, V2, names)


def test_retire_by_hand_leaves_what_the_latest_needs(root: Path) -> None:
    """The tool of this file itself: old data gone, latest intact, placeholders empty."""
    peer = Peer("ours", root, V2)
    for number in range(20):
        peer.create_namespace(f"n{number}")
    peer.drop_namespace("n3")
    Peer("native", root, V2).create_namespace("m")
    before = set((root / "__manifest/data").iterdir())
    rows = manifest_rows(root)
    latest = manifest(root).version
    assert retire(root) == latest - 1
    assert manifest_rows(root) == rows
    after = set((root / "__manifest/data").iterdir())
    assert after < before
    assert after == {p for p in files_of(root, latest) if p.parent.name == "data"}
    assert all(name_of(root, version).stat().st_size == 0 for version in range(1, latest))
    with pytest.raises((OSError, ValueError)):
        lance.dataset(root / "__manifest", version=2).to_table()
