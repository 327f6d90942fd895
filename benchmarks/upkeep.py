"""Many changes of one row each: does the catalog stay as quick, and the process as small?"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from benchmarks import child

__all__ = ["commits", "upkeep"]

#: Fragments are counted after every so many changes; prime, so that it falls into step with no
#: rhythm of the upkeep.
_LOOK_EVERY: Final = 7
_WINDOW: Final = 1_000

Say = Callable[[str], None]


def commits(side: str, root: str, count: int) -> dict[str, Any]:
    """In the child: create namespaces one by one and look at what becomes of the manifest."""
    import time

    import lance_namespace

    from benchmarks.figures import summary
    from benchmarks.sides import connect

    namespace = connect(side, root)
    manifest = f"{root}/__manifest"
    times: list[float] = []
    most = 0
    window = min(_WINDOW, max(1, count // 2))
    after_first = 0.0
    for number in range(count):
        request = lance_namespace.CreateNamespaceRequest(id=[f"n{number:07d}"])
        start = time.perf_counter()
        namespace.create_namespace(request)
        times.append((time.perf_counter() - start) * 1000)
        if number % _LOOK_EVERY == 0:
            most = max(most, _fragments(manifest))
        if number + 1 == window:
            after_first, _ = child.memory()
    after_last, _ = child.memory()
    files, size = _files(manifest)
    return {
        "commits": count,
        "window": window,
        "first": summary(times[:window]),
        "last": summary(times[-window:]),
        "fragments": most,
        "memory_first": after_first,
        "memory_last": after_last,
        "files": files,
        "mib": size / 2**20,
    }


def _fragments(manifest: str) -> int:
    """Count the fragments of the version that the writer's hint names.

    Without a number Lance lists all the versions, a hundred thousand names in the end, and the
    memory of the process would be that of the listing.
    """
    import lance

    from lance_catalog.storage.manifests import HINT

    hint = json.loads((Path(manifest) / "_versions" / HINT).read_bytes())
    return len(lance.dataset(manifest, version=hint["version"]).get_fragments())


def _files(folder: str) -> tuple[int, int]:
    """Return how many files lie in a folder, and their bytes."""
    count = size = 0
    for where, _, names in os.walk(folder):
        count += len(names)
        size += sum(os.stat(f"{where}/{name}").st_size for name in names)
    return count, size


def upkeep(plan: Any, catalogs: Any, say: Say) -> list[Any]:
    """Measure ours over the whole number of changes, native over what it can bear."""
    from benchmarks.figures import Figure
    from benchmarks.sides import NATIVE, OURS

    counts = {OURS: plan.commits}
    if plan.native_commits:
        counts[NATIVE[0]] = min(plan.commits, plan.native_commits)
    runs: dict[str, dict[str, Any]] = {}
    for side, count in counts.items():
        say(f"upkeep: {count:,} changes of one row by {side}")
        root = catalogs.empty()
        runs[side] = child.run("benchmarks.upkeep", side=side, root=str(root), count=count)
        catalogs.discard(root)
    ours, native = runs[OURS], runs.get(NATIVE[0])
    note = f"native after {native['commits']:,}" if native else "native not measured"

    def figure(name: str, unit: str, pick: Callable[[dict[str, Any]], float], **more: str) -> Any:
        theirs = pick(native) if native else None
        value = pick(ours)
        text = more.get("note", note)
        kind = more.get("measure", "ours")
        return Figure("upkeep", name, plan.commits, unit, value, theirs, value, kind, text, runs)

    return [
        figure(
            "p50, last against first",
            "×",
            lambda run: run["last"]["p50"] / run["first"]["p50"],
            measure="last/first",
            note=f"{ours['window']:,} changes each, {ours['first']['p50']:.2f} ms and "
            f"{ours['last']['p50']:.2f} ms; {note}",
        ),
        figure("fragments, most", "", lambda run: run["fragments"]),
        figure("memory after the first", "MiB", lambda run: run["memory_first"]),
        figure("memory at the end", "MiB", lambda run: run["memory_last"]),
        figure("files of the manifest", "", lambda run: run["files"]),
        figure("size of the manifest", "MiB", lambda run: run["mib"]),
    ]


if __name__ == "__main__":
    child.answer(commits)
