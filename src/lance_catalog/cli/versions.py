"""``versions enable|disable|status|list|describe|delete|cleanup``: the versions of tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lance_catalog.cli import version_cleanup, version_delete
from lance_catalog.cli.command import command, group
from lance_catalog.cli.moments import exact
from lance_catalog.cli.options import DryRun, Limit, TableId
from lance_catalog.cli.past import of_today
from lance_catalog.cli.results import Details, Done, Listing, Plan, Result, Step
from lance_catalog.cli.session import Session
from lance_catalog.cli.wording import counted

if TYPE_CHECKING:
    from lance_namespace import TableVersion

    from lance_catalog.directory.managed.switch import SwitchReport

__all__ = ["app"]

app = group("List and delete versions of tables, and let the catalog decide over them.")


@command(app, "enable")
def enable(session: Session, dry_run: DryRun = False) -> Result:
    """Let the catalog decide over the versions of its tables; native writers fail from then on.

    Registers every version there is. May be interrupted and repeated.
    """
    before = session.catalog.managed_versions_status()
    on = f"managed versions are on already: {_count(before.versions, before.tables)}"
    if before.managed and dry_run:
        return Plan(title=on, note=on)
    if not before.managed:
        plan = Plan(
            title="Managed versions on. From now on native writers of this catalog fail, and "
            "whoever writes one of its tables has to commit through the catalog:",
            steps=[
                Step("register", counted(before.tables, "table"), "every version they have", False),
                Step("switch on", "managed versions", "native writers of this catalog fail"),
            ],
        )
        if dry_run:
            return plan
        session.confirm(lambda: plan, None, "makes native writers of this catalog fail")
    with session.output.progress("registering versions") as progress:
        done = session.catalog.enable_managed_versions(progress)
    message = on
    if done.changed:
        message = f"managed versions are on: {_count(done.versions, done.tables)}; native writers "
        message += f"of this catalog fail from now on; `{session.command('versions', 'disable')}` "
        message += "ends it"
    return Done(message=message, fields=_switched(done), plain="managed")


@command(app, "disable")
def disable(session: Session, dry_run: DryRun = False) -> Result:
    """Leave the versions to the tables' own files again; native writers work again.

    Every version stays; what goes is the catalog's register of them. May be interrupted and
    repeated.
    """
    before = session.catalog.managed_versions_status()
    off = "managed versions are off already"
    idle = not before.managed and not before.versions
    if idle and dry_run:
        return Plan(title=off, note=off)
    if not idle:
        plan = Plan(
            title="Managed versions off. The register of versions goes, with it transactions and "
            "batches that land whole or not at all; native writers of this catalog work again:",
            steps=[
                Step("switch off", "managed versions", "native writers work again", False),
                Step("forget", counted(before.versions, "version"), "not the tables"),
            ],
        )
        if dry_run:
            return plan
        session.confirm(lambda: plan, None, "removes the register of versions")
    with session.output.progress("finishing versions") as progress:
        done = session.catalog.disable_managed_versions(progress)
    message = off
    if done.changed:
        message = f"managed versions are off: the register of {counted(done.versions, 'version')} "
        message += "is gone, and native writers of this catalog work again"
    return Done(message=message, fields=_switched(done), plain="managed")


def _count(versions: int, tables: int) -> str:
    return f"{counted(versions, 'version')} of {counted(tables, 'table')} registered"


def _switched(done: SwitchReport) -> dict[str, Any]:
    return {
        "managed": done.managed,
        "changed": done.changed,
        "tables": done.tables,
        "versions": done.versions,
    }


@command(app, "status")
def status(session: Session) -> Result:
    """Tell whether the catalog decides over versions, and how many are registered."""
    found = session.catalog.managed_versions_status()
    note = None
    if not found.managed and found.versions:
        again = session.command("versions", "enable")
        note = session.remark(
            f"note: switching was interrupted; `{again}` or `versions disable` finishes it"
        )
    return Details(
        fields={"managed": found.managed, "tables": found.tables, "versions": found.versions},
        note=note,
    )


@command(app, "list", past=True)
def list_(
    session: Session,
    id: TableId,
    limit: Limit = None,
    page_token: Annotated[
        str | None,
        typer.Option(
            "--page-token",
            metavar="VERSION",
            help="Go on behind this version: the last one of the page before.",
            show_default=False,
        ),
    ] = None,
    ascending: Annotated[
        bool, typer.Option("--ascending", help="Oldest first; default latest first.")
    ] = False,
) -> Result:
    """List the versions of a table, latest first."""
    names = session.parse_table(id)
    answer = session.catalog.list_table_versions(
        {
            "id": list(names),
            "limit": limit,
            "page_token": page_token,
            "descending": not ascending,
        }
    )
    notes = [of_today(session, names)]
    if answer.page_token is not None:
        notes.append(f"note: there are more; --page-token {answer.page_token} goes on")
    elif not answer.versions and page_token is None:
        notes.append(session.remark("no versions: the table is only declared"))
    keys = ("version", "at", "manifest_size", "manifest_path")
    return Listing(
        rows=[_row(version) for version in answer.versions],
        columns=keys,
        titles=("version", "committed", "size", "manifest"),
        plain=keys,
        note="\n".join(note for note in notes if note is not None) or None,
    )


@command(app, "describe", past=True)
def describe(
    session: Session,
    id: TableId,
    version: Annotated[
        int | None,
        typer.Argument(
            metavar="[VERSION]", help="Its number; default the latest.", show_default=False
        ),
    ] = None,
) -> Result:
    """Show when a version was committed and where its manifest lies."""
    names = session.parse_table(id)
    answer = session.catalog.describe_table_version({"id": list(names), "version": version})
    fields = {**session.row(names), **_row(answer.version)}
    return Details(fields=fields, note=of_today(session, names))


def _row(version: TableVersion) -> dict[str, Any]:
    return {
        "version": version.version,
        "at": exact(version.timestamp_millis),
        "manifest_size": version.manifest_size,
        "manifest_path": version.manifest_path,
        "e_tag": version.e_tag,
        "metadata": version.metadata or {},
    }


version_delete.add_to(app)
version_cleanup.add_to(app)
