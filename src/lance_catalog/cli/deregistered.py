"""``table list --deregistered``: tables out of the catalog whose data is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_catalog.cli.moments import iso
from lance_catalog.cli.results import Listing

if TYPE_CHECKING:
    from lance_catalog.cli.session import Session
    from lance_catalog.identifiers import Identifier

__all__ = ["list_deregistered"]


def list_deregistered(session: Session, parent: Identifier) -> Listing:
    """Return the deregistered tables of a namespace and all below; it need not exist any more."""
    from lance_catalog.directory.deregistered import deregistered

    store = session.context.store
    found = [t for t in deregistered(session.context) if t.names[: len(parent)] == parent]
    rows = [
        {
            **session.row(table.names),
            "name": table.names[-1],
            "location": store.uri_of(table.location),
            "deregistered_at": iso(table.at_ms),
        }
        for table in found
    ]
    notes = [session.ambiguous([table.names for table in found])]
    if rows:
        notes.append(
            session.remark("`table register ID LOCATION` brings one back, `table drop ID` drops it")
        )
    else:
        notes.append(session.remark("no deregistered tables here"))
    return Listing(
        rows=rows,
        columns=("text", "location", "deregistered_at"),
        titles=("id", "location", "deregistered"),
        plain=("text", "location", "deregistered_at"),
        note="\n".join(note for note in notes if note is not None) or None,
    )
