"""``trash list|undrop|purge|status``: dropped tables, until they are gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lance_catalog.cli.command import command, group
from lance_catalog.cli.moments import iso
from lance_catalog.cli.options import DroppedId, ParentId
from lance_catalog.cli.purging import add_to
from lance_catalog.cli.results import Details, Done, Listing, Result
from lance_catalog.cli.session import Session

if TYPE_CHECKING:
    from lance_catalog.directory.dropped import DroppedTable

__all__ = ["app"]

app = group("List dropped tables, bring them back, and delete them for good.")

DropId = Annotated[
    str | None,
    typer.Option(
        "--drop-id",
        metavar="DROP-ID",
        help="Which drop of the id, as `trash list` shows it; default the latest.",
        show_default=False,
    ),
]


@command(app, "list")
def list_(
    session: Session,
    parent: ParentId = ".",
    expired: Annotated[
        bool, typer.Option("--expired", help="Only those that `trash purge --expired` takes.")
    ] = False,
) -> Result:
    """List the dropped tables of a namespace and all below it; it need not exist any more."""
    names = session.parse(parent)
    found = [t for t in session.catalog.list_dropped_tables() if t.id[: len(names)] == names]
    rows = [_row(session, table) for table in found]
    if expired:
        rows = [row for row in rows if row["state"] != "restorable"]
    notes = [session.ambiguous([table.id for table in found])]
    if rows:
        notes.append(
            session.remark(
                "`trash undrop ID` brings one back, `trash purge ID --force` deletes it for good"
            )
        )
    else:
        here = "expired is" if expired else "is"
        notes.append(session.remark(f"nothing {here} in the trash here"))
    keys = ("text", "drop_id", "dropped_at", "expires_at", "state", "protected")
    return Listing(
        rows=rows,
        columns=keys,
        titles=("id", "drop id", "dropped", "expires", "state", "protected"),
        plain=keys,
        note="\n".join(note for note in notes if note is not None) or None,
    )


def _row(session: Session, table: DroppedTable) -> dict[str, Any]:
    now = session.context.clock()
    expired = table.expires_at_ms is not None and table.expires_at_ms <= now
    try:
        location = session.context.store.uri_of(table.location)
    except ValueError:
        # A broken location of another writer's.
        location = table.location
    return {
        **session.row(table.id),
        "drop_id": table.drop_id,
        "location": location,
        "dropped_at": iso(table.deleted_at_ms),
        "expires_at": iso(table.expires_at_ms),
        "state": "being purged" if table.purging else "expired" if expired else "restorable",
        "protected": table.protected,
    }


@command(app, "undrop")
def undrop(
    session: Session,
    id: DroppedId,
    as_: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="ID",
            help="Another id for it, in full; not in V1.",
            show_default=False,
        ),
    ] = None,
    drop_id: DropId = None,
) -> Result:
    """Bring a dropped table back as it was."""
    names = session.parse_table(id)
    target = None if as_ is None else session.parse_table(as_)
    done = session.catalog.undrop_table(names, target, drop_id)
    text = session.text(names)
    message = f"undropped table {text}"
    if done.id != names:
        message += f" as {session.text(done.id)}"
    fields = {
        **session.row(done.id),
        "from": list(names),
        "location": session.context.store.uri_of(done.location),
        "drop_id": done.drop_id,
    }
    return Done(message=message, fields=fields, plain="text")


@command(app, "status")
def status(session: Session, id: DroppedId) -> Result:
    """Tell whether a table exists, was dropped (when, and until when it can come back), or neither.

    A purged table is not found, as one that never was.
    """
    names = session.parse_table(id)
    found = session.catalog.table_status(names)
    note = None
    if found.drop_id is not None and not found.purging:
        back = session.command("trash", "undrop", names)
        note = session.remark(f"`{back}` brings it back")
    return Details(
        fields={
            **session.row(names),
            "state": found.state.value,
            "drop_id": found.drop_id,
            "dropped_at": iso(found.deleted_at_ms),
            "expires_at": iso(found.expires_at_ms),
            "purging": found.purging,
        },
        note=note,
    )


add_to(app)
