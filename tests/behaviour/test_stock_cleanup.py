"""Lance's own cleanup on a managed table: it does not tell the catalog what it removed."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from lance_catalog.config import Mode
from tests.behaviour.catalogs import Catalog, code, rows
from tests.behaviour.versioning import (
    T,
    numbers,
    opened,
    plain,
    staged,
    values,
    version_rows,
    write,
)

pytestmark = [pytest.mark.modes(Mode.V2), pytest.mark.stores("local")]


def made(managed: Catalog) -> Any:
    """A table of five versions, the second one tagged."""
    table = write(managed, T, [1], "create")
    table.insert(rows([2]))
    table.tags.create("kept", 2)
    for number in (3, 4, 5):
        table.insert(rows([number]))
    return table


def clean(dataset: Any) -> int:
    found = dataset.cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False)
    return int(found.old_versions)


@pytest.mark.stores("local", "s3")
@pytest.mark.parametrize("by", ["stock", "plain"])
def test_what_is_gone_is_not_there(managed: Catalog, by: str) -> None:
    """I35: 11 for what was cleaned; the rest, and what a tag holds, is as before."""
    stale = made(managed)
    assert clean(opened(managed) if by == "stock" else plain(managed)) == 3
    for version in (1, 3, 4):
        assert code(managed.describe_table_version, {"id": T, "version": version}) == 11
        with pytest.raises(ValueError, match=f"no version {version}"):
            opened(managed, version=version)
    assert values(opened(managed, version="kept")) == [1, 2]
    assert values(opened(managed)) == [1, 2, 3, 4, 5]
    # Whoever slept meanwhile goes on at the top: no number comes a second time.
    stale.insert(rows([6]))
    assert numbers(managed, limit=1) == [6]
    assert managed.data(T) == [1, 2, 3, 4, 5, 6]
    with pytest.raises(ValueError, match="no version 3"):
        opened(managed, version=3)


@pytest.mark.parametrize("look", ["list", "describe", "commit", "repair"])
def test_nothing_comes_back_from_a_staged_file(managed: Catalog, look: str) -> None:
    """Facts §3: a reader that copies what is staged would bring a version without data back."""
    made(managed)
    told = json.loads(version_rows(managed)["ns$t$3"]["metadata"])
    folder = f"{managed.place(T)}/_versions"
    # As a committer leaves it that died before it tidied up.
    managed.root.put(f"{folder}/{told['staged_name']}", managed.root.get(told["manifest_path"]))
    clean(plain(managed))
    looks: dict[str, Any] = {
        "list": lambda: managed.list_table_versions({"id": T, "descending": False}),
        "describe": lambda: code(managed.describe_table_version, {"id": T, "version": 3}),
        "commit": lambda: opened(managed).insert(rows([6])),
        "repair": lambda: managed.cleanup_table_versions(T, keep=1),
    }
    looks[look]()
    assert told["manifest_path"] not in managed.root.paths(folder)
    assert {v["version"] for v in plain(managed).versions()} == {2, 5, *([6] * (look == "commit"))}


def test_drop_and_undrop_after_it(managed: Catalog) -> None:
    """What comes back with a table is what lies there."""
    made(managed)
    clean(opened(managed))
    managed.drop_table({"id": T})
    managed.undrop_table(T)
    assert numbers(managed) == [5, 2]
    assert set(version_rows(managed)) == {"ns$t$2", "ns$t$5"}
    opened(managed).insert(rows([6]))
    assert numbers(managed) == [6, 5, 2]
    assert staged(managed) == []


def test_a_branch_keeps_what_it_starts_from(managed: Catalog) -> None:
    table = made(managed)
    branch = table.create_branch("b", 3)
    branch.insert(rows([30]))
    clean(opened(managed))
    assert values(opened(managed).checkout_version(("b", None))) == [1, 2, 3, 30]
    assert values(opened(managed, version=3)) == [1, 2, 3]
    assert code(managed.describe_table_version, {"id": T, "version": 4}) == 11
