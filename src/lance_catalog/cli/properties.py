"""``table set`` and ``namespace set``: what they have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lance_catalog.cli.failures import usage
from lance_catalog.cli.results import Done
from lance_catalog.cli.session import Session, key_values

if TYPE_CHECKING:
    from lance_catalog.identifiers import Identifier

__all__ = ["changed", "set_done"]


def changed(
    values: Sequence[str] | None, unset: Sequence[str] | None
) -> tuple[dict[str, str], list[str]]:
    """Return what to set and what to remove; at least one of either, none in both."""
    given, gone = key_values(values, "set"), list(unset or ())
    if not given and not gone:
        raise usage("nothing to change: give NAME=VALUE, or --unset NAME")
    both = [name for name in gone if name in given]
    if both:
        raise usage(f"'{both[0]}' is to be set and removed at once")
    return given, gone


def set_done(session: Session, noun: str, names: Identifier, stored: dict[str, str]) -> Done:
    """Return the answer: all properties there are now."""
    shown = ", ".join(f"{key}={value}" for key, value in sorted(stored.items())) or "none"
    return Done(
        message=f"properties of {noun} {session.text(names)}: {shown}",
        fields={**session.row(names), "properties": stored},
        plain="text",
    )
