from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from lance_catalog.cli.command import GLOBALS
from lance_catalog.cli.main import app

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text()


def commands(found: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    found = get_command(app) if found is None else found
    inner = getattr(found, "commands", None)
    if inner is None:
        yield " ".join(path), found
        return
    for name, command in inner.items():
        yield from commands(command, (*path, name))


def section(name: str) -> str:
    _, _, rest = PAGE.partition(f"### `{name}")
    assert rest, f"docs/reference/cli.md has no section for {name}"
    return rest.split("\n## ")[0].split("\n### ")[0]


def _name(value: Any) -> str:
    return value if isinstance(value, str) else ""


@pytest.mark.parametrize(("name", "command"), list(commands()), ids=_name)
def test_every_command_and_option_is_documented(name: str, command: Any) -> None:
    text = section(name)
    for parameter in command.params:
        if parameter.param_type_name == "argument" or parameter.hidden or parameter.name == "help":
            continue
        assert f"`{parameter.opts[0]}" in text, f"{name} {parameter.opts[0]}"


def test_every_global_option_is_documented() -> None:
    table = PAGE.partition("## Global options")[2].split("\n## ")[0]
    for option in GLOBALS:
        for spelled in option.decls:
            assert f"`{spelled}" in table, spelled
    assert "`--version`" in table


@pytest.mark.parametrize("code", [0, 1, 2, 3, 4, 5, 6, 130])
def test_every_exit_code_is_documented(code: int) -> None:
    table = PAGE.partition("## Exit codes")[2].split("\n## ")[0]
    assert f"| {code} |" in table
