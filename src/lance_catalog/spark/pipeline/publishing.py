"""The targets of a run are written, all by one commit where there are several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lance_catalog.directory.dropped import TableState
from lance_catalog.errors import InvalidInputError
from lance_catalog.identifiers import Identifier, parse_text
from lance_catalog.spark.catalogs import CatalogRef
from lance_catalog.spark.pipeline.expectations import duplicates
from lance_catalog.spark.pipeline.frames import file_format
from lance_catalog.spark.pipeline.model import Definition, Target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lance_catalog.directory.namespace import DirectoryNamespace

__all__ = ["Published", "publish_all"]


@dataclass(frozen=True, slots=True)
class Published:
    """What became of one target."""

    version: int | None
    rows: int
    bytes: int
    repeated: bool


def publish_all(
    spark: SparkSession,
    ref: CatalogRef,
    definition: Definition,
    frames: Mapping[str, DataFrame],
    direct: set[str],
    job_id: str,
) -> dict[str, Published]:
    """Write every target; return what became of each, by the target's name."""
    catalog = ref.open()
    done: dict[str, Published] = {}
    together: dict[str, Target] = {}
    alone = len(definition.targets) == 1
    for name, target in definition.targets.items():
        if target.from_ not in direct:
            together[name] = target
            continue
        from lance_catalog.spark.ingest import ingest

        source = definition.sources[target.from_]
        options = _options(catalog, target, None)
        del options["keys"]
        result = ingest(
            spark,
            ref,
            target.table,
            source.files or [],
            format=file_format(source),
            columns=source.columns,
            # Each is a commit of its own, and so needs an id of its own.
            job_id=job_id if alone else f"{job_id}/{name}",
            **options,
        )
        done[name] = _told(result)
    if len(together) == 1:
        from lance_catalog.spark.write import write

        name, target = next(iter(together.items()))
        result = write(
            frames[name],
            ref,
            target.table,
            job_id=job_id,
            **_options(catalog, target, frames[name]),
        )
        done[name] = _told(result)
    elif together:
        from lance_catalog.spark.publish import publish

        tables = {
            parse_text(target.table): (frames[name], _options(catalog, target, frames[name]))
            for name, target in together.items()
        }
        published = publish(ref, tables, job_id=job_id, atomic=definition.pipeline.atomic)
        by_table = {tuple(result.table): result for result in published.tables}
        for name, target in together.items():
            done[name] = _told(by_table[parse_text(target.table)])
    return {name: done[name] for name in definition.targets}


def _options(
    catalog: DirectoryNamespace, target: Target, frame: DataFrame | None
) -> dict[str, Any]:
    mode, keys = target.mode, target.keys
    if mode in ("append", "merge") and _is_new(catalog, parse_text(target.table)):
        if mode == "merge" and frame is not None:
            _require_keys(target, frame)
        # The first run of a pipeline makes what the others add to.
        mode, keys = "create", []
    return {
        "mode": mode,
        "keys": keys or None,
        "vectors": target.vectors or None,
        "properties": target.properties or None,
    }


def _is_new(catalog: DirectoryNamespace, names: Identifier) -> bool:
    """Whether there never was such a table; one in the trash is for somebody to decide about."""
    return catalog.table_status(names).state is TableState.NOT_FOUND


def _require_keys(target: Target, frame: DataFrame) -> None:
    """Refuse (13) a key that comes twice, as a merge into a table that is there does."""
    found = next(duplicates(target.table, frame, target.keys, 0), None)
    if found is not None:
        raise InvalidInputError(
            f"{found.message}, and a merge needs each key once, as in {found.sample[0]}; make one "
            "row of each in a step"
        )


def _told(result: Any) -> Published:
    return Published(result.version, result.rows, result.bytes, result.repeated)
