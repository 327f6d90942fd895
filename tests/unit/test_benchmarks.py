"""The benchmarks run, and say what they found: no figure is judged here, only how it is made."""

from __future__ import annotations

import itertools
import json
import math
import statistics
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lance
import pytest
from benchmarks import child, report, upkeep, versions
from benchmarks.__main__ import main
from benchmarks.catalogs import Catalogs, rows_of
from benchmarks.cold import first_call
from benchmarks.figures import Bound, Figure, better, percentile
from benchmarks.local import growth, measure
from benchmarks.plans import FULL, SHORT, Plan
from benchmarks.requests import SkippedError
from benchmarks.running import PARTS, run
from benchmarks.sides import OPERATIONS, OURS, SIDES, Names
from benchmarks.targets import target_of
from benchmarks.upkeep import commits
from benchmarks.versions import rows_of_versions
from benchmarks.workers import Job, Workers
from rich.console import Console

TINY = Plan(
    name="tiny",
    rounds={200: 1, 400: 1},
    v1_directories=5,
    v1_rounds=1,
    cold_runs=1,
    threads=(1, 2),
    thread_creations=4,
    native_thread_creations=2,
    processes=2,
    process_creations={200: 2},
    commits=8,
    native_commits=4,
    version_rows=2_500,
    version_rounds=3,
)


def figure(part: str, name: str, rows: int | None, value: float, **details: Any) -> Figure:
    return Figure(part, name, rows, "ms", value, 1.0, value, "ours/native", details=details)


def test_a_tiny_run_writes_json_and_a_chart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In this process instead of fresh ones, which take seconds to import what is here already.
    here = {"benchmarks.cold": first_call, "benchmarks.upkeep": commits}
    monkeypatch.setattr(child, "run", lambda module, **given: here[module](**given))
    quiet = Console(file=(tmp_path / "said").open("w", encoding="utf-8"), width=160)
    # Those need a server, or a JVM.
    parts = [part for part in PARTS if part not in ("requests", "spark")]
    assert run(TINY, parts, tmp_path, "tiny", quiet)
    quiet.file.close()
    written = json.loads((tmp_path / "tiny.json").read_text(encoding="utf-8"))
    assert written["missing"] == {}
    assert written["machine"]["cpus"] and written["machine"]["versions"]["pylance"]
    found = {(one["part"], one["name"], one["rows"]): one for one in written["figures"]}
    for name in OPERATIONS:
        for rows in TINY.rounds:
            one = found["latency", name, rows]
            assert one["ours"] > 0 and one["native"] > 0
            assert set(one["details"]) == set(SIDES)
            alone = found["alone", name, rows]
            assert alone["ours"] > 0 and alone["native"] > 0 and alone["target"] is None
        assert found["growth", name, 400]["met"] in (True, False)
        assert found["growth", f"{name}, alone", 400]["met"] in (True, False)
    assert found["latency", "V1 list_tables", 5]["target"] is None
    assert found["cold", "first describe", 400]["ours"] > 0
    assert found["throughput", "2 processes: failures", 200]["met"] is True
    assert found["throughput", "2 processes", 200]["ours"] > 0
    assert found["upkeep", "fragments, most", 8]["ours"] >= 1
    one = found["versions", "append", None]
    assert one["ours"] > 0 and one["native"] > 0 and one["met"] in (True, False)
    assert set(one["details"]) == {"plain", "small", "large"}
    assert found["versions", "append: growth", 2_500]["ours"] > 0
    assert found["versions", "16 tables in one commit", None]["met"] in (True, False)
    assert found["versions", "latest 10 versions", 2_500]["ours"] > 0
    assert (tmp_path / "tiny.png").read_bytes().startswith(b"\x89PNG")
    said = (tmp_path / "said").read_text(encoding="utf-8")
    assert "targets met" in said and "Latency" in said


def test_a_measurement_in_a_fresh_process(tmp_path: Path) -> None:
    root = str(Catalogs(tmp_path).fresh(OURS, 200))
    given = {"side": OURS, "root": root, "rows": 200}
    found = child.run("benchmarks.cold", **given, what="describe")
    assert found["ms"] > 0 and found["imported"] > 0 and found["peak"] >= found["added"]
    with pytest.raises(RuntimeError, match="ended with 1"):
        child.run("benchmarks.cold", nonsense=True)


def test_a_part_that_breaks_or_is_skipped_costs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: object) -> list[Figure]:
        raise ValueError("out of luck")

    def lacks(*_: object) -> list[Figure]:
        raise SkippedError("no server")

    monkeypatch.setitem(PARTS, "latency", breaks)
    monkeypatch.setitem(PARTS, "requests", lacks)
    monkeypatch.setitem(PARTS, "cold", lambda *_: [figure("cold", "snapshot", 1, 2.0)])
    with (tmp_path / "said").open("w", encoding="utf-8") as said:
        console = Console(file=said)
        assert not run(TINY, ["latency", "requests", "cold"], tmp_path, "x", console)
        assert run(TINY, ["requests", "cold"], tmp_path, "y", console)
    written = json.loads((tmp_path / "x.json").read_text(encoding="utf-8"))
    assert "out of luck" in written["missing"]["latency"]
    assert written["missing"]["requests"] == "skipped: no server"
    assert [one["name"] for one in written["figures"]] == ["snapshot"]


def test_only_a_whole_run_replaces_the_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for part in PARTS:
        monkeypatch.setitem(PARTS, part, lambda *_: [])
    for arguments, name in (
        ([], "short"),
        (["--full"], "full"),
        (["--full", "--only", "cold"], "partial"),
        (["--sizes", "1000"], "partial"),
    ):
        folder = tmp_path / f"{len(arguments)}{name}"
        assert main([*arguments, "--results", str(folder)]) == 0
        assert [path.name for path in folder.iterdir()] == [f"{name}.json"]
    with pytest.raises(SystemExit):
        main(["--only", "nonsense"])


@pytest.mark.parametrize("count", [1, 2, 3, 10, 101])
def test_percentiles(count: int) -> None:
    values = [float(number * 37 % 1009) for number in range(count)]
    assert percentile(values, 0.5) == pytest.approx(statistics.median(values))
    assert percentile(values, 0.0) == min(values)
    assert percentile(values, 1.0) == max(values)
    if count > 1:
        cuts = statistics.quantiles(values, n=100, method="inclusive")
        assert percentile(values, 0.99) == pytest.approx(cuts[98])
    assert math.isnan(percentile([], 0.5))


def test_native_is_taken_at_its_best() -> None:
    assert better([3.0, 2.0, math.nan]) == 2.0
    assert better([3.0, 2.0], higher=True) == 3.0
    assert math.isnan(better([]))


def test_bounds() -> None:
    assert Bound("<=", 0.7).met(0.7) and not Bound("<=", 0.7).met(0.71)
    assert Bound(">=", 20).met(20.0) and not Bound(">=", 20).met(19.9)
    assert not Bound("<=", 1).met(math.nan) and not Bound(">=", 1).met(math.nan)
    assert str(Bound(">=", 1.0, "1.5 wanted")) == "≥ 1 (1.5 wanted)"


@pytest.mark.parametrize(
    ("part", "name", "rows", "limit"),
    [
        ("latency", "create_namespace", 1_000, 0.7),
        ("latency", "declare_table", 100_000, 0.05),
        ("latency", "describe_table", 1_000_000, 0.02),
        ("latency", "list_tables limit 100", 100_000, 0.02),
        ("latency", "V1 list_tables", 10_000, 0.06),
        ("growth", "table_exists", 1_000_000, 1.5),
        ("cold", "first describe", 1_000_000, 50.0),
        ("cold", "snapshot memory", 1_000_000, 600.0),
        ("throughput", "1 process, 64 threads", 1_000, 20.0),
        ("throughput", "16 processes", 100_000, 10.0),
        ("throughput", "16 processes: p99", 1_000, 1.0),
        ("throughput", "16 processes: failures", 1_000, 0.0),
        ("requests", "create_namespace", 1_000, 6.0),
        ("upkeep", "p50, last against first", 100_000, 1.5),
        ("versions", "append", None, 2.0),
        ("versions", "append: growth", 1_000_000, 1.3),
        ("versions", "16 tables in one commit", None, 2.0),
        ("versions", "latest 10 versions", 1_000_000, 10.0),
    ],
)
def test_targets(part: str, name: str, rows: int | None, limit: float) -> None:
    target = target_of(figure(part, name, rows, 1.0))
    assert target is not None and target.limit == limit


def test_what_has_no_target_is_only_reported() -> None:
    for one in (
        figure("latency", "create_namespace", 10_000, 9.0),
        figure("latency", "V1 list_tables", 5, 9.0),
        figure("cold", "snapshot", 100_000, 9.0),
        figure("requests", "declare_table", 1_000, 9.0),
    ):
        plain = report.as_json(one)
        assert plain["target"] is None and plain["met"] is None


def test_the_listing_of_v1_may_take_a_request_per_thousand_keys() -> None:
    for keys, limit in ((999, 1), (1_000, 1), (1_001, 2), (2_500, 3)):
        target = target_of(figure("requests", "V1 list_tables", 10, 1.0, keys=keys))
        assert target is not None and target.limit == limit


def test_every_target_is_measured_by_the_full_plan() -> None:
    """A target whose name no part uses would silently never be judged."""
    assert set(FULL.rounds) == {1_000, 10_000, 100_000, 1_000_000}
    assert FULL.v1_directories == 10_000 and SHORT.v1_directories == 10_000
    assert max(FULL.threads) == 64 and FULL.processes == 16
    assert set(FULL.process_creations) == {1_000, 100_000}
    assert FULL.version_rows == 1_000_000


def test_growth_is_from_the_smallest_to_the_largest() -> None:
    found = growth(
        [
            figure("latency", "table_exists", 1_000, 2.0),
            figure("latency", "table_exists", 10_000, 9.0),
            figure("latency", "table_exists", 100_000, 3.0),
            figure("latency", "V1 list_tables", 10_000, 3.0),
            figure("alone", "table_exists", 1_000, 4.0),
            figure("alone", "table_exists", 100_000, 5.0),
        ]
    )
    assert [(one.name, one.rows, one.value) for one in found] == [
        ("table_exists", 100_000, 1.5),
        ("table_exists, alone", 100_000, 1.25),
    ]


def test_the_look_at_a_manifest_lists_no_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listing of a hundred thousand of them would be most of the memory that is measured."""
    opened: list[int | None] = []
    real = lance.dataset

    def dataset(uri: str, version: int | None = None) -> Any:
        opened.append(version)
        return real(uri, version=version)

    root = Catalogs(tmp_path).fresh(OURS, 200)
    latest = real(str(root / "__manifest"))
    monkeypatch.setattr(lance, "dataset", dataset)
    assert upkeep._fragments(str(root / "__manifest")) == len(latest.get_fragments())
    assert opened == [latest.version]
    files = [path for path in root.rglob("*") if path.is_file()]
    assert upkeep._files(str(root)) == (len(files), sum(path.stat().st_size for path in files))


def test_rounds_interleave_and_the_first_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    # A clock that stands still: calls take no time, so each round has twenty of them.
    monkeypatch.setattr("benchmarks.local.time", SimpleNamespace(perf_counter=lambda: 0.0))
    order: list[str] = []
    calls = {
        name: lambda number, name=name: order.append(name) if number % 20 == 0 else None
        for name in ("a", "b", "c")
    }
    times = measure(calls, 3, {name: itertools.count() for name in calls}, warm=1)
    # The warm round is not in the times.
    assert order == list("abcbcacababc")
    assert {len(found) for found in times.values()} == {60}


def test_a_slow_call_is_made_once_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count()
    monkeypatch.setattr("benchmarks.local.time", SimpleNamespace(perf_counter=lambda: next(clock)))
    times = measure({"slow": lambda _: None}, 3, {"slow": itertools.count()}, warm=2)
    assert times == {"slow": [1000.0] * 3}


def test_a_seed_is_a_catalog(tmp_path: Path) -> None:
    for rows in (1, 200, 1_000):
        table = rows_of(rows)
        ids = table["object_id"].to_pylist()
        assert len(ids) == len(set(ids)) == rows
        namespaces = {name for name in ids if "$" not in name}
        assert {name.partition("$")[0] for name in ids} == namespaces
    names = Names(1_000)
    asked = ["$".join(names.table(number)) for number in range(names.namespaces * 99)]
    assert set(asked) <= set(ids)
    # None twice: an object that remembers would look faster the smaller the catalog is.
    assert len(set(asked)) == len(asked) == 891
    catalogs = Catalogs(tmp_path)
    root = catalogs.fresh(OURS, 200)
    indices = {one.name for one in lance.dataset(str(root / "__manifest")).describe_indices()}
    assert "object_id_btree" in indices
    catalogs.discard(root)
    assert not root.exists()


def test_a_seeded_registry_is_one(tmp_path: Path) -> None:
    """Its rows are those of the tables that are in it, each number once."""
    table = rows_of_versions(2_500)
    by_type: dict[str, list[str]] = {}
    for key, kind in zip(table["object_id"].to_pylist(), table["object_type"], strict=True):
        by_type.setdefault(kind.as_py(), []).append(key)
    assert len(by_type["table"]) == 2
    found = by_type["table_version"]
    assert len(found) == len(set(found)) == 2_500
    assert {key.rpartition("$")[0] for key in found} == set(by_type["table"])
    root = tmp_path / "root"
    catalog = versions._managed(root, 2_500)
    status = catalog.managed_versions_status()
    assert (status.managed, status.tables, status.versions) == (True, 2, 2_500)


def test_each_side_appends_as_often(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count()
    monkeypatch.setattr(
        "benchmarks.versions.time", SimpleNamespace(perf_counter=lambda: next(clock))
    )
    order: list[str] = []
    calls = {name: lambda number, name=name: order.append(name) for name in "ab"}
    times = versions._turns(calls, 2)
    assert order[:4] == list("abba") and order.count("a") == order.count("b") == 7
    # The warm ones are not in the times.
    assert times == {"a": [1000.0] * 2, "b": [1000.0] * 2}


def test_workers_create_at_once_and_tell_of_failures(tmp_path: Path) -> None:
    root = str(Catalogs(tmp_path).fresh(OURS, 200))
    with Workers(2) as workers:
        first = workers.run(Job(OURS, root, 2, 3))
        assert len(first.milliseconds) == 12 and first.failures == []
        assert first.per_second > 0
        # The same names again: each is refused, and counted.
        second = workers.run(Job(OURS, root, 1, 3), alone=True)
        assert second.milliseconds == [] and len(second.failures) == 3
