"""A run: read, step by step, expectations, one publish, indices, and the record of it.

Nothing is published before every expectation of every target holds. All targets are published by
one commit with the job id of the run; so a run that is started again with it finds what is done.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from lance_catalog.errors import (
    CommitOutcomeUnknownError,
    InvalidInputError,
    LanceNamespaceError,
    NamespaceNotFoundError,
    TableNotFoundError,
    TableTagNotFoundError,
    TableVersionNotFoundError,
)
from lance_catalog.manifest.author import author
from lance_catalog.spark.catalogs import CatalogLike, CatalogRef, resolve
from lance_catalog.spark.failures import spark_errors
from lance_catalog.spark.pipeline.earlier import done_before, shows_secrets, without_secrets
from lance_catalog.spark.pipeline.expectations import check
from lance_catalog.spark.pipeline.frames import (
    INGESTED,
    Frames,
    file_format,
    own_session,
    spark_mistakes,
)
from lance_catalog.spark.pipeline.graph import Node
from lance_catalog.spark.pipeline.lines import Path
from lance_catalog.spark.pipeline.problems import InvalidPipelineError
from lance_catalog.spark.pipeline.publishing import Published, publish_all
from lance_catalog.spark.pipeline.records import Records
from lance_catalog.spark.pipeline.report import (
    Event,
    Failed,
    RunReport,
    StepReport,
    TargetReport,
)
from lance_catalog.spark.pipeline.secrets import Scrubber, named_secrets
from lance_catalog.spark.pipeline.silence import unsaid

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lance_catalog.spark.pipeline.loading import Pipeline

__all__ = ["run"]

Told = Callable[[Event], None]
#: What a source may name that is not there; the error stays what it is, and says where.
_MISSING: Final = (
    NamespaceNotFoundError,
    TableNotFoundError,
    TableTagNotFoundError,
    TableVersionNotFoundError,
)


def run(
    pipeline: Pipeline,
    spark: SparkSession,
    catalog: CatalogLike,
    job_id: str | None,
    progress: Told | None,
) -> RunReport:
    """Run a pipeline; see :meth:`Pipeline.run`."""
    ref = resolve(catalog)
    settings = pipeline.definition.run
    records = Records(ref.open(), settings.namespace)
    report = RunReport(
        pipeline=pipeline.name,
        job_id=job_id or f"{pipeline.name}-{uuid.uuid4().hex}",
        digest=pipeline.digest,
        started=datetime.now(UTC),
        who=author(),
    )
    if job_id is not None and settings.record and done_before(ref, records, report):
        return report
    told = progress or (lambda event: None)
    # Messages come from Spark and from stores, which know of no secrets of ours.
    scrub = pipeline.scrub.more(named_secrets(ref.properties))
    try:
        with (
            unsaid(),
            spark_errors(f"pipeline '{pipeline.name}'"),
            own_session(spark) as own,
        ):
            _Run(pipeline, own, ref, report, told, scrub).all()
    except BaseException as error:
        # Whatever ends it: interrupted by hand too. What is published by then stays so.
        if report.status != "incomplete":
            unknown = isinstance(error, CommitOutcomeUnknownError)
            report.status = "unknown" if unknown else "failed"
        report.error = scrub.text(f"{type(error).__name__}: {error}")
        _write(records, report, wanted=settings.record)
        if isinstance(error, LanceNamespaceError) and shows_secrets(error, scrub):
            raise without_secrets(error, scrub) from None
        raise
    _write(records, report, wanted=settings.record)
    report.warnings = [scrub.text(warning) for warning in report.warnings]
    return report


def _write(records: Records, report: RunReport, *, wanted: bool) -> None:
    report.ended = datetime.now(UTC)
    if not wanted:
        return
    try:
        records.write(report)
    except (LanceNamespaceError, OSError, RuntimeError, ValueError) as error:
        # What is published is published, whether its record is written or not.
        report.warnings.append(f"the record of the run could not be written: {error}")


class _Run:
    """One run on its way."""

    def __init__(
        self,
        pipeline: Pipeline,
        spark: SparkSession,
        ref: CatalogRef,
        report: RunReport,
        told: Told,
        scrub: Scrubber,
    ) -> None:
        self._pipeline, self._ref, self._report, self._told = pipeline, ref, report, told
        self._scrub = scrub
        self._definition = pipeline.definition
        self._spark = spark
        self._frames = Frames(self._spark, ref, pipeline.folder, pipeline.values)

    def all(self) -> None:
        """Do everything; what it did is in the report."""
        nodes = [node for node in self._pipeline.plan() if node.needed]
        try:
            direct = self._direct()
            for node in nodes:
                if node.kind != "target" and node.name not in direct:
                    self._define(node)
            if self._expected():
                self._publish(direct)
        finally:
            self._frames.close()

    def _direct(self) -> set[str]:
        """The files that go straight to their table, past the JVM: no step, nothing to look at.

        Only where they are the one target, or targets may be published one by one: a direct ingest
        is a commit of its own.
        """
        targets = list(self._definition.targets.values())
        if len(targets) > 1 and self._definition.pipeline.atomic:
            return set()
        used = [name for node in self._pipeline.plan() for name in node.inputs]
        found: set[str] = set()
        for target in targets:
            source = self._definition.sources.get(target.from_)
            if source is None or not source.files or target.expectations or target.keys:
                continue
            with self._placed(("sources", target.from_, "files")):
                readable = file_format(source) in INGESTED
            plain = source.schema_ is None and not source.options
            if readable and plain and used.count(target.from_) == 1:
                found.add(target.from_)
        return found

    def _define(self, node: Node) -> None:
        if node.kind == "source":
            source = self._definition.sources[node.name]
            path: Path = ("sources", node.name, source.kind)
            with self._timed(node.kind, node.name, node.does), self._placed(path):
                self._frames.source(node.name, source)
            return
        step = self._definition.steps[node.name]
        path = ("steps", node.name, "sql" if step.sql is not None else "function")
        with self._timed(node.kind, node.name, node.does) as rows, self._placed(path):
            frame = self._frames.step(node.name, step, node.inputs)
            if step.cache:
                kept = self._frames.keep(frame)
                self._frames.replace(node.name, kept)
                rows.append(kept.count())

    def _expected(self) -> bool:
        """Look at the rows of every target; whether all are as expected."""
        for name, target in self._definition.targets.items():
            if not target.expectations:
                continue
            path: Path = ("targets", name, "expectations")
            with self._timed("check", name, f"check {target.table}") as rows, self._placed(path):
                frame = self._frames.keep(self._frames.made[self._real(target.from_)])
                self._frames.made[self._real(target.from_)] = frame
                found, failed = check(name, frame, target.expectations)
                rows.append(found)
                self._report.failures += [
                    Failed(**self._scrub.value(one.as_dict())) for one in failed
                ]
        if self._report.failures:
            self._report.status = "rejected"
            said = "; ".join(failure.message for failure in self._report.failures)
            self._report.error = f"nothing was published: {said}"
            return False
        return True

    def _publish(self, direct: set[str]) -> None:
        text = ", ".join(f"{t.mode} {t.table}" for t in self._definition.targets.values())
        started = time.monotonic()
        with self._timed("publish", self._pipeline.name, text):
            published = publish_all(
                self._spark,
                self._ref,
                self._definition,
                {
                    name: self._frames.made[self._real(target.from_)]
                    for name, target in self._definition.targets.items()
                    if target.from_ not in direct
                },
                direct,
                self._report.job_id,
            )
        seconds = time.monotonic() - started
        # Until its indices are there; whatever ends the run now, this much is published.
        self._report.status = "incomplete"
        self._report.targets = [
            self._told_of(name, done, seconds, []) for name, done in published.items()
        ]
        broken = []
        for number, name in enumerate(published):
            built, failed = self._index(name)
            broken += failed
            self._report.targets[number] = replace(self._report.targets[number], indices=built)
        if broken:
            self._report.error = self._scrub.text("; ".join(broken))
        else:
            self._report.status = "published"

    def _told_of(
        self, name: str, done: Published, seconds: float, indices: list[str]
    ) -> TargetReport:
        target = self._definition.targets[name]
        return TargetReport(
            name=name,
            table=target.table,
            mode=target.mode,
            version=done.version,
            rows=done.rows,
            bytes=done.bytes,
            seconds=round(seconds, 3),
            repeated=done.repeated,
            indices=indices,
        )

    def _index(self, name: str) -> tuple[list[str], list[str]]:
        """Build the indices of a target: those built, and what failed.

        The rows are published by now: a failure is told, and a run with the same job id tries
        again.
        """
        from lance_catalog.spark.jobs.indexing import index

        target = self._definition.targets[name]
        built: list[str] = []
        failed: list[str] = []
        for one in target.indices:
            spec = one.spec()
            text = f"index {spec.type} on {target.table}.{spec.column}"
            with self._timed("index", spec.name, text):
                try:
                    rows = index(
                        self._spark,
                        self._ref,
                        target.table,
                        spec.column,
                        spec.type,
                        name=spec.name,
                        replace=spec.replace,
                        options=spec.options,
                    ).collect()
                    error = rows[0]["error"]
                except LanceNamespaceError as raised:
                    error = str(raised)
            if error is None:
                built.append(spec.name)
            else:
                failed.append(f"published, but {text} failed: {error}")
        return built, failed

    def _real(self, name: str) -> str:
        """The name as its source or step is written: SQL, and so a file, knows no case."""
        known = (*self._definition.sources, *self._definition.steps)
        return next(one for one in known if one.lower() == name.lower())

    @contextmanager
    def _timed(self, kind: str, name: str, text: str) -> Iterator[list[Any]]:
        """Tell that something begins and ends; the block may say how many rows it saw."""
        self._told(Event(kind, name, text))
        rows: list[Any] = []
        started = time.monotonic()
        yield rows
        seconds = round(time.monotonic() - started, 3)
        self._report.steps.append(StepReport(kind, name, seconds, rows[0] if rows else None))
        self._told(Event(kind, name, text, seconds))

    @contextmanager
    def _placed(self, path: Path) -> Iterator[None]:
        """Say which line of the file a mistake is about that only Spark could find."""
        try:
            with spark_mistakes():
                yield
        except InvalidPipelineError:
            raise
        except InvalidInputError as error:
            problem = self._pipeline.problem(path, str(error))
            raise InvalidPipelineError(self._pipeline.source, [problem]) from error
        except _MISSING as error:
            problem = self._pipeline.problem(path, str(error))
            raise type(error)(f"{self._pipeline.source}: {problem}") from error
