"""Several tables written and published as one: readers see all of a run or none of it.

The rows of all tables are written first, where nobody sees them. Then one commit of the catalog
registers a version of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lance_catalog.directory.jobs import Job
from lance_catalog.errors import InvalidInputError, UnsupportedOperationError
from lance_catalog.spark.catalogs import CatalogLike, resolve
from lance_catalog.spark.publication import Publication
from lance_catalog.spark.publish_part import Part
from lance_catalog.spark.results import PublishResult
from lance_catalog.spark.write import write
from lance_catalog.versions.registry import is_managed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["publish"]


def publish(
    catalog: CatalogLike,
    tables: Mapping[Any, DataFrame | tuple[DataFrame, Mapping[str, Any]]],
    *,
    job_id: str | None = None,
    atomic: bool = True,
) -> PublishResult:
    """Write several tables and publish them by one commit of the catalog, once per ``job_id``.

    ``tables`` says for each, by dotted text or a tuple of names, the DataFrame, or that and the
    options of ``write``: ``mode`` (by default ``overwrite``, which also makes a table), ``keys``,
    ``vectors``, ``properties``. One commit of several tables needs a catalog that manages
    versions (0 otherwise); with ``atomic=False`` they are committed one after the other, each
    once per job: readers may see a part of it, and a run that died is completed by running again.

    Run again, tables that have the job are left alone; one that a restore, or a drop and a new
    creation, took it from gets it again. 14 when one of the tables was changed again and again
    meanwhile: then nothing is published.
    """
    ref = resolve(catalog)
    job = Job.named(job_id)
    parts = [Part.of(key, given) for key, given in tables.items()]
    if not parts:
        raise InvalidInputError("publish: no table is given")
    if len({part.names for part in parts}) < len(parts):
        raise InvalidInputError("publish: a table is given twice")
    ctx = ref.open().context
    if ctx.log is None or not is_managed(ctx.exact().table_metadata):
        if atomic:
            raise UnsupportedOperationError(
                "publish: several tables become visible at once only where the catalog manages "
                "versions; `lance-catalog versions enable` switches that on, atomic=False commits "
                "them one after the other"
            )
        made = [write(part.df, ref, part.names, job_id=job.id, **part.how) for part in parts]
        return PublishResult(job.id, False, tuple(made))
    return Publication(ref, parts, job).run()
