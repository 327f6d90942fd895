"""The program: global options, the nouns, and the last line of defence."""

from __future__ import annotations

import inspect
import itertools
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from lance_catalog.cli import (
    check,
    config,
    log,
    migrate,
    namespace,
    pipeline,
    repair,
    spark,
    table,
    trash,
    upkeep,
    versions,
)
from lance_catalog.cli.command import GLOBALS, global_parameters
from lance_catalog.cli.failures import INTERRUPTED, USAGE, CommandError
from lance_catalog.cli.output import Format, Output
from lance_catalog.cli.results import Value
from lance_catalog.cli.session import PROGRAM, Session

__all__ = ["app", "main"]


_ORDER: Final = (
    "namespace",
    "table",
    "versions",
    "trash",
    "log",
    "diff",
    "migrate",
    "check",
    "repair",
    "upkeep",
    "pipeline",
    "spark",
    "config",
)


class Program(TyperGroup):
    """Shows mistakes of usage the way every other failure is shown."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for name in _ORDER if name in self.commands]

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        argv = list(sys.argv[1:] if args is None else args)
        try:
            code = super().main(argv, PROGRAM, complete_var, False, windows_expand_args, **extra)
        except typer.TyperException as error:
            _usage_error(error, argv)
            code = USAGE
        except (typer.Abort, KeyboardInterrupt):
            code = INTERRUPTED
        if code == INTERRUPTED:
            Output().message("interrupted")
        sys.exit(code if isinstance(code, int) else 0)


def _usage_error(error: typer.TyperException, argv: list[str]) -> None:
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else PROGRAM
    message = " ".join(error.format_message().split())
    if not message:
        # Typer has printed the help of a noun without a verb already.
        return
    hint = f"`{path} --help` shows what it takes"
    name = getattr(error, "option_name", None)
    if any(name in option.decls for option in GLOBALS):
        message = f"No such option here: {name}"
        hint = f"{name} is a global option: put it before the noun"
    _early_output(argv).failure(CommandError(message, hint=hint, exit_code=USAGE, name="Usage"))


def _early_output(argv: list[str]) -> Output:
    """How to show a mistake in the very arguments that would have said how."""
    words = " ".join(argv).replace("=", " ").split()
    asked = os.environ.get("LANCE_CATALOG_OUTPUT") == Format.JSON or any(
        word in ("--output", "-o") and following == Format.JSON
        for word, following in itertools.pairwise(words)
    )
    return Output(Format.JSON if asked else Format.TABLE)


app = typer.Typer(
    cls=Program,
    help="The catalog for Lance tables that needs nothing but storage.",
    epilog="Ids are typed as prod.analytics.users; the root namespace is a dot. Most global "
    "options may also follow the verb.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(namespace.app, name="namespace")
app.add_typer(table.app, name="table")
app.add_typer(versions.app, name="versions")
app.add_typer(trash.app, name="trash")
app.add_typer(pipeline.app, name="pipeline")
app.add_typer(spark.app, name="spark")
app.add_typer(config.app, name="config")
log.add_to(app)
migrate.add_to(app)
check.add_to(app)
repair.add_to(app)
upkeep.add_to(app)


def _show_version(wanted: bool) -> None:
    if wanted:
        from lance_catalog import __version__

        Output(Format.PLAIN).result(Value(name="version", value=f"{PROGRAM} {__version__}"))
        raise typer.Exit


def _before_the_noun(ctx: typer.Context, version: bool = False, **given: Any) -> None:
    ctx.obj = Session()
    try:
        ctx.obj.take(given)
    except CommandError as failure:
        failure.hint = failure.hint or f"`{PROGRAM} --help` shows the global options"
        ctx.obj.error_output().failure(failure)
        raise typer.Exit(failure.exit_code) from failure


def _callback() -> None:
    """Give the callback the signature that typer reads: the global options."""
    context = inspect.Parameter(
        "ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context
    )
    version = inspect.Parameter(
        "version",
        inspect.Parameter.KEYWORD_ONLY,
        default=False,
        annotation=Annotated[
            bool,
            typer.Option(
                "--version", help="Show the version.", callback=_show_version, is_eager=True
            ),
        ],
    )
    parameters = [context, *global_parameters(after=False), version]
    _before_the_noun.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    _before_the_noun.__annotations__ = {p.name: p.annotation for p in parameters}
    app.callback()(_before_the_noun)


_callback()


def main() -> None:
    """Run the program."""
    app()
