"""What of a pipeline is never shown: passwords and keys among its options and variables.

A value is secret when its name says so. It is then replaced wherever it would appear: in plans,
progress, messages, samples of rows and records.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

__all__ = ["MASK", "Scrubber", "named_secrets", "secrets_in"]

MASK: Final = "********"
_NAME: Final = re.compile(
    r"(?i)secret|passw|passphrase|pwd|token|credential|(^|[._-])auth|(^|[._-])sas|(^|[._-])sig$|"
    r"(access|account|api|private|encryption|signing|shared|client)[._-]?key"
)
#: ``user:password@host``, and ``password=...`` among the options of an address.
_USER: Final = re.compile(r"://[^/\s:@]*:([^/\s@]+)@")
_OPTION: Final = re.compile(r"[?&;]([\w.-]+)=([^&;\s]+)")
#: Shorter ones are words like "yes", and no secrets.
_LEAST: Final = 4
_WORDS: Final = frozenset({"true", "false", "none", "null", "basic", "bearer"})


def named_secrets(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the values whose names tell that they are secret, and those inside addresses."""
    for name, value in values.items():
        if not isinstance(value, str):
            if isinstance(value, Mapping):
                yield from named_secrets(value)
            continue
        if _NAME.search(name):
            yield value
        yield from _USER.findall(value)
        yield from (found for key, found in _OPTION.findall(value) if _NAME.search(key))


def secrets_in(data: Mapping[str, Any], variables: Iterable[Any]) -> Iterator[str]:
    """Yield the secrets of a file whose variables are filled in, and of tables of variables."""
    for table in variables:
        if isinstance(table, Mapping):
            yield from named_secrets({name: str(value) for name, value in table.items()})
    for section in ("sources", "steps"):
        tables = data.get(section)
        for table in tables.values() if isinstance(tables, Mapping) else ():
            if isinstance(table, Mapping):
                for key in ("options", "params"):
                    inner = table.get(key)
                    if isinstance(inner, Mapping):
                        yield from named_secrets(inner)
                yield from _addresses(table)


def _addresses(table: Mapping[str, Any]) -> Iterator[str]:
    for key in ("files", "path"):
        value = table.get(key)
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str):
                yield from named_secrets({"": text})


class Scrubber:
    """Takes secrets out of texts, and of whatever holds texts."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        found = {one for one in secrets if len(one) >= _LEAST and one.lower() not in _WORDS}
        #: Long ones first: one may be part of another.
        self._secrets = sorted(found, key=lambda one: (-len(one), one))

    def __repr__(self) -> str:
        return f"Scrubber({len(self._secrets)} secrets)"

    def more(self, secrets: Iterable[str]) -> Scrubber:
        """Return one that knows of further secrets."""
        return Scrubber([*self._secrets, *secrets])

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return text

    def value(self, value: Any) -> Any:
        """Return a value as JSON has it, without secrets."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.value(key): self.value(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(inner) for inner in value]
        return value
