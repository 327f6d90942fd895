"""Names: every one round-trips exactly or is refused with 13; none aliases or leaks another."""

from __future__ import annotations

import unicodedata
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_catalog.config import Mode
from tests.behaviour.catalogs import LOCAL_STORES, Catalog, code, ipc, outcome, rows

NFC: Final = unicodedata.normalize("NFC", "e\u0301tude \u212b")
NFD: Final = unicodedata.normalize("NFD", "e\u0301tude \u212b")
INJECTION: Final = "zz') OR starts_with(object_id, 'secret"

#: Legal in every mode (R9).
GOOD: Final = [
    "plain",
    "it's",
    '"quoted"',
    "`tick`",
    "') OR 1=1",
    "') OR 1=1 --",
    INJECTION,
    "x%",
    "%20",
    "%2F",
    "%24",
    "%",
    "50%25",
    "a#b",
    "#1",
    "#",
    "a?b=c&d",
    "a b",
    " lead",
    "trail ",
    "a+b",
    "a:b",
    "s3:",
    "a;b,c",
    "*",
    "[x]{y}",
    "<a|b>",
    "~",
    "-",
    "--flag",
    "_",
    "__x",
    "__init__",
    ".hidden",
    "...",
    "a..b",
    "x.lance",
    ".lance",
    "x.deleted",
    "data",
    "_versions",
    "NULL",
    "ü",
    "漢字",
    "😀",
    "👩‍👩‍👧",
    "\u202eright to left",
    "\u00a0nbsp",
    "\ufeffbom",
    NFC,
    NFD,
    "Case",
    "case",
    "x" * 200,
    "ü" * 100,
]
#: Refused with 13 in every mode, wherever they are created (R9).
BAD: Final = [
    "",
    ".",
    "..",
    "a/b",
    "/",
    "/etc",
    "../x",
    "a\\b",
    "\\",
    "nul\0",
    "tab\t",
    "line\nbreak",
    "\x1b[31m",
    "del\x7f",
    "c1\x85",
    "lone \ud800",
]
#: Refused at the root only: what we or Lance keep there.
RESERVED: Final = ["__manifest", "__trash", "__claims"]


def round_trip(catalog: Catalog, id: list[str], number: int) -> None:
    """Create, list, describe, open the data by Lance alone, drop."""
    parent, name = id[:-1], id[-1]
    before = catalog.tables(parent)
    catalog.create(id, [number])
    assert catalog.tables(parent) == sorted([*before, name])
    told = catalog.describe_table({"id": id})
    assert (told.table, told.namespace) == (name, parent)
    assert catalog.data(id) == [number]
    assert catalog.count_table_rows({"id": id}).count == 1
    assert catalog.exists(id)


def refused(catalog: Catalog, id: list[str]) -> None:
    """No way of making an object takes the name, and nothing is written."""
    before = catalog.root.digest()
    assert code(catalog.create, id) == 13
    assert code(catalog.declare_table, {"id": id}) == 13
    if catalog.can("namespaces"):
        assert code(catalog.namespace, *id) == 13
    assert catalog.root.digest() == before


class TestTables:
    def test_good_names_round_trip(self, catalog: Catalog) -> None:
        """R9, C05, C06, I22: all of them beside one another, so that none is another's alias."""
        for number, name in enumerate(GOOD):
            catalog.create([name], [number])
        assert catalog.tables() == sorted(GOOD)
        places = [catalog.place([name]) for name in GOOD]
        assert len(set(places)) == len(GOOD)
        for number, name in enumerate(GOOD):
            assert catalog.data([name]) == [number], name
        for name in GOOD[::2]:
            catalog.drop_table({"id": [name]}, purge=True)
        assert catalog.tables() == sorted(GOOD[1::2])
        for place in places[::2]:
            assert not [path for path in catalog.root.paths() if path.startswith(f"{place}/")]
        for number, name in list(enumerate(GOOD))[1::2]:
            assert catalog.data([name]) == [number], name

    def test_good_names_deregister_and_register(self, catalog: Catalog) -> None:
        """R9, I23, I24: the location that is answered leads back to the same table."""
        names = ["') OR 1=1", "%2F", "a#b", "a b", "😀", NFC, NFD, "x.deleted", "50%25"]
        for number, name in enumerate(names):
            catalog.create([name], [number])
        for name in names:
            location = catalog.deregister_table({"id": [name]}).location
            assert name not in catalog.tables()
            catalog.register_table({"id": [name], "location": location})
        assert catalog.tables() == sorted(names)
        for number, name in enumerate(names):
            assert catalog.data([name]) == [number], name

    def test_bad_names_are_13(self, catalog: Catalog) -> None:
        """R9: on creation, in every mode; lookups answer not found."""
        for name in BAD:
            refused(catalog, [name])
        for name in BAD:
            for call in (catalog.describe_table, catalog.drop_table, catalog.deregister_table):
                assert code(call, {"id": [name]}) == 4, name
        assert catalog.root.paths() == []

    def test_reserved_names_are_13_at_the_root(self, catalog: Catalog) -> None:
        """R9: and the catalog stays usable."""
        for name in RESERVED:
            refused(catalog, [name])
            assert code(catalog.describe_table, {"id": [name]}) == 4
        catalog.create(["t"])
        for name in RESERVED:
            refused(catalog, [name])
            assert code(catalog.drop_table, {"id": [name]}) == 4
        assert catalog.data(["t"]) == [1, 2, 3]

    def test_too_long_is_13(self, catalog: Catalog) -> None:
        """R9: at most 255 bytes for what becomes a path component, counted in bytes."""
        for name in ("x" * 300, "😀" * 64, "x" * 256):
            before = catalog.root.digest()
            assert code(catalog.create, [name]) == 13
            assert code(catalog.declare_table, {"id": [name]}) == 13
            assert catalog.root.digest() == before
            assert code(catalog.describe_table, {"id": [name]}) == 4
            assert code(catalog.table_exists, {"id": [name]}) == 4

    def test_dollar(self, catalog: Catalog) -> None:
        """R9, C05: refused where ids are stored joined by it; a plain character in V1."""
        if catalog.mode is Mode.V1:
            round_trip(catalog, ["a$b"], 1)
            assert catalog.root.paths("a$b.lance/")
            catalog.drop_table({"id": ["a$b"]})
            assert catalog.tables() == []
            return
        catalog.namespace("a")
        catalog.create(["a", "b"], [1])
        refused(catalog, ["a$b"])
        refused(catalog, ["a$c"])
        # Not an alias of the nested table either.
        assert code(catalog.describe_table, {"id": ["a$b"]}) == 4
        assert code(catalog.drop_table, {"id": ["a$b"]}) == 4
        assert code(catalog.namespace_exists, {"id": ["a$b"]}) == 1
        assert catalog.data(["a", "b"]) == [1]

    @pytest.mark.modes(Mode.V2, Mode.COMPAT)
    def test_bookkeeping_is_not_found(self, catalog: Catalog) -> None:
        """R9: ids below __trash and __claims are NotFound for every operation on tables."""
        catalog.create(["t"])
        location = catalog.deregister_table({"id": ["t"]}).location
        (hidden,) = catalog.rows()
        assert hidden.startswith("__trash$")
        version = catalog.manifest().version
        for hidden_id in (hidden.split("$"), ["__trash", "x"], ["__claims", "x"], [hidden]):
            for call in (
                catalog.describe_table,
                catalog.table_exists,
                catalog.drop_table,
                catalog.deregister_table,
                catalog.count_table_rows,
                lambda request: catalog.rename_table({**request, "new_table_name": "x"}),
            ):
                assert code(call, {"id": hidden_id}) in (1, 4), hidden_id
            assert code(catalog.create, [*hidden_id, "x"]) == 1
            assert (
                code(catalog.register_table, {"id": [*hidden_id, "x"], "location": location}) == 1
            )
        assert catalog.manifest().version == version
        catalog.register_table({"id": ["t"], "location": location})
        assert catalog.data(["t"]) == [1, 2, 3]

    @pytest.mark.needs("rename")
    def test_rename_obeys_the_same_rules(self, catalog: Catalog) -> None:
        """R9: 13 for a new name that could not be created."""
        catalog.create(["t"])
        for name in (*BAD, *RESERVED, "a$b"):
            assert code(catalog.rename_table, {"id": ["t"], "new_table_name": name}) == 13
        location = catalog.describe_table({"id": ["t"]}).location
        for name in (*BAD, *RESERVED, "a$b"):
            request = {"id": [name], "location": location}
            assert code(catalog.register_table, request) == 13
        assert catalog.tables() == ["t"]


@pytest.mark.needs("namespaces")
class TestNamespaces:
    def test_good_names_round_trip(self, catalog: Catalog) -> None:
        """R9, I11, I12: as namespaces and as tables in them, beside one another."""
        for name in GOOD:
            catalog.namespace(name, properties={"name": name})
        assert catalog.namespaces() == sorted(GOOD)
        few = GOOD if catalog.kind in LOCAL_STORES else GOOD[:20]
        for number, name in enumerate(few):
            assert catalog.describe_namespace({"id": [name]}).properties == {"name": name}
            assert catalog.tables([name]) == []
            if len(name.encode()) <= 100:
                catalog.create([name, name], [number])
                assert catalog.tables([name]) == [name]
                assert catalog.data([name, name]) == [number]
                assert catalog.all_tables([name]) == [f"{name}${name}"]
        for name in few[::2]:
            catalog.drop_namespace({"id": [name], "behavior": "cascade"})
        assert catalog.namespaces() == sorted(set(GOOD) - set(few[::2]))
        for number, name in list(enumerate(few))[1::2]:
            if len(name.encode()) <= 100:
                assert catalog.data([name, name]) == [number]

    def test_bad_names_are_13(self, catalog: Catalog) -> None:
        """R9: below a namespace too, where the reserved ones are legal."""
        catalog.namespace("ns")
        for name in BAD:
            refused(catalog, ["ns", name])
        for name in RESERVED:
            round_trip(catalog, ["ns", name], 1)

    def test_long_namespace_takes_no_table_it_could_not_store(self, catalog: Catalog) -> None:
        """R9, I01: a namespace is no path; a table below it is."""
        catalog.namespace("x" * 300)
        assert catalog.namespaces() == ["x" * 300]
        before = catalog.root.digest()
        assert code(catalog.create, ["x" * 300, "t"]) == 13
        assert code(catalog.declare_table, {"id": ["x" * 300, "t"]}) == 13
        assert catalog.root.digest() == before

    def test_injection_leaks_nothing(self, catalog: Catalog) -> None:
        """Invariant 5: a name is a name, never part of a query."""
        catalog.namespace("secret")
        catalog.create(["secret", "salaries"])
        for name in (INJECTION, "') OR 1=1", "secret' OR 'a'='a", "secre_", "secre%", "*"):
            for call in (catalog.list_tables, catalog.list_namespaces, catalog.list_all_tables):
                assert code(call, {"id": [name]}) == 1
            catalog.namespace(name)
            assert catalog.tables([name]) == []
            assert catalog.namespaces([name]) == []
            assert catalog.all_tables([name]) == []
            catalog.drop_namespace({"id": [name], "behavior": "cascade"})
        assert catalog.data(["secret", "salaries"]) == [1, 2, 3]

    def test_page_tokens_leak_nothing(self, catalog: Catalog) -> None:
        """Invariant 5: a page token is a place in the order of one namespace."""
        for name in ("a", "secret", "z"):
            catalog.namespace(name)
            catalog.create([name, "t"])
        for token in ("z", "secret$", "$", "') OR 1=1", "\0"):
            assert set(catalog.tables(["a"], page_token=token)) <= {"t"}
            assert set(catalog.namespaces(["a"], page_token=token)) == set()

    def test_non_ascii_parents_list_their_own_children(self, catalog: Catalog) -> None:
        """I11: lengths in bytes and in characters are not confused (native does)."""
        catalog.namespace("üüüü")
        catalog.namespace("üüüü", "a")
        catalog.create(["üüüü", "a", "t2"])
        catalog.create(["üüüü", "t1"])
        assert catalog.tables(["üüüü"]) == ["t1"]
        assert catalog.namespaces(["üüüü"]) == ["a"]


# Text of any kind, with a leaning towards what breaks path, URL and query handling.
names = st.one_of(
    st.text(st.characters(), max_size=12),
    st.text(st.sampled_from("ab$/.\\%#?' \"\0\n_üé\u0301😀"), max_size=8),
)


@pytest.mark.stores(*LOCAL_STORES)
@settings(max_examples=60)
@given(first=names, second=names)
def test_two_names_never_meet(catalog: Catalog, first: str, second: str) -> None:
    """R9, O01: two tables of generated names: each its own, or refused with 13."""
    made: dict[str, int] = {}
    for number, name in enumerate((first, second)):
        found = outcome(catalog.create, [name], [number])
        assert found in ((5,) if name in made else (None, 13)), name
        if found is None:
            made[name] = number
    assert catalog.tables() == sorted(made)
    for name, number in made.items():
        assert catalog.data([name]) == [number]
    for name in made:
        catalog.drop_table({"id": [name]})
    assert catalog.tables() == []


@pytest.mark.stores(*LOCAL_STORES)
@pytest.mark.needs("namespaces")
@settings(max_examples=60)
@given(outer=names, inner=names)
def test_a_namespace_holds_its_own(catalog: Catalog, outer: str, inner: str) -> None:
    """R9, I11: a generated namespace shows what is in it and nothing of its neighbours."""
    catalog.namespace("neighbour", mode="exist_ok")
    catalog.create_table({"id": ["neighbour", "t"], "mode": "exist_ok"}, ipc(rows([1])))
    found = outcome(catalog.namespace, outer)
    assert found in ((2,) if outer == "neighbour" else (None, 13)), outer
    if found is not None:
        return
    assert catalog.tables([outer]) == []
    assert catalog.namespaces([outer]) == []
    found = outcome(catalog.create, [outer, inner], [2])
    assert found in (None, 13), inner
    if found is None:
        assert catalog.tables([outer]) == [inner]
        assert catalog.data([outer, inner]) == [2]
    catalog.drop_namespace({"id": [outer], "behavior": "cascade"})
    assert catalog.namespaces() == ["neighbour"]
    assert catalog.all_tables() == ["neighbour$t"]
