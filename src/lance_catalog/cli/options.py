"""Arguments and options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from lance_catalog.cli.completion import complete_dropped, complete_namespace, complete_object

__all__ = [
    "After",
    "All",
    "DropForce",
    "DropPurge",
    "DropTtl",
    "DroppedId",
    "DryRun",
    "Grace",
    "IfExists",
    "Limit",
    "NamespaceId",
    "ParentId",
    "Properties",
    "Relocate",
    "TableId",
    "TableVersion",
    "Unset",
    "Values",
]

NamespaceId = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="The namespace, as prod.analytics; the root is '.'.",
        autocompletion=complete_namespace,
    ),
]
ParentId = Annotated[
    str,
    typer.Argument(
        metavar="[NAMESPACE]",
        help="The namespace to look in; the root is '.'.",
        autocompletion=complete_namespace,
        show_default=False,
    ),
]
TableId = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="The table, as prod.analytics.users.",
        autocompletion=complete_object,
    ),
]
DroppedId = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="The table as it was called, as prod.analytics.users.",
        autocompletion=complete_dropped,
    ),
]
Properties = Annotated[
    list[str] | None,
    typer.Option(
        "--property", metavar="NAME=VALUE", help="A property; repeatable.", show_default=False
    ),
]
Limit = Annotated[
    int | None,
    typer.Option("--limit", min=1, metavar="N", help="List the first N.", show_default=False),
]
All = Annotated[bool, typer.Option("--all", help="List everything: the default, spelled out.")]
After = Annotated[
    str | None,
    typer.Option(
        "--after", metavar="NAME", help="List what follows this name.", show_default=False
    ),
]
IfExists = Annotated[bool, typer.Option("--if-exists", help="Absent is fine: do nothing then.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would happen; change nothing.")]
TableVersion = Annotated[
    int | None,
    typer.Option(
        "--version", min=1, metavar="N", help="A version; default the latest.", show_default=False
    ),
]
Relocate = Annotated[
    str | None,
    typer.Option(
        "--relocate",
        metavar="ID",
        help="Instead, move one table to its V2 path; its writers must be stopped.",
        show_default=False,
    ),
]
Grace = Annotated[
    float,
    typer.Option(
        "--grace",
        min=0,
        metavar="SECONDS",
        help="Leave alone what is younger: a writer may still be at it.",
    ),
]
DropTtl = Annotated[
    str | None,
    typer.Option(
        "--ttl",
        metavar="TIME",
        help="How long it can be undropped, as 3d, 12h or seconds; 'never': for ever; default what "
        "the property drop_ttl says.",
        show_default=False,
    ),
]
DropPurge = Annotated[
    bool | None,
    typer.Option(
        "--purge/--no-purge",
        help="Delete the data now, for good; default what the property drop_behavior says.",
        show_default=False,
    ),
]
DropForce = Annotated[bool, typer.Option("--force", help="Also when it is protected.")]
Values = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME=VALUE", help="Properties to set.", show_default=False),
]
Unset = Annotated[
    list[str] | None,
    typer.Option("--unset", metavar="NAME", help="Remove a property; repeatable."),
]
