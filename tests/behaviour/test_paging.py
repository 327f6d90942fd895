"""Pages: every page size gives the whole list, once, also while names come and go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.behaviour.catalogs import LOCAL_STORES, Catalog, local_only

NAMES = ["a", "B", "a b", "aa", "ä", "z", "😀"]
Listing = Callable[[Catalog, dict[str, Any]], tuple[list[str], str | None]]


def list_tables(catalog: Catalog, more: dict[str, Any]) -> tuple[list[str], str | None]:
    answer = catalog.list_tables({"id": list(catalog.home), **more})
    return list(answer.tables), answer.page_token


def list_all_tables(catalog: Catalog, more: dict[str, Any]) -> tuple[list[str], str | None]:
    answer = catalog.list_all_tables({"id": list(catalog.home), **more})
    prefix = "".join(f"{name}$" for name in catalog.home)
    return [key.removeprefix(prefix) for key in answer.tables], answer.page_token


def list_namespaces(catalog: Catalog, more: dict[str, Any]) -> tuple[list[str], str | None]:
    answer = catalog.list_namespaces({"id": list(catalog.home), **more})
    return list(answer.namespaces), answer.page_token


def declare(catalog: Catalog, name: str) -> None:
    catalog.declare_table({"id": catalog.at(name)})


def make_namespace(catalog: Catalog, name: str) -> None:
    catalog.namespace(*catalog.at(name))


KINDS = [
    pytest.param(list_tables, declare, id="list_tables"),
    pytest.param(list_all_tables, declare, id="list_all_tables"),
    pytest.param(
        list_namespaces,
        make_namespace,
        id="list_namespaces",
    ),
]


def walk(catalog: Catalog, listing: Listing, limit: int, **more: Any) -> list[list[str]]:
    pages: list[list[str]] = []
    token: str | None = None
    while True:
        page, token = listing(catalog, {"limit": limit, "page_token": token, **more})
        pages.append(page)
        if token is None:
            return pages
        assert len(pages) < 100


def skip_kind(catalog: Catalog, listing: Listing) -> bool:
    return listing is list_namespaces and not catalog.can("namespaces")


@pytest.mark.homes("root", "nested")
@pytest.mark.parametrize(("listing", "make"), KINDS)
class TestPages:
    def test_every_page_size(
        self, catalog: Catalog, listing: Listing, make: Callable[[Catalog, str], None]
    ) -> None:
        """I11, I21, I26: sizes 1..N+1; full pages, in order, a token only while more follows."""
        if skip_kind(catalog, listing):
            assert listing(catalog, {"limit": 1}) == ([], None)
            return
        for name in NAMES:
            make(catalog, name)
        whole = sorted(NAMES)
        assert listing(catalog, {}) == (whole, None)
        for limit in range(1, len(NAMES) + 2):
            pages = walk(catalog, listing, limit)
            assert [name for page in pages for name in page] == whole
            assert all(len(page) == limit for page in pages[:-1])
            assert 1 <= len(pages[-1]) <= limit

    @local_only
    def test_limits_at_the_edge(
        self, catalog: Catalog, listing: Listing, make: Callable[[Catalog, str], None]
    ) -> None:
        """I21: as native: 0 is an empty page, a negative limit and an empty token mean none."""
        if skip_kind(catalog, listing):
            assert listing(catalog, {"limit": 0}) == ([], None)
            return
        for name in ("a", "b"):
            make(catalog, name)
        assert listing(catalog, {"limit": 0}) == ([], None)
        assert listing(catalog, {"limit": -1}) == (["a", "b"], None)
        assert listing(catalog, {"page_token": ""}) == (["a", "b"], None)

    @pytest.mark.stores(*LOCAL_STORES)
    def test_inserts_between_pages(
        self, catalog: Catalog, listing: Listing, make: Callable[[Catalog, str], None]
    ) -> None:
        """I11, I21: a token is a place, not a count: nothing twice, nothing that stayed missed."""
        if skip_kind(catalog, listing):
            assert listing(catalog, {}) == ([], None)
            return
        for name in ("b", "d", "f", "h"):
            make(catalog, name)
        first, token = listing(catalog, {"limit": 2})
        assert first == ["b", "d"]
        for name in ("a", "c", "d2", "e", "z"):
            make(catalog, name)
        second, token = listing(catalog, {"limit": 2, "page_token": token})
        assert second == ["d2", "e"]
        rest, token = listing(catalog, {"limit": 10, "page_token": token})
        assert (rest, token) == (["f", "h", "z"], None)

    @local_only
    def test_token_need_not_exist(
        self, catalog: Catalog, listing: Listing, make: Callable[[Catalog, str], None]
    ) -> None:
        """I11, I21: the object a token names may be gone; past the end is an empty page."""
        if skip_kind(catalog, listing):
            assert listing(catalog, {"page_token": "x"}) == ([], None)
            return
        for name in ("b", "d"):
            make(catalog, name)
        prefix = "".join(f"{n}$" for n in catalog.home) if listing is list_all_tables else ""
        assert listing(catalog, {"page_token": f"{prefix}c"}) == (["d"], None)
        assert listing(catalog, {"page_token": f"{prefix}b"}) == (["d"], None)
        assert listing(catalog, {"page_token": f"{prefix}zz"}) == ([], None)


@pytest.mark.homes("root", "nested")
@pytest.mark.parametrize("listing", [list_tables, list_all_tables])
def test_pages_without_declared_tables(catalog: Catalog, listing: Listing) -> None:
    """I21: include_declared=false filters before it counts, for every page size."""
    for name in ("a", "c", "e"):
        catalog.create(catalog.at(name))
    for name in ("b", "d", "f"):
        declare(catalog, name)
    for limit in range(1, 5):
        pages = walk(catalog, listing, limit, include_declared=False)
        assert [name for page in pages for name in page] == ["a", "c", "e"]
        assert all(len(page) == limit for page in pages[:-1])


@pytest.mark.needs("namespaces")
def test_pages_of_everything_below(catalog: Catalog) -> None:
    """I26: list_all_tables pages over the whole tree, by id."""
    for name in ("a", "ab", "b"):
        catalog.namespace(name)
        catalog.namespace(name, "in")
        catalog.declare_table({"id": [name, "t"]})
        catalog.declare_table({"id": [name, "in", "t"]})
    catalog.declare_table({"id": ["a!"]})
    whole = sorted(["a!", *(f"{n}${t}" for n in ("a", "ab", "b") for t in ("t", "in$t"))])
    assert catalog.all_tables() == whole
    for limit in range(1, len(whole) + 2):
        pages = walk(catalog, list_all_tables, limit)
        assert [name for page in pages for name in page] == whole
    assert catalog.all_tables(["a"]) == ["a$in$t", "a$t"]


@local_only
def test_many_names_page_in_order(catalog: Catalog) -> None:
    """I21, C08: past the point where fragments are merged and rows leave the overlay."""
    count = 40 if catalog.kind in LOCAL_STORES else 20
    names = [f"t{number * 7919 % 1000:03d}" for number in range(count)]
    for name in names:
        declare(catalog, name)
    for name in names[::3]:
        catalog.drop_table({"id": [name]})
    whole = sorted(set(names) - set(names[::3]))
    for limit in (1, 7, 100):
        assert [n for page in walk(catalog, list_tables, limit) for n in page] == whole
