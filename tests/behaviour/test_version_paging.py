"""Order and pages of versions: both naming schemes, by the registry and by the files, with versions
that come and go between pages (I34, I37, R2).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import lance
import pytest

from lance_catalog.config import Mode
from lance_catalog.manifest import Change, ManifestLog
from lance_catalog.storage.manifests import Naming, manifest_name
from lance_catalog.versions.registry import Registered
from tests.behaviour.catalogs import Catalog, code, rows
from tests.behaviour.versioning import numbers

pytestmark = [pytest.mark.modes(Mode.V2), pytest.mark.stores("local")]

#: Around a decimal digit more, where names of V1 sort otherwise than numbers; and a few lookups.
SIZES: Final = (1, 9, 10, 11, 99, 100, 500)
#: What is left after deletions: the gaps are wider than what one lookup asks for.
SPARSE: Final = ([500], [1, 500], [*range(1, 11), *range(490, 501)], [1, 64, 65, 129, 400])


@dataclass
class Tables:
    """Tables whose versions are copies of one manifest, as commits would have left them."""

    catalog: Catalog
    naming: Naming
    managed: bool

    def make(self, name: str, versions: Iterable[int]) -> list[str]:
        table = ["ns", name]
        lance.write_dataset(
            rows([1]),
            namespace_client=self.catalog.ns,
            table_id=table,
            enable_v2_manifest_paths=self.naming is Naming.V2,
        )
        wanted = set(versions)
        self.add(table, wanted - {1})
        if 1 not in wanted:
            ranges = [{"start_version": 1, "end_version": 2}]
            self.catalog.batch_delete_table_versions({"id": table, "ranges": ranges})
        return table

    def add(self, id: list[str], versions: Iterable[int]) -> None:
        place = self.catalog.place(id)
        folder = f"{self.catalog.root.folder}/{place}/_versions"
        first = next(e.path for e in os.scandir(folder) if e.name.endswith(".manifest"))
        size = os.path.getsize(first)
        made = []
        for number in versions:
            os.link(first, f"{folder}/{manifest_name(number, self.naming)}")
            one = Registered(number, self.naming, size, None, number)
            made.append(one.row("$".join(id), place))
        if self.managed and made:
            self.catalog.context.commit(lambda view: (Change(add=tuple(made)), None))

    def pages(self, id: list[str], **how: Any) -> Iterator[list[int]]:
        token = None
        while True:
            asked = {"id": id, "page_token": token, **how}
            answer = self.catalog.list_table_versions(asked)
            yield [one.version for one in answer.versions]
            token = answer.page_token
            if token is None:
                return


@pytest.fixture(params=[Naming.V1, Naming.V2], ids=["V1", "V2"])
def naming(request: pytest.FixtureRequest) -> Naming:
    return Naming(request.param)


@pytest.fixture(params=[True, False], ids=["managed", "unmanaged"])
def tables(catalog: Catalog, naming: Naming, request: pytest.FixtureRequest) -> Tables:
    catalog.namespace("ns")
    if request.param:
        catalog.enable_managed_versions()
    return Tables(catalog, naming, request.param)


def limits(size: int) -> list[int]:
    """Page sizes that make few pages, and the edges."""
    return sorted(n for n in {1, 7, 64, 65, size - 1, size, size + 1} if n > 0 and size / n < 15)


def ordered(versions: Iterable[int], descending: bool | None) -> list[int]:
    return sorted(versions, reverse=descending is not False)


@pytest.mark.parametrize("descending", [None, True, False])
def test_every_page_size(tables: Tables, descending: bool | None) -> None:
    for size in SIZES:
        table = tables.make(f"t{size}", range(1, size + 1))
        expected = ordered(range(1, size + 1), descending)
        for limit in limits(size):
            found = list(tables.pages(table, limit=limit, descending=descending))
            assert [n for page in found for n in page] == expected, (size, limit)
            # Full but for the last, and no empty page after it.
            assert [len(page) for page in found[:-1]] == [limit] * (len(found) - 1)
            assert 0 < len(found[-1]) <= limit
        for everything in (None, -1):
            how = {"limit": everything, "descending": descending}
            assert list(tables.pages(table, **how)) == [expected]
        assert list(tables.pages(table, limit=0, descending=descending)) == [[]]


@pytest.mark.parametrize("descending", [None, False])
def test_gaps(tables: Tables, descending: bool | None) -> None:
    for at, versions in enumerate(SPARSE):
        table = tables.make(f"t{at}", versions)
        expected = ordered(versions, descending)
        for limit in (2, 10, 100):
            found = tables.pages(table, limit=limit, descending=descending)
            assert [n for page in found for n in page] == expected, (versions, limit)
        latest = tables.catalog.describe_table_version({"id": table}).version
        assert latest.version == max(versions)
        missing = {"id": table, "version": 300}
        assert code(tables.catalog.describe_table_version, missing) == 11


def test_versions_that_come_between_pages(tables: Tables) -> None:
    """Every version that was there all the time is shown once; a new one at most once."""
    for size in (9, 99, 100):
        table = tables.make(f"t{size}", range(1, size + 1))
        limit = 4 if size < 10 else 30
        for descending in (True, False):
            top = numbers(tables.catalog, table, limit=1)[0]
            seen: list[int] = []
            for page in tables.pages(table, limit=limit, descending=descending):
                seen += page
                if len(seen) <= 3 * limit:
                    newest = numbers(tables.catalog, table, limit=1)[0]
                    tables.add(table, [newest + 1])
            latest = numbers(tables.catalog, table, limit=1)[0]
            assert latest > top
            there = range(1, (top if descending else latest) + 1)
            assert seen == ordered(there, descending)


def test_versions_that_go_between_pages(tables: Tables) -> None:
    """A token outlives its version; what is gone is not shown, and nothing else is left out."""
    table = tables.make("t", range(1, 101))
    for descending in (True, False):
        there = set(numbers(tables.catalog, table))
        seen: list[int] = []
        for page in tables.pages(table, limit=20, descending=descending):
            seen += page
            if len(seen) == 20:
                # The last of this page, and the first of the next.
                low, high = (page[-1] - 12, page[-1] + 1)
                if not descending:
                    low, high = (page[-1], page[-1] + 13)
                ranges = [{"start_version": low, "end_version": high}]
                tables.catalog.batch_delete_table_versions({"id": table, "ranges": ranges})
                gone = set(range(low, high)) - set(page)
        assert seen == ordered(there - gone, descending)


def test_a_process_that_has_seen_nothing(tables: Tables) -> None:
    """The highest number is not written down anywhere: it is found."""
    made = {size: tables.make(f"t{size}", range(1, size + 1)) for size in SIZES}
    made[501] = tables.make("sparse", [1, 2, 501])
    for size, table in made.items():
        other = Catalog(tables.catalog.mode, tables.catalog.kind, tables.catalog.root)
        other.ns.context.log = ManifestLog(other.ns.context.store)
        assert numbers(other, table, limit=1) == [size]
        assert other.describe_table_version({"id": table}).version.version == size


@pytest.mark.parametrize("token", ["x", "-1", "1.5", " 1", "١"])
def test_a_token_that_is_not_ours(tables: Tables, token: str) -> None:
    table = tables.make("t", [1, 2])
    asked = {"id": table, "page_token": token}
    assert code(tables.catalog.list_table_versions, asked) == 13


def test_tokens_beyond_the_ends(tables: Tables) -> None:
    table = tables.make("t", range(1, 6))
    for token, descending, expected in (
        ("1", True, []),
        ("0", True, []),
        ("99", True, [5, 4, 3, 2, 1]),
        ("5", False, []),
        ("99", False, []),
        ("0", False, [1, 2, 3, 4, 5]),
        ("", None, [5, 4, 3, 2, 1]),
    ):
        how = {"page_token": token, "descending": descending}
        assert numbers(tables.catalog, table, **how) == expected, how
