"""``namespace create|list|describe|drop``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lance_catalog.cli.command import command, group
from lance_catalog.cli.options import (
    After,
    All,
    DryRun,
    IfExists,
    Limit,
    NamespaceId,
    ParentId,
    Properties,
)
from lance_catalog.cli.reading import all_tables, check_limit, child_namespaces, child_tables, walk
from lance_catalog.cli.reading import take as take_names
from lance_catalog.cli.results import Details, Done, Listing, Plan, Result, Step
from lance_catalog.cli.session import Session, key_values

if TYPE_CHECKING:
    from lance_catalog.identifiers import Identifier

__all__ = ["app"]

app = group("Create, list, describe and drop namespaces.")


@command(app, "create")
def create(
    session: Session,
    id: NamespaceId,
    properties: Properties = None,
    mode: Annotated[
        str, typer.Option("--mode", metavar="create|exist_ok|overwrite", help="If it exists.")
    ] = "create",
    parents: Annotated[
        bool, typer.Option("--parents", "-p", help="Make missing parents too.")
    ] = False,
) -> Result:
    """Create a namespace, or set the properties of the root (--mode overwrite)."""
    names = session.parse(id)
    session.missing = names[:-1]
    given = key_values(properties, "--property")
    if parents:
        for depth in range(1, len(names)):
            session.catalog.create_namespace({"id": list(names[:depth]), "mode": "exist_ok"})
    answer = session.catalog.create_namespace(
        {"id": list(names), "mode": mode, "properties": given}
    )
    fields = {**session.row(names), "properties": answer.properties or {}}
    return Done(message=f"namespace {session.text(names)} is there", fields=fields, plain="text")


@command(app, "list")
def list_(
    session: Session,
    parent: ParentId = ".",
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Namespaces of namespaces too.")
    ] = False,
    limit: Limit = None,
    everything: All = False,
    after: After = None,
) -> Result:
    """List the namespaces of a namespace."""
    names = session.parse(parent)
    most = check_limit(limit, everything)
    token = None
    if recursive:
        found: list[Identifier] = []
        for below in walk(session, names):
            if after is not None and session.text(below) <= after:
                continue
            if most is not None and len(found) == most:
                token = session.text(found[-1])
                break
            found.append(below)
    else:
        listed, token = take_names(child_namespaces(session, names), most, after)
        found = [(*names, name) for name in listed]
    return listing(session, found, token)


def listing(session: Session, found: list[Identifier], token: str | None) -> Listing:
    """Return a list of ids, with notes for people where it is not the whole story."""
    notes = [session.ambiguous(found)]
    if token is not None:
        notes.append(f"note: there are more; --after '{token}' goes on, --all lists everything")
    return Listing(
        rows=[{**session.row(names), "name": names[-1]} for names in found],
        columns=("text",),
        plain=("text",),
        note="\n".join(note for note in notes if note is not None) or None,
    )


@command(app, "describe")
def describe(session: Session, id: NamespaceId = ".") -> Result:
    """Show the properties of a namespace and how much it holds."""
    names = session.parse(id)
    answer = session.catalog.describe_namespace({"id": list(names)})
    fields: dict[str, Any] = {
        **session.row(names),
        "properties": answer.properties or {},
        "namespaces": len(take_names(child_namespaces(session, names), None, None)[0]),
        "tables": len(take_names(child_tables(session, names), None, None)[0]),
    }
    return Details(fields=fields)


@command(app, "drop")
def drop(
    session: Session,
    id: NamespaceId,
    cascade: Annotated[
        bool, typer.Option("--cascade", help="With everything in it, table data included.")
    ] = False,
    if_exists: IfExists = False,
    dry_run: DryRun = False,
) -> Result:
    """Drop a namespace; with --cascade also all it holds."""
    from lance_catalog.errors import NamespaceNotFoundError

    names = session.parse(id)
    fields = session.row(names)
    request = {
        "id": list(names),
        "mode": "skip" if if_exists else "fail",
        "behavior": "cascade" if cascade else "restrict",
    }
    try:
        steps = _steps(session, names, cascade=cascade)
    except NamespaceNotFoundError:
        if not if_exists:
            raise
        message = f"namespace {session.text(names)} does not exist; nothing to do"
        if dry_run:
            return Plan(title=message, note=message)
        return Done(message=message, fields={**fields, "dropped": False}, plain="text")
    plan = Plan(title=f"Dropping namespace {session.text(names)}:", steps=steps)
    if dry_run:
        return plan
    session.confirm(lambda: plan, session.text(names))
    session.catalog.drop_namespace(request)
    message = f"dropped namespace {session.text(names)}"
    if len(steps) > 1:
        message += f" and {len(steps) - 1} objects in it"
    return Done(message=message, fields={**fields, "dropped": True}, plain="text")


def _steps(session: Session, names: Identifier, *, cascade: bool) -> list[Step]:
    """Return what dropping takes along, children first; raise what the drop itself would."""
    from lance_catalog.errors import InvalidInputError, NamespaceNotEmptyError
    from lance_catalog.identifiers import decode

    if not names:
        raise InvalidInputError("the root namespace cannot be dropped")
    session.catalog.namespace_exists({"id": list(names)})
    namespaces = list(walk(session, names))
    tables = [decode(key) for key in take_names(all_tables(session, names), None, None)[0]]
    if (namespaces or tables) and not cascade:
        raise NamespaceNotEmptyError(
            f"namespace '{session.text(names)}' is not empty: {len(namespaces)} namespaces and "
            f"{len(tables)} tables below it"
        )
    steps = []
    for table in tables:
        location = session.catalog.describe_table({"id": list(table)}).location
        steps.append(Step("drop table", session.text(table), f"deletes {location}"))
    for below in reversed([names, *namespaces]):
        steps.append(Step("drop namespace", session.text(below)))
    return steps
