"""One root, two processes' worth of handles, and steps that run in between.

A second handle reaches the root by another spelling of its path, so it has a log and a lock of its
own, as another process would.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lance_catalog import DirectoryNamespace
from lance_catalog.config import Mode
from lance_catalog.directory import (
    first_version,
    migration,
    places,
    reviving,
    settling,
    tables,
    trashing,
    undropping,
)
from lance_catalog.lifecycle import markers, purge, removal
from lance_catalog.maintenance.check import check
from tests.concurrency.racing import open_catalog, rows_at

T = {"id": ["t"]}
WITH_POINTS = (
    first_version,
    markers,
    migration,
    places,
    purge,
    removal,
    reviving,
    settling,
    tables,
    trashing,
    undropping,
)


class Root:
    """One root, reached by two processes' worth of handles."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = str(folder / "root")
        os.mkdir(self.path)
        os.symlink(self.path, folder / "alias")
        self.alias = str(folder / "alias")
        self.patch = monkeypatch

    def first(self, mode: Mode) -> DirectoryNamespace:
        return open_catalog(self.path, mode)

    def second(self, mode: Mode) -> DirectoryNamespace:
        return open_catalog(self.alias, mode)

    def at(self, point: str, run: Callable[[], object]) -> None:
        """Run something the first time a fail point is reached, in whoever reaches it."""
        left = [run]

        def hook(name: str) -> None:
            if name == point and left:
                left.pop()()

        self.on_hit(hook)

    def on_hit(self, hook: Callable[[str], None]) -> None:
        """Call something at every fail point that is reached."""
        for module in WITH_POINTS:
            self.patch.setattr(module, "hit", hook)

    def around(
        self,
        module: Any,
        name: str,
        *,
        before: Callable[[], object] | None = None,
        after: Callable[[], object] | None = None,
    ) -> None:
        """Run something before or after the first call of a function, in whoever calls it."""
        real = getattr(module, name)
        first = [True]

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            mine = bool(first)
            first.clear()
            if mine and before is not None:
                before()
            answer = real(*args, **kwargs)
            if mine and after is not None:
                after()
            return answer

        self.patch.setattr(module, name, wrapped)

    def clean(self, mode: Mode) -> None:
        """Nothing that a check would report, and no file of ours outside the tables."""
        problems = check(self.first(mode).context, grace_seconds=-3600).problems
        assert problems == [], problems


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Root:
    return Root(tmp_path, monkeypatch)


def data(ns: DirectoryNamespace, *names: str) -> list[int]:
    return rows_at(ns.describe_table({"id": list(names)}).location)


def tables_of(ns: DirectoryNamespace) -> list[str]:
    return list(ns.list_tables({"id": []}).tables)
