"""The data and index operations of the interface, and the codes they refuse with (I22, I26, I27).

``namespace`` is any implementation of the interface that also has ``make_table(id, table)``.
"""

from __future__ import annotations

import inspect
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import lance
import lance_namespace
import pyarrow as pa
import pytest
from lance_namespace import (
    CreateTableIndexRequest,
    DescribeTableRequest,
    LanceNamespace,
)

from lance_catalog import DirectoryNamespace
from lance_catalog.directory.operations.access import classify
from lance_catalog.directory.operations.arrow import (
    json_schema,
    parse_type,
    stream_reader,
)
from lance_catalog.directory.operations.paging import page
from lance_catalog.errors import LanceNamespaceError
from tests.behaviour.folder_access import FolderAccess

ROWS = 300
T = ["t"]
NO_VECTOR: dict[str, Any] = {}


def sample(start: int = 0, count: int = ROWS) -> pa.Table:
    """Rows whose vectors lie on a line, so that the nearest ones are known."""
    numbers = range(start, start + count)
    values = [float(n + axis) for n in numbers for axis in range(8)]
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "name": [f"doc {n} alpha" if n % 2 else f"note {n} beta" for n in numbers],
            "tags": [["a", "b"] if n % 3 else ["c"] for n in numbers],
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(values, pa.float32()), 8),
            "s": [{"x": n, "y": str(n)} for n in numbers],
        }
    )


def ipc(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def vector(n: int) -> dict[str, Any]:
    return {"single_vector": [float(n + axis) for axis in range(8)]}


class RealNamespace(DirectoryNamespace):
    """The namespace itself, in one of its modes."""

    def make_table(self, table_id: list[str], table: pa.Table) -> None:
        self.create_table({"id": table_id}, ipc(table))


@pytest.fixture(params=["v1", "v2", "compat"])
def namespace(request: pytest.FixtureRequest, tmp_path: Path) -> RealNamespace:
    switches = {
        "v1": {"manifest_enabled": "false"},
        "v2": {"dir_listing_enabled": "false"},
        "compat": {},
    }
    return RealNamespace(root=str(tmp_path / "root"), **switches[request.param])


@pytest.fixture
def table(namespace: Any) -> Any:
    """The namespace, with the sample rows as table ``t``."""
    namespace.make_table(T, sample())
    return namespace


def call(namespace: Any, method: str, data: bytes | None = None, **fields: Any) -> Any:
    request = {"id": T, **fields}
    arguments = [request] if data is None else [request, data]
    return getattr(namespace, method)(*arguments)


def code(namespace: Any, method: str, data: bytes | None = None, **fields: Any) -> int:
    with pytest.raises(LanceNamespaceError) as caught:
        call(namespace, method, data, **fields)
    assert "/home/runner" not in str(caught.value)
    return int(caught.value.code)


def query(namespace: Any, **fields: Any) -> pa.Table:
    answer = call(namespace, "query_table", **{"k": 3, "vector": NO_VECTOR, **fields})
    return pa.ipc.open_file(answer.data).read_all()


def query_code(namespace: Any, **fields: Any) -> int:
    return code(namespace, "query_table", **{"k": 3, "vector": NO_VECTOR, **fields})


def ids(answer: pa.Table) -> list[int]:
    return list(answer["id"].to_pylist())


def count(namespace: Any, **fields: Any) -> int:
    return int(call(namespace, "count_table_rows", **fields).count)


def index_names(namespace: Any, **fields: Any) -> list[str]:
    return [one.index_name for one in call(namespace, "list_table_indices", **fields).indexes]


EVERY_METHOD: list[tuple[str, dict[str, Any], bool]] = [
    ("insert_into_table", {}, True),
    ("merge_insert_into_table", {"on": ["id"], "when_matched_update_all": True}, True),
    ("update_table", {"updates": [["id", "id"]]}, False),
    ("delete_from_table", {"predicate": "true"}, False),
    ("count_table_rows", {}, False),
    ("query_table", {"k": 1, "vector": {}}, False),
    ("explain_table_query_plan", {"query": {"k": 1, "vector": {}}}, False),
    ("analyze_table_query_plan", {"k": 1, "vector": {}}, False),
    ("create_table_index", {"column": "id", "index_type": "BTREE"}, False),
    ("create_table_scalar_index", {"column": "id", "index_type": "BTREE"}, False),
    ("list_table_indices", {}, False),
    ("describe_table_index_stats", {"index_name": "i"}, False),
    ("drop_table_index", {"index_name": "i"}, False),
    ("alter_table_add_columns", {"new_columns": [{"name": "n", "expression": "1"}]}, False),
    ("alter_table_alter_columns", {"alterations": [{"path": "id", "rename": "n"}]}, False),
    ("alter_table_drop_columns", {"columns": ["id"]}, False),
    ("update_table_schema_metadata", {"metadata": {"a": "b"}}, False),
    ("update_field_metadata", {"updates": [{"path": "id", "metadata": {"a": "b"}}]}, False),
    ("list_table_tags", {}, False),
    ("get_table_tag_version", {"tag": "a"}, False),
    ("create_table_tag", {"tag": "a", "version": 1}, False),
    ("update_table_tag", {"tag": "a", "version": 1}, False),
    ("delete_table_tag", {"tag": "a"}, False),
    ("list_table_branches", {}, False),
    ("create_table_branch", {"name": "b"}, False),
    ("delete_table_branch", {"name": "b"}, False),
    ("get_table_stats", {}, False),
    ("restore_table", {"version": 1}, False),
]


class TestEveryMethod:
    @pytest.mark.parametrize(
        ("method", "fields", "words"),
        [
            ("count_table_rows", {"version": 99}, "the latest is 1, and list_table_versions shows"),
            ("describe_table", {"tag": "no"}, "list_table_tags shows"),
            ("get_table_tag_version", {"tag": "no"}, "list_table_tags shows"),
            ("delete_table_tag", {"tag": "no"}, "list_table_tags shows"),
            ("describe_table", {"branch": "no"}, "list_table_branches shows"),
            ("describe_table_index_stats", {"index_name": "no"}, "list_table_indices shows"),
            ("drop_table_index", {"index_name": "no"}, "list_table_indices shows"),
        ],
    )
    def test_what_is_missing_says_where_to_look(
        self, table: Any, method: str, fields: dict[str, Any], words: str
    ) -> None:
        """I22, I27: the latest version, and the call that lists what there is."""
        with pytest.raises(LanceNamespaceError) as caught:
            call(table, method, **fields)
        assert words in str(caught.value)

    def test_missing_table_is_4(self, namespace: Any) -> None:
        for method, fields, takes_data in EVERY_METHOD:
            data = ipc(sample(0, 1)) if takes_data else None
            assert code(namespace, method, data, **{**fields, "id": ["gone"]}) == 4, method
        transaction = ["gone", "1"]
        assert code(namespace, "describe_transaction", id=transaction) == 4
        actions = [{"set_status_action": {"status": "Canceled"}}]
        assert code(namespace, "alter_transaction", id=transaction, actions=actions) == 4

    def test_missing_id_is_13(self, table: Any) -> None:
        for method, fields, takes_data in EVERY_METHOD:
            data = ipc(sample(0, 1)) if takes_data else None
            assert code(table, method, data, **{**fields, "id": None}) == 13, method
        assert code(table, "describe_transaction", id=None) == 13

    def test_what_is_no_request_is_13(self, table: Any) -> None:
        with pytest.raises(LanceNamespaceError) as caught:
            table.count_table_rows("t")
        assert caught.value.code == 13
        assert code(table, "count_table_rows", version=-1) == 13

    def test_branch_is_honoured(self, table: Any) -> None:
        call(table, "create_table_branch", name="dev")
        before = lance_state(table)
        for method, fields, takes_data in EVERY_METHOD:
            if "tag" in fields or "name" in fields or "query" in fields:
                continue
            if method in (
                "describe_table_index_stats",
                "drop_table_index",
                "list_table_tags",
                "list_table_branches",
            ):
                continue
            if method in ("alter_table_alter_columns", "alter_table_drop_columns"):
                fields = {"alterations": [{"path": "name", "rename": "n2"}], "columns": ["n2"]}
            if method == "create_table_scalar_index":
                fields = {"column": "tags", "index_type": "LABEL_LIST"}
            data = ipc(sample(0, 1)) if takes_data else None
            assert code(table, method, data, **{**fields, "branch": "nope"}) == 22, method
            call(table, method, data, **{**fields, "branch": "dev"})
        assert lance_state(table) == before
        assert count(table, branch="main") == ROWS

    def test_signatures_are_the_interface_s(self, namespace: Any) -> None:
        methods = [method for method, _, _ in EVERY_METHOD]
        for method in [*methods, "describe_transaction", "alter_transaction"]:
            ours = inspect.signature(getattr(type(namespace), method)).parameters
            theirs = inspect.signature(getattr(LanceNamespace, method)).parameters
            assert list(ours) == list(theirs), method

    def test_jobs_are_refused_with_0(self, table: Any) -> None:
        for method in (
            "alter_table_backfill_columns",
            "create_materialized_view",
            "refresh_materialized_view",
        ):
            assert code(table, method) == 0


def lance_state(namespace: Any) -> tuple[int, int, list[str], list[str]]:
    dataset = namespace.open_table(T)
    return dataset.version, dataset.count_rows(), dataset.schema.names, index_names(namespace)


class TestInsert:
    def test_append(self, table: Any) -> None:
        answer = call(table, "insert_into_table", ipc(sample(ROWS, 3)))
        assert (answer.num_inserted_rows, answer.version) == (3, 2)
        assert count(table) == ROWS + 3

    def test_overwrite_replaces_rows_and_schema(self, table: Any) -> None:
        rows = pa.table({"a": ["x"]})
        answer = call(table, "insert_into_table", ipc(rows), mode="Overwrite")
        assert (answer.num_inserted_rows, answer.version) == (1, 2)
        assert query(table).to_pylist() == [{"a": "x"}]
        assert count(table, version=1) == ROWS

    def test_some_columns_only_leaves_the_others_null(self, table: Any) -> None:
        call(table, "insert_into_table", ipc(pa.table({"id": [ROWS]})))
        assert count(table, predicate="name is null") == 1

    def test_mode_unknown_is_13(self, table: Any) -> None:
        assert code(table, "insert_into_table", ipc(sample(0, 1)), mode="upsert") == 13

    def test_garbage_is_13_and_writes_nothing(self, table: Any) -> None:
        whole = ipc(sample(0, 3))
        for data in (b"", b"garbage", whole[:200], whole[:-40], b"\xff" * 64):
            assert code(table, "insert_into_table", data) == 13
        assert lance_state(table)[0] == 1

    def test_another_schema_is_20(self, table: Any) -> None:
        for rows in (pa.table({"zz": [1]}), pa.table({"id": ["x"]})):
            assert code(table, "insert_into_table", ipc(rows)) == 20

    def test_nulls_where_none_may_be_is_20(self, namespace: Any) -> None:
        strict = pa.schema([pa.field("a", pa.int64(), nullable=False)])
        namespace.make_table(T, pa.table({"a": [1]}, schema=strict))
        rows = pa.table({"a": pa.array([None], pa.int64())})
        assert code(namespace, "insert_into_table", ipc(rows)) == 20


class TestMergeInsert:
    def merge(self, namespace: Any, rows: pa.Table, **fields: Any) -> tuple[int, int, int]:
        answer = call(namespace, "merge_insert_into_table", ipc(rows), on=["id"], **fields)
        assert answer.version == namespace.open_table(T).version
        return answer.num_updated_rows, answer.num_inserted_rows, answer.num_deleted_rows

    def test_update_and_insert(self, table: Any) -> None:
        done = self.merge(
            table,
            sample(ROWS - 2, 5),
            when_matched_update_all=True,
            when_not_matched_insert_all=True,
            timeout="30s",
            use_index=False,
        )
        assert done == (2, 3, 0)

    def test_conditions_alone_ask_for_the_action(self, table: Any) -> None:
        rows = sample(0, 10)
        assert self.merge(table, rows, when_matched_update_all_filt="target.id > 7") == (2, 0, 0)
        done = self.merge(table, rows, when_not_matched_by_source_delete_filt="id >= 290")
        assert done == (0, 0, 10)

    def test_delete_what_the_source_lacks(self, table: Any) -> None:
        assert self.merge(table, sample(0, 10), when_not_matched_by_source_delete=True)[2] == 290

    def test_refusals(self, table: Any) -> None:
        def refused(rows: bytes = ipc(sample(0, 2)), **fields: Any) -> int:
            given = {"on": ["id"], "when_matched_update_all": True, **fields}
            return code(table, "merge_insert_into_table", rows, **given)

        assert refused(on=None) == 13
        assert refused(on=["nope"]) == 12
        assert refused(on=["s.x"]) == 13
        assert refused(when_matched_update_all=None) == 13
        assert refused(timeout="soon") == 13
        assert refused(timeout="9" * 30 + "h") == 13
        assert refused(when_matched_update_all_filt="target.nope > 1") == 12
        assert refused(when_matched_update_all_filt="target. >>> 1") == 13
        assert refused(when_not_matched_by_source_delete_filt="nope > 1") == 12
        assert refused(b"garbage") == 13
        assert refused(ipc(pa.table({"id": ["x"]}))) == 20
        assert refused(ipc(pa.concat_tables([sample(0, 1), sample(0, 1)]))) == 13
        assert lance_state(table)[0] == 1


class TestUpdateDeleteCount:
    def test_update(self, table: Any) -> None:
        answer = call(table, "update_table", updates=[["name", "'x'"]], predicate="id < 3")
        assert (answer.updated_rows, answer.version) == (3, 2)
        assert count(table, predicate="name = 'x'") == 3
        assert call(table, "update_table", updates=[["name", "'y'"]]).updated_rows == ROWS

    def test_update_refusals(self, table: Any) -> None:
        def refused(updates: list[list[str]], **fields: Any) -> int:
            return code(table, "update_table", updates=updates, **fields)

        assert refused([]) == 13
        assert refused([["id", "1"], ["id", "2"]]) == 13
        assert refused([["nope", "1"]]) == 12
        assert refused([["id", "nope + 1"]]) == 12
        assert refused([["id", "id +"]]) == 13
        assert refused([["id", "'abc'"]]) == 13
        assert refused([["s.x", "1"]]) == 13
        assert refused([["id", "1"]], predicate="nope > 1") == 12
        assert refused([["id", "1"]], predicate="id = = 1") == 13
        assert refused([["id", "1"]], properties={"owner": "me"}) == 0
        assert lance_state(table)[0] == 1

    def test_delete(self, table: Any) -> None:
        assert call(table, "delete_from_table", predicate="id >= 10").version == 2
        assert count(table) == 10
        call(table, "delete_from_table", predicate="true")
        assert count(table) == 0

    def test_delete_refusals(self, table: Any) -> None:
        for predicate, expected in (("", 13), ("  ", 13), ("nope = 1", 12), ("id = = 5", 13)):
            assert code(table, "delete_from_table", predicate=predicate) == expected
        assert count(table) == ROWS

    def test_count(self, table: Any) -> None:
        call(table, "delete_from_table", predicate="id < 5")
        assert count(table) == ROWS - 5
        assert count(table, version=1) == ROWS
        assert count(table, predicate="id < 7") == 2

    def test_count_refusals(self, table: Any) -> None:
        assert code(table, "count_table_rows", predicate="nope < 5") == 12
        assert code(table, "count_table_rows", predicate="id <<< 5 and") == 13
        assert code(table, "count_table_rows", predicate="id") == 13
        assert code(table, "count_table_rows", version=9) == 11

    def test_a_filter_is_never_taken_for_a_refusal_of_the_store(self, table: Any) -> None:
        for predicate in ("id = = 403", "id = 'permission denied'", "'401' 503 ="):
            assert code(table, "count_table_rows", predicate=predicate) == 13


class TestScan:
    def test_the_answer_is_an_arrow_file(self, table: Any) -> None:
        answer = call(table, "query_table", k=2, vector=NO_VECTOR)
        assert answer.data.startswith(b"ARROW1")

    def test_k_offset_and_filter(self, table: Any) -> None:
        assert ids(query(table)) == [0, 1, 2]
        assert ids(query(table, filter="id > 10", offset=2)) == [13, 14, 15]
        assert query(table, k=0).num_rows == ROWS
        assert query(table, offset=10_000).num_rows == 0

    def test_columns(self, table: Any) -> None:
        def names(**columns: Any) -> list[str]:
            return list(query(table, columns=columns).column_names)

        assert names(column_names=["s.x", "id"]) == ["s.x", "id"]
        assert names(column_names=[]) == ["id", "name", "tags", "vector", "s"]
        assert names(column_aliases={"a": "id", "b": "s.x"}) == ["a", "b"]
        both = query(table, columns={"column_names": ["id"], "column_aliases": {"b": "s.x + 1"}})
        assert both.to_pylist()[1] == {"id": 1, "b": 2}

    def test_odd_names(self, namespace: Any) -> None:
        namespace.make_table(T, pa.table({"Übung 1": [1], "select": [2]}))
        columns = {"column_names": ["Übung 1", "select"], "column_aliases": {"x": "`Übung 1`"}}
        assert query(namespace, columns=columns).to_pylist() == [
            {"Übung 1": 1, "select": 2, "x": 1}
        ]

    def test_row_id(self, table: Any) -> None:
        assert query(table, with_row_id=True)["_rowid"].to_pylist() == [0, 1, 2]

    def test_version(self, table: Any) -> None:
        call(table, "delete_from_table", predicate="id < 5")
        assert ids(query(table)) == [5, 6, 7]
        assert ids(query(table, version=1)) == [0, 1, 2]

    def test_tuning_without_a_vector_is_harmless(self, table: Any) -> None:
        assert ids(query(table, bypass_vector_index=True, nprobes=20, fast_search=True)) == [
            0,
            1,
            2,
        ]

    def test_refusals(self, table: Any) -> None:
        assert query_code(table, filter="nope > 1") == 12
        assert query_code(table, filter="id >>> ") == 13
        assert query_code(table, version=9) == 11
        for field in ("k", "offset", "version"):
            assert query_code(table, **{field: 2**70}) == 13
        assert query_code(table, columns={"column_names": ["nope"]}) == 12
        assert query_code(table, columns={"column_names": ["id", "id"]}) == 13
        assert query_code(table, columns={"column_aliases": {"a": "nope"}}) == 12
        assert query_code(table, columns={"column_aliases": {"a": "id +"}}) == 13
        for field, value in (
            ("vector_column", "vector"),
            ("distance_type", "l2"),
            ("lower_bound", 0.0),
            ("upper_bound", 1.0),
        ):
            assert query_code(table, **{field: value}) == 13


class TestVectorSearch:
    def test_nearest(self, table: Any) -> None:
        answer = query(table, vector=vector(100))
        assert ids(answer)[0] == 100
        assert answer.column_names[-1] == "_distance"
        assert answer["_distance"].to_pylist() == [0.0, 8.0, 8.0]

    def test_k_rows_after_the_offset(self, table: Any) -> None:
        assert sorted(ids(query(table, vector=vector(0), offset=2))) == [2, 3, 4]

    def test_k_0_is_ten(self, table: Any) -> None:
        assert query(table, vector=vector(0), k=0).num_rows == 10

    def test_columns_and_row_id(self, table: Any) -> None:
        answer = query(table, vector=vector(7), columns={"column_names": ["id"]}, with_row_id=True)
        assert answer.column_names == ["id", "_distance", "_rowid"]

    def test_filter_before_and_after(self, table: Any) -> None:
        assert query(table, vector=vector(0), filter="id > 1").num_rows == 1
        assert ids(query(table, vector=vector(0), filter="id > 1", prefilter=True)) == [2, 3, 4]

    def test_bounds(self, table: Any) -> None:
        answer = query(table, vector=vector(0), lower_bound=8.0, upper_bound=72.0, k=9)
        assert ids(answer) == [1, 2]

    def test_metric_and_column(self, table: Any) -> None:
        answer = query(table, vector=vector(100), distance_type="cosine", vector_column="vector")
        assert answer["_distance"].to_pylist()[0] == pytest.approx(0, abs=1e-5)

    def test_several_vectors_answer_each(self, table: Any) -> None:
        several = {"multi_vector": [vector(5)["single_vector"], vector(9)["single_vector"]]}
        answer = query(table, vector=several, k=1)
        assert answer.select(["query_index", "id"]).to_pylist() == [
            {"query_index": 0, "id": 5},
            {"query_index": 1, "id": 9},
        ]

    def test_the_only_vector_column_is_the_default(self, namespace: Any) -> None:
        namespace.make_table(T, sample().rename_columns(["id", "name", "tags", "emb", "s"]))
        assert ids(query(namespace, vector=vector(3), k=1)) == [3]

    def test_with_an_index(self, table: Any) -> None:
        call(
            table,
            "create_table_index",
            column="vector",
            index_type="IVF_FLAT",
            num_partitions=2,
        )
        for options in (
            {"nprobes": 2},
            {"minimum_nprobes": 1, "maximum_nprobes": 2},
            {"refine_factor": 2, "fast_search": True},
            {"bypass_vector_index": True},
            {"ef": 10},
        ):
            assert ids(query(table, vector=vector(50), k=1, **options)) == [50]
        plan = call(table, "explain_table_query_plan", query={"k": 1, "vector": vector(1)})
        assert "ANN" in plan
        plan = call(
            table,
            "explain_table_query_plan",
            query={"k": 1, "vector": vector(1), "bypass_vector_index": True},
        )
        assert "ANN" not in plan

    def test_refusals(self, table: Any) -> None:
        short = {"single_vector": [1.0, 2.0]}
        one = vector(1)["single_vector"]
        assert query_code(table, vector=short) == 13
        assert query_code(table, vector={"multi_vector": [one, [1.0]]}) == 13
        assert query_code(table, vector={"multi_vector": [one, []]}) == 13
        assert query_code(table, vector={"single_vector": one, "multi_vector": [one]}) == 13
        assert query_code(table, vector={"multi_vector": [one]}, offset=1) == 13
        assert query_code(table, vector=vector(1), vector_column="nope") == 12
        assert query_code(table, vector=vector(1), vector_column="id") == 13
        assert query_code(table, vector=vector(1), distance_type="bogus") == 13
        assert query_code(table, vector=vector(1), minimum_nprobes=3, maximum_nprobes=2) == 13
        both = {"bypass_vector_index": True, "fast_search": True}
        assert query_code(table, vector=vector(1), **both) == 13
        text = {"string_query": {"query": "alpha"}}
        assert query_code(table, vector=vector(1), full_text_query=text) == 13

    def test_two_vector_columns_need_a_name(self, namespace: Any) -> None:
        rows = sample(0, 5).rename_columns(["id", "name", "tags", "u", "s"])
        namespace.make_table(T, rows.append_column("v", rows["u"]))
        assert query_code(namespace, vector=vector(1)) == 13


class TestFullTextSearch:
    @pytest.fixture
    def table(self, namespace: Any) -> Any:
        """Two text columns, the first with positions."""
        rows = sample().append_column("other", pa.array(["alpha"] + ["omega"] * (ROWS - 1)))
        namespace.make_table(T, rows)
        call(
            namespace,
            "create_table_scalar_index",
            column="name",
            index_type="FTS",
            with_position=True,
        )
        return namespace

    def text(self, namespace: Any, structured: dict[str, Any], **fields: Any) -> pa.Table:
        given = {"structured_query": {"query": structured}}
        return query(namespace, full_text_query=given, **fields)

    def test_string(self, table: Any) -> None:
        for given in ({"query": "alpha"}, {"query": "alpha", "columns": ["name"]}):
            answer = query(table, full_text_query={"string_query": given}, k=0)
            assert answer.num_rows == ROWS // 2
            assert answer.column_names[-1] == "_score"

    def test_filter_k_and_columns(self, table: Any) -> None:
        answer = query(
            table,
            full_text_query={"string_query": {"query": "alpha"}},
            filter="id > 200",
            prefilter=True,
            columns={"column_names": ["id"]},
            k=4,
        )
        assert answer.column_names == ["id", "_score"]
        assert answer.num_rows == 4
        assert min(ids(answer)) > 200

    def test_structured(self, table: Any) -> None:
        match = {"match": {"terms": "alpha 11", "column": "name", "operator": "And"}}
        assert ids(self.text(table, match)) == [11]
        fuzzy = {"match": {"terms": "alpah", "fuzziness": 2, "boost": 2.0, "prefix_length": 2}}
        assert self.text(table, fuzzy).num_rows == 3
        assert ids(self.text(table, {"phrase": {"terms": "doc 11"}})) == [11]
        boost = {
            "boost": {
                "positive": {"match": {"terms": "11 12"}},
                "negative": {"match": {"terms": "alpha"}},
            }
        }
        assert ids(self.text(table, boost)) == [12, 11]
        boolean = {
            "boolean": {
                "must": [{"match": {"terms": "11 12"}}],
                "must_not": [{"match": {"terms": "alpha"}}],
                "should": [{"match": {"terms": "beta"}}],
            }
        }
        assert ids(self.text(table, boolean)) == [12]

    def test_no_column_means_all_indexed_ones(self, table: Any) -> None:
        call(table, "create_table_scalar_index", column="other", index_type="INVERTED")
        assert self.text(table, {"match": {"terms": "alpha"}}, k=0).num_rows == ROWS // 2 + 1
        several = {
            "multi_match": {
                "match_queries": [
                    {"terms": "omega", "column": "name"},
                    {"terms": "omega", "column": "other", "boost": 2.0},
                ]
            }
        }
        assert self.text(table, several, k=0).num_rows == ROWS - 1

    def test_refusals(self, table: Any) -> None:
        def refused(**given: Any) -> int:
            return query_code(table, full_text_query=given)

        def structured(query: dict[str, Any]) -> int:
            return refused(structured_query={"query": query})

        assert refused(string_query={"query": "a", "columns": ["nope"]}) == 12
        assert refused(string_query={"query": "a", "columns": ["id"]}) == 13
        assert structured({}) == 13
        match = {"terms": "a", "column": "name"}
        assert structured({"match": match, "phrase": match}) == 13
        assert structured({"match": {**match, "operator": "xor"}}) == 13
        two = [match, {"terms": "b", "column": "name"}]
        assert structured({"multi_match": {"match_queries": two}}) == 0
        string = {"query": "a"}
        assert refused(string_query=string, structured_query={"query": {"match": match}}) == 13

    def test_without_an_index_is_13(self, namespace: Any) -> None:
        namespace.make_table(T, sample(0, 5))
        given = {"string_query": {"query": "alpha"}}
        assert query_code(namespace, full_text_query=given) == 13
        phrase = {"structured_query": {"query": {"phrase": {"terms": "a"}}}}
        assert query_code(namespace, full_text_query=phrase) == 13

    def test_phrase_without_positions_is_13(self, table: Any) -> None:
        call(table, "create_table_scalar_index", column="other", index_type="FTS")
        given = {"structured_query": {"query": {"phrase": {"terms": "a b", "column": "other"}}}}
        assert query_code(table, full_text_query=given) == 13


class TestPlans:
    def test_explain(self, table: Any) -> None:
        plan = call(
            table, "explain_table_query_plan", query={"k": 3, "vector": {}, "filter": "id < 9"}
        )
        assert "LanceRead" in plan and "id < Int64(9)" in plan

    def test_either_place_may_name_the_table(self, table: Any) -> None:
        inner = {"k": 1, "vector": {}, "id": T}
        assert call(table, "explain_table_query_plan", id=None, query=inner, verbose=True)
        other = {**inner, "id": ["other"]}
        assert code(table, "explain_table_query_plan", query=other) == 13

    def test_analyze(self, table: Any) -> None:
        assert "output_rows=3" in call(table, "analyze_table_query_plan", k=3, vector=vector(1))

    def test_refusals(self, table: Any) -> None:
        bad: dict[str, Any] = {"k": 1, "vector": {}, "filter": "nope > 1"}
        assert code(table, "explain_table_query_plan", query=bad) == 12
        assert code(table, "analyze_table_query_plan", **bad) == 12
        old: dict[str, Any] = {"k": 1, "vector": {}, "version": 9}
        assert code(table, "explain_table_query_plan", query=old) == 11
        plain = {"k": 1, "vector": {}}
        assert code(table, "explain_table_query_plan", query=plain, branch="nope") == 22
        assert code(table, "explain_table_query_plan", query={**plain, "branch": "nope"}) == 22
        assert code(table, "analyze_table_query_plan", **old) == 11


class TestIndices:
    SCALAR = (
        ("id", "BTREE", "BTree"),
        ("name", "bitmap", "Bitmap"),
        ("tags", "LABEL_LIST", "LabelList"),
        ("name", "NGRAM", "NGram"),
        ("id", "ZONEMAP", "ZoneMap"),
        ("id", "BLOOMFILTER", "BloomFilter"),
        ("name", "FTS", "Inverted"),
        ("name", "INVERTED", "Inverted"),
        ("s.x", "BTREE", "BTree"),
    )

    def test_scalar_types(self, table: Any) -> None:
        for number, (column, given, expected) in enumerate(self.SCALAR):
            answer = call(
                table,
                "create_table_scalar_index",
                column=column,
                index_type=given,
                name=f"i{number}",
            )
            assert answer.transaction_id
            stats = call(table, "describe_table_index_stats", index_name=f"i{number}")
            assert (stats.index_type, stats.num_indexed_rows) == (expected, ROWS)
        listed = call(table, "list_table_indices").indexes
        assert [one.columns for one in listed] == [[column] for column, _, _ in self.SCALAR]

    def test_vector_types(self, table: Any) -> None:
        for kind, options, expected in (
            ("IVF_FLAT", {"distance_type": "cosine", "sample_rate": 16, "max_iterations": 3}, {}),
            ("IVF_PQ", {"num_sub_vectors": 2, "num_bits": 4}, {"num_bits": 4}),
            ("IVF_SQ", {"num_bits": 8}, {"type": "sq"}),
            ("IVF_RQ", {"num_bits": 1}, {"num_bits": 1}),
            ("IVF_HNSW_FLAT", {"m": 10, "ef_construction": 50}, {"max_connections": 10}),
            ("IVF_HNSW_SQ", {"m": 12}, {"max_connections": 12}),
            ("IVF_HNSW_PQ", {"ef_construction": 60}, {"construction_ef": 60}),
        ):
            call(
                table,
                "create_table_index",
                column="vector",
                index_type=kind,
                name=kind,
                num_partitions=1,
                **options,
            )
            listed = call(table, "list_table_indices").indexes
            [one] = [index for index in listed if index.index_name == kind]
            assert one.index_type == kind
            details = json.loads(one.index_details)
            found = {**details.get("hnsw", {}), **details.get("compression", {})}
            assert expected.items() <= found.items()
        stats = call(table, "describe_table_index_stats", index_name="IVF_FLAT")
        assert stats.distance_type == "cosine"

    def test_defaults(self, table: Any) -> None:
        call(table, "create_table_index", column="vector", index_type="VECTOR")
        call(table, "create_table_index", column="id", index_type="BTREE")
        assert index_names(table) == ["id_idx", "vector_idx"]

    def test_text_options(self, table: Any) -> None:
        options: dict[str, Any] = {
            "with_position": True,
            "base_tokenizer": "whitespace",
            "language": "German",
            "max_token_length": 9,
            "lower_case": False,
            "stem": False,
            "remove_stop_words": False,
            "ascii_folding": False,
        }
        call(table, "create_table_scalar_index", column="name", index_type="FTS", **options)
        [one] = call(table, "list_table_indices").indexes
        assert options.items() <= json.loads(one.index_details).items()

    def test_create_refusals(self, table: Any) -> None:
        def refused(column: str, kind: str, method: str = "create_table_index", **more: Any) -> int:
            return code(table, method, column=column, index_type=kind, **more)

        scalar = "create_table_scalar_index"
        assert refused("id", "bogus") == 13
        assert refused("vector", "IVF_FLAT", scalar) == 13
        assert refused("nope", "BTREE", scalar) == 12
        assert refused("nope", "FTS", scalar) == 12
        assert refused("nope", "IVF_PQ") == 12
        assert refused("vector", "BTREE", scalar) == 13
        assert refused("id", "LABEL_LIST", scalar) == 13
        assert refused("id", "NGRAM", scalar) == 13
        assert refused("id", "RTREE", scalar) == 13
        assert refused("id", "IVF_FLAT") == 13
        assert refused("vector", "IVF_FLAT", distance_type="bogus") == 13
        assert refused("vector", "IVF_FLAT", m=4) == 13
        assert refused("vector", "IVF_FLAT", num_partitions=2, target_partition_size=9) == 13
        assert refused("vector", "IVF_PQ", num_sub_vectors=3) == 13
        assert refused("vector", "IVF_PQ", num_sub_vectors=2, num_bits=7) == 13
        assert refused("vector", "IVF_SQ", num_bits=4) == 13
        assert refused("id", "BTREE", scalar, stem=True) == 13
        assert refused("name", "FTS", scalar, language="Klingon") == 13
        assert refused("name", "FTS", scalar, base_tokenizer="nope") == 13
        assert lance_state(table)[0] == 1

    def test_taken_name_is_7(self, table: Any) -> None:
        call(table, "create_table_index", column="id", index_type="BTREE", name="i")
        for kind in ("BTREE", "BITMAP"):
            refused = code(
                table, "create_table_scalar_index", column="name", index_type=kind, name="i"
            )
            assert refused == 7

    def test_list_pages_and_versions(self, table: Any) -> None:
        for name in ("c", "a", "b"):
            call(table, "create_table_index", column="id", index_type="BTREE", name=name)
        first = call(table, "list_table_indices", limit=2)
        assert [one.index_name for one in first.indexes] == ["a", "b"]
        rest = call(table, "list_table_indices", limit=2, page_token=first.page_token)
        assert [one.index_name for one in rest.indexes] == ["c"]
        assert rest.page_token is None
        assert index_names(table, version=2) == ["c"]
        assert index_names(table, version=1) == []
        assert code(table, "list_table_indices", version=99) == 11

    def test_unindexed_rows(self, table: Any) -> None:
        call(table, "create_table_index", column="id", index_type="BTREE")
        call(table, "insert_into_table", ipc(sample(ROWS, 7)))
        call(table, "delete_from_table", predicate="id < 10")
        stats = call(table, "describe_table_index_stats", index_name="id_idx")
        assert (stats.num_indexed_rows, stats.num_unindexed_rows) == (ROWS - 10, 7)
        assert (stats.num_indices, stats.distance_type) == (1, None)

    def test_stats_refusals(self, table: Any) -> None:
        assert code(table, "describe_table_index_stats", index_name="nope") == 6
        assert code(table, "describe_table_index_stats") == 13
        assert code(table, "describe_table_index_stats", index_name="i", version=9) == 11

    def test_drop(self, table: Any) -> None:
        call(table, "create_table_index", column="id", index_type="BTREE")
        assert call(table, "drop_table_index", index_name="id_idx").transaction_id
        assert index_names(table) == []
        assert code(table, "drop_table_index", index_name="id_idx") == 6
        assert code(table, "drop_table_index") == 13


class TestColumns:
    def add(self, namespace: Any, *entries: dict[str, Any]) -> int:
        answer = call(namespace, "alter_table_add_columns", new_columns=list(entries))
        return int(answer.version)

    def test_add(self, table: Any) -> None:
        new = {"name": "double", "expression": "id * 2"}, {"name": "odd name", "expression": "1"}
        assert self.add(table, *new) == 2
        assert query(table, filter="id = 4").to_pylist()[0]["double"] == 8

    def test_add_refusals(self, table: Any) -> None:
        def refused(*entries: dict[str, Any]) -> int:
            return code(table, "alter_table_add_columns", new_columns=list(entries))

        one = {"name": "n", "expression": "1"}
        udf = {
            "input_columns": ["id"],
            "outputs": [],
            "image": "i",
            "udf": "u",
            "udf_name": "n",
            "udf_version": "1",
        }
        assert refused() == 13
        assert refused(one, one) == 13
        assert refused({"name": "n"}) == 13
        assert refused({"name": "", "expression": "1"}) == 13
        assert refused({"name": "id", "expression": "1"}) == 20
        assert refused({"name": "a.b", "expression": "1"}) == 20
        assert refused({"name": "n", "expression": "nope + 1"}) == 12
        assert refused({"name": "n", "expression": "1 +"}) == 13
        assert refused({"name": "n", "computed": "id + 1"}) == 0
        assert refused({"name": "n", "virtual_column": udf}) == 0
        assert lance_state(table)[0] == 1

    def test_alter(self, table: Any) -> None:
        def alter(*entries: dict[str, Any]) -> pa.Schema:
            call(table, "alter_table_alter_columns", alterations=list(entries))
            return table.open_table(T).schema

        assert "number" in alter({"path": "id", "rename": "number"}).names
        assert alter({"path": "number", "nullable": False}).field("number").nullable is False
        assert alter({"path": "number", "nullable": True}).field("number").nullable is True
        changed = alter({"path": "number", "data_type": {"type": "int32"}})
        assert changed.field("number").type == pa.int32()
        both = alter({"path": "number", "rename": "n"}, {"path": "s.x", "rename": "z"})
        assert both.field("n") and both.field("s").type.field(0).name == "z"

    def test_alter_refusals(self, table: Any) -> None:
        def refused(*entries: dict[str, Any]) -> int:
            return code(table, "alter_table_alter_columns", alterations=list(entries))

        assert refused() == 13
        assert refused({"path": "id"}) == 13
        assert refused({"path": "nope", "rename": "x"}) == 12
        assert refused({"path": "name", "rename": "id"}) == 20
        assert refused({"path": "id", "data_type": {"type": "bogus"}}) == 13
        assert refused({"path": "id", "data_type": {}}) == 13
        assert refused({"path": "name", "data_type": {"type": "int32"}}) == 20
        assert refused({"path": "id", "data_type": {"type": "int8"}}) == 20
        assert refused({"path": "id", "virtual_column": {"udf": "u"}}) == 0
        assert lance_state(table)[0] == 1

    def test_nulls_cannot_become_forbidden(self, namespace: Any) -> None:
        namespace.make_table(T, pa.table({"a": pa.array([1, None])}))
        alterations = [{"path": "a", "nullable": False}]
        assert code(namespace, "alter_table_alter_columns", alterations=alterations) == 20

    def test_drop(self, table: Any) -> None:
        assert call(table, "alter_table_drop_columns", columns=["name", "s.x"]).version == 2
        assert query(table).column_names == ["id", "tags", "vector", "s"]
        assert code(table, "alter_table_drop_columns", columns=["name"]) == 12
        assert code(table, "alter_table_drop_columns", columns=[]) == 13
        everything = ["id", "tags", "vector", "s"]
        assert code(table, "alter_table_drop_columns", columns=everything) == 20

    def test_schema_metadata(self, table: Any) -> None:
        first = call(table, "update_table_schema_metadata", metadata={"a": "1"})
        assert first.metadata == {"a": "1"} and first.transaction_id
        second = call(table, "update_table_schema_metadata", metadata={"b": "2"})
        assert second.metadata == {"a": "1", "b": "2"}
        nothing = call(table, "update_table_schema_metadata", metadata={})
        assert nothing.metadata == second.metadata
        assert lance_state(table)[0] == 3

    def test_field_metadata(self, table: Any) -> None:
        def update(*updates: dict[str, Any]) -> Any:
            return call(table, "update_field_metadata", updates=list(updates))

        first = update({"path": "id", "metadata": {"a": "1", "b": "2"}})
        assert (first.version, first.fields) == (2, {"id": {"a": "1", "b": "2"}})
        merged = update(
            {"path": "id", "metadata": {"a": None, "c": "3"}},
            {"path": "s.y", "metadata": {"unit": "m"}},
        )
        assert merged.fields == {"id": {"b": "2", "c": "3"}, "s.y": {"unit": "m"}}
        replaced = update({"path": "id", "metadata": {"x": "9", "y": None}, "replace": True})
        assert replaced.fields == {"id": {"x": "9"}}
        mixed = update(
            {"path": "id", "metadata": {"z": "0"}},
            {"path": "s.y", "metadata": {"new": "1"}, "replace": True},
        )
        assert mixed.fields == {"id": {"x": "9", "z": "0"}, "s.y": {"new": "1"}}
        assert mixed.version == 5

    def test_replacing_metadata_keeps_an_extension_type(self, namespace: Any) -> None:
        namespace.make_table(T, pa.table({"u": pa.array([b"0" * 16], pa.uuid())}))
        updates = [{"path": "u", "metadata": {"a": "1"}, "replace": True}]
        call(namespace, "update_field_metadata", updates=updates)
        assert namespace.open_table(T).schema.field("u").type == pa.uuid()

    def test_field_metadata_refusals(self, table: Any) -> None:
        one = {"path": "id", "metadata": {"a": "1"}}
        assert code(table, "update_field_metadata", updates=[]) == 13
        assert code(table, "update_field_metadata", updates=[one, one]) == 13
        missing = {"path": "nope", "metadata": {"a": "1"}}
        assert code(table, "update_field_metadata", updates=[one, missing]) == 12
        assert lance_state(table)[0] == 1


class TestTags:
    def test_life(self, table: Any) -> None:
        call(table, "delete_from_table", predicate="id < 5")
        call(table, "create_table_tag", tag="v1", version=1)
        assert call(table, "get_table_tag_version", tag="v1").version == 1
        call(table, "update_table_tag", tag="v1", version=2)
        found = call(table, "get_table_tag_version", tag="v1")
        assert (found.version, found.branch) == (2, None)
        call(table, "delete_table_tag", tag="v1")
        assert call(table, "list_table_tags").tags == {}

    def test_on_a_branch(self, table: Any) -> None:
        call(table, "create_table_branch", name="dev")
        rows = ipc(sample(ROWS, 1))
        version = call(table, "insert_into_table", rows, branch="dev").version
        call(table, "create_table_tag", tag="t", version=version, branch="dev")
        found = call(table, "get_table_tag_version", tag="t")
        assert (found.version, found.branch) == (version, "dev")
        assert call(table, "list_table_tags").tags["t"].branch == "dev"
        call(table, "update_table_tag", tag="t", version=1, branch="main")
        assert call(table, "get_table_tag_version", tag="t").branch is None

    def test_pages(self, table: Any) -> None:
        for tag in ("c", "a", "B", "b"):
            call(table, "create_table_tag", tag=tag, version=1)
        first = call(table, "list_table_tags", limit=3)
        assert list(first.tags) == ["B", "a", "b"]
        assert first.tags["a"].version == 1 and first.tags["a"].manifest_size > 0
        rest = call(table, "list_table_tags", limit=3, page_token=first.page_token)
        assert (list(rest.tags), rest.page_token) == (["c"], None)

    def test_refusals(self, table: Any) -> None:
        call(table, "create_table_tag", tag="a", version=1)
        assert code(table, "create_table_tag", tag="a", version=1) == 9
        assert code(table, "create_table_tag", tag="b", version=99) == 11
        assert code(table, "create_table_tag", tag="b", version=1, branch="nope") == 22
        for name in ("", "b/c", "../x", "a b"):
            assert code(table, "create_table_tag", tag=name, version=1) == 13
        assert code(table, "update_table_tag", tag="q", version=1) == 8
        assert code(table, "update_table_tag", tag="a", version=99) == 11
        assert code(table, "update_table_tag", tag="a", version=1, branch="nope") == 22
        assert code(table, "delete_table_tag", tag="q") == 8
        assert code(table, "get_table_tag_version", tag="q") == 8


class TestBranches:
    def test_life(self, table: Any) -> None:
        call(table, "delete_from_table", predicate="id < 5")
        call(table, "create_table_branch", name="old", from_version=1)
        call(table, "create_table_branch", name="new")
        call(table, "create_table_branch", name="child", from_branch="old")
        assert (count(table, branch="old"), count(table, branch="new")) == (ROWS, ROWS - 5)
        call(table, "insert_into_table", ipc(sample(ROWS, 1)), branch="old")
        assert (count(table, branch="old"), count(table, branch="child")) == (ROWS + 1, ROWS)
        listed = call(table, "list_table_branches").branches
        assert list(listed) == ["child", "new", "old"]
        assert (listed["child"].parent_branch, listed["old"].parent_branch) == ("old", None)
        assert (listed["old"].parent_version, listed["new"].parent_version) == (1, 2)
        call(table, "delete_table_branch", name="new")
        assert list(call(table, "list_table_branches").branches) == ["child", "old"]

    def test_pages(self, table: Any) -> None:
        for name in ("c", "a", "b"):
            call(table, "create_table_branch", name=name)
        first = call(table, "list_table_branches", limit=2)
        rest = call(table, "list_table_branches", limit=2, page_token=first.page_token)
        assert (list(first.branches), list(rest.branches)) == (["a", "b"], ["c"])

    def test_refusals(self, table: Any) -> None:
        call(table, "create_table_branch", name="a")
        call(table, "create_table_branch", name="child", from_branch="a")
        assert code(table, "create_table_branch", name="a") == 23
        assert code(table, "create_table_branch", name="b", from_branch="nope") == 22
        assert code(table, "create_table_branch", name="b", from_version=99) == 11
        assert code(table, "create_table_branch", name="b", from_branch="a", from_version=99) == 11
        for name in ("main", "..", ""):
            assert code(table, "create_table_branch", name=name) == 13
        assert code(table, "delete_table_branch", name="nope") == 22
        assert code(table, "delete_table_branch", name="main") == 13
        assert code(table, "delete_table_branch", name="") == 13
        assert code(table, "delete_table_branch", name="a") == 13


class TestStatsAndRestore:
    def test_stats(self, table: Any) -> None:
        for rows in (1, 2, 5):
            call(table, "insert_into_table", ipc(sample(0, rows)))
        call(table, "delete_from_table", predicate="id = 4")
        call(table, "create_table_index", column="id", index_type="BTREE")
        stats = call(table, "get_table_stats")
        assert (stats.num_rows, stats.num_indices) == (count(table), 1) == (ROWS + 6, 1)
        assert stats.total_bytes > 0
        fragments = stats.fragment_stats
        assert (fragments.num_fragments, fragments.num_small_fragments) == (4, 4)
        lengths = fragments.lengths
        assert (lengths.min, lengths.max, lengths.mean) == (1, ROWS - 1, (ROWS + 6) // 4)
        assert (lengths.p25, lengths.p50, lengths.p99) == (1, 2, 4)

    def test_stats_of_nothing(self, namespace: Any) -> None:
        namespace.make_table(T, sample(0, 0))
        stats = call(namespace, "get_table_stats")
        assert (stats.num_rows, stats.fragment_stats.lengths.max) == (0, 0)

    def test_restore(self, table: Any) -> None:
        call(table, "delete_from_table", predicate="id < 5")
        assert call(table, "restore_table", version=1).transaction_id
        assert (count(table), lance_state(table)[0]) == (ROWS, 3)
        assert code(table, "restore_table", version=99) == 11


class TestTransactions:
    def test_by_id_and_by_version(self, table: Any) -> None:
        call(table, "delete_from_table", predicate="id < 5")
        uuid = call(table, "create_table_index", column="id", index_type="BTREE").transaction_id
        by_id = call(table, "describe_transaction", id=[*T, uuid])
        assert by_id.status == "SUCCEEDED"
        assert by_id.properties == {
            "uuid": uuid,
            "version": "3",
            "read_version": "2",
            "operation": "CreateIndex",
        }
        assert call(table, "describe_transaction", id=[*T, "3"]) == by_id
        deleted = call(table, "describe_transaction", id=[*T, "2"])
        assert deleted.properties["operation"] == "Delete"

    def test_compaction_of_an_indexed_table(self, table: Any) -> None:
        """pylance cannot read such a transaction; we find it all the same, and those before it."""
        call(table, "insert_into_table", ipc(sample(ROWS, 5)))
        first = call(table, "create_table_index", column="id", index_type="BTREE").transaction_id
        table.open_table(T).optimize.compact_files()
        newest = table.open_table(T).version
        compacted = call(table, "describe_transaction", id=[*T, str(newest)]).properties
        assert compacted["operation"] == "Rewrite"
        with pytest.raises(TypeError):
            table.open_table(T).read_transaction(newest)
        again = call(table, "describe_transaction", id=[*T, compacted["uuid"]]).properties
        assert again == compacted
        assert call(table, "describe_transaction", id=[*T, first]).properties["version"] == "3"

    def test_refusals(self, table: Any) -> None:
        assert code(table, "describe_transaction", id=T) == 13
        assert code(table, "describe_transaction", id=[*T, "nope"]) == 10
        assert code(table, "describe_transaction", id=[*T, "99"]) == 10
        actions = [{"set_status_action": {"status": "Canceled"}}]
        assert code(table, "alter_transaction", id=[*T, "nope"], actions=actions) == 10

    def test_alter_accepts_what_changes_nothing(self, table: Any) -> None:
        for action in (
            {"set_status_action": {"status": "Succeeded"}},
            {"set_property_action": {"key": "version", "value": "1"}},
            {"set_property_action": {"key": "version", "value": "7", "mode": "Skip"}},
            {"unset_property_action": {"key": "absent"}},
        ):
            answer = call(table, "alter_transaction", id=[*T, "1"], actions=[action])
            assert (answer.status, answer.properties["version"]) == ("SUCCEEDED", "1")

    def test_alter_refuses_change(self, table: Any) -> None:
        for action, expected in (
            ({"set_status_action": {"status": "Canceled"}}, 19),
            ({"set_property_action": {"key": "a", "value": "b"}}, 19),
            ({"set_property_action": {"key": "version", "value": "1", "mode": "Fail"}}, 19),
            ({"unset_property_action": {"key": "version"}}, 19),
            ({"unset_property_action": {"key": "absent", "mode": "Fail"}}, 19),
            ({"set_status_action": {"status": "Lost"}}, 13),
            ({"set_property_action": {"key": "a", "value": "b", "mode": "Maybe"}}, 13),
            ({}, 13),
        ):
            assert code(table, "alter_transaction", id=[*T, "1"], actions=[action]) == expected


SETPRIV = ("setpriv", "--reuid=65534", "--clear-groups")
AS_NOBODY = """
import json, sys
from pathlib import Path
from tests.behaviour.folder_access import FolderAccess
from test_data_operations import T, call, code, count, ipc, sample

namespace = FolderAccess(Path(sys.argv[1]))
print(json.dumps({
    "count": count(namespace),
    "delete": code(namespace, "delete_from_table", predicate="id = 1"),
    "insert": code(namespace, "insert_into_table", ipc(sample(0, 1))),
    "tag": code(namespace, "create_table_tag", tag="a", version=1),
}))
"""


class TestErrors:
    def test_conflicts_are_14(self, table: Any) -> None:
        dataset = table.open_table(T)
        call(table, "insert_into_table", ipc(sample(0, 1)), mode="overwrite")
        with pytest.raises(OSError) as caught:
            dataset.create_scalar_index("id", "BTREE")
        assert classify(caught.value, "x").code == 14

    def test_a_branch_made_meanwhile_is_23(self, table: Any) -> None:
        dataset = table.open_table(T)
        dataset.create_branch("b")
        with pytest.raises(OSError) as caught:
            dataset.create_branch("b")
        assert classify(caught.value, "x").code == 23

    def test_the_cause_is_chained(self, table: Any) -> None:
        with pytest.raises(LanceNamespaceError) as caught:
            call(table, "count_table_rows", predicate="nope > 1")
        assert isinstance(caught.value.__cause__, OSError)

    @pytest.mark.skipif(
        os.geteuid() != 0 and "CI" not in os.environ, reason="only root can become nobody"
    )
    def test_refused_by_the_file_system_is_15(self) -> None:
        """A child as nobody, since root is refused nothing: it may read the table, not write."""
        root = Path(tempfile.mkdtemp())
        root.chmod(0o755)
        try:
            FolderAccess(root).make_table(T, sample(0, 3))
            paths = os.pathsep.join(["src", "tests/behaviour"])
            child = subprocess.run(
                [*SETPRIV, sys.executable, "-c", AS_NOBODY, str(root)],
                env={**os.environ, "PYTHONPATH": paths, "HOME": "/nonexistent"},
                cwd=Path(__file__).parents[2],
                capture_output=True,
                text=True,
                timeout=60,
            )
        finally:
            shutil.rmtree(root)
        assert child.returncode == 0, child.stderr
        assert json.loads(child.stdout) == {"count": 3, "delete": 15, "insert": 15, "tag": 15}

    def test_what_is_about_the_machine(self) -> None:
        for error, expected in (
            (OSError("LanceError(IO): Permission denied (os error 13)"), 15),
            (ValueError("Namespace error: AccessDenied"), 15),
            (ValueError("LanceError(IO): the disk is on fire"), 18),
            (ValueError("External error: LanceError(IO): Not found: /t/data/1.lance"), 18),
            (RuntimeError("something else"), 18),
            (OSError("Commit result for version 7 is unknown"), 14),
            (ValueError("Query vector size 2 does not match"), 13),
        ):
            assert classify(error, "x").code == expected


class TestPaging:
    def test_rules(self) -> None:
        names = ["b", "a", "é", "d"]
        assert page(names, None, None) == (["a", "b", "d", "é"], None)
        assert page(names, None, 2) == (["a", "b"], "b")
        assert page(names, "b", 2) == (["d", "é"], None)
        assert page(names, "c", 1) == (["d"], "d")
        assert page(names, "", 0) == ([], None)
        assert page(names, "zz", -1) == (["é"], None)


class TestArrow:
    def test_reader(self) -> None:
        rows = sample(0, 3)
        assert stream_reader(ipc(rows), "x").read_all() == rows

    def test_types_by_name(self) -> None:
        item = {"name": "item", "nullable": True, "type": {"type": "float32"}}
        for given, expected in (
            ({"type": "Int32"}, pa.int32()),
            ({"type": "utf8"}, pa.string()),
            ({"type": "timestamp:us:UTC"}, pa.timestamp("us", "UTC")),
            ({"type": "decimal:128:10:2"}, pa.decimal128(10, 2)),
            ({"type": "fixed_size_list", "length": 4, "fields": [item]}, pa.list_(pa.float32(), 4)),
            ({"type": "list", "fields": [item]}, pa.list_(pa.float32())),
            ({"type": "struct", "fields": [item]}, pa.struct([("item", pa.float32())])),
        ):
            assert parse_type(given, "x") == expected
        for bad in (
            {"type": "timestamp"},
            {"type": 1},
            {"type": "list"},
            {"type": "list", "fields": ["x"]},
            {"type": "fixed_size_list", "fields": [item]},
        ):
            with pytest.raises(LanceNamespaceError) as caught:
                parse_type(bad, "x")
            assert caught.value.code == 13


# Native, on a copy of the same table: the same calls, in this order, give the same answers.
SAME: list[tuple[str, dict[str, Any], pa.Table | None]] = [
    ("count_table_rows", {}, None),
    ("count_table_rows", {"predicate": "id < 5"}, None),
    ("query_table", {"k": 3, "vector": {}}, None),
    ("query_table", {"k": 0, "vector": {"single_vector": []}, "filter": "id > 290"}, None),
    ("query_table", {"k": 3, "vector": {}, "filter": "id > 10", "offset": 2}, None),
    ("query_table", {"k": 3, "vector": vector(9), "with_row_id": True}, None),
    ("query_table", {"k": 0, "vector": vector(9)}, None),
    ("query_table", {"k": 5, "vector": vector(9), "filter": "id > 9"}, None),
    ("query_table", {"k": 5, "vector": vector(9), "filter": "id > 9", "prefilter": True}, None),
    ("query_table", {"k": 5, "vector": vector(9), "distance_type": "dot"}, None),
    ("query_table", {"k": 9, "vector": vector(9), "lower_bound": 8, "upper_bound": 99.5}, None),
    (
        "query_table",
        {"k": 3, "vector": vector(9), "columns": {"column_names": ["id", "s.x"]}},
        None,
    ),
    (
        "query_table",
        {"k": 3, "vector": {}, "columns": {"column_names": ["id"]}, "with_row_id": True},
        None,
    ),
    ("explain_table_query_plan", {"query": {"k": 3, "vector": vector(2), "filter": "id<9"}}, None),
    ("get_table_stats", {}, None),
    (
        "create_table_index",
        {"column": "vector", "index_type": "IVF_FLAT", "name": "v", "num_partitions": 1},
        None,
    ),
    ("create_table_scalar_index", {"column": "name", "index_type": "FTS"}, None),
    ("create_table_scalar_index", {"column": "tags", "index_type": "LABEL_LIST"}, None),
    ("create_table_scalar_index", {"column": "s.x", "index_type": "BTREE"}, None),
    ("list_table_indices", {}, None),
    ("list_table_indices", {"limit": 2}, None),
    ("list_table_indices", {"limit": 2, "page_token": "name_idx"}, None),
    ("list_table_indices", {"version": 2}, None),
    ("describe_table_index_stats", {"index_name": "name_idx"}, None),
    ("describe_table_index_stats", {"index_name": "nope"}, None),
    (
        "query_table",
        {"k": 2, "vector": {}, "full_text_query": {"string_query": {"query": "11"}}},
        None,
    ),
    ("drop_table_index", {"index_name": "v"}, None),
    ("drop_table_index", {"index_name": "v"}, None),
    ("insert_into_table", {}, sample(ROWS, 5)),
    ("insert_into_table", {"mode": "bogus"}, sample(0, 1)),
    ("get_table_stats", {}, None),
    (
        "merge_insert_into_table",
        {"on": ["id"], "when_matched_update_all": True, "when_not_matched_insert_all": True},
        sample(ROWS, 9),
    ),
    ("update_table", {"updates": [["name", "'x'"]], "predicate": "id < 3"}, None),
    ("update_table", {"updates": [["name", "'x'"]], "predicate": "id < 0"}, None),
    ("delete_from_table", {"predicate": "id = 5"}, None),
    ("delete_from_table", {"predicate": "id = = 5"}, None),
    ("count_table_rows", {}, None),
    ("alter_table_add_columns", {"new_columns": [{"name": "d", "expression": "id * 2"}]}, None),
    ("alter_table_alter_columns", {"alterations": [{"path": "d", "rename": "e"}]}, None),
    ("alter_table_drop_columns", {"columns": ["e"]}, None),
    ("update_table_schema_metadata", {"metadata": {"a": "b"}}, None),
    ("create_table_tag", {"tag": "a", "version": 1}, None),
    ("create_table_tag", {"tag": "a", "version": 1}, None),
    ("create_table_tag", {"tag": "b", "version": 999}, None),
    ("create_table_tag", {"tag": "b/c", "version": 1}, None),
    ("update_table_tag", {"tag": "a", "version": 2}, None),
    ("get_table_tag_version", {"tag": "a"}, None),
    ("get_table_tag_version", {"tag": "zz"}, None),
    ("list_table_tags", {}, None),
    ("delete_table_tag", {"tag": "a"}, None),
    ("create_table_branch", {"name": "dev"}, None),
    ("create_table_branch", {"name": "dev"}, None),
    ("create_table_branch", {"name": "old", "from_version": 2}, None),
    ("list_table_branches", {}, None),
    ("delete_table_branch", {"name": "dev"}, None),
    ("delete_table_branch", {"name": "dev"}, None),
    ("restore_table", {"version": 1}, None),
    ("count_table_rows", {}, None),
    ("count_table_rows", {"version": 999}, None),
    ("describe_transaction", {"id": [*T, "2"]}, None),
    ("describe_transaction", {"id": [*T, "nope"]}, None),
]

# What no two copies share: ids, times, and sizes of files that hold them.
PRIVATE = (
    "transaction_id",
    "index_uuid",
    "created_at",
    "uuid",
    "create_at",
    "size_bytes",
    "manifest_size",
)


def comparable(answer: Any) -> Any:
    if hasattr(answer, "data"):
        return pa.ipc.open_file(answer.data).read_all().to_pydict()
    if isinstance(answer, str):
        return answer.replace("native", "ours")
    return strip(answer.model_dump())


def strip(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: bool(one) if key in PRIVATE else strip(one) for key, one in value.items()}
    if isinstance(value, list):
        return [strip(one) for one in value]
    if isinstance(value, str) and value.startswith("{"):
        return json.loads(value)
    return value


def outcome(namespace: Any, method: str, fields: dict[str, Any], rows: pa.Table | None) -> Any:

    name = "".join(part.capitalize() for part in method.split("_")) + "Request"
    model = getattr(lance_namespace, name, CreateTableIndexRequest)
    request = model.model_validate({"id": T, **fields})
    arguments = [request] if rows is None else [request, ipc(rows)]
    try:
        return comparable(getattr(namespace, method)(*arguments))
    except LanceNamespaceError as error:
        return int(error.code)


def native_namespace(root: Path) -> LanceNamespace:
    properties: Any = {"root": str(root), "manifest_enabled": "false"}
    return lance_namespace.connect("dir", properties)


def test_answers_are_native_s(tmp_path: Path) -> None:
    ours = FolderAccess(tmp_path / "ours")
    ours.make_table(T, sample())
    shutil.copytree(tmp_path / "ours", tmp_path / "native")
    native = native_namespace(tmp_path / "native")
    for number, (method, fields, rows) in enumerate(SAME):
        expected = outcome(native, method, fields, rows)
        assert outcome(ours, method, fields, rows) == expected, (number, method, fields)


def test_schemas_are_native_s(tmp_path: Path) -> None:
    fields = [
        pa.field("plain", pa.int64(), nullable=False, metadata={"k": "v"}),
        pa.field("text", pa.large_string()),
        pa.field("view", pa.string_view()),
        pa.field("half", pa.float16()),
        pa.field("when", pa.timestamp("us", "UTC")),
        pa.field("clock", pa.time64("ns")),
        pa.field("span", pa.duration("ms")),
        pa.field("day", pa.date32()),
        pa.field("fixed", pa.binary(16)),
        pa.field("money", pa.decimal128(10, 2)),
        pa.field("list", pa.list_(pa.field("el", pa.int8(), nullable=False))),
        pa.field("large", pa.large_list(pa.bool_())),
        pa.field("vector", pa.list_(pa.float32(), 4)),
        pa.field("struct", pa.struct([pa.field("x", pa.int32(), metadata={"u": "m"})])),
        pa.field("map", pa.map_(pa.string(), pa.int64())),
        pa.field("dict", pa.dictionary(pa.int32(), pa.string())),
        pa.field("uuid", pa.uuid()),
        pa.field("json", pa.json_()),
        pa.field("tensor", pa.fixed_shape_tensor(pa.float32(), (2,))),
    ]
    schema = pa.schema(fields, metadata={"owner": "me"})
    lance.write_dataset(schema.empty_table(), tmp_path / "t.lance", data_storage_version="2.2")
    native = native_namespace(tmp_path)
    answer = native.describe_table(DescribeTableRequest(id=T, load_detailed_metadata=True))
    assert json_schema(lance.dataset(tmp_path / "t.lance").schema) == answer.var_schema
