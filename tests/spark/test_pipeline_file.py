"""Pipeline files: what they may say, and mistakes with their line and key. No Spark runs here."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_catalog import connect, errors
from lance_catalog.spark.pipeline import InvalidPipelineError, Problem, load
from lance_catalog.spark.pipeline.lines import line_of, locate
from lance_catalog.spark.pipeline.references import parameters, tables_of

GOOD = """\
[pipeline]
name = "shop"

[variables]
raw = "/data/raw"
version = 3

[sources.orders]
files = "${raw}/orders/*.parquet"

[sources.users]
table = "prod.users"
version = "${version}"
columns = ["id", "name"]

[steps.clean]
sql = "select * from orders where amount >= 0"

[steps.named]
sql = "select c.*, u.name from clean c join users u on c.user = u.id"

[targets.orders]
table = "prod.orders"
from = "named"
mode = "merge"
keys = ["id"]
vectors = { embedding = 8 }
indices = [
  { column = "id", type = "btree" },
  { column = "embedding", type = "ivf_pq", options = { num_partitions = 4 } },
]

[targets.orders.expectations]
not_null = ["id"]
unique = ["id"]
rows = { min = 1, max = 1000 }
conditions = ["amount >= 0", { expect = "user is not null", max_failing = 0.1 }]
"""


def problems(text: str, **variables: Any) -> list[Problem]:
    with pytest.raises(InvalidPipelineError) as caught:
        load(text, variables)
    assert caught.value.code == errors.ErrorCode.INVALID_INPUT
    return caught.value.problems


def only(text: str, **variables: Any) -> tuple[int, str, str]:
    found = problems(text, **variables)
    assert len(found) == 1, found
    return found[0].line, found[0].key, found[0].message


def changed(old: str, new: str) -> str:
    assert GOOD.count(old) == 1, old
    return GOOD.replace(old, new)


def line(text: str, part: str) -> int:
    return text[: text.index(part)].count("\n") + 1


class TestGood:
    def test_everything_is_there(self) -> None:
        pipeline = load(GOOD)
        assert pipeline.name == "shop"
        assert pipeline.definition.sources["orders"].files == ["/data/raw/orders/*.parquet"]
        assert pipeline.definition.sources["users"].version == 3
        target = pipeline.definition.targets["orders"]
        assert (target.from_, target.mode, target.vectors) == ("named", "merge", {"embedding": 8})
        assert [one.spec().type for one in target.indices] == ["BTREE", "IVF_PQ"]
        assert target.expectations.unique == [["id"]]
        assert [one.max_failing for one in target.expectations.conditions] == [0.0, 0.1]

    def test_the_plan_is_in_order(self) -> None:
        nodes = load(GOOD).plan()
        assert [(node.kind, node.name, node.inputs) for node in nodes] == [
            ("source", "orders", ()),
            ("source", "users", ()),
            ("step", "clean", ("orders",)),
            ("step", "named", ("clean", "users")),
            ("target", "orders", ("named",)),
        ]
        assert nodes[1].does == "read table prod.users at version 3"
        assert "merge prod.orders by id" in nodes[-1].does and "IVF_PQ" in nodes[-1].does

    def test_a_step_may_stand_before_what_it_needs(self) -> None:
        text = changed("[steps.clean]", "[steps.last]\nsql = 'select * from clean'\n[steps.clean]")
        nodes = load(text).plan()
        names = [node.name for node in nodes if node.kind == "step"]
        assert names.index("clean") < names.index("last")
        assert [node.name for node in nodes if not node.needed] == ["last"]

    def test_from_a_file(self, tmp_path: Path) -> None:
        file = tmp_path / "nightly.toml"
        file.write_text(changed('name = "shop"', ""))
        assert load(file).name == "nightly"
        assert load(str(file)).folder == tmp_path.resolve()
        with pytest.raises(errors.InvalidInputError, match="cannot be read: No such file"):
            load(tmp_path / "absent.toml")

    def test_the_digest_tells_what_would_run(self) -> None:
        assert load(GOOD).digest == load(GOOD + "\n# a comment\n").digest
        assert load(GOOD).digest != load(GOOD, {"version": 4}).digest
        assert load(GOOD).digest != load(changed("max = 1000", "max = 1001")).digest

    def test_loading_and_planning_need_no_spark(self) -> None:
        code = (
            "import sys; from lance_catalog.spark.pipeline import load;"
            f"load({GOOD!r}).plan(); sys.exit('pyspark' in sys.modules)"
        )
        assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0


EXAMPLES = Path(__file__).parents[2] / "examples" / "pipeline"


@pytest.mark.parametrize("name", [file.name for file in EXAMPLES.glob("*.toml")])
def test_the_examples_are_valid(name: str) -> None:
    pipeline = load(EXAMPLES / name, {"raw": "/raw"} | ({"day": "d"} if "ev" in name else {}))
    assert all(node.needed for node in pipeline.plan())


def test_the_page_shows_a_valid_file() -> None:
    page = (Path(__file__).parents[2] / "docs" / "spark" / "pipelines.md").read_text()
    (text,) = re.findall(r"```toml\n(.*?)```", page, flags=re.DOTALL)
    assert [node.name for node in load(text).plan()] == [
        "events",
        "users",
        "clean",
        "named",
        "events",
    ]


class TestVariables:
    def test_given_values_win_and_take_the_type_of_the_default(self) -> None:
        pipeline = load(GOOD, {"raw": "s3://b", "version": "7"})
        assert pipeline.definition.sources["orders"].files == ["s3://b/orders/*.parquet"]
        assert pipeline.definition.sources["users"].version == 7

    def test_one_without_a_default_has_to_be_given(self) -> None:
        text = changed('raw = "/data/raw"', "")
        at, key, message = only(text)
        assert (at, key) == (line(text, "files ="), "sources.orders.files")
        assert "variable 'raw' has no value" in message and "--set raw=" in message
        assert load(text, {"raw": "/x"}).definition.sources["orders"].files == [
            "/x/orders/*.parquet"
        ]

    def test_one_that_nobody_uses(self) -> None:
        assert "did you mean 'version'" in only(GOOD, versoin="3")[2]

    def test_one_of_another_type(self) -> None:
        at, key, message = only(GOOD, version="three")
        assert (at, key) == (6, "variables.version") and "no int" in message

    def test_a_dollar_can_be_written(self) -> None:
        text = changed('amount >= 0"\n\n', "note <> '$${x}'\"\n\n")
        assert "'${x}'" in str(load(text).definition.steps["clean"].sql)


MISTAKES = [
    ('mode = "merge"', 'mode = "merg"', "targets.orders.mode", "expected 'create', 'append'"),
    ('keys = ["id"]', 'kyes = ["id"]', "targets.orders.kyes", "did you mean 'keys'"),
    ('keys = ["id"]', "keys = 'id'", "targets.orders.keys", "expected a list, not text"),
    ('keys = ["id"]', "", "targets.orders", "mode merge needs keys"),
    ('from = "named"', "", "targets.orders.from", "is missing"),
    ('from = "named"', 'from = "nmaed"', "targets.orders.from", "did you mean 'named'"),
    ("max = 1000", 'max = "many"', "targets.orders.expectations.rows.max", "a whole number"),
    ("min = 1", "min = 2000", "targets.orders.expectations.rows", "more than max"),
    ("max_failing = 0.1", "max_failing = 2", "targets.orders.expectations.conditions[1]", "less"),
    ('expect = "user', 'expct = "user', "targets.orders.expectations.conditions[1]", "expect"),
    ('"ivf_pq"', '"ivfpq"', "targets.orders.indices[1]", "did you mean IVF_PQ"),
    ("num_partitions", "num_partition", "targets.orders.indices[1]", "no option of an index"),
    ("embedding = 8", "embedding = 0", "targets.orders.vectors.embedding", "how long"),
    ("from orders where", "from order_s where", "steps.clean.sql", "did you mean 'orders'"),
    ("from orders where", "from named where", "steps.clean", "clean <- named <- clean"),
    ("[steps.clean]", "[steps.'cle an']", "steps.cle an", "letters, digits and underscores"),
    ("[steps.named]", "[steps.Clean]", "steps.Clean", "taken by steps"),
    ('sql = "select c', 'inputs = ["clen"]\nsql = "select c', "steps.named.inputs[0]", "'clean'"),
    ('sql = "select c', 'function = "f"\n#', "steps.named.function", "module:function"),
    ('sql = "select c', 'function = "m:f"\nsql = "select c', "steps.named", "one of them"),
    ('version = "${v', "tag = 'x'\nversion = \"${v", "sources.users.tag", "one of version, tag"),
    ('columns = ["id"', 'files = "x"\ncolumns = ["id"', "sources.users.files", "not both"),
    ('files = "${raw}', "filter = 'a'\nfiles = \"${raw}", "sources.orders.filter", "with table"),
    ('table = "prod.orders"', 'table = ""', "targets.orders.table", ""),
    ('name = "shop"', "nmae = 1", "pipeline.nmae", "did you mean 'name'"),
    ("[sources.users]", "[source.users]", "source", "did you mean 'sources'"),
]


class TestMistakes:
    @pytest.mark.parametrize(("old", "new", "key", "words"), MISTAKES)
    def test_the_line_and_the_key_are_told(self, old: str, new: str, key: str, words: str) -> None:
        text = changed(old, new)
        found = [one for one in problems(text) if one.key.startswith(key)]
        assert found, problems(text)
        assert any(words in one.message for one in found), found
        last = re.findall(r"\w+", key)[-1]
        near = text.splitlines()[found[0].line - 1]
        place = line(text, new) if new else found[0].line
        assert last in near or abs(found[0].line - place) <= 3, (found[0], near)

    def test_syntax(self) -> None:
        text = changed('mode = "merge"', "mode = merge")
        at, key, message = only(text)
        assert (at, key) == (line(text, "mode = merge"), "") and "not valid TOML" in message
        assert problems("[pipeline]\nname = '''open")[0].line == 2

    def test_all_of_them_at_once(self) -> None:
        text = GOOD.replace('"merge"', '"merg"').replace("min = 1", "mim = 1")
        found = problems(text)
        assert [one.key for one in found] == [
            "targets.orders.mode",
            "targets.orders.expectations.rows.mim",
        ]
        with pytest.raises(InvalidPipelineError, match=r"line 25, targets.orders.mode: is 'merg'"):
            load(text)

    def test_nothing_to_publish(self) -> None:
        assert "needs a target" in only("[pipeline]\nname = 'x'\n")[2]

    def test_two_targets_of_one_table(self) -> None:
        text = GOOD + '\n[targets.again]\ntable = "prod.orders"\nfrom = "clean"\n'
        at, key, message = only(text)
        assert (at, key) == (line(text, "[targets.again]") + 1, "targets.again.table")
        assert "target 'orders' too" in message

    def test_what_the_catalog_lacks(self, tmp_path: Path) -> None:
        import lance
        import pyarrow as pa

        catalog = connect(str(tmp_path / "catalog"))
        pipeline = load(GOOD)
        assert {(one.line, one.key) for one in pipeline.problems(catalog)} == {
            (line(GOOD, 'table = "prod.users"'), "sources.users.table"),
            (line(GOOD, 'table = "prod.orders"'), "targets.orders.table"),
        }
        catalog.create_namespace({"id": ["prod"]})
        data = pa.table({"id": [1], "name": ["a"]})
        for number in range(2):
            lance.write_dataset(
                data,
                namespace_client=catalog,
                table_id=["prod", "users"],
                mode="append" if number else "create",
            )
        (found,) = pipeline.problems(catalog)
        assert found.key == "sources.users.version" and "no version 3" in found.message
        assert load(GOOD, {"version": 2}).problems(catalog) == []
        catalog.drop_table({"id": ["prod", "users"]})
        (found,) = pipeline.problems(catalog)
        assert "was dropped" in found.message and "trash undrop prod.users" in found.message
        create = load(changed('mode = "merge"\nkeys = ["id"]', ""), {"version": 2})
        lance.write_dataset(data, namespace_client=catalog, table_id=["prod", "orders"])
        assert any("exists already" in one.message for one in create.problems(catalog))


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("select * from a", ["a"]),
        ("select * from a, b x, c as y where d > 1", ["a", "b", "c"]),
        ("select * from a left join b on a.i = b.i cross join `c`", ["a", "b", "c"]),
        ("with x as (select 1 from a), y (n) as (select n from x) select * from y", ["a"]),
        ("select extract(day from ts), trim(both ' ' from b) from a", ["a"]),
        ("select * from a where x is distinct from b", ["a"]),
        ("select * from (select * from a) t where i in (select i from b)", ["a", "b"]),
        ("select 'from b', \"from c\" -- from d\n/* from e */ from a", ["a"]),
        ("select * from db.t join range(3) join a", ["a"]),
        ("select * from A union all select * from a", ["A"]),
        ("select * from a lateral view explode(b) as c", ["a"]),
        ("from a select *", ["a"]),
        ("select sum(x) over (partition by y order by z), w from a group by y, w", ["a"]),
        ("values (1), (2)", []),
        ("", []),
    ],
)
def test_tables_of_a_query(sql: str, expected: list[str]) -> None:
    assert tables_of(sql) == expected


def test_parameters_of_a_query() -> None:
    sql = "select ':no', a::int, x[1:2] from t where d = :day and e = :end -- :not"
    assert parameters(sql) >= {"day", "end"}
    assert not parameters(sql) & {"no", "not", "int"}


_KEYS = st.text("ab_-", min_size=1, max_size=4) | st.text(min_size=1, max_size=4)
_VALUES = st.recursive(
    st.integers() | st.booleans() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=8,
)


def _quoted(text: str) -> str:
    escaped = "".join(f"\\U{ord(c):08x}" if c in '"\\' or not c.isprintable() else c for c in text)
    return f'"{escaped}"'


def _written(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_quoted(k)} = {_written(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[\n" + ",\n".join(_written(v) for v in value) + "\n]"
    if isinstance(value, str):
        return _quoted(value)
    return str(value).lower()


@given(st.lists(st.tuples(_KEYS.filter(lambda k: "\\" not in k), _VALUES), max_size=4))
def test_lines_of_any_file(pairs: list[tuple[str, Any]]) -> None:
    """Each top key is found on the line it was written to, whatever its value holds."""
    text, expected = "# first\n", {}
    for number, (_, value) in enumerate(pairs):
        expected[f"key{number}"] = text.count("\n") + 1
        text += f"key{number} = {_written(value)} # a comment [with] = signs\n"
    assert set(tomllib.loads(text)) == set(expected)
    found = locate(text)
    assert {key: found[(key,)] for key in expected} == expected


def test_lines_of_tables_and_elements() -> None:
    text = '[a]\nb.c = 1\n[[a.d]]\nx = """\n[no]\n"""\n[[a.d]]\nx = [\n 1,\n {y = 2}]\n[a.d.e]\nz=1'
    found = locate(text)
    assert found[("a", "b", "c")] == 2
    assert [found[("a", "d", n)] for n in (0, 1)] == [3, 7]
    assert found[("a", "d", 1, "x", 1, "y")] == 10
    assert found[("a", "d", 1, "e", "z")] == 12
    assert ("no",) not in found
    assert line_of(found, ("a", "d", 1, "x", 7)) == 8
    assert line_of(found, ("nothing",)) == 1


class TestSecrets:
    TEXT = """\
[variables]
db_password = "from-the-file"
user = "reader"
[sources.orders]
format = "jdbc"
options = { url = "jdbc:x://h/d?user=u&password=in-the-address", password = "${db_password}" }
[sources.files]
files = "https://me:in-the-path@host/${key}/a.parquet"
[steps.joined]
sql = "select *, '${db_password}' as p, '${user}' as u from orders join files using (id)"
[steps.called]
function = "m:f"
inputs = ["joined"]
params = { api_key = "a-parameter", minutes = 30 }
[targets.t]
table = "db.t"
from = "called"
"""
    HIDDEN = ("from-the-file", "in-the-address", "in-the-path", "a-parameter", "by-hand")

    def load(self, **more: Any) -> Any:
        return load(self.TEXT, {"key": "k", **more})

    def test_none_is_shown(self) -> None:
        for more in ({}, {"db_password": "by-hand"}):
            pipeline = self.load(**more)
            shown = repr(pipeline.plan()) + repr(pipeline) + repr(pipeline.scrub)
            shown += str(pipeline.problem(("steps",), " ".join(self.HIDDEN[:4])))
            shown += pipeline.scrub.text(more.get("db_password", ""))
            assert not any(secret in shown for secret in self.HIDDEN), shown
            # What is no secret stays.
            assert "'reader' as u" in shown and "host/k/a.parquet" in shown
            assert pipeline.definition.sources["orders"].options["password"]

    def test_a_new_password_makes_no_other_pipeline(self) -> None:
        assert self.load().digest == self.load(db_password="by-hand").digest
        assert self.load().digest != self.load(user="writer").digest

    def test_mistakes_do_not_repeat_it(self) -> None:
        text = self.TEXT.replace('from = "called"', 'from = "called"\nmode = "${db_password}"')
        with pytest.raises(InvalidPipelineError) as caught:
            load(text, {"key": "k", "db_password": "by-hand"})
        assert "by-hand" not in str(caught.value)
        assert "targets.t.mode: is '********'" in str(caught.value)


class TestBadInput:
    """Each mistake that the issue names, at its line and key."""

    @pytest.mark.parametrize(
        ("old", "new", "at", "key", "words"),
        [
            (
                "not_null = [",
                "not_nul = [",
                "not_nul",
                "targets.orders.expectations.not_nul",
                "ull",
            ),
            ("[steps.clean]", "[steps.clean]\nsqll = 1", "sqll", "steps.clean.sqll", "an 'sql'?"),
            ('table = "prod.users"', "table = 3", "table = 3", "sources.users.table", "not 3"),
            ('table = "prod.users"', "", "[sources.users]", "sources.users", "say what to read"),
            ('from = "named"', "from = 1", "from = 1", "targets.orders.from", "expected text"),
            ('table = "prod.orders"', "", "[targets.orders]", "targets.orders.table", "is missing"),
            ('files = "${raw}', 'files = "${rwa}', "files =", "sources.orders.files", "no value"),
        ],
    )
    def test_its_line(self, old: str, new: str, at: str, key: str, words: str) -> None:
        text = changed(old, new)
        (found,) = [one for one in problems(text) if one.key == key]
        assert words in found.message
        assert found.line == line(text, at)

    def test_a_value_of_a_variable_that_is_none(self) -> None:
        found = problems(GOOD, wrong="x")
        assert (found[0].line, found[0].key) == (0, "")
        assert "no variable 'wrong'" in found[0].message
