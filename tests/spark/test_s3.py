"""A catalog on a real S3 server: the same rows, once, and credentials that nobody gets to see.

One driver is killed between its tasks and its commit, a second does everything with the UI, event
log and log of Spark's on. What it left is searched for the credentials in every form they have.
"""

from __future__ import annotations

import base64
import json
import secrets
import signal
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lance_catalog import DirectoryNamespace, connect
from lance_catalog.maintenance.check import check
from lance_catalog.maintenance.repair import apply, plan
from tests.servers.s3 import S3Server
from tests.spark.stream_driver import started, wait_for

pytest.importorskip("pyspark")
# One driver for all of them.
pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("s3 driver")]


@dataclass
class Ran:
    """What the driver saw, and the folder of all that it showed."""

    seen: dict[str, Any]
    out: Path
    killed: int
    catalog: DirectoryNamespace
    storage: dict[str, str]
    planted: str
    wrong: str


@pytest.fixture(scope="module")
def ran(s3_server: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    out = tmp_path_factory.mktemp("s3")
    bucket = f"spark-{uuid.uuid4().hex}"
    s3_server.create_bucket(bucket)
    storage = s3_server.storage_options(bucket)
    root, parquet = f"s3://{bucket}/root", f"s3://{bucket}/in/rows.parquet"
    catalog = connect(root, **{f"storage.{key}": value for key, value in storage.items()})
    catalog.create_namespace({"id": ["db"]})
    catalog.enable_managed_versions()
    rows = pa.table({"id": pa.array(range(110), pa.int64())})
    lance.write_dataset(
        rows, namespace_client=catalog, table_id=["db", "t"], storage_options=storage
    )
    local = out / "rows.parquet"
    pq.write_table(rows.slice(0, 50), local, row_group_size=20)
    s3_server.store(bucket).put("in/rows.parquet", local.read_bytes())
    # A number: it can stand in a filter, and nothing else has it.
    planted, wrong = str(10**17 + secrets.randbelow(10**17)), secrets.token_hex(16)
    told = {
        "root": root,
        "storage": storage,
        "parquet": parquet,
        "out": str(out),
        "planted": planted,
        "wrong": wrong,
    }
    killed = _driver({**told, "verb": "append"}, out, LANCE_CATALOG_FAILPOINTS="job.staged=kill")
    ended = _driver({**told, "verb": "tour"}, out)
    assert ended == 0, (out / "output-tour").read_text()[-4000:]
    seen = json.loads((out / "seen.json").read_text())
    return Ran(seen, out, killed, catalog, storage, planted, wrong)


def _driver(told: dict[str, Any], out: Path, **more: str) -> int:
    with (
        (out / f"output-{told['verb']}").open("wb") as file,
        started("tests.spark.s3_driver", told, file, **more) as child,
    ):
        wait_for("the driver", lambda: child.ended() is not None, 1500)
        return int(child.ended() or 0)


def test_rows_are_exact_and_committed_once(ran: Ran) -> None:
    seen = ran.seen
    assert ran.killed == -signal.SIGKILL
    # The first run of the killed job's second life commits, the next finds that.
    assert seen["repeated"] == [False, True, False, False, False, False]
    once = [*range(110), *range(100, 118)]
    assert seen["t"] == sorted([*once, *range(118, 125)])
    assert seen["made"] == [5, 6, 7, 8]
    assert seen["published"] == [4, 6]
    assert seen["ingested"] == list(range(50)) and seen["sql"] == 50
    later = sorted([*seen["t"], 200, 201, 202])
    assert seen["sink"] == later
    assert seen["plain"] == [len(later), len(later)] and seen["with planted"] == len(later)
    assert seen["even"] == [one for one in later if one % 2 == 0]
    assert seen["runs"] == 2
    assert seen["inventory"] == seen["verify"] == ["ok"]
    assert set(seen["compact"]) == {"compacted", "nothing"}
    assert seen["after compaction"] == later
    jobs = [
        ran.catalog.open_table(["db", "t"]).read_transaction(v["version"])
        for v in ran.catalog.open_table(["db", "t"]).versions()
    ]
    ids = [(one.transaction_properties or {}).get("lance_catalog.job") for one in jobs if one]
    assert ids.count("killed") == 1


def test_nothing_is_left_behind(ran: Ran) -> None:
    ctx = ran.catalog.context
    apply(ctx, plan(ctx, grace_seconds=-3600))
    assert check(ctx, grace_seconds=-3600).problems == []


def test_failures_are_told(ran: Ran) -> None:
    failed, tried = ran.seen["failed"]
    assert failed == tried
    # Six good ones; the last was given a wrong key.
    assert ran.seen["cli"][:-1] == [0] * (len(ran.seen["cli"]) - 1) and ran.seen["cli"][-1] != 0


def forms(value: str) -> Iterator[bytes]:
    """A text as it may stand somewhere: itself, and what of it shows in any base64 around it."""
    yield value.encode()
    for shift in range(3):
        made = base64.b64encode(b"x" * shift + value.encode())
        # Ends depend on what stands beside it.
        yield made[4 if shift else 0 : -4]
    yield value.encode().hex().encode()


def found_in(out: Path, values: Sequence[str]) -> dict[str, int]:
    """Return the files that hold one of the values, and how often."""
    needles = [one for value in values for one in forms(value)]
    hits: dict[str, int] = {}
    for file in sorted(out.rglob("*")):
        if file.is_file():
            body = file.read_bytes()
            count = sum(body.count(needle) for needle in needles)
            if count:
                hits[str(file.relative_to(out))] = count
    return hits


def test_credentials_are_shown_nowhere(ran: Ran) -> None:
    secret = [ran.storage["aws_access_key_id"], ran.storage["aws_secret_access_key"], ran.wrong]
    names = {file.name.split(".")[0] for file in ran.out.rglob("*") if file.is_file()}
    expected = {"cli", "errors", "jobs", "pipeline", "plan", "repr", "spark", "stream"}
    expected |= {"ui-sql", "ui-environment", "ui-page-execution", "ui-page-StreamingQuery"}
    assert expected <= names
    assert found_in(ran.out, secret) == {}


def test_the_search_finds_what_is_there(ran: Ran) -> None:
    """A number of one of the queries is found in all the places that show plans."""
    hits = found_in(ran.out, [ran.planted])
    assert {"plan.txt", "ui-sql.txt", "ui-page-execution.txt", "spark.log"} <= set(hits)
    assert any(name.startswith("events/") for name in hits)
    sealed = base64.b64encode(b'{"key": "' + ran.planted.encode() + b'"}')
    assert any(form in sealed for form in forms(ran.planted))
