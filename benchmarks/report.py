"""The figures as tables on the terminal and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.figures import Figure
from benchmarks.targets import target_of

__all__ = ["METHOD", "as_json", "show", "write"]

METHOD: Final = (
    "Ours and native in one run, on copies of one seed, rounds interleaved, medians; "
    "alone: right after, without the other sides between. Caches are "
    "warm: the files are in the page cache, the objects have been used (cold: the process is new). "
    "Before measuring, one change per copy lets each side bring its catalog into its working "
    "state; it is not timed. No side calls fsync. Native is the better of its default and of "
    "inline_optimization_enabled."
)
_TITLES: Final = {
    "latency": "Latency on local disk, p50, sides in turns",
    "alone": "The same right after, each side by itself",
    "growth": "Growth of the p50 with the catalog",
    "cold": "First call of a new process",
    "throughput": "create_namespace by many at once",
    "requests": "Requests per call on S3, warm",
    "upkeep": "Many changes of one row",
    "versions": "Managed versions, p50, sides in turns",
    "spark": "On Spark, local[2], beside parquet in the same session",
}


def as_json(figure: Figure) -> dict[str, Any]:
    """Return a figure with its target and whether it is met; null where there is none."""
    target = target_of(figure)
    plain = asdict(figure)
    plain["target"] = str(target) if target else None
    plain["met"] = target.met(figure.value) if target else None
    return plain


def write(
    path: Path,
    plan: dict[str, Any],
    machine: dict[str, Any],
    figures: Sequence[Figure],
    missing: dict[str, str],
) -> None:
    """Write the run as JSON. ``missing`` says why a part has no figures."""
    content = {
        "plan": plan,
        "method": METHOD,
        "machine": machine,
        "missing": missing,
        "figures": [as_json(figure) for figure in figures],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(_finite(content), indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def _finite(value: Any) -> Any:
    """Replace what JSON has no word for: NaN and the infinities become null."""
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def show(console: Console, figures: Sequence[Figure]) -> None:
    """Print one table per part, and how many targets are met."""
    for part, title in _TITLES.items():
        found = [figure for figure in figures if figure.part == part]
        if not found:
            continue
        table = Table(title=title, title_justify="left")
        table.add_column("")
        for name in ("rows", "ours", "native", "value", "target", "met"):
            table.add_column(name, justify="right", no_wrap=True)
        notes = any(figure.note for figure in found)
        if notes:
            table.add_column("note", ratio=1)
        for figure in found:
            table.add_row(*_cells(figure), *([figure.note] if notes else []))
        console.print(table)
    judged = [target.met(one.value) for one in figures if (target := target_of(one))]
    console.print(f"{sum(judged)} of {len(judged)} targets met.")


def _cells(figure: Figure) -> list[str | Text]:
    target = target_of(figure)
    met = Text("")
    if target:
        met = Text("yes", "green") if target.met(figure.value) else Text("NO", "bold red")
    return [
        figure.name,
        f"{figure.rows:,}" if figure.rows is not None else "",
        _number(figure.ours, figure.unit),
        _number(figure.native, figure.unit),
        # A ratio is a number of its own; otherwise it would only repeat what is before it.
        _number(figure.value, "×") if figure.measure == "ours/native" else "",
        str(target) if target else "",
        met,
    ]


def _number(value: float | None, unit: str) -> str:
    if value is None or math.isnan(value):
        return "–"
    digits = 0 if value >= 1000 or value == int(value) else 1 if value >= 10 else 3
    digits = 5 if 0 < value < 0.01 else digits
    text = f"{value:,.{digits}f}"
    return f"{text} {unit}".strip() if unit != "×" else f"{text}×"
