"""The targets of a run are written, all by one commit where there are several."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from lance_catalog.directory.dropped import TableState
from lance_catalog.errors import InvalidInputError, TableAlreadyExistsError
from lance_catalog.identifiers import Identifier, parse_text
from lance_catalog.spark.catalogs import CatalogRef
from lance_catalog.spark.pipeline.expectations import duplicates
from lance_catalog.spark.pipeline.frames import file_format
from lance_catalog.spark.pipeline.model import Definition, Source, Target

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
        source = definition.sources[target.from_]
        # Each is a commit of its own, and so needs an id of its own.
        own = job_id if alone else f"{job_id}/{name}"
        done[name] = _first_or_next(
            catalog, {name: target}, frames, partial(_ingest, spark, ref, source, own)
        )[name]
    if together:
        atomic = definition.pipeline.atomic
        done |= _first_or_next(
            catalog, together, frames, partial(_write, ref, frames, job_id, atomic)
        )
    return {name: done[name] for name in definition.targets}


#: Of each target, by its name: itself, and the options of its write.
_Chosen = Mapping[str, tuple[Target, dict[str, Any]]]


def _first_or_next(
    catalog: DirectoryNamespace,
    targets: Mapping[str, Target],
    frames: Mapping[str, DataFrame],
    publish: Callable[[_Chosen], dict[str, Published]],
) -> dict[str, Published]:
    """Publish targets; once more as the next run where another first run was first."""
    for last in (False, False, True):
        chosen = {
            name: (target, _options(catalog, target, frames.get(name)))
            for name, target in targets.items()
        }
        try:
            return publish(chosen)
        except TableAlreadyExistsError:
            if last or all(how["mode"] == target.mode for target, how in chosen.values()):
                raise
    raise AssertionError("not reached")


def _ingest(
    spark: SparkSession, ref: CatalogRef, source: Source, job_id: str, chosen: _Chosen
) -> dict[str, Published]:
    from lance_catalog.spark.ingest import ingest

    ((name, (target, options)),) = chosen.items()
    result = ingest(
        spark,
        ref,
        target.table,
        source.files or [],
        format=file_format(source),
        columns=source.columns,
        job_id=job_id,
        **{key: value for key, value in options.items() if key != "keys"},
    )
    return {name: _told(result)}


def _write(
    ref: CatalogRef,
    frames: Mapping[str, DataFrame],
    job_id: str,
    atomic: bool,
    chosen: _Chosen,
) -> dict[str, Published]:
    from lance_catalog.spark.publish import publish
    from lance_catalog.spark.write import write

    if len(chosen) == 1:
        ((name, (target, options)),) = chosen.items()
        result = write(frames[name], ref, target.table, job_id=job_id, **options)
        return {name: _told(result)}
    names = {name: parse_text(target.table) for name, (target, _) in chosen.items()}
    tables = {names[name]: (frames[name], options) for name, (_, options) in chosen.items()}
    published = publish(ref, tables, job_id=job_id, atomic=atomic)
    by_table = {tuple(result.table): result for result in published.tables}
    return {name: _told(by_table[names[name]]) for name in chosen}


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
