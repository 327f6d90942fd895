"""Identifiers: list and string style, other delimiters at the edges, what can be created."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_catalog import identifiers as ids
from lance_catalog.errors import InvalidInputError
from tests.behaviour.catalogs import outcome

names = st.lists(st.text(st.characters(exclude_characters="$"), min_size=1), max_size=5)


def refused(*name: str, stored: bool = True) -> bool:
    found = outcome(ids.check_new_name, name, stored=stored)
    assert found in (None, 13)
    return found == 13


@given(names.filter(bool))
def test_stored_id_round_trips(given_names: list[str]) -> None:
    """C05: names joined by $; a name without $ comes back as it was."""
    key = ids.encode(given_names)
    assert ids.decode(key) == tuple(given_names)
    parent, name = ids.split_key(key)
    assert name == given_names[-1]
    assert parent == ids.encode(given_names[:-1])


@given(names, names)
def test_different_identifiers_have_different_keys(first: list[str], second: list[str]) -> None:
    """O01, C05: injective over names without $; the root has the empty key to itself."""
    if first != second:
        assert ids.encode(first) != ids.encode(second)


def test_request_in_list_and_string_style() -> None:
    """O02: a list of names, or a string with the default delimiter; the root both ways."""
    assert ids.from_request(["a", "b"], "x") == ("a", "b")
    assert ids.from_request("a$b", "x") == ("a", "b")
    assert ids.from_request("a", "x") == ("a",)
    assert ids.from_request([], "x") == ids.from_request("", "x") == ids.ROOT
    assert ids.from_request("$", "x") == ids.ROOT


def test_request_without_an_id() -> None:
    """O03: None is no identifier; [] is the root."""
    with pytest.raises(InvalidInputError, match="create_table"):
        ids.from_request(None, "create_table")
    with pytest.raises(InvalidInputError):
        ids.from_request(["a", 3], "x")  # type: ignore[list-item]


def test_text_of_people() -> None:
    """O02: typed with a dot or another delimiter; the root is a dot."""
    assert ids.parse_text("prod.analytics.users") == ("prod", "analytics", "users")
    assert ids.parse_text("v1.2/users", "/") == ("v1.2", "users")
    assert ids.parse_text("a::b", "::") == ("a", "b")
    assert ids.parse_text(".") == ids.parse_text("") == ids.parse_text("/", "/") == ids.ROOT
    assert ids.format_text(("a", "b")) == "a.b"
    assert ids.format_text(()) == "."
    for text, delimiter in ((".a", "."), ("a..b", "."), ("a.", "."), ("a", "")):
        with pytest.raises(InvalidInputError):
            ids.parse_text(text, delimiter)


@given(st.lists(st.text(min_size=1), min_size=1, max_size=4), st.sampled_from([".", "/", "::"]))
def test_text_round_trips_when_no_name_holds_the_delimiter(
    given_names: list[str], delimiter: str
) -> None:
    """O02: with a delimiter that is in no name (nor made by two names side by side)."""
    text = ids.format_text(given_names, delimiter)
    if text.count(delimiter[0]) == (len(given_names) - 1) * len(delimiter) and text != ".":
        assert ids.parse_text(text, delimiter) == tuple(given_names)


def test_levels() -> None:
    """O03, O04: the root is level 0; parent and name of the others."""
    assert ids.parent_of(("a", "b")) == ("a",)
    assert ids.parent_of(("a",)) == ids.ROOT == ()
    assert ids.name_of(("a", "b")) == "b"
    assert ids.split_key("a") == ("", "a")


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "a\\b", "\0", "a\n", "\x7f", "\x9f", "\ud800", "$", "a$b"]
)
def test_names_that_cannot_be_created(name: str) -> None:
    """R9: at any level."""
    assert refused(name)
    assert refused("ns", name)


@pytest.mark.parametrize("name", ["__manifest", "__trash", "__claims"])
def test_names_reserved_at_the_root(name: str) -> None:
    """R9: there only; other names with __ stay legal."""
    assert refused(name)
    assert refused(name, stored=False)
    assert not refused("ns", name)
    assert not refused("__other")


def test_dollar_is_for_v1_only() -> None:
    """R9: legal where ids are not stored joined by it."""
    assert refused("a$b")
    assert not refused("a$b", stored=False)
    assert not ids.is_addressable(("a$b",))
    assert ids.is_addressable(("a", "b"))


def test_the_root_cannot_be_created() -> None:
    """O03: it has no name."""
    assert refused()


def test_bookkeeping_is_recognised() -> None:
    """R9: __trash and __claims, as names and as stored ids; not what only looks alike."""
    assert ids.is_internal(("__trash", "x"))
    assert ids.is_internal_key("__claims$x")
    assert not ids.is_internal(("a", "__trash"))
    assert not ids.is_internal_key("__trashy$x")
    assert not ids.is_internal(())


def test_path_components_are_counted_in_bytes() -> None:
    """R9: at most 255 bytes."""
    ids.check_component("x" * 255, ("x",))
    for component in ("x" * 256, "ü" * 128, "😀" * 64):
        with pytest.raises(InvalidInputError, match="bytes"):
            ids.check_component(component, ("x",))
