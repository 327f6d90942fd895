"""Managed versions: what the catalog adds to an append of pylance's, and what many versions add.

The sides take turns, one call each per round. The large registry holds version rows of tables that
nobody touches, written into the manifest in bulk; the tables that are measured are real ones.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import lance
import lance_namespace
import pyarrow as pa

from benchmarks.catalogs import Catalogs, seed_rows, warm_up
from benchmarks.figures import Figure, percentile, summary
from benchmarks.plans import Plan
from benchmarks.sides import OURS, connect
from lance_catalog.manifest import Change
from lance_catalog.manifest.schema import SCHEMA
from lance_catalog.storage.manifests import Naming, manifest_name
from lance_catalog.versions.registry import FLAG, Registered

__all__ = ["rows_of_versions", "versions"]

#: Versions of each table in the large registry.
_PER_TABLE: Final = 1_000
#: Of the tables that are listed and committed to at once.
_BATCH: Final = 16
_LISTED: Final = 1_000
_WARM: Final = 5
_NAMESPACE: Final = "bench"

Say = Callable[[str], None]
Calls = Mapping[str, Callable[[int], Any]]


def rows_of_versions(rows: int) -> pa.Table:
    """Return a manifest of about this many version rows, with the tables they belong to."""
    tables = max(1, rows // _PER_TABLE)
    each = -(-rows // tables)
    names = [f"seed$t{number:05d}" for number in range(tables)]
    places = [f"{number:08x}_{name}" for number, name in enumerate(names)]
    ids, metadata = [], []
    for name, place in zip(names, places, strict=True):
        for version in range(1, each + 1):
            row = Registered(version, Naming.V2, 1000, f'"{version}-1000"', version).row(
                name, place
            )
            ids.append(row.object_id)
            metadata.append(row.metadata)
    others = 1 + len(names)
    return pa.table(
        {
            "object_id": ["seed", *names, *ids],
            "object_type": ["namespace"] + ["table"] * len(names) + ["table_version"] * len(ids),
            "location": [None, *places] + [None] * len(ids),
            "metadata": [None] * others + metadata,
            "base_objects": [None] * (others + len(ids)),
        },
        schema=SCHEMA,
    )


def _managed(root: Path, rows: int) -> Any:
    """Return a catalog that manages versions, with this many of them registered."""
    if rows:
        seed_rows(str(root), rows_of_versions(rows))
    catalog = connect(OURS, str(root))
    catalog.create_namespace(lance_namespace.CreateNamespaceRequest(id=[_NAMESPACE]))
    # What `versions enable` ends with; before that it would look for the manifests of each row.
    catalog.context.commit(lambda view: (Change(table_metadata={FLAG: "true"}), None))
    warm_up(OURS, str(root), catalog)
    return catalog


def _one_row(number: int) -> pa.Table:
    return pa.table({"n": pa.array([number], pa.int64())})


def _turns(calls: Calls, rounds: int) -> dict[str, list[float]]:
    """Return the milliseconds of each side's calls: one per round, the first one changing.

    As many for each side: every append makes the table's manifest, and so the next one, longer.
    """
    times: dict[str, list[float]] = {side: [] for side in calls}
    order = list(calls)
    for number in range(-_WARM, rounds):
        for side in order:
            start = time.perf_counter()
            calls[side](number + _WARM)
            took = (time.perf_counter() - start) * 1000
            if number >= 0:
                times[side].append(took)
        order.append(order.pop(0))
    return times


def versions(plan: Plan, catalogs: Catalogs, say: Say) -> list[Figure]:
    """Measure appends, a batch, and the listing."""
    rows, rounds = plan.version_rows, plan.version_rounds
    say(f"versions: a registry of {rows:,} rows")
    roots = {"small": catalogs.empty(), "large": catalogs.empty()}
    opened = {"small": _managed(roots["small"], 0), "large": _managed(roots["large"], rows)}
    plain = catalogs.empty()
    say(f"versions: {rounds} appends of each kind")
    figures = _appends(opened, plain, rows, rounds)
    say(f"versions: {rounds} batches of {_BATCH} tables, and the latest 10 versions")
    figures.append(_batch(opened["small"], roots["small"], rounds))
    figures.append(_listing(opened["large"], roots["large"], rows, rounds))
    for root in (*roots.values(), plain):
        catalogs.discard(root)
    return figures


def _appends(opened: Mapping[str, Any], plain: Path, rows: int, rounds: int) -> list[Figure]:
    figures: list[Figure] = []
    for name, through in (("append", _by_handle), ("append, opened anew", _anew)):
        calls: dict[str, Callable[[int], Any]] = {"plain": through(f"{plain}/{name}", {})}
        for size, catalog in opened.items():
            where = {"namespace_client": catalog, "table_id": [_NAMESPACE, name]}
            calls[size] = through(None, where)
        times = _turns(calls, rounds)
        p50 = {side: percentile(found, 0.5) for side, found in times.items()}
        details = {side: summary(found) for side, found in times.items()}
        figures.append(
            Figure(
                "versions",
                name,
                None,
                "ms",
                p50["small"],
                p50["plain"],
                p50["small"] / p50["plain"],
                "ours/native",
                "native: pylance alone, without a catalog",
                details,
            )
        )
        grown = p50["large"] / p50["small"]
        note = f"{p50['large']:.2f} ms, against {p50['small']:.2f} ms with an empty registry"
        figures.append(
            Figure(
                "versions",
                f"{name}: growth",
                rows,
                "×",
                grown,
                None,
                grown,
                "growth",
                note,
                details,
            )
        )
    return figures


def _by_handle(uri: str | None, where: dict[str, Any]) -> Callable[[int], Any]:
    """Append by a handle that stays open."""
    table = lance.write_dataset(_one_row(0), uri, mode="create", **where)
    return lambda number: table.insert(_one_row(number))


def _anew(uri: str | None, where: dict[str, Any]) -> Callable[[int], Any]:
    """Append as a job does that opens the table for it."""
    lance.write_dataset(_one_row(0), uri, mode="create", **where)
    return lambda number: lance.write_dataset(_one_row(number), uri, mode="append", **where)


def _filled(catalog: Any, root: Path, name: str, count: int) -> tuple[list[str], Path]:
    """Make a table of this many versions: copies of one manifest, and their rows."""
    table = [_NAMESPACE, name]
    where = {"namespace_client": catalog, "table_id": table}
    lance.write_dataset(_one_row(0), None, mode="create", **where)
    key = "$".join(table)
    place = catalog.snapshot().get(key).location
    folder = root / place / "_versions"
    first = folder / manifest_name(1, Naming.V2)
    made = []
    for number in range(2, count + 1):
        os.link(first, folder / manifest_name(number, Naming.V2))
        one = Registered(number, Naming.V2, first.stat().st_size, None, number)
        made.append(one.row(key, place))
    if made:
        catalog.context.commit(lambda view: (Change(add=tuple(made)), None))
    return table, folder


def _batch(catalog: Any, root: Path, rounds: int) -> Figure:
    """Measure one commit that makes versions of many tables, beside one that makes one."""
    tables = [_filled(catalog, root, f"batch{number:02d}", 1) for number in range(_BATCH + 1)]
    body = (tables[0][1] / manifest_name(1, Naming.V2)).read_bytes()
    # Staged before the clock starts: that is the writers' part.
    for _, folder in tables:
        for number in range(rounds + _WARM):
            (folder / f"next.manifest-{number}").write_bytes(body)

    def commit(some: list[tuple[list[str], Path]], number: int) -> None:
        entries = [
            {"id": table, "version": number + 2, "manifest_path": f"next.manifest-{number}"}
            for table, _ in some
        ]
        catalog.batch_create_table_versions({"entries": entries})

    times = _turns(
        {
            "one": lambda number: commit(tables[:1], number),
            "many": lambda number: commit(tables[1:], number),
        },
        rounds,
    )
    p50 = {side: percentile(found, 0.5) for side, found in times.items()}
    ratio = p50["many"] / p50["one"]
    return Figure(
        "versions",
        f"{_BATCH} tables in one commit",
        None,
        "×",
        ratio,
        None,
        ratio,
        "many/one",
        f"{p50['many']:.2f} ms, against {p50['one']:.2f} ms for one table",
        {side: summary(found) for side, found in times.items()},
    )


def _listing(catalog: Any, root: Path, rows: int, rounds: int) -> Figure:
    """Measure the first page of the versions of some tables, the latest first."""
    made = [_filled(catalog, root, f"listed{n}", min(_LISTED, rows))[0] for n in range(4)]
    tables = itertools.cycle(made)

    def page(number: int) -> Any:
        del number
        request = lance_namespace.ListTableVersionsRequest(id=next(tables), limit=10)
        return catalog.list_table_versions(request)

    found = page(0).versions
    if [one.version for one in found] != list(range(min(_LISTED, rows), 0, -1))[:10]:
        message = f"the latest versions are not {found}"
        raise RuntimeError(message)
    times = _turns({OURS: page}, rounds)[OURS]
    p50 = percentile(times, 0.5)
    note = f"p99 {percentile(times, 0.99):.2f} ms; warm"
    details = {OURS: summary(times)}
    return Figure(
        "versions", "latest 10 versions", rows, "ms", p50, None, p50, "ours", note, details
    )
