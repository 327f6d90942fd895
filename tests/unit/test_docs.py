"""The documents are true: their code runs, and what can be set or raised is in the reference."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from lance_namespace.errors import ErrorCode

from lance_catalog.config import _NO_EFFECT, PROPERTIES
from lance_catalog.maintenance.findings import Kind
from lance_catalog.storage.roots import SCHEMES

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path
    for path in [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")]
    if ".venv" not in path.parts
)


def blocks(page: str) -> list[str]:
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)


@pytest.mark.parametrize("page", ["docs/tutorial.md", "docs/undo.md", "docs/versions.md"])
def test_the_tutorials_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As they stand, in an empty folder; what a block of Python prints is shown below it."""
    monkeypatch.chdir(tmp_path)
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    scope: dict[str, object] = {}
    found = re.findall(r"```(python|console)\n(.*?)```", text, flags=re.DOTALL)
    assert len(found) > 8
    printed = 0
    for number, (language, block) in enumerate(found):
        if language == "console":
            run_commands([line.removeprefix("$ ") for line in block.splitlines()], monkeypatch)
            continue
        exec(compile(block, f"{page} block {number}", "exec"), scope)
        out = capsys.readouterr().out
        if out:
            printed += 1
            assert f"```python\n{block}```\n```text\n{out}```" in text, out
    assert printed


def run_commands(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Run lines as a shell would; each must succeed."""
    from typer.testing import CliRunner

    from lance_catalog.cli.main import app

    for line in lines:
        words = shlex.split(line.partition(" && ")[0], comments=True)
        if words[0] == "export":
            monkeypatch.setenv(*words[1].split("=", 1))
            continue
        assert words[0] == "lance-catalog"
        ran = CliRunner().invoke(app, words[1:])
        assert ran.exit_code == 0, (line, ran.output)


@pytest.mark.usefixtures("spark")
def test_the_code_and_the_commands_of_the_readme_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after the other, as a newcomer would paste them."""
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {}
    for block in blocks("README.md"):
        exec(compile(block, "README", "exec"), scope)
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    section = text.partition("## On the command line")[2]
    lines = section.partition("```\n")[2].partition("```")[0].splitlines()
    assert len(lines) > 4
    run_commands(lines, monkeypatch)


def test_the_library_connects_without_our_import_by_the_class_path() -> None:
    """The short name is known only after it: what README and the reference say."""

    def works(*names: str) -> bool:
        calls = "".join(f"ln.connect({name!r}, {{'root': 'memory://x'}});" for name in names)
        code = f"import lance_namespace as ln; {calls}"
        return subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0

    assert works("lance_catalog.DirectoryNamespace", "lance-catalog")
    assert not works("lance-catalog")


def test_every_scheme_is_in_the_reference() -> None:
    text = (REPOSITORY / "docs/reference/properties.md").read_text(encoding="utf-8")
    missing = [s for s in SCHEMES if f"`{s}`" not in text and f"`{s}://" not in text]
    assert missing == []


def test_every_page_of_docs_is_in_the_readme() -> None:
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    for page in (REPOSITORY / "docs").glob("*.md"):
        assert f"(docs/{page.name})" in text, page.name


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
        Kind.UNREADABLE_MARKER,
    }
    assert set(_STEPS) | by_hand == set(Kind)
    assert set(_STEPS) & by_hand == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?://)([^)#]+)", text):
        assert (page.parent / target).exists(), f"{page.name}: {target}"
