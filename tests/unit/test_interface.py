"""Every method of the interface is accounted for, and public names agree with their modules."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import subprocess
import sys
from typing import Final

import lance_namespace
import pytest

import lance_catalog
from lance_catalog import DirectoryNamespace
from tests.behaviour.catalogs import code

#: Methods that may answer 0 in every mode, and why (issue 2.5).
UNSUPPORTED: Final = {
    "alter_table_backfill_columns": "nothing here runs jobs",
    "create_materialized_view": "nothing here keeps views up to date",
    "refresh_materialized_view": "there are no views to refresh",
}
#: Methods inherited from the interface as they are, and why. None.
INHERITED: Final[dict[str, str]] = {}

METHODS = sorted(
    name
    for name, member in inspect.getmembers(lance_namespace.LanceNamespace, inspect.isfunction)
    if not name.startswith("_")
)


def test_the_interface_is_what_we_think() -> None:
    assert len(METHODS) >= 50
    assert set(UNSUPPORTED) | set(INHERITED) <= set(METHODS)


@pytest.mark.parametrize("method", METHODS)
def test_no_method_is_inherited(method: str) -> None:
    """I27: a default of the interface would answer NotImplemented behind our back."""
    ours = getattr(DirectoryNamespace, method)
    theirs = getattr(lance_namespace.LanceNamespace, method)
    if method in INHERITED:
        assert ours is theirs
        return
    assert ours is not theirs, f"{method} is the interface's default"
    defined = next(kind for kind in DirectoryNamespace.__mro__ if method in vars(kind))
    assert defined.__module__.startswith("lance_catalog.")


@pytest.mark.parametrize("method", METHODS)
def test_parameters_are_the_interface_s(method: str) -> None:
    """I27: whoever calls by position or by name reaches the same."""
    ours = inspect.signature(getattr(DirectoryNamespace, method)).parameters
    theirs = inspect.signature(getattr(lance_namespace.LanceNamespace, method)).parameters
    assert list(ours)[: len(theirs)] == list(theirs)
    for name in list(ours)[len(theirs) :]:
        assert ours[name].default is not inspect.Parameter.empty


@pytest.mark.parametrize("method", sorted(UNSUPPORTED))
def test_what_is_not_supported_says_so(method: str) -> None:
    """I27: with 0 and with what to do instead, without any I/O."""
    namespace = DirectoryNamespace(root="/nonexistent/root")
    assert code(getattr(namespace, method), {"id": ["t"]}) == 0


@pytest.mark.parametrize("method", [m for m in METHODS if m not in (*UNSUPPORTED, "namespace_id")])
def test_every_other_method_answers_a_code(method: str, tmp_path: object) -> None:
    """R12: an empty request on an empty root is the caller's mistake, never a crash."""
    namespace = DirectoryNamespace(root=f"{tmp_path}/root")
    call = getattr(namespace, method)
    given = inspect.signature(call).parameters.values()
    takes_data = sum(one.kind is not one.KEYWORD_ONLY for one in given) > 1
    if method == "list_all_tables":
        assert call({}).tables == []
        return
    assert code(call, {}, *([b""] if takes_data else [])) in (4, 13)


def modules() -> list[str]:
    found = pkgutil.walk_packages(lance_catalog.__path__, "lance_catalog.")
    return ["lance_catalog", *(module.name for module in found if "__main__" not in module.name)]


@pytest.mark.parametrize("name", modules())
def test_public_names_exist(name: str) -> None:
    """Design, taste 2: `__all__` names what is there, each once."""
    module = importlib.import_module(name)
    public = getattr(module, "__all__", None)
    if public is None:
        return
    assert len(public) == len(set(public))
    for one in public:
        assert hasattr(module, one), f"{name}.{one}"


def test_the_package_exports_sorted_names() -> None:
    assert list(lance_catalog.__all__) == sorted(lance_catalog.__all__)
    public = {name for name in vars(lance_catalog) if not name.startswith("_")}
    modules_of = {name.split(".")[1] for name in modules() if name.count(".") == 1}
    assert public - modules_of - {"annotations", "Any"} == set(lance_catalog.__all__) - {
        "__version__"
    }


def test_importing_the_core_imports_no_extra() -> None:
    """Design: spark, iceberg and the server are extras."""
    program = (
        "import sys, lance_catalog; "
        "print([m for m in ('pyspark', 'pyiceberg', 'fastapi', 'lancedb') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
