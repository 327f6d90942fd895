"""Properties: parsed strictly, refused with the nearest name, native's names accepted."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_catalog import config
from lance_catalog.config import PROPERTIES, Mode, Settings, parse_bool
from lance_catalog.errors import InvalidInputError


def parse(**given: object) -> Settings:
    return Settings.from_properties({"root": "/x", **given})


def test_defaults() -> None:
    """C12: both enabled: compatibility mode."""
    settings = parse()
    assert settings == Settings(root="/x")
    assert settings.mode is Mode.COMPAT
    assert settings.commit_retries is None
    assert not settings.vend_storage_options


@pytest.mark.parametrize(
    ("manifest", "listing", "mode"),
    [
        ("true", "true", Mode.COMPAT),
        ("TRUE", "0", Mode.V2),
        (True, False, Mode.V2),
        ("false", "1", Mode.V1),
        (False, True, Mode.V1),
        (" False ", "true", Mode.V1),
    ],
)
def test_modes(manifest: object, listing: object, mode: Mode) -> None:
    """C12: manifest_enabled and dir_listing_enabled, as text or as booleans."""
    assert parse(manifest_enabled=manifest, dir_listing_enabled=listing).mode is mode


@pytest.mark.parametrize("value", ["maybe", "", "yes", "2", "truee", 1.5])
def test_bad_booleans_are_13(value: object) -> None:
    """C12: refused, not ignored (native takes them for the default)."""
    for name in ("manifest_enabled", "dir_listing_enabled", "vend_input_storage_options"):
        with pytest.raises(InvalidInputError, match=name) as caught:
            parse(**{name: value})
        assert caught.value.code == 13


def test_neither_is_13() -> None:
    """C12: a catalog that could find nothing."""
    with pytest.raises(InvalidInputError, match="both false"):
        parse(manifest_enabled=False, dir_listing_enabled=False)


@pytest.mark.parametrize("root", [None, "", 3, b"/x"])
def test_root_is_required(root: object) -> None:
    """C12: and a string."""
    with pytest.raises(InvalidInputError, match="'root' is required"):
        Settings.from_properties({"root": root})
    with pytest.raises(InvalidInputError):
        Settings.from_properties({})


@pytest.mark.parametrize("value", ["soon", "-1", "nan", "inf", "1e12", None, ""])
def test_bad_numbers_are_13(value: object) -> None:
    """C12: except None, which is not given."""
    if value is None:
        assert parse(commit_timeout=None).commit_timeout == 30.0
        return
    for name in ("commit_timeout", "commit_retries"):
        with pytest.raises(InvalidInputError, match=name):
            parse(**{name: value})


@pytest.mark.parametrize("value", [1.5, "1.5", "0.1"])
def test_part_of_a_conflict_is_13(value: object) -> None:
    """R16: not cut off in silence."""
    with pytest.raises(InvalidInputError, match=r"commit_retries.*whole number"):
        parse(commit_retries=value)
    assert parse(commit_retries="2.0").commit_retries == 2


def test_numbers() -> None:
    """C12, R16: commit_retries is native's and honoured."""
    assert parse(commit_timeout="2.5").commit_timeout == 2.5
    assert parse(commit_retries="7").commit_retries == 7
    assert parse(commit_retries=0).commit_retries == 0


@pytest.mark.parametrize(
    ("value", "milliseconds"),
    [
        ("7d", 604_800_000),
        ("12h", 43_200_000),
        (" 90M ", 5_400_000),
        ("3600", 3_600_000),
        (3600, 3_600_000),
        ("1.5d", 129_600_000),
        ("60s", 60_000),
        ("never", None),
        ("Never", None),
    ],
)
def test_retention(value: object, milliseconds: int | None) -> None:
    """C12: a time span with a unit, seconds without, or never."""
    assert parse(manifest_retention=value).retention_ms == milliseconds
    assert parse(manifest_retention=None).retention_ms == 604_800_000


@pytest.mark.parametrize(
    "value",
    ["0", 0, "59s", "", "d", "-1d", "7 days", "1w", "nan", "inf", "1e3", True, "٧d", "7d\n8"],
)
def test_bad_retention_is_13(value: object) -> None:
    """C12: 0 too, which some take for never and others for at once."""
    with pytest.raises(InvalidInputError, match="manifest_retention"):
        parse(manifest_retention=value)


def test_storage_options_lose_their_prefix() -> None:
    """C14: `storage.x` reaches the store as `x`, as text."""
    settings = parse(**{"storage.region": "eu", "storage.allow_http": True, "storage.n": 3})
    assert settings.storage == {"region": "eu", "allow_http": "true", "n": "3"}
    assert parse(**{"storage.a.b": "c"}).storage == {"a.b": "c"}
    for bad in ({"storage.": "x"}, {"storage.x": object()}, {"storage.*": "x"}):
        with pytest.raises(InvalidInputError):
            parse(**bad)


@pytest.mark.parametrize("name", [name for name in PROPERTIES if name != "storage.*"])
def test_a_typing_error_is_told_the_property_that_was_meant(name: str) -> None:
    """C12: one letter less, one more, two swapped."""
    for wrong in (name[:-1], name + "s", name[1] + name[0] + name[2:]):
        with pytest.raises(InvalidInputError) as caught:
            parse(**{wrong: "x"})
        assert f"'{wrong}'" in str(caught.value)
        assert f"'{name}'" in str(caught.value)


@given(st.text())
def test_unknown_names_are_always_13(name: str) -> None:
    """C12: whatever the name, refused with a suggestion."""
    if name in PROPERTIES or name in config._NO_EFFECT or name.startswith("storage."):
        return
    with pytest.raises(InvalidInputError, match="did you mean"):
        parse(**{name: "x"})


def test_native_names_without_effect_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """R16: accepted, and said so once."""
    config._said.clear()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            for name in config._NO_EFFECT:
                assert parse(**{name: "true"}) == Settings(root="/x")
    assert len(caplog.records) == len(config._NO_EFFECT) == 5


def test_parse_bool_names_the_property() -> None:
    """C12: the message says which."""
    with pytest.raises(InvalidInputError, match="'some_name' is 'x'"):
        parse_bool("some_name", "x")
