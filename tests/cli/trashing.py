"""What the tests of the trash share."""

from __future__ import annotations

import shlex

from tests.cli.support import Cli, Ran, process

PROTECTED = "lance_catalog.protected"


def commands(ran: Ran) -> list[list[str]]:
    """The commands in backquotes, or on a line of their own, as a shell would split them."""
    quoted = ran.err.split("`")[1::2]
    lines = [line for line in ran.err.splitlines() if line.startswith("  ")]
    found = [shlex.split(text) for text in [*quoted, *lines] if "lance-catalog " in text]
    return [words[1:] for words in found]


def in_trash(cli: Cli, *args: str) -> list[str]:
    return [row["text"] for row in cli.json("trash", "list", *args)]


def left_by_a_crash(cli: Cli, name: str) -> None:
    """A purge that died right after it claimed: its claim has not lapsed yet."""
    args = ["--root", str(cli.root), "--mode", cli.mode, "trash", "purge", name, "--force", "--yes"]
    died = process(*args, env={"LANCE_CATALOG_FAILPOINTS": "purge.claimed=kill"})
    assert died.code == -9, died
