"""The only place that prints. Data goes to stdout; messages, questions and progress to stderr."""

from __future__ import annotations

import json
import logging
import os
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TextIO

from lance_catalog.cli.results import Details, Done, Listing, Plan, Report, Result, Value

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from lance_catalog.cli.failures import CommandError

__all__ = ["Format", "Output", "Steps", "visible"]

_LIST_SHOWN: Final = 4
_TEXT_SHOWN: Final = 60
# Letters that reorder what follows: a name could pretend to be another.
_BIDI: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


class Format(StrEnum):
    """How data is shown."""

    TABLE = "table"
    JSON = "json"
    PLAIN = "plain"


class Output:
    """Renders results in one format."""

    def __init__(self, format: Format = Format.TABLE, *, quiet: bool = False) -> None:
        self.format = format
        self.quiet = quiet

    def result(self, result: Result) -> None:
        """Show a command's answer."""
        if self.format is Format.JSON:
            _write(sys.stdout, _json_text(_as_json(result), sys.stdout))
        elif self.format is Format.PLAIN:
            for line in _as_plain(result):
                _write(sys.stdout, "\t".join(visible(_text(cell)) for cell in line))
        elif isinstance(result, Done):
            self.message(result.message)
        elif not _is_empty(result):
            _print(sys.stdout, _as_table(result))
        sys.stdout.flush()
        if result.note is not None:
            self.message(result.note)

    def message(self, text: str) -> None:
        """Tell people something; nothing when quiet."""
        if self.quiet:
            return
        if self.format is Format.JSON:
            self._line({"note": text})
        else:
            _write(sys.stderr, visible(text, keep="\n"))

    def _line(self, data: dict[str, Any]) -> None:
        """With JSON chosen, stderr is JSON too: an object on each line, an error the last."""
        _write(sys.stderr, json.dumps(data))

    def plan(self, plan: Plan) -> None:
        """Show a plan beside a question, whatever the format of the data."""
        _write(sys.stderr, visible(plan.title))
        _print(sys.stderr, _as_table(plan))

    def failure(self, failure: CommandError, trace: str | None = None) -> None:
        """Show why a command failed."""
        if trace is not None:
            _write(sys.stderr, trace.rstrip())
        if self.format is Format.JSON:
            shown = {
                "name": failure.name,
                "code": failure.code,
                "message": failure.message,
                "hint": failure.hint,
                "exit_code": failure.exit_code,
            }
            self._line({"error": shown})
            return
        _write(sys.stderr, f"error: {visible(failure.message)}")
        if failure.hint is not None:
            _write(sys.stderr, f"hint: {visible(failure.hint)}")

    def can_ask(self) -> bool:
        """Whether somebody is there to answer."""
        return sys.stdin.isatty() and sys.stderr.isatty()

    def ask(self, question: str) -> str:
        """Ask; an end of input is an empty answer."""
        sys.stderr.write(visible(question) + " ")
        sys.stderr.flush()
        return sys.stdin.readline().strip("\r\n")

    @contextmanager
    def progress(self, what: str) -> Iterator[Callable[[int, int | None], None]]:
        """Give a function to call with (done, of how many, None while that is not known).

        A bar on a terminal, else nothing.
        """
        if self.quiet or not sys.stderr.isatty():
            yield lambda done, total: None
            return
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, console=_console(sys.stderr), transient=True) as bar:
            task = bar.add_task(what, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)

    @contextmanager
    def steps(self) -> Iterator[Steps]:
        """Give what tells of steps, one after the other: on a terminal the current one moves."""
        if self.quiet or self.format is Format.JSON or not sys.stderr.isatty():
            yield Steps(self.message)
            return
        with _console(sys.stderr).status("") as status:
            yield Steps(self.message, lambda text: status.update(visible(text)))

    def take_logs(self, *, debug: bool) -> None:
        """Show what the library logs as messages."""
        handler = _LogHandler(self)
        handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
        logger = logging.getLogger("lance_catalog")
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(logging.DEBUG if debug else logging.WARNING)


class Steps:
    """Tells when a step begins and ends."""

    def __init__(
        self, message: Callable[[str], None], show: Callable[[str], None] | None = None
    ) -> None:
        self._message = message
        self._show = show

    def begin(self, what: str, *, aloud: bool) -> None:
        """Tell what runs now; in plain lines only what takes its time (``aloud``)."""
        if self._show is not None:
            self._show(what)
        elif aloud:
            self._message(f"{what} ...")

    def end(self, what: str) -> None:
        """Tell what is done."""
        self._message(what)


class _LogHandler(logging.Handler):
    def __init__(self, output: Output) -> None:
        super().__init__()
        self._output = output

    def emit(self, record: logging.LogRecord) -> None:
        self._output.message(self.format(record).replace("WARNING:", "warning:", 1))


def visible(text: str, keep: str = "") -> str:
    """Return a text whose control characters are spelled out: names come from strangers."""
    if text.isprintable():
        return text
    return "".join(char if char in keep else _visible_char(char) for char in text)


def _visible_char(char: str) -> str:
    if unicodedata.category(char) in ("Cc", "Cs") or char in _BIDI:
        return char.encode("unicode_escape", "surrogatepass").decode("ascii")
    return char


def _write(stream: TextIO, text: str) -> None:
    encoding = stream.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.encode(encoding, "backslashreplace").decode(encoding)
    print(text, file=stream)


def _console(stream: TextIO) -> Console:
    from rich.console import Console

    return Console(
        file=stream,
        # Into a file or a pipe nothing is wrapped or cut.
        width=None if stream.isatty() else 10_000,
        highlight=False,
        # Rich would still print bold.
        color_system=None if os.environ.get("NO_COLOR") else "auto",
    )


def _print(stream: TextIO, what: RenderableType) -> None:
    console = _console(stream)
    with console.capture() as captured:
        console.print(what)
    lines = captured.get().splitlines()
    _write(stream, "\n".join(line.rstrip() for line in lines))


def _json_text(data: Any, stream: TextIO) -> str:
    text = _json_lines(data, ascii_only=False)
    try:
        text.encode(stream.encoding or "utf-8")
    except UnicodeEncodeError:
        return _json_lines(data, ascii_only=True)
    return text


def _json_lines(data: Any, *, ascii_only: bool) -> str:
    """JSON with a line for each row or field: a vector takes one line, not a thousand."""

    def dump(value: Any) -> str:
        return json.dumps(value, ensure_ascii=ascii_only, allow_nan=False)

    if isinstance(data, list):
        return "[\n" + ",\n".join(f"  {dump(row)}" for row in data) + "\n]" if data else "[]"
    lines = (f"  {dump(key)}: {dump(value)}" for key, value in data.items())
    return "{\n" + ",\n".join(lines) + "\n}"


def _is_empty(result: Result) -> bool:
    """Whether there is nothing but a header to show."""
    match result:
        case Listing(rows=[]) | Plan(steps=[]):
            return True
    return False


def _typed(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields for people: the id as it is typed, once."""
    if "text" not in fields:
        return fields
    return {"id": fields["text"]} | {k: v for k, v in fields.items() if k not in ("id", "text")}


def _as_json(result: Result) -> Any:
    match result:
        case Report(fields=fields):
            return fields
        case Listing(rows=rows):
            return rows
        case Value(name=name, value=value):
            return {name: value}
        case Details(fields=fields) | Done(fields=fields):
            return fields
        case Plan(steps=steps):
            return {"dry_run": True, "plan": [vars(step) for step in steps]}
    raise TypeError(f"no JSON for {type(result).__name__}")


def _as_plain(result: Result) -> Iterator[Iterable[Any]]:
    match result:
        case Listing(rows=rows, plain=keys):
            for row in rows:
                yield [row[key] for key in keys]
        case Value(value=value):
            yield [value]
        case Done(fields=fields, plain=key):
            yield [fields[key]]
        case Plan(steps=steps):
            for step in steps:
                yield step.action, step.subject, step.detail
        case Details(fields=fields):
            for key, value in _typed(fields).items():
                yield from _flat(key, value)


def _flat(key: str, value: Any) -> Iterator[list[Any]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _flat(f"{key}.{name}", inner)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for row in value:
            yield [f"{key}.{row['name']}", *(v for k, v in row.items() if k != "name")]
    else:
        yield [key, value]


def _as_table(result: Result) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    def cell(value: Any, *, shorten: bool = False) -> Text:
        return Text(visible(_short(value) if shorten else _text(value)), overflow="fold")

    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold")
    match result:
        case Listing(rows=rows, columns=columns, titles=titles, shorten=shorten):
            for title in titles or columns:
                table.add_column(Text(visible(title)), overflow="fold")
            for row in rows:
                table.add_row(*(cell(row[key], shorten=shorten) for key in columns))
            return table
        case Plan(steps=steps):
            for column in ("action", "subject", "detail"):
                table.add_column(column, overflow="fold")
            for step in steps:
                table.add_row(cell(step.action), cell(step.subject), cell(step.detail))
            return table
        case Value(value=value):
            return cell(value)
        case Details(fields=fields):
            table.show_header = False
            table.add_column(style="bold")
            table.add_column(overflow="fold")
            for key, value in _typed(fields).items():
                text = "\n".join(visible(line) for line in _lines(value))
                table.add_row(key, Text(text, overflow="fold"))
            return table
    raise TypeError(f"no table for {type(result).__name__}")


def _lines(value: Any) -> Iterator[str]:
    """A field's value for people: a line for each entry."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield f"{key}: {_text(inner)}"
    elif isinstance(value, list):
        for row in value:
            words = [key if v is True else _text(v) for key, v in row.items() if v is not False]
            yield " ".join(words)
    else:
        yield _text(value)


def _text(value: Any) -> str:
    """A value in one line: strings as they are, the rest as JSON writes it; nothing for None."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _short(value: Any) -> str:
    """A value for eyes: long vectors and texts are cut, and say so."""
    if isinstance(value, list) and len(value) > _LIST_SHOWN:
        shown = ", ".join(_short(item) for item in value[:_LIST_SHOWN])
        return f"[{shown}, … {len(value)} values]"
    if isinstance(value, float):
        return f"{value:.6g}"
    text = _text(value)
    return text if len(text) <= _TEXT_SHOWN else text[: _TEXT_SHOWN - 1] + "…"
