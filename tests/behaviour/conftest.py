"""The ``catalog`` fixture: one suite, every mode on every store (see catalogs.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lance_catalog.config import Mode
from lance_catalog.storage.roots import open_store
from tests.behaviour.catalogs import (
    CAPABILITIES,
    CLOUD_STORES,
    STORES,
    Catalog,
    Root,
    fresh_name,
    variants,
)

NESTED = ("prod", "team")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "catalog" not in metafunc.fixturenames:
        return

    def chosen(name: str, default: Any) -> Any:
        marker = metafunc.definition.get_closest_marker(name)
        return default if marker is None else marker.args

    wanted = set(chosen("needs", ()))
    modes = [mode for mode in chosen("modes", list(Mode)) if wanted <= CAPABILITIES[mode]]
    test = metafunc.definition.nodeid
    params = variants(test, modes, chosen("stores", STORES), chosen("homes", ("root",)))
    metafunc.parametrize("catalog", params, indirect=True)


@pytest.fixture(scope="session")
def buckets() -> dict[str, str]:
    """The bucket of each server of this session; every test has a prefix of its own in it."""
    return {}


@pytest.fixture
def catalog(request: pytest.FixtureRequest, tmp_path: Path, buckets: dict[str, str]) -> Catalog:
    """A catalog on a root where nothing is yet."""
    mode, kind, home = request.param
    made = Catalog(mode, kind, _root(request, kind, tmp_path, buckets))
    if home == "nested":
        made.home = NESTED
        made.make_home()
    return made


@pytest.fixture
def managed(catalog: Catalog) -> Catalog:
    """A catalog that manages versions, with the namespace ``ns``."""
    catalog.namespace("ns")
    assert catalog.enable_managed_versions().managed
    return catalog


def _root(request: pytest.FixtureRequest, kind: str, folder: Path, buckets: dict[str, str]) -> Root:
    if kind == "local":
        path = str(folder / "a root #1 100% ü")
        return Root(path, folder=path)
    if kind == "memory":
        uri = f"memory://{fresh_name()}"
        store: Any = open_store(uri, {})
        request.addfinalizer(store.remove_all)
        return Root(uri, folder=store.path)
    assert kind in CLOUD_STORES
    server = request.getfixturevalue(f"{kind}_server")
    if kind not in buckets:
        buckets[kind] = f"behaviour-{fresh_name()}"
        server.create_bucket(buckets[kind])
    prefix = f"deep/{fresh_name()}"
    return Root(
        server.uri(buckets[kind], prefix),
        options=server.storage_options(buckets[kind]),
        bucket=server.store(buckets[kind]),
        prefix=prefix,
    )
