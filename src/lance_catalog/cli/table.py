"""``table list|describe|declare|register|deregister|rename|set|drop|count|head|history``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lance_catalog.cli import table_data, table_history
from lance_catalog.cli.command import command, group
from lance_catalog.cli.deregistered import list_deregistered
from lance_catalog.cli.failures import usage
from lance_catalog.cli.namespace import listing
from lance_catalog.cli.options import (
    After,
    All,
    DropForce,
    DropPurge,
    DropTtl,
    DryRun,
    IfExists,
    Limit,
    ParentId,
    Properties,
    TableId,
    TableVersion,
    Unset,
    Values,
)
from lance_catalog.cli.past import version_then
from lance_catalog.cli.properties import changed, set_done
from lance_catalog.cli.reading import all_tables, check_limit, child_tables
from lance_catalog.cli.reading import take as take_names
from lance_catalog.cli.results import Details, Done, Plan, Result, Step
from lance_catalog.cli.session import Session, key_values, not_a_catalog_mode

if TYPE_CHECKING:
    from lance_catalog.identifiers import Identifier

__all__ = ["app"]

app = group("List, describe, declare, register, rename, set, drop and read tables.")
table_data.add_to(app)
table_history.add_to(app)


@command(app, "list", past=True)
def list_(
    session: Session,
    parent: ParentId = ".",
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Tables of namespaces below too.")
    ] = False,
    hidden: Annotated[
        bool,
        typer.Option(
            "--deregistered", help="Instead, tables out of the catalog whose data is kept."
        ),
    ] = False,
    limit: Limit = None,
    everything: All = False,
    after: After = None,
) -> Result:
    """List the tables of a namespace."""
    names = session.parse(parent)
    most = check_limit(limit, everything)
    if hidden:
        session.require_present()
        if most is not None or after is not None:
            raise usage("--deregistered lists everything; --limit and --after do not go with it")
        return list_deregistered(session, names)
    if not recursive:
        listed, token = take_names(child_tables(session, names), most, after)
        note = None
        if not listed and after is None:
            note = session.remark("no tables here; --recursive looks below")
        return listing(session, [(*names, name) for name in listed], token, note)
    from lance_catalog.config import Mode
    from lance_catalog.identifiers import decode, encode

    # In V1 there is one level, and a name may hold what separates stored ids elsewhere.
    flat = session.catalog.mode is Mode.V1
    past = None if after is None else after if flat else encode(session.parse(after))
    keys, token = take_names(all_tables(session, names), most, past)
    found: list[Identifier] = [(key,) if flat else decode(key) for key in keys]
    return listing(session, found, None if token is None else session.text(found[-1]))


@command(app, "describe", past=True)
def describe(session: Session, id: TableId, version: TableVersion = None) -> Result:
    """Show where a table lies, its version, schema and properties."""
    from lance_catalog.errors import InvalidTableStateError

    names = session.parse_table(id)
    empty, note = False, None
    try:
        version, note = version_then(session, names, version)
    except InvalidTableStateError:
        # It had a name and a place then, and its data came later.
        empty = True
    answer = session.catalog.describe_table(
        {
            "id": list(names),
            "version": version,
            "load_detailed_metadata": not empty,
            "check_declared": True,
        }
    )
    schema = answer.var_schema
    fields: dict[str, Any] = {
        **session.row(names),
        "location": answer.location,
        "declared": empty or bool(answer.is_only_declared),
        "version": answer.version,
        "schema": [table_data.column(field) for field in schema.fields] if schema else [],
        "properties": answer.properties or {},
        "statistics": answer.metadata or {},
    }
    return Details(fields=fields, note=note)


@command(app, "declare")
def declare(
    session: Session,
    id: TableId,
    location: Annotated[
        str | None,
        typer.Option("--location", help="A folder below the root; default: chosen by the mode."),
    ] = None,
    properties: Properties = None,
) -> Result:
    """Reserve a name and a place for a table whose data comes later."""
    names = session.parse_table(id)
    given = key_values(properties, "--property")
    answer = session.catalog.declare_table(
        {"id": list(names), "location": location, "properties": given}
    )
    return Done(
        message=f"declared table {session.text(names)} at {answer.location}",
        fields={**session.row(names), "location": answer.location, "properties": given},
        plain="location",
    )


@command(app, "register")
def register(
    session: Session,
    id: TableId,
    location: Annotated[
        str, typer.Argument(metavar="LOCATION", help="The table's folder, below the root.")
    ],
    mode: Annotated[
        str, typer.Option("--mode", metavar="create|overwrite", help="If the name is taken.")
    ] = "create",
    properties: Properties = None,
) -> Result:
    """Bring a Lance table that lies below the root into the catalog."""
    names = session.parse_table(id)
    not_a_catalog_mode(mode)
    answer = session.catalog.register_table(
        {
            "id": list(names),
            "location": location,
            "mode": mode,
            "properties": key_values(properties, "--property"),
        }
    )
    fields = {
        **session.row(names),
        "location": answer.location,
        "properties": answer.properties or {},
    }
    message = f"registered table {session.text(names)} at {answer.location}"
    return Done(message=message, fields=fields, plain="location")


@command(app, "deregister")
def deregister(session: Session, id: TableId) -> Result:
    """Take a table out of the catalog; its data stays where it is."""
    names = session.parse_table(id)
    answer = session.catalog.deregister_table({"id": list(names)})
    back = session.command("table", "register", names, answer.location or "LOCATION")
    return Done(
        message=f"deregistered table {session.text(names)}; `{back}` brings it back",
        fields={
            **session.row(names),
            "location": answer.location,
            "properties": answer.properties or {},
        },
        plain="location",
    )


@command(app, "rename")
def rename(
    session: Session,
    id: TableId,
    new: Annotated[
        str, typer.Argument(metavar="NEW", help="The new id in full; its namespace may differ.")
    ],
) -> Result:
    """Give a table another id; its data does not move."""
    target = session.parse_table(new)
    names = session.parse_table(id)
    session.missing = target[:-1]
    session.catalog.rename_table(
        {
            "id": list(names),
            "new_table_name": target[-1],
            "new_namespace_id": list(target[:-1]),
        }
    )
    return Done(
        message=f"renamed table {session.text(names)} to {session.text(target)}",
        fields={**session.row(target), "from": list(names)},
        plain="text",
    )


@command(app, "set")
def set_(session: Session, id: TableId, values: Values = None, unset: Unset = None) -> Result:
    """Set and remove properties; lance_catalog.protected=true keeps it from being dropped."""
    names = session.parse_table(id)
    given, gone = changed(values, unset)
    stored = session.catalog.set_table_properties(names, given, gone)
    return set_done(session, "table", names, stored)


@command(app, "drop")
def drop(
    session: Session,
    id: TableId,
    ttl: DropTtl = None,
    purge: DropPurge = None,
    force: DropForce = False,
    if_exists: IfExists = False,
    dry_run: DryRun = False,
) -> Result:
    """Drop a table, also one that was deregistered: into the trash, or with --purge for good."""
    from lance_catalog.cli.dropping import asked_drop, drop_fields, drop_step, until
    from lance_catalog.errors import NamespaceNotFoundError, TableNotFoundError
    from lance_catalog.lifecycle.states import EXPIRES_AT

    names = session.parse_table(id)
    fields, text = session.row(names), session.text(names)
    how = asked_drop(session, ttl, purge, force)
    title = f"Dropping table {text}:"

    def plan() -> Plan:
        action, detail = drop_step(session.context, names, how)
        return Plan(title=title, steps=[Step(action, text, detail, how.purge)])

    try:
        if dry_run:
            return plan()
        if how.purge:
            # What can be undone needs no question.
            shown = plan()
            session.confirm(lambda: shown, text)
        answer = session.catalog.drop_table(
            {"id": list(names)}, ttl=ttl, purge=how.purge, force=force
        )
    except (NamespaceNotFoundError, TableNotFoundError):
        if not if_exists:
            raise
        message = f"table {text} does not exist; nothing to do"
        if dry_run:
            return Plan(title=title, note=message)
        return Done(message=message, fields={**fields, "dropped": False}, plain="text")
    fields |= {"dropped": True, "location": answer.location}
    at = (answer.properties or {}).get(EXPIRES_AT)
    expires = None if at is None else int(at)
    message = f"dropped table {text} and deleted {answer.location}"
    if not how.purge:
        back = session.command("trash", "undrop", names)
        message = f"dropped table {text}; `{back}` brings it back, {until(expires)}"
    fields |= drop_fields(answer.transaction_id, expires, how)
    return Done(message=message, fields=fields, plain="text")
