"""Sources and steps become DataFrames, under their names in a session of the run's own."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Final

from pyspark import cloudpickle
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame

from lance_catalog.errors import InvalidInputError, LanceNamespaceError
from lance_catalog.spark.catalogs import CatalogRef
from lance_catalog.spark.pipeline.model import Source, Step
from lance_catalog.spark.pipeline.references import parameters

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["INGESTED", "Frames", "file_format", "own_session", "spark_mistakes"]

_pickling: Any = cloudpickle
_BY_SUFFIX: Final = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".orc": "orc",
    ".avro": "avro",
    ".txt": "text",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".lance": "lance",
}
#: Read as most people mean it, unless the options say otherwise.
_CSV: Final = {"header": "true", "inferSchema": "true"}
#: What a direct ingest reads, and what only it does.
INGESTED: Final = ("parquet", "csv", "json", "arrow", "lance")
_NOT_SPARK: Final = ("arrow", "lance")


@contextlib.contextmanager
def own_session(spark: SparkSession) -> Iterator[SparkSession]:
    """Give a session with the same settings and no views: names of a run meet no others.

    Two runs in one session would else read each other's steps.
    """
    made = spark.newSession()
    before: Any = spark.conf.getAll
    now: Any = made.conf.getAll
    for key, value in before.items():
        if key.startswith("spark.sql.") and now.get(key) != value and made.conf.isModifiable(key):
            made.conf.set(key, value)
    with _active(spark, made):
        yield made


@contextlib.contextmanager
def _active(spark: Any, made: Any) -> Iterator[None]:
    """Make a session the one of this thread: a write looks for its format in that one's list."""
    if ".connect." in type(spark).__module__:
        yield
        return
    sessions = type(spark)._get_j_spark_session_class(spark._jvm)
    sessions.setActiveSession(made._jsparkSession)
    try:
        yield
    finally:
        sessions.setActiveSession(spark._jsparkSession)
        # Python keeps its own note, which making a DataFrame from rows changes.
        type(spark)._activeSession = spark


def file_format(source: Source) -> str:
    """Return the format of files: what the source says, else what their names say."""
    if source.format is not None:
        return {"jsonl": "json", "ndjson": "json"}.get(source.format, source.format)
    found = set()
    for path in source.files or []:
        suffixes = [s for s in FilePath(path.rstrip("/*")).suffixes if s in _BY_SUFFIX]
        found.add(_BY_SUFFIX[suffixes[-1]] if suffixes else None)
    if len(found) == 1 and None not in found:
        return str(found.pop())
    raise InvalidInputError("the names of the files do not tell their format; give format")


@contextlib.contextmanager
def spark_mistakes() -> Iterator[None]:
    """Turn what Spark says of a query or a path into our error for a mistake (13)."""
    try:
        yield
    except (AnalysisException, ParseException) as error:
        said = (error.getMessage() or str(error)).split("\n\n")[0].split("\n== SQL")[0]
        raise InvalidInputError(" ".join(said.split())) from error


class Frames:
    """The DataFrames of a run, made in the order of its graph."""

    def __init__(
        self,
        spark: SparkSession,
        ref: CatalogRef,
        folder: FilePath,
        values: Mapping[str, Any],
    ) -> None:
        self._spark, self._ref, self._folder, self._values = spark, ref, folder, values
        self._modules: list[Any] = []
        self._kept: list[DataFrame] = []
        self.made: dict[str, DataFrame] = {}

    def source(self, name: str, source: Source) -> DataFrame:
        """Read a source; nothing is fetched but its schema."""
        return self._named(name, self._read(source))

    def _read(self, source: Source) -> DataFrame:
        if source.table is not None:
            from lance_catalog.spark.read import read

            return read(
                self._spark,
                self._ref,
                source.table,
                columns=source.columns,
                filter=source.filter,
                version=source.version,
                tag=source.tag,
                as_of=source.as_of,
            )
        kind = file_format(source) if source.files else str(source.format)
        if source.files and kind in _NOT_SPARK:
            raise InvalidInputError(
                f"Spark does not read {kind} files; they can only go straight to a target, "
                "without steps and expectations"
            )
        options = {**(_CSV if source.files and kind == "csv" else {}), **source.options}
        if source.schema_ is not None:
            options.pop("inferSchema", None)
        reader = self._spark.read.format(kind).options(**options)
        if source.schema_ is not None:
            reader = reader.schema(source.schema_)
        paths = source.files or source.path
        found = reader.load(paths) if paths else reader.load()
        return found.select(*source.columns) if source.columns else found

    def step(self, name: str, step: Step, inputs: tuple[str, ...]) -> DataFrame:
        """Define a step over what was made before it."""
        if step.sql is not None:
            bound = {key: self._values[key] for key in parameters(step.sql) if key in self._values}
            return self._named(name, self._spark.sql(step.sql, args=bound or None))
        function = self._function(str(step.function))
        made = _called(function, str(step.function), {one: self.made[one] for one in inputs}, step)
        if not _is_frame(made):
            raise InvalidInputError(
                f"{step.function} returned {type(made).__name__}; a step returns a DataFrame"
            )
        return self._named(name, made)

    def keep(self, frame: DataFrame) -> DataFrame:
        """Let Spark keep rows that are looked at more than once, so that they stay the same."""
        kept = frame.persist()
        self._kept.append(kept)
        return kept

    def close(self) -> None:
        """Let go of everything the run held in Spark and in this process."""
        for frame in self._kept:
            frame.unpersist()
        for name in self.made:
            self._spark.catalog.dropTempView(name)
        for module in self._modules:
            _pickling.unregister_pickle_by_value(module)

    def _named(self, name: str, frame: DataFrame) -> DataFrame:
        # Spark Connect finds a mistake no earlier than this.
        _ = frame.schema
        frame.createOrReplaceTempView(name)
        self.made[name] = frame
        return frame

    def replace(self, name: str, frame: DataFrame) -> None:
        """Give a name other rows: those that are kept."""
        self._named(name, frame)

    def _function(self, text: str) -> Callable[..., Any]:
        module_name, _, function_name = text.partition(":")
        with _importable(self._folder):
            try:
                module = importlib.import_module(module_name)
            except ModuleNotFoundError as error:
                raise InvalidInputError(
                    f"module '{error.name}' of {text} is not found: it is looked for beside the "
                    "pipeline file and where Python looks"
                ) from error
        function = getattr(module, function_name, None)
        if not callable(function):
            raise InvalidInputError(f"module '{module_name}' has no function '{function_name}'")
        beside = FilePath(str(getattr(module, "__file__", ""))).is_relative_to(self._folder)
        if beside and module not in self._modules:
            # Executors cannot import what lies beside the file: what it defines goes to them.
            _pickling.register_pickle_by_value(module)
            self._modules.append(module)
        found: Callable[..., Any] = function
        return found


def _called(function: Callable[..., Any], text: str, inputs: Any, step: Step) -> Any:
    try:
        return function(inputs, dict(step.params))
    except (LanceNamespaceError, PySparkException):
        raise
    except Exception as error:
        # Somebody else's code: whatever it raises is told with the line of its step.
        raise InvalidInputError(f"{text} raised {type(error).__name__}: {error}") from error


def _is_frame(made: Any) -> bool:
    return isinstance(made, DataFrame) or type(made).__name__ == "DataFrame"


@contextlib.contextmanager
def _importable(folder: FilePath) -> Iterator[None]:
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
