"""What callers may give for a catalog and a table, and that credentials never show."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import lance_catalog
from lance_catalog.errors import InvalidInputError
from lance_catalog.spark.catalogs import CatalogRef, resolve, table_names
from lance_catalog.spark.options import location_of

SECRET = "hunter2hunter2"


def test_a_reference_opens_the_callers_own_object(tmp_path: Path) -> None:
    catalog = lance_catalog.connect(str(tmp_path), manifest_enabled=False)
    ref = resolve(catalog)
    assert ref.open() is catalog
    assert ref.root == str(tmp_path) and ref.properties == {"manifest_enabled": False}
    assert resolve(ref) is ref


def test_a_reference_travels_and_is_opened_once_per_process(tmp_path: Path) -> None:
    catalog = lance_catalog.connect(str(tmp_path), manifest_enabled=False)
    there = pickle.loads(pickle.dumps(resolve(catalog)))
    assert there == resolve(catalog) and hash(there) == hash(resolve(catalog))
    opened = there.open()
    assert opened is not catalog and opened.mode == catalog.mode
    assert pickle.loads(pickle.dumps(there)).open() is opened
    assert CatalogRef.from_token(there.to_token()) == there


def test_credentials_show_nowhere() -> None:
    keys = {"storage.access_key_id": "me", "storage.secret_access_key": SECRET}
    catalog = lance_catalog.connect("s3://b/p", **keys)
    ref = resolve(catalog)
    location = location_of({"path": "s3://b/t", "storage.secret_access_key": SECRET})
    assert location.storage["secret_access_key"] == SECRET
    for shown in (ref, location, [ref], {"x": location}):
        assert SECRET not in repr(shown) and SECRET not in str(shown)
    assert ref.open().context.settings.storage["secret_access_key"] == SECRET


@pytest.mark.parametrize("given", [None, 3, "", b"root", object()])
def test_what_is_no_catalog_is_refused(given: object) -> None:
    with pytest.raises(InvalidInputError, match="catalog"):
        resolve(given)  # type: ignore[arg-type]


def test_a_wrong_property_is_told_at_once() -> None:
    with pytest.raises(InvalidInputError, match="manifest_enabled"):
        CatalogRef("/tmp/x", {"manifest_enabld": True})


@pytest.mark.parametrize(
    ("given", "names"),
    [("t", ("t",)), ("db.t", ("db", "t")), (["db", "a.b"], ("db", "a.b")), (("t",), ("t",))],
)
def test_tables_by_text_or_list(given: str | list[str], names: tuple[str, ...]) -> None:
    assert table_names(given) == names


@pytest.mark.parametrize("given", ["", ".", "a..b", [], [""], ["a", 3]])
def test_what_is_no_table_is_refused(given: object) -> None:
    with pytest.raises(InvalidInputError):
        table_names(given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"root": "/r"},
        {"table": "t"},
        {"root": "/r", "table": "t", "path": "p"},
        {"catalog_token": "nonsense", "table": "t"},
    ],
)
def test_options_that_name_no_table_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(InvalidInputError):
        location_of(options)


def test_options_name_tables() -> None:
    assert location_of({"Root": "/r", "table": "db.t"}).names == ("db", "t")
    assert location_of({"root": "/r", "path": "db.t"}).names == ("db", "t")
    assert location_of({"root": "/r", "table": '["db", "a.b"]'}).names == ("db", "a.b")
    assert str(location_of({"path": "/x.lance"})) == "/x.lance"
