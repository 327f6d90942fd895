"""``namespace drop``: with --cascade its tables go to the trash, each a drop of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lance_catalog.cli.command import command
from lance_catalog.cli.moments import iso
from lance_catalog.cli.options import (
    DropForce,
    DropPurge,
    DropTtl,
    DryRun,
    IfExists,
    NamespaceId,
)
from lance_catalog.cli.results import Done, Plan, Result, Step
from lance_catalog.cli.session import Session

if TYPE_CHECKING:
    from lance_catalog.directory.dropping import Drop
    from lance_catalog.identifiers import Identifier
    from lance_catalog.lifecycle.trash import TrashRow

__all__ = ["add_to"]


def add_to(app: typer.Typer) -> None:
    """Register the command with its noun."""
    command(app, "drop")(drop)


def drop(
    session: Session,
    id: NamespaceId,
    cascade: Annotated[
        bool, typer.Option("--cascade", help="With everything in it; its tables into the trash.")
    ] = False,
    ttl: DropTtl = None,
    purge: DropPurge = None,
    force: DropForce = False,
    if_exists: IfExists = False,
    dry_run: DryRun = False,
) -> Result:
    """Drop a namespace; with --cascade also all it holds, its tables into the trash."""
    from lance_catalog.cli.dropping import asked_drop, dropped_below
    from lance_catalog.errors import NamespaceNotFoundError

    names = session.parse(id)
    fields, text = session.row(names), session.text(names)
    how = asked_drop(session, ttl, purge, force)
    request = {
        "id": list(names),
        "mode": "skip" if if_exists else "fail",
        "behavior": "cascade" if cascade else "restrict",
    }
    try:
        steps = _steps(session, names, how, cascade=cascade)
    except NamespaceNotFoundError:
        if not if_exists:
            raise
        message = f"namespace {text} does not exist; nothing to do"
        if dry_run:
            return Plan(title=message, note=message)
        return Done(message=message, fields={**fields, "dropped": False}, plain="text")
    plan = Plan(title=f"Dropping namespace {text}:", steps=steps)
    if dry_run:
        return plan
    session.confirm(lambda: plan, text)
    before = dropped_below(session.context, names)
    session.catalog.drop_namespace(request, ttl=ttl, purge=how.purge, force=force)
    after = dropped_below(session.context, names)
    taken = [row for drop_id, row in after.items() if drop_id not in before]
    message = f"dropped namespace {text}"
    if len(steps) > 1:
        message += f" and {len(steps) - 1} objects in it"
    fields |= {"dropped": True, "tables": _told(session, taken)}
    return Done(message=message + _way_back(session, names, taken), fields=fields, plain="text")


def _told(session: Session, taken: list[TrashRow]) -> list[dict[str, Any]]:
    """Return the tables that went to the trash, for programs."""
    from lance_catalog.identifiers import decode

    return [
        {
            **session.row(decode(row.object_id)),
            "drop_id": row.hidden.drop_id,
            "expires_at": iso(row.hidden.expires_at_ms),
        }
        for row in sorted(taken, key=lambda row: decode(row.object_id))
    ]


def _way_back(session: Session, names: Identifier, taken: list[TrashRow]) -> str:
    """Return what to do to get the tables back; nothing where none went to the trash."""
    if not taken:
        return ""
    from lance_catalog.cli.dropping import until
    from lance_catalog.identifiers import decode

    first = min(decode(row.object_id) for row in taken)
    count = "1 table is" if len(taken) == 1 else f"{len(taken)} tables are"
    commands = (
        session.command("trash", "list", names),
        session.command("namespace", "create", first[:-1], "--parents"),
        session.command("trash", "undrop", first),
    )
    expires = until(taken[0].hidden.expires_at_ms)
    lines = "".join(f"\n  {line}" for line in commands)
    return f"\n{count} in the trash, {expires}. To see and to undrop them:{lines}"


def _steps(session: Session, names: Identifier, how: Drop, *, cascade: bool) -> list[Step]:
    """Return what dropping takes along, children first; raise what the drop itself would."""
    from lance_catalog.directory import protection
    from lance_catalog.errors import InvalidInputError, NamespaceNotEmptyError
    from lance_catalog.identifiers import decode, encode
    from lance_catalog.lifecycle.purge import check_deletable

    if not names:
        raise InvalidInputError("the root namespace cannot be dropped")
    session.catalog.namespace_exists({"id": list(names)})
    view = session.catalog.snapshot().view
    below = list(view.descendants(encode(names)))
    own = view.get(encode(names))
    if own is not None and not how.force:
        protection.refuse(own, names, "dropping", "namespace")
    if below and not cascade:
        raise NamespaceNotEmptyError(
            f"namespace '{session.text(names)}' is not empty: {len(below)} objects below it"
        )
    fate = "deletes" if how.purge else "moves to the trash and keeps"
    steps = []
    for entry in sorted(below, key=lambda e: decode(e.object_id), reverse=True):
        # What a hint tells to do is about this one.
        session.subject = decode(entry.object_id)
        text = session.text(session.subject)
        if not how.force:
            noun = "table" if entry.is_table else "namespace"
            protection.refuse(entry, session.subject, "dropping", noun)
        detail = ""
        if entry.is_table:
            place = check_deletable(view, entry, f"dropping '{text}'")
            detail = f"{fate} {session.context.store.uri_of(place)}"
        destroys = how.purge or not entry.is_table
        steps.append(Step(f"drop {entry.object_type}", text, detail, destroys))
    session.subject = names
    return [*steps, Step("drop namespace", session.text(names))]
