"""A purge without the right to delete: 15, and it says whether the table can come back (R4)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lance_catalog
from lance_catalog import DirectoryNamespace, TableState
from lance_catalog.config import Mode
from tests.behaviour.catalogs import SWITCHES, ipc, rows

#: Where the code under test is: the mutants have a copy of their own.
SOURCE = Path(lance_catalog.__file__).parents[1]
AS_NOBODY = """
import json, sys
import lance_catalog
from lance_catalog.errors import LanceNamespaceError
ns = lance_catalog.DirectoryNamespace(**json.loads(sys.argv[1]))
try:
    ns.purge_table(["t"], force=True)
    print(json.dumps([None, ""]))
except LanceNamespaceError as error:
    print(json.dumps([int(error.code), str(error)]))
"""

pytestmark = pytest.mark.skipif(
    shutil.which("setpriv") is None or os.getuid() != 0, reason="needs root and setpriv"
)


@pytest.fixture(params=list(Mode), ids=lambda mode: mode.value)
def dropped(request: pytest.FixtureRequest) -> Iterator[tuple[DirectoryNamespace, dict[str, Any]]]:
    """A catalog that everybody may write to, with a dropped table ``t``."""
    folder = tempfile.mkdtemp()
    os.chmod(folder, 0o777)
    properties = {"root": folder, **SWITCHES[request.param]}
    ns = DirectoryNamespace(**properties)
    ns.create_table({"id": ["t"]}, ipc(rows([1, 2, 3])))
    ns.drop_table({"id": ["t"]})
    for where, folders, files in os.walk(folder):
        for name in (*folders, *files):
            os.chmod(os.path.join(where, name), 0o777)
    yield ns, properties
    shutil.rmtree(folder)


def purge_as_nobody(properties: dict[str, Any]) -> tuple[int | None, str]:
    """Purge as a user who owns nothing: root is refused nothing."""
    command = ["setpriv", "--reuid=65534", "--clear-groups", sys.executable, "-c", AS_NOBODY]
    done = subprocess.run(
        [*command, json.dumps(properties)],
        cwd="/",
        env={**os.environ, "PYTHONPATH": str(SOURCE), "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    code, text = json.loads(done.stdout)
    return code, text


def place_of(ns: DirectoryNamespace, properties: dict[str, Any]) -> str:
    return os.path.join(properties["root"], ns.list_dropped_tables()[0].location)


def test_nothing_deleted(dropped: tuple[DirectoryNamespace, dict[str, Any]]) -> None:
    """R4: the table stays in the trash, and can be brought back."""
    ns, properties = dropped
    os.chmod(place_of(ns, properties), 0o755)
    code, text = purge_as_nobody(properties)
    assert (code, "can still be restored" in text) == (15, True), text
    assert not ns.table_status(["t"]).purging
    ns.undrop_table(["t"])
    assert ns.count_table_rows({"id": ["t"]}) is not None
    assert ns.open_table(["t"]).count_rows() == 3


def test_something_deleted(dropped: tuple[DirectoryNamespace, dict[str, Any]]) -> None:
    """R4: it cannot come back, and who may delete finishes."""
    ns, properties = dropped
    # The last in the order in which a purge deletes, which differs between file systems.
    with os.scandir(place_of(ns, properties)) as found:
        last = [entry.path for entry in found if entry.is_dir() and os.listdir(entry.path)][-1]
    os.chmod(last, 0o555)
    code, text = purge_as_nobody(properties)
    assert (code, "cannot be restored" in text) == (15, True), text
    status = ns.table_status(["t"])
    assert (status.state, status.purging) == (TableState.SOFT_DELETED, True)
    ns.context.lease_ms = 0
    ns.purge_table(["t"])
    assert ns.table_status(["t"]).state is TableState.NOT_FOUND
    left = {name for name in os.listdir(properties["root"]) if name != "__manifest"}
    assert left == set()


def test_with_the_right(dropped: tuple[DirectoryNamespace, dict[str, Any]]) -> None:
    """The control: the same user, nothing denied."""
    ns, properties = dropped
    assert purge_as_nobody(properties) == (None, "")
    assert ns.table_status(["t"]).state is TableState.NOT_FOUND
