"""Failures: which exit code, and what to do next. Messages are for people, the numbers are API.

Exit codes: 0 ok, 1 error, 2 usage, 3 not found, 4 conflict, 5 denied, 6 check found problems,
130 interrupted. InvalidInput (13) is 2: whatever the library calls invalid came from the arguments,
the environment or the profile. So is a column that a filter names and the table does not have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lance_catalog.cli.wording import in_cli_words

if TYPE_CHECKING:
    from lance_catalog.cli.session import Session

__all__ = ["ERROR", "INTERRUPTED", "PROBLEMS", "USAGE", "CommandError", "explain", "usage"]

ERROR: Final = 1
USAGE: Final = 2
PROBLEMS: Final = 6
INTERRUPTED: Final = 130
_TRASH: Final = "trash"

_EXIT: Final[dict[int, int]] = {
    **dict.fromkeys((12, 13), USAGE),
    **dict.fromkeys((1, 4, 6, 8, 10, 11, 22), 3),
    **dict.fromkeys((2, 3, 5, 7, 9, 14, 23), 4),
    **dict.fromkeys((15, 16), 5),
}


class CommandError(Exception):
    """Ends a command: what and why, the next step, and the numbers."""

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        exit_code: int = ERROR,
        code: int | None = None,
        name: str = "Error",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code
        self.code = code
        self.name = name


def usage(message: str, hint: str | None = None) -> CommandError:
    """Return the failure of a command that was typed or configured wrongly."""
    return CommandError(message, hint=hint, exit_code=USAGE, name="Usage")


def explain(error: Exception, session: Session) -> CommandError:
    """Return the failure to show for whatever a command raised."""
    from lance_catalog.errors import ConcurrentModificationError, LanceNamespaceError

    if isinstance(error, CommandError):
        return CommandError(
            session.scrub(error.message),
            hint=error.hint or session.help_command(),
            exit_code=error.exit_code,
            code=error.code,
            name=error.name,
        )
    if not isinstance(error, LanceNamespaceError):
        return CommandError(
            session.scrub(f"{type(error).__name__}: {error}"),
            hint="this is a fault of lance-catalog; the same command with --debug shows where",
            name="Internal",
        )
    code = int(error.code)
    conflict = isinstance(error, ConcurrentModificationError)
    message, hint = in_cli_words(str(error)), _hint(code, str(error), session, conflict=conflict)
    if code in (0, 1) and session.names_a_table():
        text = session.text(session.subject or ())
        message = f"'{text}' is a table, not a namespace"
        shown = session.command("table", "describe", session.subject or ())
        hint = f"`{shown}` shows it"
    return CommandError(
        session.scrub(message),
        hint=hint,
        exit_code=4 if conflict else _EXIT.get(code, ERROR),
        code=code,
        name=type(error).__name__.removesuffix("Error"),
    )


def _hint(code: int, text: str, session: Session, *, conflict: bool) -> str:
    names = session.subject or ()
    command, parent = session.command, names[:-1]
    if conflict and code == 14:
        return "another writer was first: look again, then repeat the command"
    if code == 0 and "manifest_enabled=false" in text:
        # Said of what V1 lacks; what the store lacks, no mode brings.
        return "repeat it with `--mode compat` before the noun"
    if code == 1 and session.command_path.endswith("namespace create"):
        made = command("namespace", "create", names, "--parents")
        return f"`{made}` makes the missing ones too"
    if code == 4 and "is a namespace" in text:
        return f"`{command('table', 'list', names)}` shows the tables in it"
    told = _past_hint(code, text, session) or _version_hint(code, session)
    told = told or _lifecycle_hint(code, text, session)
    if told is not None:
        return told
    hints = {
        1: f"`{command('namespace', 'list', '.', '--recursive')}` shows the namespaces; "
        f"`{command('namespace', 'create', session.missing or names, '--parents')}` makes one",
        2: f"`{command('namespace', 'describe', names)}` shows the one that is there",
        3: f"`{command('namespace', 'drop', names, '--cascade', '--dry-run')}` shows all it holds",
        4: f"`{command('table', 'list', parent)}` shows the tables there",
        5: f"`{command('table', 'describe', names)}` shows the one that is there",
        11: f"`{command('table', 'describe', names)}` shows the latest version",
        12: f"`{command('table', 'describe', names)}` shows the columns",
        15: f"check the rights on the root; `{command('config', 'show')}` shows which root is used",
        16: "set the credentials in LANCE_CATALOG_STORAGE_<NAME> or in the profile; "
        f"`{command('config', 'show')}` shows what is set",
        17: f"try again later; `{command('config', 'show')}` shows which store is used",
        18: f"`{command('check')}` looks for damage; --debug shows where it happened",
        19: f"`{command('table', 'describe', names)}` or `{command('check')}` tells more",
        21: "the store asks for fewer requests: try again later",
    }
    return hints.get(code) or session.help_command()


def _past_hint(code: int, text: str, session: Session) -> str | None:
    """Return what to do about a point of the past, or about what was not there then."""
    if "oldest point available" in text:
        # Without --as-of, which may be the mistake.
        return f"`{session.command('log', present=True)}` shows the changes there are points of"
    if session.as_of is None:
        return None
    if code == 1:
        shown = session.command("namespace", "list", ".", "--recursive")
        return f"`{shown}` shows the namespaces there were"
    if code == 4:
        shown = session.command("table", "list", ".", "--recursive")
        return f"`{shown}` shows the tables there were"
    return None


def _version_hint(code: int, session: Session) -> str | None:
    """Return what to do about versions that are missing, or that have to stay."""
    if " versions " not in session.command_path or code not in (11, 19):
        return None
    names = session.subject or ()
    shown = f"`{session.command('versions', 'list', names)}` shows those there are"
    if code == 11 or not session.command_path.endswith("delete"):
        return shown
    drop = session.command("table", "drop", names)
    return f"{shown}; `{drop}` drops the table, and `all` with --force deletes every version"


def _lifecycle_hint(code: int, text: str, session: Session) -> str | None:
    """Return what to do about a dropped or a protected table, or one that is neither."""
    from lance_catalog.model import PROTECTED

    names = session.subject or ()
    command, path = session.command, session.command_path
    back = f"`{command('trash', 'undrop', names)}` brings it back"
    if code == 4 and f" {_TRASH} " in path:
        return f"`{command(_TRASH, 'list')}` shows the dropped tables"
    if code == 4 and session.is_dropped():
        return f"it is in the trash: {back}"
    if code == 5 and "was dropped" in text:
        return f"{back}, `{command('trash', 'purge', names, '--force')}` deletes it for good"
    if code == 1 and path.endswith("trash undrop"):
        made = command("namespace", "create", session.missing or names, "--parents")
        return f"`{made}` makes it again, or --as brings the table back under another id"
    if code != 19:
        return None
    if "is protected" in text:
        noun = "namespace" if "lance-catalog namespace set" in text else "table"
        if f" {_TRASH} " in path:
            return "--force deletes it all the same"
        ends = command(noun, "set", names, "--unset", PROTECTED)
        return f"`{ends}` ends that; --force goes on all the same"
    if "is live" in text:
        return f"`{command('table', 'drop', names)}` drops it first"
    if "force purges it" in text:
        return f"{back}; `{command('trash', 'purge', names, '--force')}` deletes it now, for good"
    return None
