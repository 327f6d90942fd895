"""Storage requests per call on an S3 server, counted by a proxy in front of it, for each side.

MinIO comes from the test servers. Every side has its own proxy and its own copy of the seed; the
namespace objects are warm. Counts do not depend on the machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, Final

import obstore
from tests.servers.fetch import NotFetchedError, ToolchainMissingError
from tests.servers.proxy import CountingProxy
from tests.servers.s3 import S3Server

from benchmarks.catalogs import Catalogs, seed, warm_up
from benchmarks.figures import Figure, better, percentile
from benchmarks.plans import Plan
from benchmarks.sides import NATIVE, OPERATIONS, OURS, SIDES, Names, connect, v1_list
from lance_catalog.directory.migration import migrate

__all__ = ["SkippedError", "requests"]

_BUCKET: Final = "bench"
_WARM: Final = 3
_V1: Final = {"manifest_enabled": "false", "dir_listing_enabled": "true"}

Say = Callable[[str], None]


class SkippedError(RuntimeError):
    """What a part needs is not on this machine; the message says how to get it."""


def requests(plan: Plan, catalogs: Catalogs, say: Say) -> list[Figure]:
    """Count the requests of every operation, and of the V1 listing."""
    del catalogs  # These lie in a bucket.
    with ExitStack() as stack:
        try:
            server = stack.enter_context(S3Server())
        except (NotFetchedError, ToolchainMissingError) as error:
            raise SkippedError(str(error)) from error
        server.create_bucket(_BUCKET)
        proxies = {side: stack.enter_context(CountingProxy(server.endpoint)) for side in SIDES}
        say(f"requests at {plan.request_rows:,} rows: {plan.request_calls} calls of each operation")
        figures = _operations(plan, server, proxies)
        say(f"requests of the V1 listing of {plan.request_v1_tables:,} tables")
        return [*figures, _v1(plan, server, proxies)]


def _open(
    server: S3Server, proxy: CountingProxy, side: str, folder: str, **given: str
) -> tuple[str, Any]:
    root = server.uri(_BUCKET, folder)
    options = server.storage_options(_BUCKET, endpoint=proxy.endpoint)
    return root, connect(
        side, root, **given, **{f"storage.{name}": value for name, value in options.items()}
    )


def _operations(plan: Plan, server: S3Server, proxies: dict[str, CountingProxy]) -> list[Figure]:
    direct = server.storage_options(_BUCKET)
    names = Names(plan.request_rows)
    counts: dict[str, dict[str, list[Counter[str]]]] = {name: {} for name in OPERATIONS}
    for side, proxy in proxies.items():
        folder = f"v2-{side.replace(' ', '-')}"
        seed(server.uri(_BUCKET, folder), plan.request_rows, direct)
        root, namespace = _open(server, proxy, side, folder)
        warm_up(side, root, namespace, direct)
        number = 0
        for name, operation in OPERATIONS.items():
            counts[name][side] = []
            for call in range(-_WARM, plan.request_calls):
                proxy.traffic.reset()
                operation(namespace, names, number)
                number += 1
                if call >= 0:
                    counts[name][side].append(Counter(proxy.traffic.counts().kinds))
    return [_figure(name, plan.request_rows, found) for name, found in counts.items()]


def _v1(plan: Plan, server: S3Server, proxies: dict[str, CountingProxy]) -> Figure:
    store = server.store(_BUCKET)
    keys = [
        f"v1/table{number:06d}.lance/{file}"
        for number in range(plan.request_v1_tables)
        for file in (".lance-reserved", "_versions/1.manifest")
    ]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda key: obstore.put(store, key, b"reserved"), keys))
    found: dict[str, list[Counter[str]]] = {}
    # One bucket for both: reading changes nothing. Native's other setting is about the manifest.
    for side in (OURS, NATIVE[0]):
        proxy = proxies[side]
        _, namespace = _open(server, proxy, side, "v1", **_V1)
        if side == OURS:
            # These tables were not made through us, so the root is taken over first: R7.
            migrate(namespace.context)
        for _ in range(2):  # The second is the warm one.
            proxy.traffic.reset()
            listed = len(v1_list(namespace).tables)
        if listed != plan.request_v1_tables:
            message = f"{side} lists {listed} of {plan.request_v1_tables} V1 tables"
            raise RuntimeError(message)
        found[side] = [Counter(proxy.traffic.counts().kinds)]
    return _figure("V1 list_tables", plan.request_v1_tables, found, keys=len(keys))


def _figure(name: str, rows: int, found: dict[str, list[Counter[str]]], **more: int) -> Figure:
    """Return the median per call; the mean shows what the rare upkeep adds."""
    totals = {side: [float(call.total()) for call in calls] for side, calls in found.items()}
    p50 = {side: percentile(values, 0.5) for side, values in totals.items()}
    details: dict[str, Any] = {
        side: {
            "p50": p50[side],
            "mean": sum(totals[side]) / len(calls),
            "max": max(totals[side]),
            "mean_by_kind": _by_kind(calls),
        }
        for side, calls in found.items()
    }
    best = min((side for side in p50 if side != OURS), key=lambda side: p50[side])
    return Figure(
        part="requests",
        name=name,
        rows=rows,
        unit="",
        ours=p50[OURS],
        native=better(p50[side] for side in p50 if side != OURS),
        value=p50[OURS],
        measure="ours",
        note=f"mean ours {_text(details[OURS])}; native {_text(details[best])}",
        details={**details, **more},
    )


def _by_kind(calls: list[Counter[str]]) -> dict[str, float]:
    together: Counter[str] = Counter()
    for call in calls:
        together.update(call)
    return {kind: together[kind] / len(calls) for kind in sorted(together)}


def _text(details: dict[str, Any]) -> str:
    kinds = ", ".join(f"{kind} {_short(mean)}" for kind, mean in details["mean_by_kind"].items())
    return f"{_short(details['mean'])} ({kinds or 'none'}), max {details['max']:,.0f}"


def _short(mean: float) -> str:
    return f"{mean:,.2f}".rstrip("0").rstrip(".")
