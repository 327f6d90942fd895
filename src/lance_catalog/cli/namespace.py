"""``namespace create|list|describe|set|drop``."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lance_catalog.cli import namespace_drop
from lance_catalog.cli.command import command, group
from lance_catalog.cli.failures import usage
from lance_catalog.cli.options import (
    After,
    All,
    Limit,
    NamespaceId,
    ParentId,
    Properties,
    Unset,
    Values,
)
from lance_catalog.cli.properties import changed, set_done
from lance_catalog.cli.reading import (
    all_namespaces,
    check_limit,
    child_namespaces,
    child_tables,
)
from lance_catalog.cli.reading import take as take_names
from lance_catalog.cli.results import Details, Done, Listing, Result
from lance_catalog.cli.session import Session, key_values, not_a_catalog_mode

if TYPE_CHECKING:
    from lance_catalog.identifiers import Identifier

__all__ = ["app"]

app = group("Create, list, describe, set and drop namespaces.")


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

    names = _parse(session, id)
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


def _parse(session: Session, id: str) -> Identifier:
    if not id:
        # An unset variable of a script would set the properties of the root.
        raise usage("the id is empty", "the root namespace is typed as '.'")
    return session.parse(id)


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


@command(app, "list", past=True)
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


@command(app, "describe", past=True)
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


@command(app, "set")
def set_(session: Session, id: NamespaceId, values: Values = None, unset: Unset = None) -> Result:
    """Set and remove properties; lance_catalog.protected=true keeps it from being dropped."""
    names = _parse(session, id)
    given, gone = changed(values, unset)
    stored = session.catalog.set_namespace_properties(names, given, gone)
    return set_done(session, "namespace", names, stored)


namespace_drop.add_to(app)
