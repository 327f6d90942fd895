"""The documents are true: their code runs, and what can be set or raised is in the reference."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from lance_namespace.errors import ErrorCode

from lance_catalog.config import _NO_EFFECT, PROPERTIES
from lance_catalog.maintenance.findings import Kind

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path
    for path in [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")]
    if ".venv" not in path.parts
)


def blocks(page: str) -> list[str]:
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)


def test_the_tutorial_runs(tmp_path: Path) -> None:
    scope = {"root": str(tmp_path / "catalog")}
    found = blocks("docs/tutorial.md")
    assert len(found) > 8
    for number, block in enumerate(found):
        exec(compile(block, f"tutorial block {number}", "exec"), scope)


def test_the_first_code_of_the_readme_runs(tmp_path: Path) -> None:
    import pyarrow as pa

    block = blocks("README.md")[0].replace("/data/catalog", str(tmp_path / "catalog"))
    exec(compile(block, "README", "exec"), {"table": pa.table({"id": [1]})})


def test_every_property_is_in_the_reference() -> None:
    text = (REPOSITORY / "docs/reference/properties.md").read_text(encoding="utf-8")
    missing = [name for name in (*PROPERTIES, *_NO_EFFECT) if f"`{name}`" not in text]
    assert missing == []


def test_every_code_is_in_the_reference() -> None:
    text = (REPOSITORY / "docs/reference/errors.md").read_text(encoding="utf-8")
    listed = {int(number) for number in re.findall(r"^\| (\d+) \|", text, flags=re.MULTILINE)}
    assert listed == {int(code) for code in ErrorCode}


def test_every_kind_of_finding_is_mended_or_says_what_to_do() -> None:
    from lance_catalog.maintenance.repair import _STEPS

    by_hand = {
        Kind.DUPLICATE_ID,
        Kind.SHARED_LOCATION,
        Kind.BAD_LOCATION,
        Kind.UNREADABLE_METADATA,
        Kind.BROKEN_TABLE,
        Kind.UNMIGRATED_TABLE,
    }
    assert set(_STEPS) | by_hand == set(Kind)
    assert set(_STEPS) & by_hand == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?://)([^)#]+)", text):
        assert (page.parent / target).exists(), f"{page.name}: {target}"
