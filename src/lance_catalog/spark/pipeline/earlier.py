"""What a run finds of earlier ones with its job id, and how it tells of its own failure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from lance_catalog.directory.jobs import Job, find_done
from lance_catalog.errors import InvalidInputError, LanceNamespaceError
from lance_catalog.identifiers import parse_text
from lance_catalog.spark.catalogs import CatalogRef
from lance_catalog.spark.pipeline.problems import InvalidPipelineError
from lance_catalog.spark.pipeline.records import Records
from lance_catalog.spark.pipeline.report import RunReport, TargetReport
from lance_catalog.spark.pipeline.secrets import Scrubber

__all__ = ["done_before", "shows_secrets", "without_secrets"]


def done_before(ref: CatalogRef, records: Records, report: RunReport) -> bool:
    """Whether a run with this job id has ended well; its targets are then those of the report."""
    found = records.find(report.job_id)
    if found is None or _undone(ref, report.job_id, found["targets"] or ()):
        return False
    if found["digest"] != report.digest:
        raise InvalidInputError(
            f"job id '{report.job_id}' has published pipeline '{found['pipeline']}' as it was at "
            f"{found['started']:%Y-%m-%d %H:%M} (its file or variables differ from this one); "
            "choose another job id"
        )
    report.targets = [
        TargetReport(**{**target, "repeated": True}) for target in found["targets"] or ()
    ]
    report.status = "repeated"
    report.ended = datetime.now(UTC)
    return True


def _undone(ref: CatalogRef, job_id: str, targets: Iterable[Mapping[str, Any]]) -> bool:
    """Whether no table has what a run published: somebody restored what was before, in all."""
    ctx = ref.open().context
    written = [target for target in targets if target["version"] is not None]
    for target in written:
        names = parse_text(target["table"])
        # A target that is a commit of its own has an id of its own.
        for one in (job_id, f"{job_id}/{target['name']}"):
            if find_done(ctx, names, Job(one)) is not None:
                return False
    return bool(written)


def shows_secrets(error: BaseException | None, scrub: Scrubber) -> bool:
    """Whether the text of an error, or of what it came from, has a secret in it."""
    while error is not None:
        if scrub.text(str(error)) != str(error):
            return True
        error = error.__cause__
    return False


def without_secrets(error: LanceNamespaceError, scrub: Scrubber) -> LanceNamespaceError:
    """Return the same error with another text."""
    if isinstance(error, InvalidPipelineError):
        return error  # Its problems were made without secrets.
    made: LanceNamespaceError = type(error)(scrub.text(str(error)))
    return made
