"""Messages of the library in the words of the command line: its advice names calls."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["counted", "in_cli_words"]

# Quoted names are the user's: a table may be called drop_table.
_PLAIN: Final = r"(?<!['\w$./]){}(?!['\w$/]|\.\w)"
_CHANGES: Final = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        # Ours is spelled with its own delimiter and no quoting; the hint can be pasted.
        (r"\. `lance-catalog trash undrop .*$", ""),
        (r"[;:.] `lance-catalog [^`]+` [^`]*$", ""),
        (r"; force purges it now \(.*$", ""),
        (r"\. force it \(--force\)\.$", ""),
        # Which call it was, the user has just typed.
        (r"^[a-z]+(?:_[a-z]+)+: ", ""),
        # The hint says it with an option.
        (r"\. Set manifest_enabled=true[^.]*\.$", ""),
        # Tables are written by programs; no verb here has this mode.
        (r"; mode exist_ok takes it as it is, overwrite replaces its data$", ""),
        (r"; list_table_\w+ shows those there are$", ""),
        (r", and list_table_versions shows those there are$", ""),
        (r"\. list_table_versions shows what is there\.$", ""),
        # Ranges are typed with both ends included, and ids with another delimiter.
        (
            r"^the range \[\S+ \S+\) contains version (\d+), the latest of .+, which stays\..*$",
            r"version \1 is the latest, which stays",
        ),
        (
            r" the table (?:'[^']*'|at \S+) unreadable\. Drop the table instead, .*$",
            " the table unreadable",
        ),
        (
            r"^'as_of' is (.+); expected a version",
            r"\1 is no point of the past; expected a version",
        ),
        (r"^older_than is", "--older-than is"),
        (r"; create_table writes it$", "; a program that writes to it with Lance fills it"),
        (r"declare_table or create_table makes one$", "`table declare` reserves a place for one"),
        (_PLAIN.format(r"mode (exist_ok|overwrite)"), r"--mode \1"),
        (_PLAIN.format(r"behavior cascade"), "--cascade"),
        (_PLAIN.format(r"(declare|register|deregister|rename|drop)_table"), r"`table \1`"),
        (_PLAIN.format(r"(create|drop)_namespace"), r"`namespace \1`"),
    )
)


def in_cli_words(text: str) -> str:
    """Return a message of the library as somebody at a terminal can use it, in one line."""
    for pattern, words in _CHANGES:
        text = pattern.sub(words, text)
    return " ".join(text.split())


def counted(count: int, noun: str) -> str:
    """Return a number of things."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
