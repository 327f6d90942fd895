"""One run: the parts in order, each on its own, and what they found into the results."""

from __future__ import annotations

import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from benchmarks import machine, plot, report
from benchmarks.catalogs import Catalogs
from benchmarks.cold import cold
from benchmarks.figures import Figure
from benchmarks.local import latency
from benchmarks.plans import Plan
from benchmarks.requests import SkippedError, requests
from benchmarks.spark import spark
from benchmarks.throughput import throughput
from benchmarks.upkeep import upkeep
from benchmarks.versions import versions

__all__ = ["PARTS", "run"]

PARTS: Final[dict[str, Any]] = {
    "latency": latency,
    "cold": cold,
    "throughput": throughput,
    "requests": requests,
    "upkeep": upkeep,
    "versions": versions,
    "spark": spark,
}


def run(plan: Plan, parts: Sequence[str], results: Path, name: str, console: Console) -> bool:
    """Measure, print, write ``<name>.json`` and ``<name>.png``; return whether every part ran.

    A target that is not met is no failure, nor a part that was skipped for want of a server.
    """
    figures: list[Figure] = []
    missing: dict[str, str] = {}
    broken = False
    started = time.monotonic()

    def say(text: str) -> None:
        console.print(f"[dim]{time.monotonic() - started:6.0f} s  {text}[/dim]", highlight=False)

    with tempfile.TemporaryDirectory(prefix="lance-catalog-bench-") as folder:
        about = machine.about(Path(folder))
        if about["busy"]:
            console.print(
                f"[bold yellow]The load average is {about['load'][0]:.1f}: something else is "
                "running, and the figures are not to be trusted.[/bold yellow]"
            )
        if about["file_system"] == "tmpfs":
            console.print("[bold yellow]TMPDIR is in memory: set it to a disk.[/bold yellow]")
        for part in parts:
            try:
                figures += PARTS[part](plan, Catalogs(Path(folder) / part), say)
            except SkippedError as skipped:
                missing[part] = f"skipped: {skipped}"
                console.print(f"{part} skipped: {skipped}", markup=False)
            except Exception:
                # The other parts may take hours: theirs is not lost.
                missing[part] = traceback.format_exc()
                broken = True
                console.print(f"{part} failed:\n{missing[part]}", markup=False)
            # After every part, for the same reason.
            report.write(results / f"{name}.json", asdict(plan), about, figures, missing)
    about["seconds"] = round(time.monotonic() - started, 1)
    report.write(results / f"{name}.json", asdict(plan), about, figures, missing)
    report.show(console, figures)
    subtitle = f"{plan.name} run, {about['cpus']} CPUs, pylance {about['versions']['pylance']}"
    written = [str(results / f"{name}.json")]
    if plot.draw(figures, results / f"{name}.png", subtitle):
        written.append(str(results / f"{name}.png"))
    console.print(f"{about['seconds']:.0f} s. Written: {', '.join(written)}")
    return not broken
