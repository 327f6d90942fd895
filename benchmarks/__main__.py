"""``python -m benchmarks``: what to measure, and how much of it."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path

__all__ = ["main"]

RESULTS = Path(__file__).resolve().parent / "results"


def main(argv: list[str] | None = None) -> int:
    """Run; 0 unless a part broke. Targets that are missed do not count."""
    # Here: processes that are spawned import this module, and need none of it.
    from rich.console import Console

    from benchmarks.plans import FULL, SHORT
    from benchmarks.running import PARTS, run

    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Ours beside native in one run. Targets are reported, never enforced.",
    )
    parser.add_argument("--full", action="store_true", help="all of it; hours, on a quiet machine")
    parser.add_argument(
        "--only", metavar="PARTS", help=f"some parts, separated by commas: {', '.join(PARTS)}"
    )
    parser.add_argument("--sizes", metavar="ROWS", help="rows of the catalogs, by commas")
    parser.add_argument("--rounds", type=int, help="measured rounds, the same at every size")
    parser.add_argument("--commits", type=int, help="changes of the upkeep part")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results")
    options = parser.parse_args(argv)

    plan = FULL if options.full else SHORT
    parts = options.only.split(",") if options.only else list(PARTS)
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        parser.error(f"unknown part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    sizes = [int(size) for size in options.sizes.split(",")] if options.sizes else [*plan.rounds]
    rounds = {size: options.rounds or plan.rounds.get(size, 10) for size in sizes}
    commits = plan.commits if options.commits is None else options.commits
    changed = dataclasses.replace(plan, rounds=rounds, commits=commits)
    # Only a whole run may take the place of the last whole run.
    name = plan.name if changed == plan and not options.only else "partial"
    # As wide as the tables need where the output is not a terminal.
    console = Console() if sys.stdout.isatty() else Console(width=160)
    return 0 if run(changed, parts, options.results, name, console) else 1


if __name__ == "__main__":
    sys.exit(main())
