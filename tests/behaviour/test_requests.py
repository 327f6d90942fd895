"""How a catalog is reached: connect, properties, forms of requests, pickling, snapshots."""

from __future__ import annotations

import logging
import os
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any

import lance_namespace as ln
import pytest

import lance_catalog
from lance_catalog import DirectoryNamespace, config
from lance_catalog.config import Mode
from tests.behaviour.catalogs import (
    LOCAL_STORES,
    SWITCHES,
    Catalog,
    code,
    ipc,
    local_only,
    refusal,
    rows,
)


class Request(dict[str, Any]):
    """A dict subclass, as Lance's Rust side sends."""


class TestForms:
    def test_models_dicts_and_dict_subclasses(self, catalog: Catalog) -> None:
        """R13: requests in every form; answers are the library's models."""
        made = catalog.create_table(ln.CreateTableRequest(id=["a"]), ipc(rows([1])))
        assert isinstance(made, ln.CreateTableResponse)
        made = catalog.create_table(Request(id=["b"]), ipc(rows([2])))
        assert isinstance(made, ln.CreateTableResponse)
        made = catalog.create_table(OrderedDict(id=["c"]), ipc(rows([3])))
        for form in (ln.ListTablesRequest(id=[]), {"id": []}, Request(id=[]), OrderedDict(id=[])):
            answer = catalog.list_tables(form)
            assert isinstance(answer, ln.ListTablesResponse)
            assert answer.tables == ["a", "b", "c"]
        for form in (ln.DescribeTableRequest(id=["a"]), Request(id=["a"])):
            assert isinstance(catalog.describe_table(form), ln.DescribeTableResponse)
        for form in (ln.DropTableRequest(id=["a"]), Request(id=["b"]), {"id": ["c"]}):
            assert isinstance(catalog.drop_table(form), ln.DropTableResponse)
        assert catalog.tables() == []

    @local_only
    def test_what_is_no_request_is_13(self, catalog: Catalog) -> None:
        """R13: with the field that does not fit."""
        for request in (None, 3, "t", ["t"], object()):
            assert code(catalog.describe_table, request) == 13
        error = refusal(catalog.list_tables, {"id": [], "limit": "many"})
        assert error.code == 13
        assert "limit" in str(error)
        assert code(catalog.describe_table, {"id": [3]}) == 13
        assert code(catalog.describe_table, {"id": {"a": 1}}) == 13
        assert code(catalog.rename_table, {"id": ["t"]}) in (0, 13)

    @pytest.mark.needs("namespaces")
    @local_only
    def test_rename_forms(self, catalog: Catalog) -> None:
        """R13: new_namespace_id None = stay, [] = root, in a model as in a dict."""
        catalog.namespace("ns")
        catalog.create(["ns", "t"])
        catalog.rename_table(ln.RenameTableRequest(id=["ns", "t"], new_table_name="u"))
        assert catalog.tables(["ns"]) == ["u"]
        catalog.rename_table(
            ln.RenameTableRequest(id=["ns", "u"], new_table_name="u", new_namespace_id=[])
        )
        assert catalog.tables() == ["u"]


class TestConnect:
    def test_by_class_short_name_and_function(self, catalog: Catalog) -> None:
        """C12, C13, C14: the library's connect, by class path and by short name, and ours."""
        catalog.create(["t"], [4])
        properties = catalog.properties()
        for way in (
            ln.connect("lance_catalog.DirectoryNamespace", properties),
            ln.connect("lance-catalog", properties),
            lance_catalog.connect(**properties),
            DirectoryNamespace(**properties),
        ):
            assert isinstance(way, DirectoryNamespace)
            assert isinstance(way, ln.LanceNamespace)
            assert way.mode is catalog.mode
            assert way.list_tables({"id": []}).tables == ["t"]
            assert way.count_table_rows({"id": ["t"]}).count == 1

    def test_pickle(self, catalog: Catalog) -> None:
        """Workers get the properties and build their own."""
        catalog.create(["t"])
        copy = pickle.loads(pickle.dumps(catalog.ns))
        assert copy.mode is catalog.mode
        assert copy.list_tables({"id": []}).tables == ["t"]
        copy.create_table({"id": ["u"]}, ipc(rows([1])))
        assert catalog.tables() == ["t", "u"]

    def test_two_objects_see_each_other_at_once(self, catalog: Catalog) -> None:
        """Invariant 3: acknowledged means visible to every later read through any handle."""
        other = catalog.open()
        for number in range(5):
            catalog.create([f"a{number}"])
            other.create_table({"id": [f"b{number}"]}, ipc(rows([1])))
            expected = sorted(f"{k}{n}" for k in "ab" for n in range(number + 1))
            assert catalog.tables() == other.list_tables({"id": []}).tables == expected
        other.drop_table({"id": ["a0"]})
        assert not catalog.exists(["a0"])

    def test_namespace_id_names_root_and_mode(self, catalog: Catalog) -> None:
        """O03: two catalogs are told apart; no secret is in the text."""
        text = catalog.namespace_id()
        assert catalog.ns.context.store.uri in text
        assert catalog.mode.value in text
        for key, value in catalog.root.options.items():
            if "key" in key:
                assert value not in text


@pytest.mark.stores("local")
class TestRoots:
    def test_uri_path_and_relative_path(
        self, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """C13: file URI, absolute path, path from the working directory: one root."""
        catalog.create(["t"])
        folder = Path(str(catalog.root.folder))
        monkeypatch.chdir(folder.parent)
        switches = SWITCHES[catalog.mode]
        for root in (
            str(folder),
            f"{folder}/",
            folder.name,
            f"./{folder.name}/",
            folder.as_uri(),
            folder.as_uri() + "/",
            folder.as_uri().replace("file:///", "file://localhost/"),
        ):
            found = DirectoryNamespace(root=root, **switches)
            assert found.list_tables({"id": []}).tables == ["t"], root
        relative = DirectoryNamespace(root=folder.name, **switches)
        monkeypatch.chdir("/")
        assert relative.list_tables({"id": []}).tables == ["t"]

    def test_unknown_scheme_is_13(self, catalog: Catalog) -> None:
        """C13: named, with the schemes there are."""
        error = refusal(DirectoryNamespace, root="ftp://host/x", **SWITCHES[catalog.mode])
        assert error.code == 13
        assert "ftp" in str(error)
        assert "s3" in str(error)
        assert code(DirectoryNamespace, root="s3://") == 13


@pytest.mark.stores("memory")
def test_memory_roots_are_told_apart(catalog: Catalog) -> None:
    """C13: one name is one root in this process; another name another."""
    catalog.create(["t"])
    other = DirectoryNamespace(root=catalog.root.uri + "-other", **SWITCHES[catalog.mode])
    assert other.list_tables({"id": []}).tables == []
    assert catalog.open().list_tables({"id": []}).tables == ["t"]


class TestProperties:
    @local_only
    def test_unknown_is_13_with_the_nearest(self, catalog: Catalog) -> None:
        """C12: refused, not ignored; the message names what was meant."""
        for wrong, meant in (
            ("manifest_enable", "manifest_enabled"),
            ("dir_listing", "dir_listing_enabled"),
            ("commit_timeouts", "commit_timeout"),
            ("storage_", "storage."),
            ("Root", "root"),
        ):
            error = refusal(DirectoryNamespace, **catalog.properties(), **{wrong: "x"})
            assert error.code == 13
            assert f"'{meant}'" in str(error)
            assert f"'{wrong}'" in str(error)

    @local_only
    def test_bad_values_are_13(self, catalog: Catalog) -> None:
        """C12: bad values are refused, not ignored."""
        for more in (
            {"manifest_enabled": "maybe"},
            {"dir_listing_enabled": ""},
            {"commit_timeout": "soon"},
            {"commit_timeout": "-1"},
            {"commit_retries": "nan"},
            {"manifest_enabled": "false", "dir_listing_enabled": "false"},
            {"root": ""},
            {"root": None},
        ):
            properties = {**catalog.properties(), **more}
            assert code(lambda given=properties: DirectoryNamespace(**given)) == 13, more

    @local_only
    def test_names_of_native_are_accepted(
        self, catalog: Catalog, caplog: pytest.LogCaptureFixture
    ) -> None:
        """R16: honoured where they mean something, otherwise logged once."""
        config._said.clear()
        given = {
            "commit_retries": "5",
            "inline_optimization_enabled": "true",
            "table_version_tracking_enabled": "false",
            "dir_listing_to_manifest_migration_enabled": "true",
            "vend_input_storage_options": "false",
            "vend_input_storage_options_refresh_interval_millis": "5",
            "ops_metrics_enabled": "true",
        }
        with caplog.at_level(logging.WARNING):
            first = catalog.open(**given)
            catalog.open(**given)
        first.create_table({"id": ["t"]}, ipc(rows([1])))
        said = [record.getMessage() for record in caplog.records]
        assert len(said) == 5
        assert sum("inline_optimization_enabled" in text for text in said) == 1


@pytest.mark.modes(Mode.V2, Mode.COMPAT)
class TestSnapshot:
    def test_is_pinned(self, catalog: Catalog) -> None:
        """Issue 2.4: what is resolved from it is of one moment."""
        catalog.namespace("a")
        catalog.create(["a", "t"])
        pinned = catalog.snapshot()
        catalog.namespace("b")
        catalog.drop_table({"id": ["a", "t"]}, purge=True)
        assert [entry.object_id for entry in pinned.entries()] == ["a", "a$t"]
        assert pinned.get("b") is None
        assert pinned.get("a$t") is not None
        now = catalog.snapshot()
        assert now.version > pinned.version
        assert [entry.object_id for entry in now.entries()] == ["a", "b"]

    @pytest.mark.stores(*LOCAL_STORES)
    def test_survives_folding(self, catalog: Catalog) -> None:
        """Issue 2.4: pinned while the current one grows and shrinks."""
        catalog.namespace("a")
        pinned = catalog.snapshot()
        for number in range(30):
            catalog.namespace("a", f"n{number}")
        catalog.drop_namespace({"id": ["a"], "behavior": "cascade"})
        assert [entry.object_id for entry in pinned.entries()] == ["a"]
        assert list(catalog.snapshot().entries()) == []
        assert os.path.isdir(str(catalog.root.folder))
