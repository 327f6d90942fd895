"""A pipeline that can be looked at, checked against a catalog, and run."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

from lance_catalog.errors import (
    InvalidInputError,
    NamespaceNotFoundError,
    TableNotFoundError,
    TableTagNotFoundError,
    TableVersionNotFoundError,
)
from lance_catalog.identifiers import format_text, parse_text
from lance_catalog.spark.pipeline.graph import Graph, Node
from lance_catalog.spark.pipeline.lines import Path
from lance_catalog.spark.pipeline.model import Definition, Source, Target
from lance_catalog.spark.pipeline.parsing import Parsed, parse
from lance_catalog.spark.pipeline.problems import InvalidPipelineError, Problem
from lance_catalog.spark.pipeline.secrets import Scrubber

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lance_catalog.directory.namespace import DirectoryNamespace
    from lance_catalog.spark.catalogs import CatalogLike
    from lance_catalog.spark.pipeline.report import Event, RunReport

__all__ = ["Pipeline", "load", "run"]


def load(
    path_or_text: str | os.PathLike[str], variables: Mapping[str, Any] | None = None
) -> Pipeline:
    """Read a pipeline: from a file, or from the text itself (anything with a line break).

    ``variables`` are the values for ``${name}``. 13 with every mistake, its line and key.
    """
    text, source, folder = _text(path_or_text)
    parsed = parse(text, variables)
    if parsed.problems or parsed.definition is None or parsed.graph is None:
        raise InvalidPipelineError(source, parsed.problems)
    name = parsed.definition.pipeline.name or FilePath(source).stem
    return Pipeline(name, source, folder, parsed.definition, parsed.graph, parsed)


def _text(given: str | os.PathLike[str]) -> tuple[str, str, FilePath]:
    if isinstance(given, str) and "\n" in given:
        return given, "pipeline", FilePath.cwd()
    path = FilePath(given)
    try:
        return path.read_text(encoding="utf-8"), str(path), path.resolve().parent
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{path} is not a text in UTF-8: {error.reason}") from error
    except OSError as error:
        why = error.strerror or str(error)
        raise InvalidInputError(f"the pipeline {path} cannot be read: {why}") from error


@dataclass(frozen=True)
class Pipeline:
    """A pipeline without mistakes of its own."""

    name: str
    #: The file it came from, for messages.
    source: str
    #: Where modules of its steps are looked for first.
    folder: FilePath
    #: May hold credentials, so it is never shown.
    definition: Definition = field(repr=False)
    graph: Graph = field(repr=False)
    _parsed: Parsed = field(repr=False)

    @property
    def digest(self) -> str:
        """What tells two pipelines apart: all that the file says, variables filled in, no secrets.

        So a new password makes no other pipeline of it.
        """
        everything = {"data": self._parsed.data, "values": self._parsed.values}
        said = json.dumps(self.scrub.value(everything), sort_keys=True, default=str)
        return hashlib.sha256(said.encode()).hexdigest()

    @property
    def values(self) -> Mapping[str, Any]:
        """The value of each variable."""
        return self._parsed.values

    @property
    def scrub(self) -> Scrubber:
        """Takes the secrets of the file and its variables out of texts."""
        return self._parsed.scrub

    def problem(self, path: Path, message: str) -> Problem:
        """Return a mistake with the line of the file it is about."""
        return self._parsed.problem(path, message)

    def plan(self) -> list[Node]:
        """Return the sources, steps and targets in the order in which they run."""
        return [replace(node, does=self.scrub.text(node.does)) for node in self.graph.nodes]

    def problems(self, catalog: DirectoryNamespace) -> list[Problem]:
        """Return what a catalog lacks for this pipeline: tables, versions, namespaces."""
        found: list[tuple[Path, str]] = []
        made: set[str] = set()
        for name, target in self.definition.targets.items():
            found += _target(catalog, ("targets", name), target)
            made.add(target.table)
        for name, source in self.definition.sources.items():
            if source.table is not None:
                found += _source(catalog, ("sources", name), source)
        return [self.problem(path, message) for path, message in found]

    def run(
        self,
        spark: SparkSession,
        catalog: CatalogLike,
        job_id: str | None = None,
        *,
        progress: Callable[[Event], None] | None = None,
    ) -> RunReport:
        """Run it, and publish its targets together.

        With the ``job_id`` of a run that has ended well nothing is done again. An expectation that
        fails publishes nothing: the report says so (``ok`` is False) and has a sample of the rows.
        Any other failure is raised. Either way the run leaves a record in the catalog.
        """
        from lance_catalog.spark.pipeline.running import run

        return run(self, spark, catalog, job_id, progress)


def run(
    path_or_text: str | os.PathLike[str],
    spark: SparkSession,
    catalog: CatalogLike,
    job_id: str | None = None,
    *,
    variables: Mapping[str, Any] | None = None,
    progress: Callable[[Event], None] | None = None,
) -> RunReport:
    """Load a pipeline and run it: see :func:`load` and :meth:`Pipeline.run`."""
    return load(path_or_text, variables).run(spark, catalog, job_id, progress=progress)


def _source(catalog: DirectoryNamespace, path: Path, source: Source) -> Iterator[tuple[Path, str]]:
    names = parse_text(source.table or "")
    try:
        catalog.table_exists({"id": list(names), "version": source.version})
        if source.tag is not None:
            catalog.describe_table({"id": list(names), "tag": source.tag})
    except (TableNotFoundError, NamespaceNotFoundError):
        yield (*path, "table"), _absent(catalog, names)
    except TableVersionNotFoundError:
        yield (*path, "version"), f"table '{source.table}' has no version {source.version}"
    except TableTagNotFoundError:
        yield (*path, "tag"), f"table '{source.table}' has no tag '{source.tag}'"


def _target(catalog: DirectoryNamespace, path: Path, target: Target) -> Iterator[tuple[Path, str]]:
    names = parse_text(target.table)
    try:
        catalog.namespace_exists({"id": list(names[:-1])})
    except NamespaceNotFoundError:
        parent = format_text(names[:-1])
        yield (
            (*path, "table"),
            f"no namespace '{parent}'; `lance-catalog namespace create {parent} --parents` "
            "makes it",
        )
        return
    try:
        catalog.table_exists({"id": list(names)})
    except TableNotFoundError:
        return
    if target.mode == "create":
        yield (
            (*path, "table"),
            f"table '{target.table}' exists already; mode append, overwrite, merge or ignore "
            "takes it as it is",
        )


def _absent(catalog: DirectoryNamespace, names: tuple[str, ...]) -> str:
    text = format_text(names)
    if catalog.table_status(names).drop_id is not None:
        return f"table '{text}' was dropped; `lance-catalog trash undrop {text}` brings it back"
    return f"no table '{text}' in the catalog"
