"""``namespace create|list|describe|drop``."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lance_catalog.cli.command import command, group
from lance_catalog.cli.failures import usage
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
from lance_catalog.cli.reading import (
    all_namespaces,
    check_limit,
    child_namespaces,
    child_tables,
)
from lance_catalog.cli.reading import take as take_names
from lance_catalog.cli.results import Details, Done, Listing, Plan, Result, Step
from lance_catalog.cli.session import Session, key_values, not_a_catalog_mode

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
    from lance_catalog.directory.namespaces import normal_mode

    if not id:
        # An unset variable of a script would set the properties of the root.
        raise usage("the id is empty", "the root namespace is typed as '.'")
    names = session.parse(id)
    session.missing = names[:-1]
    not_a_catalog_mode(mode)
    chosen = normal_mode(mode, ("create", "exist_ok", "overwrite"), "mode")
    given = key_values(properties, "--property")
    if parents:
        for depth in range(1, len(names)):
            session.catalog.create_namespace({"id": list(names[:depth]), "mode": "exist_ok"})
    made, stored = _create(session, names, chosen, given)
    text = f"namespace {session.text(names)}"
    if made:
        message = f"created {text}"
    elif chosen == "overwrite":
        message = f"{text} exists already; replaced its properties"
    else:
        message = f"{text} exists already; left it as it is"
    fields = {**session.row(names), "properties": stored, "created": made}
    return Done(message=message, fields=fields, plain="text")


def _create(
    session: Session, names: Identifier, mode: str, properties: dict[str, str]
) -> tuple[bool, dict[str, str]]:
    """Create a namespace; return whether it was not there, and its properties.

    Created first and only then taken as it is, so that the answer is true among other writers.
    """
    from lance_catalog.errors import NamespaceAlreadyExistsError

    request = {"id": list(names), "properties": properties}
    try:
        answer = session.catalog.create_namespace({**request, "mode": "create"})
    except NamespaceAlreadyExistsError:
        if mode == "create":
            raise
        answer = session.catalog.create_namespace({**request, "mode": mode})
        return False, answer.properties or {}
    return True, answer.properties or {}


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
        found = all_namespaces(session, names)
        if after is not None:
            past = session.parse(after)
            found = [below for below in found if below > past]
        if most is not None and len(found) > most:
            found = found[:most]
            token = session.text(found[-1])
    else:
        listed, token = take_names(child_namespaces(session, names), most, after)
        found = [(*names, name) for name in listed]
    return listing(session, found, token)


def listing(
    session: Session, found: list[Identifier], token: str | None, note: str | None = None
) -> Listing:
    """Return a list of ids, with notes for people where it is not the whole story."""
    notes = [note, session.ambiguous(found)]
    if token is not None:
        more = f"--after {shlex.quote(token)} goes on"
        notes.append(f"note: there are more; {more}, --all lists everything")
    return Listing(
        rows=[{**session.row(names), "name": names[-1]} for names in found],
        columns=("text",),
        titles=("id",),
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
    from lance_catalog.identifiers import decode, encode
    from lance_catalog.lifecycle.purge import check_deletable

    if not names:
        raise InvalidInputError("the root namespace cannot be dropped")
    session.catalog.namespace_exists({"id": list(names)})
    view = session.catalog.snapshot()
    below = list(view.descendants(encode(names)))
    if below and not cascade:
        raise NamespaceNotEmptyError(
            f"namespace '{session.text(names)}' is not empty: {len(below)} objects below it"
        )
    steps = []
    for entry in sorted(below, key=lambda e: decode(e.object_id), reverse=True):
        text = session.text(decode(entry.object_id))
        detail = ""
        if entry.is_table:
            place = check_deletable(view, entry, f"dropping '{text}'")
            detail = f"deletes {session.context.store.uri_of(place)}"
        steps.append(Step(f"drop {entry.object_type}", text, detail))
    return [*steps, Step("drop namespace", session.text(names))]
