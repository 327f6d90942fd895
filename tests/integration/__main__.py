"""``python -m tests.integration``: every suite that needs a server, and a table of what ran.

The table names each suite (a file), what ran, was skipped or failed, and why it was skipped.
Without its toolchain a suite skips; with CI=true a skip is a failure: nothing is skipped in
silence. Further arguments go to pytest.
"""

from __future__ import annotations

import os
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


class Tally:
    """Counts per suite what pytest reports, also from the workers of pytest-xdist."""

    def __init__(self) -> None:
        self.suites: dict[str, Counter[str]] = defaultdict(Counter)
        self.reasons: dict[str, set[str]] = defaultdict(set)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        suite = report.nodeid.split("::", 1)[0]
        if report.failed:
            # A failing setup or teardown counts as much as a failing test.
            self.suites[suite]["failed"] += 1
        elif report.skipped:
            self.suites[suite]["xfailed" if hasattr(report, "wasxfail") else "skipped"] += 1
            if not hasattr(report, "wasxfail"):
                self.reasons[suite].add(_reason(report))
        elif report.when == "call":
            self.suites[suite]["passed"] += 1

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.suites[report.nodeid]["failed"] += 1
        elif report.skipped:
            self.suites[report.nodeid]["skipped"] += 1
            self.reasons[report.nodeid].add(_reason(report))

    def total(self, outcome: str) -> int:
        return sum(counts[outcome] for counts in self.suites.values())

    def table(self) -> str:
        columns = ("passed", "failed", "skipped", "xfailed")
        width = max((len(name) for name in self.suites), default=5)
        lines = [f"{'suite':{width}}" + "".join(f"{column:>9}" for column in columns) + "  why"]
        for name in sorted(self.suites):
            counts = self.suites[name]
            why = "; ".join(sorted(self.reasons[name]))
            cells = "".join(f"{counts[column]:>9}" for column in columns)
            lines.append(f"{name:{width}}{cells}  {why}".rstrip())
        cells = "".join(f"{self.total(column):>9}" for column in columns)
        lines.append(f"{'total':{width}}{cells}")
        return "\n".join(lines)


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    return str(report.longrepr).strip().splitlines()[-1]


def main(arguments: list[str]) -> int:
    os.chdir(ROOT)
    tally = Tally()
    # Each worker starts servers of its own, once.
    workers = [] if "-n" in arguments else ["-n", "2", "--dist", "loadgroup"]
    named = any(Path(argument.split("::")[0]).exists() for argument in arguments)
    chosen = arguments if named else [*arguments, "tests"]
    code = int(pytest.main(["-q", "-m", "integration and not soak", *workers, *chosen], [tally]))
    sys.stdout.write(f"\n{tally.table()}\n")
    if tally.total("passed") + tally.total("skipped") + tally.total("failed") == 0:
        sys.stdout.write("nothing ran: that is a failure\n")
        return 1
    if tally.total("skipped") and os.environ.get("CI") == "true":
        sys.stdout.write("CI=true: a skipped suite is a failed suite\n")
        return 1
    return code or (1 if tally.total("failed") else 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
