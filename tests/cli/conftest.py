"""Every test here runs with its own empty configuration and leaves the logger as it was."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.support import Cli


@pytest.fixture(autouse=True)
def no_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in list(os.environ):
        if name.startswith("LANCE_CATALOG_") or name in ("FORCE_COLOR", "NO_COLOR", "COLUMNS"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    logger = logging.getLogger("lance_catalog")
    before = (logger.handlers, logger.propagate, logger.level)
    yield
    logger.handlers, logger.propagate = before[0], before[1]
    logger.setLevel(before[2])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture(params=["v1", "v2", "compat"])
def each(request: pytest.FixtureRequest, root: Path) -> Cli:
    """The command line in every mode."""
    return Cli(root, request.param)


@pytest.fixture(params=["v2", "compat"])
def nested(request: pytest.FixtureRequest, root: Path) -> Cli:
    """The command line in the modes that have namespaces."""
    return Cli(root, request.param)


@pytest.fixture
def cli(root: Path) -> Cli:
    """The command line as it is by default: compatibility mode."""
    return Cli(root, "compat")
