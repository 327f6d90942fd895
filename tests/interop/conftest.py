"""A root of its own for every test."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.register_assert_rewrite("tests.interop.peers")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"
