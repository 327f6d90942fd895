"""One run of the command line: its flags, settings, catalog, and how ids are typed."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from lance_catalog.cli.failures import USAGE, CommandError, usage
from lance_catalog.cli.output import Format, Output

if TYPE_CHECKING:
    from lance_catalog.cli.results import Plan
    from lance_catalog.cli.settings import EffectiveSettings
    from lance_catalog.directory.context import Context
    from lance_catalog.directory.namespace import DirectoryNamespace
    from lance_catalog.identifiers import Identifier

__all__ = ["Session", "key_values", "not_a_catalog_mode"]

PROGRAM = "lance-catalog"


def not_a_catalog_mode(mode: str) -> None:
    """Refuse a mode of the catalog where a verb has a ``--mode`` of its own."""
    if mode.lower() in ("v1", "v2", "compat"):
        raise usage(
            f"--mode {mode} is a global option, and here means what to do if the name is taken",
            "put it before the noun",
        )


def key_values(given: Sequence[str] | None, option: str) -> dict[str, str]:
    """Return ``k=v`` options as a dict; the value may hold ``=`` and may be empty."""
    found: dict[str, str] = {}
    for item in given or ():
        key, equals, value = item.partition("=")
        if not equals or not key:
            # Not repeated: it may be a secret without its name.
            raise usage(f"{option} takes NAME=VALUE, and one of those given has no '=' or no name")
        if key in found:
            raise usage(f"{option} gives '{key}' twice")
        found[key] = value
    return found


class Session:
    """What every command works with. Nothing is read before it is needed."""

    def __init__(self) -> None:
        self._flags: dict[str, Any] = {}
        self.command_path = PROGRAM
        self.yes = self.quiet = self.debug = False
        #: What the command is about, for hints: the last id it parsed.
        self.subject: Identifier | None = None
        #: The namespace that a hint should tell to create, when it is not the subject.
        self.missing: Identifier | None = None

    def take(self, given: Mapping[str, Any]) -> None:
        """Add global options; those after the verb win over those before the noun."""
        # How to show a mistake comes before what may be one.
        for name, value in sorted(given.items(), key=lambda item: item[0] != "output"):
            if name in ("yes", "quiet", "debug"):
                setattr(self, name, getattr(self, name) or bool(value))
            elif name in ("storage", "property"):
                pairs = key_values(value, f"--{name}")
                self._flags[name] = {**self._flags.get(name, {}), **pairs}
            elif value is not None:
                self._flags[name] = str(value)

    @cached_property
    def settings(self) -> EffectiveSettings:
        """The effective settings."""
        from lance_catalog.cli.settings import resolve

        return resolve(self._flags)

    @cached_property
    def output(self) -> Output:
        """Where results go."""
        made = Output(self.settings.format, quiet=self.quiet)
        made.take_logs(debug=self.debug)
        return made

    def error_output(self) -> Output:
        """Where a failure goes, also when the settings themselves are the failure."""
        try:
            return self.output
        except CommandError:
            asked = self._flags.get("output") or os.environ.get("LANCE_CATALOG_OUTPUT")
            return Output(Format.JSON if asked == Format.JSON else Format.TABLE)

    @cached_property
    def catalog(self) -> DirectoryNamespace:
        """The catalog of the root."""
        root = self.settings.root
        if root is None:
            raise usage(
                "no root: which folder or bucket holds the catalog?",
                "give --root PATH|URI before the noun, set LANCE_CATALOG_ROOT, or choose a "
                "--profile",
            )
        from lance_catalog import connect

        made = connect(root, **self.settings.properties())
        path = made.context.store.uri.removeprefix("file://")
        local = "://" not in path and not root.lower().startswith("memory:")
        if local and not os.path.exists(path := unquote(path)):
            # An empty answer from a mistyped path looks like an empty catalog.
            self.output.message(f"note: {path} does not exist yet; the first write makes it")
        return made

    @property
    def context(self) -> Context:
        """What maintenance works with."""
        return self.catalog.context

    @property
    def as_of(self) -> str | None:
        """The point of the past that is read; None for the present."""
        return self.settings.values.get("property.as_of")

    def require_present(self) -> None:
        """Refuse ``--as-of`` where nothing of the past is read."""
        if self.as_of is None:
            return
        verb = self.command_path.removeprefix(PROGRAM).strip()
        raise CommandError(
            f"{verb} does not go with --as-of: the catalog as of {self.as_of} is the past, which "
            "can be read and not changed",
            hint="leave --as-of out; it goes with list and describe of namespaces, tables and "
            "versions, and with table count and head",
            exit_code=USAGE,
            code=13,
            name="InvalidInput",
        )

    def parse(self, text: str) -> Identifier:
        """Return the id somebody typed."""
        from lance_catalog.identifiers import parse_text

        self.subject = parse_text(text, self.settings.delimiter)
        return self.subject

    def parse_table(self, text: str) -> Identifier:
        """Return the id of a table somebody typed: not the root."""
        names = self.parse(text)
        if not names:
            raise usage(f"'{text}' is the root namespace; a table has a name")
        self.missing = names[:-1]
        return names

    def names_a_table(self) -> bool:
        """Whether what was taken for a namespace is a table: asked after a failure."""
        # Verbs that take a table's id, or make something, say what is missing themselves.
        if not self.subject or self.missing is not None:
            return False
        try:
            self.catalog.table_exists({"id": list(self.subject)})
        except Exception:
            # The failure that is being explained is the one to tell.
            return False
        return True

    def is_dropped(self) -> bool:
        """Whether a table that was not found can be undropped: asked after a failure."""
        if not self.subject:
            return False
        try:
            found = self.catalog.table_status(self.subject)
        except Exception:
            return False
        return found.drop_id is not None and not found.purging

    def remark(self, text: str) -> str | None:
        """Return a note that only people need: none where programs read the messages."""
        return None if self.output.format is Format.JSON else text

    def text(self, names: Sequence[str]) -> str:
        """Return an id as it is typed here."""
        from lance_catalog.identifiers import format_text

        return format_text(names, self.settings.delimiter)

    def row(self, names: Sequence[str]) -> dict[str, Any]:
        """Return how an id appears in results: exact as a list, and as it is typed."""
        return {"id": list(names), "text": self.text(names)}

    def ambiguous(self, found: Sequence[Sequence[str]]) -> str | None:
        """Return a note when a name holds the delimiter, so that its text means something else."""
        delimiter = self.settings.delimiter
        if any(delimiter in name for names in found for name in names):
            return f"note: some names hold '{delimiter}'; list them with another --delimiter"
        return None

    def command(self, *parts: str | Sequence[str], present: bool = False) -> str:
        """Return a command that can be pasted; ids are given as their names.

        About the past, if that is what is read, unless it is to be about the present.
        """
        words = [PROGRAM]
        for name in ("profile", "root", "mode", "as_of"):
            if name in self._flags and not (present and name == "as_of"):
                words += [f"--{name.replace('_', '-')}", shlex.quote(self._flags[name])]
        delimiter = self.settings.delimiter
        ids = [part for part in parts if not isinstance(part, str)]
        if delimiter == "." and any("." in name for names in ids for name in names):
            delimiter = "/"
        if delimiter != "." and ids:
            words += ["--delimiter", shlex.quote(delimiter)]
        typed = [part if isinstance(part, str) else delimiter.join(part) or "." for part in parts]
        first = next((i for i, part in enumerate(parts) if not isinstance(part, str)), None)
        if first is not None and typed[first].startswith("-"):
            # It would be taken for an option; behind "--" it is not. Options come last here.
            options = (i for i in range(first, len(parts)) if str(parts[i]).startswith("--"))
            end = next(options, len(parts))
            typed = [*typed[:first], *typed[end:], "--", *typed[first:end]]
        return " ".join([*words, *map(shlex.quote, typed)])

    def help_command(self) -> str:
        """Return the hint of last resort."""
        return f"`{self.command_path} --help` shows what it takes"

    def scrub(self, text: str) -> str:
        """Return a text without the secrets of the settings."""
        try:
            secrets = self.settings.secrets()
        except CommandError:
            return text
        for secret in sorted(secrets, key=len, reverse=True):
            # Shorter ones are words like "true", and no secrets.
            if len(secret) >= 6:
                text = text.replace(secret, "********")
        return text

    def confirm(
        self,
        plan: Callable[[], Plan],
        word: str | None,
        why: str = "changes things for good",
    ) -> None:
        """Go on only when somebody said so: ``--yes``, or an answer on a terminal.

        With a word, that word has to be typed; without one, ``y`` is enough. ``why`` it asks is
        told where nobody can answer.
        """
        if self.yes:
            return
        if not self.output.can_ask():
            raise usage(
                f"{self.command_path.removeprefix(PROGRAM).strip()} {why}, and nobody is at a "
                "terminal to be asked",
                "--yes goes on without asking; --dry-run shows what would happen",
            )
        self.output.plan(plan())
        question = "Go on? [y/N]" if word is None else f"Type {word} to go on:"
        answer = self.output.ask(question)
        agreed = answer.lower() in ("y", "yes") if word is None else answer == word
        if not agreed:
            raise CommandError(
                "not confirmed; nothing was changed", hint="--yes goes on without asking"
            )
