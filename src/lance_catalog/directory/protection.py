"""Protected tables and namespaces: not dropped, not purged, until unset or forced."""

from __future__ import annotations

from collections.abc import Mapping

from lance_catalog.config import parse_bool
from lance_catalog.errors import InvalidInputError, InvalidTableStateError
from lance_catalog.identifiers import Identifier, format_text
from lance_catalog.model import PROTECTED, Entry

__all__ = ["is_protected", "refuse"]


def is_protected(properties: Mapping[str, str]) -> bool:
    """Whether properties protect; a value nobody understands does, to be on the safe side."""
    value = properties.get(PROTECTED)
    if value is None:
        return False
    try:
        return parse_bool(PROTECTED, value)
    except InvalidInputError:
        return True


def refuse(
    entry: Entry | Mapping[str, str], names: Identifier, what: str, noun: str | None = None
) -> None:
    """Raise 19 when a table or namespace is protected; with its noun, says how to unset it."""
    if isinstance(entry, Entry):
        try:
            properties: Mapping[str, str] = entry.properties()
        except InvalidTableStateError:
            return  # Not to be read, so not to be honoured; check reports the row.
    else:
        properties = entry
    if is_protected(properties):
        text = format_text(names)
        command = f"`lance-catalog {noun} set {text} --unset {PROTECTED}` ends that, or "
        raise InvalidTableStateError(
            f"{what} '{text}': it is protected ({PROTECTED}). "
            f"{command if noun else ''}force it (--force)."
        )
