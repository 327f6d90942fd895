"""The in-memory snapshot against the plainest model: a dict of rows."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_catalog.manifest import snapshot as snapshots
from lance_catalog.manifest.base import Base
from lance_catalog.manifest.overlay import Overlay
from lance_catalog.manifest.schema import COLUMNS
from lance_catalog.manifest.snapshot import Snapshot
from lance_catalog.model import Entry

# Few names, so that parents and children meet; with what sorts around the delimiter `$`.
part = st.sampled_from(["a", "b", "a#", "a%", "ab", "ü", "😀", "", "a b"])
key = st.lists(part, min_size=1, max_size=3).map("$".join)
place = st.sampled_from([None, "x", "y", "x/z", "./x", "x/", "..", ".hidden", "/x"])
kind = st.sampled_from(["table", "namespace", "view"])
row = st.tuples(key, kind, place)
rows = st.lists(row, max_size=20, unique_by=lambda one: one[0])
Model = dict[str, Entry]


def entry(one: tuple[str, str, str | None], address: int) -> Entry:
    return Entry(one[0], one[1], one[2], None, address)


def table(entries: Iterable[Entry]) -> pa.Table:
    found = list(entries)
    columns = {name: pa.array([getattr(e, name) for e in found], pa.string()) for name in COLUMNS}
    columns["_rowaddr"] = pa.array([e.address for e in found], pa.uint64())
    return pa.table(columns)


def loaded(entries: Iterable[Entry]) -> Snapshot:
    found = list(entries)
    fragments = {e.address >> 32: ((f"{e.address >> 32}",), None) for e in found}
    return Snapshot(1, Base.build(table(found)), Overlay(), fragments, {})


def depth(text: str) -> int:
    return text.count("$")


def children_of(model: Model, parent: str) -> list[str]:
    prefix = parent + "$" if parent else ""
    level = depth(prefix)
    return sorted(k for k in model if k.startswith(prefix) and depth(k) == level)


def below(model: Model, parent: str) -> set[str]:
    prefix = parent + "$" if parent else ""
    return {k for k in model if k.startswith(prefix)}


def agree(snapshot: Snapshot, model: Model) -> None:
    """The snapshot answers everything as the model does."""
    for text in {*model, "a", "zz", "a$b", "", "a$"}:
        assert snapshot.get(text) == model.get(text)
        assert snapshot.rows_of(text) == ((model[text],) if text in model else ())
    parents = {k.rpartition("$")[0] for k in model} | {"a", "a$b", "", "zz"}
    for parent in parents:
        expected = children_of(model, parent)
        assert [e.object_id for e in snapshot.children(parent)] == expected
        assert {e.object_id for e in snapshot.descendants(parent)} == below(model, parent)
        assert snapshot.has_children(parent) == bool(below(model, parent))
        names = [k[len(parent) + 1 :] if parent else k for k in expected]
        for one in ("table", "namespace"):
            of = [n for n, k in zip(names, expected, strict=True) if model[k].object_type == one]
            assert list(snapshot.names(parent, one)) == of
            for after in {*of, "a", "0"}:
                assert list(snapshot.names(parent, one, after)) == [n for n in of if n > after]
        for after in {*names, "a", "0", "\U0010ffff"}:
            rest = [n for n in names if n > after]
            found = [e.object_id for e in snapshot.children(parent, after)]
            assert [k[len(parent) + 1 :] if parent else k for k in found] == rest
    assert {e.object_id for e in snapshot.entries()} == set(model)
    for location in ("x", "y", "x/z", "./x"):
        at = {e.object_id for e in snapshot.at_location(location)}
        assert at == {k for k, e in model.items() if e.location == location}
    unusual = {e.object_id for e in snapshot.unusual_locations()}
    assert unusual == {
        k
        for k, e in model.items()
        if e.location is not None and ("/" in e.location or e.location.startswith("."))
    }
    for fragment in range(4):
        inside = {e.object_id for e in snapshot.rows_in({fragment})}
        assert inside == {k for k, e in model.items() if e.address >> 32 == fragment}


@settings(max_examples=50)
@given(rows)
def test_a_loaded_snapshot_is_its_rows(given_rows: list[tuple[str, str, str | None]]) -> None:
    """I11, I21: lookups, children in order, pages, descendants, locations, fragments."""
    model = {r[0]: entry(r, (n % 3 << 32) | n) for n, r in enumerate(given_rows)}
    agree(loaded(model.values()), model)


@settings(max_examples=60)
@given(rows, st.lists(st.tuples(st.booleans(), row), max_size=25), st.integers(0, 4))
def test_changes_keep_it_so(
    given_rows: list[tuple[str, str, str | None]],
    changes: list[tuple[bool, tuple[str, str, str | None]]],
    limit: int,
) -> None:
    """Invariant 1: adds, replacements and removals, the overlay folded at any moment."""
    model = {r[0]: entry(r, (n % 3 << 32) | n) for n, r in enumerate(given_rows)}
    snapshot = loaded(model.values())
    pinned: list[tuple[Snapshot, Model]] = [(snapshot, dict(model))]
    before, snapshots._OVERLAY_MIN = snapshots._OVERLAY_MIN, limit  # type: ignore[misc]
    try:
        for number, (remove, one) in enumerate(changes):
            old = model.pop(one[0], None)
            added = []
            if not remove:
                added = [entry(one, (3 << 32) | number)]
                model[one[0]] = added[0]
            removed = [] if old is None else [old]
            after = snapshot.replaced(snapshot.version + 1, removed, added, {}, {"n": str(number)})
            assert after is not None
            snapshot = after
            assert snapshot.version == number + 2
            assert snapshot.table_metadata == {"n": str(number)}
            pinned.append((snapshot, dict(model)))
    finally:
        snapshots._OVERLAY_MIN = before  # type: ignore[misc]
    for view, then in pinned[:: max(1, len(pinned) // 4)]:
        agree(view, then)
    agree(snapshot, model)


@settings(max_examples=50)
@given(rows.filter(bool), st.data())
def test_duplicates_are_all_known(
    given_rows: list[tuple[str, str, str | None]], data: st.DataObject
) -> None:
    """C04: two rows of one id, which a broken writer makes: listed once, all rows removable."""
    entries = [entry(r, n) for n, r in enumerate(given_rows)]
    twice = data.draw(st.sampled_from(entries))
    copies = data.draw(st.integers(1, 3))
    more = [Entry(twice.object_id, "table", "y", None, 100 + n) for n in range(copies)]
    snapshot = loaded([*entries, *more])
    assert len(snapshot.rows_of(twice.object_id)) == 1 + copies
    assert {e.address for e in snapshot.rows_of(twice.object_id)} == {
        twice.address,
        *(e.address for e in more),
    }
    parent = twice.object_id.rpartition("$")[0]
    if parent or "$" not in twice.object_id:
        listed = [e.object_id for e in snapshot.children(parent)]
        assert listed.count(twice.object_id) == 1
    # A delta that removes one of them cannot be told from the overlay: load again.
    assert snapshot.replaced(2, [twice], [], {}, {}) is None


@settings(max_examples=50)
@given(rows.filter(bool))
def test_a_second_row_of_an_id_needs_a_full_load(
    given_rows: list[tuple[str, str, str | None]],
) -> None:
    """C04: another writer appends an id that exists: the view does not pretend."""
    entries = [entry(r, n) for n, r in enumerate(given_rows)]
    again = Entry(entries[0].object_id, "table", None, None, 999)
    assert loaded(entries).replaced(2, [], [again], {}, {}) is None


def test_version_rows_are_not_held() -> None:
    """Design: there may be millions, and no listing wants them."""
    entries = [
        Entry("t", "table", "x", None, 0),
        Entry("t$1", "table_version", None, None, 1),
        Entry("t$2", "table_version", None, None, 2),
    ]
    snapshot = loaded(entries)
    assert [e.object_id for e in snapshot.entries()] == ["t"]
    assert not snapshot.has_children("t")
    after = snapshot.replaced(2, [], [Entry("t$3", "table_version", None, None, 3)], {}, {})
    assert after is not None
    assert not after.has_children("t")


def test_the_empty_snapshot() -> None:
    """O03: before there is a manifest."""
    empty = Snapshot.empty()
    assert empty.version == 0
    agree(empty, {})


@pytest.mark.parametrize("count", [2000, 5000])
def test_many_rows_page_by_slices(count: int) -> None:
    """I21: chunks of the base, with a changed row in each, come out in order."""
    names = [f"n{number:05d}" for number in range(count)]
    model = {name: Entry(name, "namespace", None, None, n) for n, name in enumerate(names)}
    snapshot = loaded(model.values())
    gone = [model.pop(name) for name in names[::7]]
    new = [
        Entry(f"{name}x", "table", "y", None, (1 << 32) | n) for n, name in enumerate(names[::9])
    ]
    model.update({e.object_id: e for e in new})
    after = snapshot.replaced(2, gone, new, {}, {})
    assert after is not None
    assert [e.object_id for e in after.children("")] == sorted(model)
    middle = sorted(model)[len(model) // 2]
    assert [e.object_id for e in after.children("", middle)] == [
        k for k in sorted(model) if k > middle
    ]


def test_ids_between_the_samples_are_found_too() -> None:
    """More rows than a search unwraps at once, at two depths, with gaps on every side."""
    ids = [f"n{number:04}" for number in range(0, 1000, 2)]
    ids += [f"n0500$t{number:04}" for number in range(1, 400, 2)]
    snapshot = loaded(entry((one, "table", None), number) for number, one in enumerate(ids))
    for number in range(1001):
        for text in (f"n{number:04}", f"n0500$t{number:04}"):
            found = snapshot.get(text)
            assert (None if found is None else found.object_id) == (text if text in ids else None)
    for after in (None, "n0000", "n0127", "n0128", "n0998", "a", "z"):
        expected = [one for one in ids if "$" not in one and (after is None or one > after)]
        assert list(snapshot.names("", "table", after)) == expected
        assert [e.object_id for e in snapshot.children("", after)] == expected
    assert [e.object_id for e in snapshot.descendants("n0500")] == ids[500:]
