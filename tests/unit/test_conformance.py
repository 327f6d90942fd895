"""docs/conformance.md is true: every clause is there, every test it names exists, nothing else."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
MAP = REPOSITORY / "docs" / "conformance.md"

#: Every clause and ruling, by letter: ranges as the numbering has them.
CLAUSES = {
    "C": [*range(1, 21)],
    "I": [1, 2, 3, *range(10, 15), *range(20, 28), *range(30, 38)],
    "O": [*range(1, 8)],
    "S": [*range(1, 15)],
    "B": [*range(1, 9)],
    "R": [*range(1, 17)],
}
EXPECTED = [
    f"{letter}{number:02d}" if letter != "R" else f"R{number}"
    for letter, numbers in CLAUSES.items()
    for number in numbers
]


def rows() -> dict[str, str]:
    found: dict[str, str] = {}
    for line in MAP.read_text(encoding="utf-8").splitlines():
        match = re.match(r"^\| ([A-Z]\d+) \| (.*) \|$", line)
        if match:
            assert match[1] not in found, f"{match[1]} is mapped twice"
            found[match[1]] = match[2]
    return found


def named_tests(text: str) -> list[str]:
    return re.findall(r"`(tests/[^`]+)`", text)


def functions_of(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            names.add(node.name)
            names |= {
                f"{node.name}::{part.name}"
                for part in node.body
                if isinstance(part, ast.FunctionDef) and part.name.startswith("test")
            }
        elif isinstance(node, ast.Assign):
            # A hypothesis machine is collected through its TestCase attribute.
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names


def test_every_clause_is_mapped_and_no_other() -> None:
    assert sorted(rows()) == sorted(EXPECTED)


def test_every_row_names_tests_or_says_which_issue_it_waits_for() -> None:
    for clause, text in rows().items():
        assert named_tests(text) or re.search(r"open: issue \d+", text), f"{clause}: {text}"


@pytest.mark.parametrize("clause", EXPECTED)
def test_every_test_named_exists(clause: str) -> None:
    for test in named_tests(rows()[clause]):
        name, _, function = test.partition("::")
        path = REPOSITORY / name
        assert path.is_file(), f"{clause}: no file {name}"
        assert function in functions_of(path), f"{clause}: no test {function} in {name}"


def test_clauses_of_finished_issues_are_not_open() -> None:
    """Issue 2 is the ground: C, I01-I27 and O01-O04 have tests."""
    done = [c for c in EXPECTED if c[0] == "C" or (c[0] in "IO" and int(c[1:]) < 28)]
    done = [c for c in done if not (c[0] == "O" and int(c[1:]) > 4)]
    still_open = [clause for clause in done if "open:" in rows()[clause]]
    assert still_open == []
