"""How a function becomes a command: global options, the session, rendering, failures."""

from __future__ import annotations

import inspect
import traceback
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeVar

import typer

from lance_catalog.cli.failures import CommandError, explain
from lance_catalog.cli.output import Format
from lance_catalog.cli.results import Result
from lance_catalog.cli.session import Session

__all__ = ["GLOBALS", "command", "global_parameters", "group"]

F = TypeVar("F", bound=Callable[..., Result])
PANEL: Final = "Global options"


@dataclass(frozen=True)
class GlobalOption:
    """An option of every command. ``anywhere``: after the verb too, where no noun uses the name."""

    name: str
    kind: Any
    decls: tuple[str, ...]
    help: str
    metavar: str | None = None
    anywhere: bool = True

    def parameter(self, *, hidden: bool) -> inspect.Parameter:
        """Return it as a parameter that typer understands."""
        option = typer.Option(
            *self.decls,
            help=self.help,
            metavar=self.metavar,
            hidden=hidden,
            rich_help_panel=PANEL,
            show_default=False,
        )
        default = False if self.kind is bool else None
        return inspect.Parameter(
            self.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=default,
            annotation=Annotated[self.kind, option],
        )


GLOBALS: Final = (
    GlobalOption(
        "root", str | None, ("--root",), "The folder or bucket of the catalog.", "PATH|URI"
    ),
    GlobalOption(
        "profile", str | None, ("--profile",), "A profile of the configuration file.", "NAME"
    ),
    GlobalOption(
        "storage",
        list[str] | None,
        ("--storage",),
        "An option of the object store; repeatable. Secrets belong in the environment "
        "(LANCE_CATALOG_STORAGE_<NAME>) or a profile, not here.",
        "NAME=VALUE",
    ),
    GlobalOption(
        "property",
        list[str] | None,
        ("--property",),
        "A property of the catalog, such as commit_timeout=5; repeatable. Before the noun.",
        "NAME=VALUE",
        anywhere=False,
    ),
    GlobalOption(
        "mode",
        str | None,
        ("--mode",),
        "v1, v2 or compat: how tables are found; short for two properties. Before the noun.",
        "v1|v2|compat",
        anywhere=False,
    ),
    GlobalOption(
        "as_of",
        str | None,
        ("--as-of",),
        "Read the catalog as it was: a version of it, or a time as 2026-11-15T12:00:00+00:00.",
        "POINT",
    ),
    GlobalOption(
        "output",
        Format | None,
        ("--output", "-o"),
        "How data is shown: a table, JSON, or plain lines for scripts.",
    ),
    GlobalOption(
        "delimiter",
        str | None,
        ("--delimiter",),
        "What separates the names of an id; choose another when a name holds a dot.",
        "TEXT",
    ),
    GlobalOption("yes", bool, ("--yes", "-y"), "Go on without asking."),
    GlobalOption("quiet", bool, ("--quiet", "-q"), "No messages, only data and errors."),
    GlobalOption("debug", bool, ("--debug",), "Show logs and, after an error, the traceback."),
)


def global_parameters(*, after: bool) -> list[inspect.Parameter]:
    """Return the global options as parameters: before the noun shown, after the verb hidden."""
    return [option.parameter(hidden=after) for option in GLOBALS if option.anywhere or not after]


def group(help: str) -> typer.Typer:
    """Return an app for a noun."""
    return typer.Typer(help=help, no_args_is_help=True)


def command(app: typer.Typer, name: str, *, past: bool = False) -> Callable[[F], F]:
    """Register a function ``(session, ...) -> Result`` as a command.

    ``past``: it reads what ``--as-of`` means. The others are refused with it.
    """

    def register(function: F) -> F:
        app.command(name)(_runnable(function, past=past))
        return function

    return register


def _runnable(function: Callable[..., Result], *, past: bool) -> Callable[..., int]:
    hints = typing.get_type_hints(function, include_extras=True)
    own = [
        parameter.replace(annotation=hints[parameter.name], kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in list(inspect.signature(function).parameters.values())[1:]
    ]
    taken = {parameter.name for parameter in own}
    shared = [p for p in global_parameters(after=True) if p.name not in taken]
    shared_names = {parameter.name for parameter in shared}

    def run(ctx: typer.Context, **given: Any) -> int:
        session: Session = ctx.find_root().obj
        session.command_path = ctx.command_path
        try:
            session.take({key: value for key, value in given.items() if key in shared_names})
            if not past:
                session.require_present()
            result = function(session, **{k: v for k, v in given.items() if k in taken})
            session.output.result(result)
        except CommandError as failure:
            raise _shown(failure, session) from failure
        except BrokenPipeError:
            raise
        except Exception as error:
            raise _shown(error, session) from error
        return result.exit_code

    context = inspect.Parameter(
        "ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context
    )
    run.__signature__ = inspect.Signature([context, *own, *shared])  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in (context, *own, *shared)}
    run.__doc__ = function.__doc__
    return run


def _shown(error: Exception, session: Session) -> typer.Exit:
    """Show a failure; return what ends the program."""
    failure = explain(error, session)
    trace = None
    if session.debug:
        trace = session.scrub("".join(traceback.format_exception(error)))
    session.error_output().failure(failure, trace)
    return typer.Exit(failure.exit_code)
