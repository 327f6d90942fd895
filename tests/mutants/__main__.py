"""Apply each break to a copy of the source, run the tests that guard it, expect red.

A break whose text is not found is an error: the list must follow the code.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.mutants.breaks import BREAKS, Break

REPOSITORY = Path(__file__).resolve().parents[2]
PYTEST = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not integration and not soak"]


def run(broken: Break, source: Path) -> str | None:
    """Return why a break was not caught, or None when it was."""
    path = source / "lance_catalog" / broken.file
    text = path.read_text(encoding="utf-8")
    if text.count(broken.old) != 1:
        return f"its text occurs {text.count(broken.old)} times in {broken.file}"
    path.write_text(text.replace(broken.old, broken.new), encoding="utf-8")
    try:
        result = subprocess.run(
            [*PYTEST, *broken.tests.split()],
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        path.write_text(text, encoding="utf-8")
    if result.returncode == 0:
        return "every test passed"
    if result.returncode != 1:
        return f"pytest ended with {result.returncode}: {result.stdout[-300:]}"
    return None


def main() -> int:
    """Run the breaks named on the command line, or all."""
    wanted = sys.argv[1:]
    chosen = [one for one in BREAKS if not wanted or one.clause in wanted]
    missed = 0
    with tempfile.TemporaryDirectory(prefix="lance-catalog-mutants-") as folder:
        # For tests with a child that runs as nobody.
        os.chmod(folder, 0o755)
        source = Path(folder) / "src"
        shutil.copytree(REPOSITORY / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        for broken in chosen:
            why = run(broken, source)
            missed += why is not None
            state = "caught" if why is None else f"MISSED: {why}"
            print(f"{broken.clause:6} {broken.file:38} {state}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
