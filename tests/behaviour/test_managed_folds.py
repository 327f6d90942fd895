"""Changes of versions and of tables by several callers, folded into one commit of the manifest:
each is planned on top of the ones before it, which are not written yet.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from lance_catalog.config import Mode
from lance_catalog.errors import LanceNamespaceError
from lance_catalog.manifest.batcher import Ticket, fold
from tests.behaviour.catalogs import Catalog, rows
from tests.behaviour.versioning import T, numbers, opened, version_rows, write

pytestmark = [pytest.mark.modes(Mode.V2), pytest.mark.stores("local")]

U = ["ns", "u"]


class _CapturedError(BaseException):
    """Raised instead of committing; nobody on the way takes it for a failure of his."""


@pytest.fixture
def together(managed: Catalog, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[int]]:
    """Land several calls in one commit; the codes they are refused with, 0 for none."""
    write(managed, T, [1], "create")
    for number in (2, 3, 4):
        opened(managed).insert(rows([number]))

    def run(*calls: Callable[[], Any]) -> list[int]:
        plans: list[Any] = []

        def capture(plan: Any) -> None:
            plans.append(plan)
            raise _CapturedError

        ctx = managed.context
        with monkeypatch.context() as patch:
            patch.setattr(ctx, "commit", capture)
            for call in calls:
                with pytest.raises(_CapturedError):
                    call()
        tickets = [Ticket(plan, math.inf, None) for plan in plans]
        assert ctx.log is not None
        change, members, rest = fold(tickets, ctx.exact())
        assert (members, rest) == (tickets, [])
        ctx.commit(lambda view: (change, None))
        errors = [one.error for one in tickets]
        assert all(error is None or isinstance(error, LanceNamespaceError) for error in errors)
        return [int(getattr(error, "code", 0)) for error in errors]

    return run


def commit(catalog: Catalog, version: int) -> Callable[[], Any]:
    place = catalog.place(T)
    name = catalog.describe_table_version({"id": T}).version.manifest_path.rsplit("/", 1)[-1]
    path = f"{place}/_versions/next.manifest-{version}"
    catalog.root.put(path, catalog.root.get(f"{place}/_versions/{name}"))
    asked = {"id": T, "version": version, "manifest_path": path}
    return lambda: catalog.create_table_version(asked)


def delete(catalog: Catalog, start: int, end: int) -> Callable[[], Any]:
    ranges = [{"start_version": start, "end_version": end}]
    context = {"lance_catalog.ignore_missing": "false"}
    asked = {"id": T, "ranges": ranges, "context": context}
    return lambda: catalog.batch_delete_table_versions(asked)


def rename(catalog: Catalog) -> Callable[[], Any]:
    return lambda: catalog.rename_table({"id": T, "new_table_name": "u"})


def test_two_versions_of_one_number(managed: Catalog, together: Any) -> None:
    """Both looked before either was there; the second is refused."""
    assert together(commit(managed, 5), commit(managed, 5)) == [0, 12]
    assert numbers(managed) == [5, 4, 3, 2, 1]


def test_a_version_and_a_rename(managed: Catalog, together: Any) -> None:
    """It takes the version along; whoever asks for one of the old name afterwards gets 4."""
    assert together(commit(managed, 5), rename(managed)) == [0, 0]
    assert set(version_rows(managed)) == {f"ns$u${number}" for number in range(1, 6)}
    assert numbers(managed, U) == [5, 4, 3, 2, 1]


def test_a_rename_and_a_version(managed: Catalog, together: Any) -> None:
    assert together(rename(managed), commit(managed, 5)) == [0, 4]
    assert set(version_rows(managed)) == {f"ns$u${number}" for number in range(1, 5)}


def test_a_deletion_and_a_rename(managed: Catalog, together: Any) -> None:
    """What was deleted does not come back under the new name."""
    assert together(delete(managed, 1, 3), rename(managed)) == [0, 0]
    assert set(version_rows(managed)) == {"ns$u$3", "ns$u$4"}
    assert numbers(managed, U) == [4, 3]


def test_two_deletions(managed: Catalog, together: Any) -> None:
    """The second finds nothing of it any more: 11."""
    assert together(delete(managed, 1, 3), delete(managed, 2, 4)) == [0, 11]
    assert numbers(managed) == [4, 3]


@pytest.mark.parametrize("how", ["drop", "deregister", "cascade"])
def test_a_deletion_and_the_end_of_the_table(managed: Catalog, together: Any, how: str) -> None:
    """What was deleted does not come back with the table, its manifests being there or not."""
    ends: dict[str, Callable[[], Any]] = {
        "drop": lambda: managed.drop_table({"id": T}),
        "deregister": lambda: managed.deregister_table({"id": T}),
        "cascade": lambda: managed.drop_namespace({"id": ["ns"], "behavior": "cascade"}),
    }
    location = managed.describe_table({"id": T}).location
    assert together(delete(managed, 1, 3), ends[how]) == [0, 0]
    assert version_rows(managed) == {}
    if how == "cascade":
        managed.namespace("ns")
    if how == "deregister":
        managed.register_table({"id": T, "location": location})
    else:
        managed.undrop_table(T)
    assert numbers(managed) == [4, 3]


@pytest.mark.parametrize("how", ["drop", "deregister", "cascade"])
def test_a_version_and_the_end_of_the_table(managed: Catalog, together: Any, how: str) -> None:
    """14: until the version is in place its row is needed. The other way round it is 4."""
    ends: dict[str, Callable[[], Any]] = {
        "drop": lambda: managed.drop_table({"id": T}),
        "deregister": lambda: managed.deregister_table({"id": T}),
        "cascade": lambda: managed.drop_namespace({"id": ["ns"], "behavior": "cascade"}),
    }
    assert together(commit(managed, 5), ends[how]) == [0, 14]
    assert set(version_rows(managed)) == {f"ns$t${number}" for number in range(1, 6)}
    assert together(ends[how], commit(managed, 6)) == [0, 4]
    assert not [key for key in version_rows(managed) if key.endswith("$6")]


def test_in_one_request(managed: Catalog) -> None:
    """The same within batch_commit_tables."""
    write(managed, T, [1], "create")
    for number in (2, 3):
        opened(managed).insert(rows([number]))
    location = managed.describe_table({"id": T}).location
    ranges = [{"start_version": 1, "end_version": 2}]
    operations = [
        {"delete_table_versions": {"id": T, "ranges": ranges}},
        {"delete_table_versions": {"id": T, "ranges": ranges}},
        {"deregister_table": {"id": T}},
    ]
    answer = managed.batch_commit_tables({"operations": operations})
    counts = [one.delete_table_versions.deleted_count for one in answer.results[:2]]
    assert counts == [1, 0]
    managed.register_table({"id": T, "location": location})
    assert numbers(managed) == [3, 2]
