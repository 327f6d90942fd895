"""A pipeline text becomes its definition, or a list of everything that is wrong with it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from lance_catalog.errors import InvalidInputError
from lance_catalog.identifiers import parse_text
from lance_catalog.spark.pipeline import model, variables
from lance_catalog.spark.pipeline.graph import Graph
from lance_catalog.spark.pipeline.lines import Path, line_of, locate
from lance_catalog.spark.pipeline.model import Definition, Source, Step, Target
from lance_catalog.spark.pipeline.problems import Problem, key_text, nearest
from lance_catalog.spark.pipeline.secrets import Scrubber, secrets_in

__all__ = ["Parsed", "parse"]

Mistake = tuple[Path, str]

_FUNCTION: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_SYNTAX: Final = re.compile(r" \(at line (\d+), column \d+\)$")
#: Where tables of each kind stand in a file; ``*`` is any name.
_PLACES: Final[tuple[tuple[tuple[str, ...], type[BaseModel]], ...]] = (
    ((), model.Definition),
    (("pipeline",), model.Header),
    (("run",), model.RunSettings),
    (("sources", "*"), model.Source),
    (("steps", "*"), model.Step),
    (("targets", "*"), model.Target),
    (("targets", "*", "indices", "*"), model.IndexTable),
    (("targets", "*", "expectations"), model.Expectations),
    (("targets", "*", "expectations", "rows"), model.RowBounds),
    (("targets", "*", "expectations", "conditions", "*"), model.Condition),
)
_KINDS: Final = {
    "string_type": "expected text",
    "int_type": "expected a whole number",
    "float_type": "expected a number",
    "bool_type": "expected true or false",
    "list_type": "expected a list",
    "dict_type": "expected a table",
    "model_type": "expected a table",
    "model_attributes_type": "expected a table",
}


class Parsed:
    """What came of a text: the definition and its graph when nothing is wrong."""

    def __init__(self, text: str, given: Mapping[str, Any]) -> None:
        self.problems: list[Problem] = []
        self.definition: Definition | None = None
        self.graph: Graph | None = None
        self.values: dict[str, variables.Scalar] = {}
        self.data: dict[str, Any] = {}
        self.lines: dict[Path, int] = {}
        self.scrub = Scrubber()
        try:
            raw = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            self.problems.append(_broken(str(error), text))
            return
        self.lines = locate(text)
        mistakes = self._resolve(raw, given)
        # A default that was not taken is none the less a secret.
        every = (raw.get("variables"), given, self.values)
        self.scrub = Scrubber(secrets_in(self.data, every))
        try:
            self.definition = Definition.model_validate(self.data)
        except ValidationError as error:
            mistakes += [_told(one) for one in error.errors(include_url=False)]
        else:
            mistakes += _check(self.definition)
            self.graph = Graph(self.definition)
            mistakes += self.graph.mistakes
        self.problems = sorted(
            {self.problem(path, message) for path, message in mistakes},
            key=lambda problem: (problem.line, problem.key, problem.message),
        )

    def problem(self, path: Path, message: str) -> Problem:
        """Return a mistake with the line it stands on."""
        line = line_of(self.lines, path) if path else 0
        return Problem(line, key_text(path), self.scrub.text(message))

    def _resolve(self, raw: dict[str, Any], given: Mapping[str, Any]) -> list[Mistake]:
        declared = raw.get("variables", {})
        body = {key: value for key, value in raw.items() if key != "variables"}
        if not isinstance(declared, dict):
            self.data = raw
            return []
        self.values, mistakes = variables.effective(declared, given, variables.used(body))
        self.data = variables.substitute(body, self.values, (), mistakes)
        return mistakes


def parse(text: str, given: Mapping[str, Any] | None = None) -> Parsed:
    """Read a text with the values given for its variables; never raises for what it says."""
    return Parsed(text, given or {})


def _broken(message: str, text: str) -> Problem:
    at = _SYNTAX.search(message)
    line = int(at[1]) if at else text.count("\n") + 1
    said = _SYNTAX.sub("", message).removesuffix(" (at end of document)")
    return Problem(line, "", f"not valid TOML: {said[:1].lower()}{said[1:]}")


def _told(error: Any) -> Mistake:
    path: Path = tuple(error["loc"])
    kind = error["type"]
    if kind == "extra_forbidden":
        return path, f"unknown key; {nearest(str(path[-1]), _known(path[:-1]))}"
    if kind == "missing":
        return path, "is missing"
    if kind == "literal_error":
        return path, f"is {error['input']!r}; expected {error['ctx']['expected']}"
    if kind in _KINDS:
        return path, f"{_KINDS[kind]}, not {_shown(error['input'])}"
    return path, str(error["msg"])[:1].lower() + str(error["msg"])[1:]


def _shown(value: Any) -> str:
    names = {dict: "a table", list: "a list", str: "text", bool: "true/false"}
    return names.get(type(value)) or f"{value!r}"


def _known(path: Path) -> list[str]:
    for place, kind in _PLACES:
        if len(place) == len(path) and all(a in ("*", b) for a, b in zip(place, path, strict=True)):
            return [
                {"from_": "from", "schema_": "schema"}.get(name, name) for name in kind.model_fields
            ]
    return []


def _check(definition: Definition) -> Iterator[Mistake]:
    """What types alone do not tell."""
    taken: dict[str, str] = {}
    for section, names in (("sources", definition.sources), ("steps", definition.steps)):
        for name in names:
            if not model.NAME.fullmatch(name):
                yield (
                    (section, name),
                    "a name is letters, digits and underscores: SQL has to be able to say it",
                )
            elif name.lower() in taken:
                yield (section, name), f"the name is taken by {taken[name.lower()]}.{name}"
            taken.setdefault(name.lower(), section)
    for name, source in definition.sources.items():
        yield from _source(("sources", name), source)
    for name, step in definition.steps.items():
        yield from _step(("steps", name), step)
    seen: dict[tuple[str, ...], str] = {}
    for name, target in definition.targets.items():
        yield from _target(("targets", name), target, seen)
    if not definition.targets:
        yield ("targets",), "a pipeline needs a target: [targets.NAME] with table and from"


def _source(path: Path, source: Source) -> Iterator[Mistake]:
    kinds = [k for k in ("table", "files") if getattr(source, k) is not None]
    if len(kinds) > 1:
        yield (*path, "files"), "give table or files, not both"
    if not kinds and source.format is None:
        yield path, "say what to read: files, table, or a format of Spark's with a path"
    of_table = ("version", "tag", "as_of", "filter")
    of_format = ("path", "options", "schema")
    if source.kind != "table":
        for key in of_table:
            if getattr(source, key) is not None:
                yield (*path, key), "goes with table only; a step can filter the rows of files"
    else:
        chosen = [key for key in of_table[:3] if getattr(source, key) is not None]
        if len(chosen) > 1:
            yield (*path, chosen[1]), f"give one of version, tag and as_of; {chosen[0]} is there"
        yield from _names_a_table((*path, "table"), source.table or "")
    for key in (*of_format, "format") if source.kind == "table" else ("path",):
        if source.kind != "format" and getattr(source, key.replace("schema", "schema_")):
            yield (*path, key), f"does not go with {source.kind}"


def _step(path: Path, step: Step) -> Iterator[Mistake]:
    if (step.sql is None) == (step.function is None):
        yield path, "give sql or function, one of them"
    if step.function is not None:
        if not _FUNCTION.fullmatch(step.function):
            yield (*path, "function"), f"is {step.function!r}; expected module:function"
        if not step.inputs:
            yield path, "a function needs inputs: the names of the sources and steps it takes"
    elif step.params:
        yield (*path, "params"), "goes with function; a query takes variables, as :name"


def _target(path: Path, target: Target, seen: dict[tuple[str, ...], str]) -> Iterator[Mistake]:
    yield from _names_a_table((*path, "table"), target.table)
    name = str(path[-1])
    if target.table in [".".join(names) for names in seen]:
        yield (*path, "table"), f"'{target.table}' is the table of target '{_of(seen, target)}' too"
    seen[tuple(target.table.split("."))] = name
    if target.mode == "merge" and not target.keys:
        yield path, "mode merge needs keys: the columns that tell which row is which"
    if target.keys and target.mode != "merge":
        yield (*path, "keys"), f"goes with mode merge, not {target.mode}"
    for column, size in target.vectors.items():
        if size < 1:
            yield (*path, "vectors", column), f"is {size}; expected how long the vectors are"
    for number, index in enumerate(target.indices):
        try:
            index.spec()
        except InvalidInputError as error:
            yield (*path, "indices", number), str(error)
    rows = target.expectations.rows
    if rows.min is not None and rows.max is not None and rows.min > rows.max:
        yield (*path, "expectations", "rows"), f"min {rows.min} is more than max {rows.max}"
    for number, key in enumerate(target.expectations.unique):
        if not key:
            yield (*path, "expectations", "unique", number), "a key has columns"


def _of(seen: Mapping[tuple[str, ...], str], target: Target) -> str:
    return seen[tuple(target.table.split("."))]


def _names_a_table(path: Path, text: str) -> Iterator[Mistake]:
    try:
        names = parse_text(text)
    except InvalidInputError as error:
        yield path, str(error)
        return
    if not names:
        yield path, "a table has a name, as prod.events"
