"""Rows of the registry, and the highest numbers kept in memory: pure parts of managed versions."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_catalog.errors import InvalidInputError, InvalidTableStateError
from lance_catalog.manifest import past
from lance_catalog.manifest.base import VERSION_TYPE
from lance_catalog.manifest.heads import Delta, Heads
from lance_catalog.model import Entry
from lance_catalog.storage.manifests import Naming, manifest_name
from lance_catalog.versions.registry import (
    FLAG,
    FLOOR,
    Registered,
    floor_of,
    is_managed,
    key_of,
    parse,
)

numbers = st.integers(1, 2**62)
texts = st.text(st.characters(blacklist_categories=["Cs"]), max_size=12)


@given(
    numbers,
    st.sampled_from(Naming),
    st.integers(0, 2**40),
    st.none() | texts,
    st.integers(0, 2**41),
    st.none() | texts,
    st.dictionaries(texts, texts, max_size=3),
)
def test_a_row_tells_what_it_was_made_of(
    version: int,
    naming: Naming,
    size: int,
    tag: str | None,
    time: int,
    staged: str | None,
    more: dict[str, str],
) -> None:
    """I34: and what a committer says of it cannot pass for our own."""
    made = Registered(version, naming, size, tag, time, staged, more)
    row = made.row("ns$t", "place")
    assert (row.object_id, row.object_type) == (f"ns$t${version}", VERSION_TYPE)
    told = parse(row)
    assert told is not None
    assert (told.version, told.naming, told.size) == (version, naming, size)
    assert (told.e_tag, told.timestamp_ms, told.staged) == (tag, time, staged)
    own = {"manifest_path", "manifest_size", "e_tag", "timestamp_millis"}
    own |= {"naming_scheme", "staged_name"}
    assert (told.metadata or {}) == {k: v for k, v in more.items() if k not in own}
    path = f"place/_versions/{manifest_name(version, naming)}"
    assert told.final_path("place") == path == json.loads(row.metadata or "")["manifest_path"]
    assert told.staged_path("place") == (None if staged is None else f"place/_versions/{staged}")


@pytest.mark.parametrize(
    ("key", "metadata"),
    [
        ("ns$t$x", "{}"),
        ("ns$t$", "{}"),
        ("ns$t$1", '{"naming_scheme":"V9"}'),
        ("ns$t$1", '{"manifest_size":"many"}'),
        ("ns$t$1", '{"timestamp_millis":""}'),
    ],
)
def test_a_row_that_is_not_ours(key: str, metadata: str) -> None:
    assert parse(Entry(key, VERSION_TYPE, None, metadata)) is None


def test_a_row_of_another_writer_s() -> None:
    """What it leaves out has a default; what is no JSON is 19, as everywhere."""
    told = parse(Entry("ns$t$7", VERSION_TYPE, None, None))
    assert told is not None
    assert (told.version, told.naming, told.size, told.metadata) == (7, Naming.V2, 0, None)
    with pytest.raises(InvalidTableStateError):
        parse(Entry("ns$t$7", VERSION_TYPE, None, "{"))


@pytest.mark.parametrize(
    ("value", "expected"),
    [("true", True), ("TRUE", True), ("false", False), ("1", False), ("", False), (None, False)],
)
def test_the_switch(value: str | None, expected: bool) -> None:
    """I32."""
    assert is_managed({} if value is None else {FLAG: value}) is expected


@pytest.mark.parametrize(("stored", "expected"), [("7", 7), ("0", 0), ("x", 0), ("-1", 0)])
def test_the_floor(stored: str, expected: int) -> None:
    entry = Entry("t", "table", "place", json.dumps({FLOOR: stored}))
    assert floor_of(entry) == expected
    assert floor_of(Entry("t", "table", "place")) == 0


class TestHeads:
    def learnt(self, **tables: int) -> Heads:
        heads = Heads()
        for table, version in tables.items():
            heads.learn(table, version, heads.steps())
        return heads

    def get(self, heads: Heads, table: str) -> int | None:
        return heads.get(table, heads.steps())

    def test_follow_what_comes(self) -> None:
        heads = self.learnt(t=3)
        heads.step(Delta(versions=(key_of("t", 4), key_of("t", 5), key_of("u", 9))))
        assert self.get(heads, "t") == 5
        # Not asked for, so not known: what came last need not be the highest.
        assert self.get(heads, "u") is None

    def test_never_go_back(self) -> None:
        """Rows that upkeep moves, or that are registered again, are lower ones."""
        heads = self.learnt(t=9)
        heads.step(Delta(versions=(key_of("t", 2),)))
        assert self.get(heads, "t") == 9

    def test_forget_a_table_whose_row_went(self) -> None:
        """Dropped and made again, it begins anew; versions of the same step are the new one's."""
        heads = self.learnt(t=9, u=4)
        heads.step(Delta(versions=(key_of("t", 1),), removed=("t",)))
        assert (self.get(heads, "t"), self.get(heads, "u")) == (None, 4)

    def test_forget_everything_with_a_whole_load(self) -> None:
        heads = self.learnt(t=9)
        heads.step(Delta(whole=True))
        assert self.get(heads, "t") is None

    def test_a_lookup_that_was_overtaken_teaches_nothing(self) -> None:
        heads = self.learnt(t=3)
        before = heads.steps()
        heads.step(Delta(versions=(key_of("t", 4),)))
        heads.learn("t", 3, before)
        heads.learn("u", 1, before)
        assert heads.get("t", before) is None
        assert (self.get(heads, "t"), self.get(heads, "u")) == (4, None)

    def row(self, heads: Heads, table: str, version: int) -> str | None:
        found = heads.row(table, version, heads.steps())
        return None if found is None else found.metadata

    def test_the_row_of_the_highest(self) -> None:
        """Kept while it is the highest; its address says nothing."""
        heads = self.learnt(t=3)
        assert self.row(heads, "t", 3) is None
        heads.learn_row("t", 3, Entry("t$3", VERSION_TYPE, None, "3", 7), heads.steps())
        heads.learn_row("t", 2, Entry("t$2", VERSION_TYPE, None, "2", 7), heads.steps())
        assert self.row(heads, "t", 3) == "3"
        assert self.row(heads, "t", 2) is None
        found = heads.row("t", 3, heads.steps())
        assert found is not None and found.address == -1
        heads.step(Delta(versions=("u$1",)))
        assert self.row(heads, "t", 3) == "3"

    def test_the_row_that_takes_its_place(self) -> None:
        heads = self.learnt(t=3)
        for version, text in ((4, "4"), (4, "another 4")):
            row = Entry(key_of("t", version), VERSION_TYPE, None, text)
            heads.step(Delta(versions=(row.object_id,), rows=(row,)))
            assert self.row(heads, "t", version) == text
        low = Entry(key_of("t", 2), VERSION_TYPE, None, "2")
        heads.step(Delta(versions=(low.object_id,), rows=(low,)))
        assert self.row(heads, "t", 4) == "another 4"
        # A number without its row: it has to be looked up.
        heads.step(Delta(versions=(key_of("t", 5),)))
        assert (self.get(heads, "t"), self.row(heads, "t", 5)) == (5, None)

    @pytest.mark.parametrize("delta", [Delta(removed=("t",)), Delta(whole=True)])
    def test_the_row_goes_with_the_table(self, delta: Delta) -> None:
        heads = self.learnt(t=3)
        heads.learn_row("t", 3, Entry("t$3", VERSION_TYPE, None, "3"), heads.steps())
        heads.step(delta)
        heads.learn("t", 3, heads.steps())
        assert self.row(heads, "t", 3) is None

    def test_a_row_that_was_overtaken(self) -> None:
        heads = self.learnt(t=3)
        before = heads.steps()
        heads.step(Delta(versions=("u$1",)))
        heads.learn_row("t", 3, Entry("t$3", VERSION_TYPE, None, "3"), before)
        assert self.row(heads, "t", 3) is None
        assert heads.row("t", 3, before) is None

    def test_ids_that_are_no_versions(self) -> None:
        heads = self.learnt(t=3)
        heads.step(Delta(versions=("t$x", "t$", "t")))
        assert self.get(heads, "t") == 3


class TestPoints:
    def test_numbers_and_times(self) -> None:
        noon = datetime(2026, 11, 15, 12, tzinfo=UTC)
        assert past._parse(7) == past._parse("7") == 7
        assert past._parse("2026-11-15T12:00:00+00:00") == noon
        assert past._parse("2026-11-15T13:00:00+01:00") == noon
        assert past._parse(noon) == noon
        # Without a zone, the clock on the wall.
        assert past._parse("2026-11-15T12:00:00") == datetime(2026, 11, 15, 12).astimezone()

    @pytest.mark.parametrize("asked", [True, "yesterday", "-1", "", 1.5, None, "1.5"])
    def test_what_is_neither(self, asked: object) -> None:
        with pytest.raises(InvalidInputError):
            past._parse(asked)  # type: ignore[arg-type]
