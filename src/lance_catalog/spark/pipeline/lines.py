"""Where a key stands in a TOML text: the reader of Python tells lines of broken syntax only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

__all__ = ["Path", "line_of", "locate"]

Path = tuple[str | int, ...]

_BLANK: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)+")
_SPACE: Final = re.compile(r"[ \t]*")
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_STRINGS: Final = (
    re.compile(r'"""(?:[^\\]|\\.)*?"{3,5}', re.DOTALL),
    re.compile(r"'''.*?'{3,5}", re.DOTALL),
    re.compile(r'"(?:[^"\\\n]|\\.)*"'),
    re.compile(r"'[^'\n]*'"),
)
_PLAIN: Final = re.compile(r"[^,\]}\n#]+")


def locate(text: str) -> dict[Path, int]:
    """Return the line of every key, table and element; of a text that is valid TOML."""
    scanner = _Scanner(text)
    scanner.statements()
    return scanner.found


def line_of(found: Mapping[Path, int], path: Path) -> int:
    """Return the line of a key, or of the nearest thing around one that is not there."""
    for end in range(len(path), 0, -1):
        if path[:end] in found:
            return found[path[:end]]
    return 1


class _Scanner:
    """Walks over a text once; knows structure and strings, not values."""

    def __init__(self, text: str) -> None:
        self._text = text.replace("\r\n", "\n")
        self._at = 0
        self._arrays: dict[Path, int] = {}
        self.found: dict[Path, int] = {}

    def statements(self) -> None:
        """Record every key of the text."""
        prefix: Path = ()
        self._skip(_BLANK)
        while self._at < len(self._text):
            if self._text[self._at] == "[":
                prefix = self._header()
            else:
                self._pair(prefix)
            self._skip(_BLANK)

    def _header(self) -> Path:
        many = self._text.startswith("[[", self._at)
        start = self._at
        self._at += 2 if many else 1
        keys = self._keys()
        self._at += 2 if many else 1
        path: Path = ()
        for key in keys[:-1]:
            path = (*path, key)
            self._record(path, start)
            if path in self._arrays:
                # A table below an array of tables belongs to its last element.
                path = (*path, self._arrays[path])
        path = (*path, keys[-1])
        if many:
            self._record(path, start)
            number = self._arrays[path] = self._arrays.get(path, -1) + 1
            path = (*path, number)
        self._record(path, start)
        return path

    def _pair(self, prefix: Path) -> None:
        start = self._at
        path = prefix
        for key in self._keys():
            path = (*path, key)
            self._record(path, start)
        self._at += 1  # The equals sign.
        self._value(path)

    def _keys(self) -> list[str]:
        keys: list[str] = []
        while True:
            self._skip(_SPACE)
            found = _BARE.match(self._text, self._at)
            if found is None:
                raw = self._string()
                keys.append(raw[1:-1])
            else:
                keys.append(found[0])
                self._at = found.end()
            self._skip(_SPACE)
            if self._text[self._at : self._at + 1] != ".":
                return keys
            self._at += 1

    def _value(self, path: Path) -> None:
        self._skip(_SPACE)
        opening = self._text[self._at : self._at + 1]
        if opening in ('"', "'"):
            self._string()
        elif opening == "[":
            self._at += 1
            number = 0
            while not self._closed("]"):
                self._record((*path, number), self._at)
                self._value((*path, number))
                number += 1
        elif opening == "{":
            self._at += 1
            while not self._closed("}"):
                self._pair(path)
        else:
            self._skip(_PLAIN)

    def _closed(self, closing: str) -> bool:
        """Go on to the next element; whether there is none."""
        self._skip(_BLANK)
        if self._text[self._at : self._at + 1] == ",":
            self._at += 1
            self._skip(_BLANK)
        if self._text[self._at : self._at + 1] in (closing, ""):
            self._at += 1
            return True
        return False

    def _string(self) -> str:
        for pattern in _STRINGS:
            found = pattern.match(self._text, self._at)
            if found is not None:
                self._at = found.end()
                return found[0]
        self._at += 1  # Not reached in valid TOML; never stand still.
        return "  "

    def _skip(self, pattern: re.Pattern[str]) -> None:
        found = pattern.match(self._text, self._at)
        if found is not None:
            self._at = found.end()

    def _record(self, path: Path, at: int) -> None:
        self.found.setdefault(path, self._text.count("\n", 0, at) + 1)
