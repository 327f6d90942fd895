"""What ``--as-of`` means for the data of a table: the version it had then, if the catalog knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lance_catalog.cli.session import Session
    from lance_catalog.identifiers import Identifier

__all__ = ["of_today", "version_then"]


def of_today(session: Session, names: Identifier) -> str | None:
    """Return what people should know when the past is read and only the present can be shown."""
    if session.as_of is None or session.catalog.managed(list(names)) is not None:
        return None
    return "note: the catalog did not manage versions then, so what is shown of them is today's"


def version_then(
    session: Session, names: Identifier, version: int | None
) -> tuple[int | None, str | None]:
    """Return which version of a table to read, None for the latest, and what people should know."""
    if session.as_of is None or version is not None:
        return version, None
    note = of_today(session, names)
    return (None, note) if note else (session.catalog.snapshot().table_version(names), None)
