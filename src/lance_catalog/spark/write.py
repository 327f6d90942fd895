"""Writing a DataFrame to a table: executors write, the driver commits once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lance_catalog.directory.jobs import Job, find_done, open_for_job
from lance_catalog.errors import InvalidInputError, TableSchemaValidationError
from lance_catalog.identifiers import Identifier
from lance_catalog.model import check_user_properties
from lance_catalog.spark.catalogs import CatalogLike, CatalogRef, resolve, table_names
from lance_catalog.spark.commit import committed
from lance_catalog.spark.given_properties import give_properties
from lance_catalog.spark.results import WriteResult, result_of
from lance_catalog.spark.sink import Sink, exists, open_sink
from lance_catalog.spark.source_writer import run_write
from lance_catalog.spark.types import arrow_schema_for, require_castable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["MODES", "check_mode", "sink_for", "write"]

MODES: Final = ("create", "append", "overwrite", "merge", "ignore")


def write(
    df: DataFrame,
    catalog: CatalogLike,
    table: str | Sequence[str],
    mode: str = "create",
    *,
    keys: Sequence[str] | None = None,
    vectors: Mapping[str, int] | None = None,
    properties: Mapping[str, str] | None = None,
    job_id: str | None = None,
    max_rows_per_file: int | None = None,
    max_bytes_per_file: int | None = None,
) -> WriteResult:
    """Write a DataFrame to a table of a catalog, exactly once per ``job_id``.

    ``create`` makes the table and never replaces one (5); ``append`` adds rows, ``overwrite``
    replaces them and the columns, or makes the table; ``merge`` updates the rows whose ``keys``
    are there and adds the others; ``ignore`` makes the table unless there is one. ``vectors``
    gives array columns of a new table their length. Run again under the same ``job_id``, after
    whatever failure or at the same time, it is one copy, and the result says ``repeated``.

    4 for a table that is missing, in the trash, or dropped while the job ran; 20 for columns or
    values that do not fit, with their names; 13 for keys that come twice; 14 when others keep
    committing.
    """
    check_mode(mode, keys)
    ref, names = resolve(catalog), table_names(table)
    job = Job.named(job_id)
    given = check_user_properties(dict(properties or {}))
    ctx = ref.open().context
    done = None if job.own else find_done(ctx, names, job)
    if done is not None:
        give_properties(ctx, names, done, given)
        return result_of(names, job, done)
    if mode == "ignore" and exists(ctx, names):
        return WriteResult(names, None, 0, 0, job.id)
    if mode == "merge":
        from lance_catalog.spark.merge import merge

        return merge(df, ref, names, list(keys or ()), job)
    sink = sink_for(
        df,
        ref,
        names,
        "create" if mode == "ignore" else mode,
        job,
        vectors=vectors,
        properties=given,
        max_rows=max_rows_per_file,
        max_bytes=max_bytes_per_file,
    )
    try:
        messages = run_write(df, sink)
    except BaseException:
        sink.give_up()
        raise
    return committed(sink, messages, mode)


def check_mode(mode: str, keys: Sequence[str] | None) -> None:
    """Refuse (13) a mode that is none, and keys without a merge or the other way round."""
    if mode not in MODES:
        raise InvalidInputError(f"mode '{mode}' is not one of {', '.join(MODES)}")
    if (mode == "merge") != bool(keys):
        raise InvalidInputError(
            "a merge needs keys: the columns that tell a row, as keys=['id']; "
            "no other mode takes them"
        )
    if isinstance(keys, str):
        raise InvalidInputError(f"keys is a list of columns, not the text {keys!r}")


def sink_for(
    df: DataFrame,
    ref: CatalogRef,
    names: Identifier,
    mode: str,
    job: Job,
    *,
    vectors: Mapping[str, int] | None = None,
    properties: Mapping[str, str] | None = None,
    max_rows: int | None = None,
    max_bytes: int | None = None,
    keys: Sequence[str] = (),
    fresh: bool | None = None,
) -> Sink:
    """Check a DataFrame against its table, before anything runs, and open that for it."""
    given = check_user_properties(dict(properties or {}))
    _require_names(df.columns)
    ctx = ref.open().context
    base, schema = None, None
    if mode in ("append", "merge"):
        base = open_for_job(ctx, names)
        require_castable(df.schema, base.dataset.schema)
        _require_vectors(vectors, base.dataset.schema)
    else:
        schema = arrow_schema_for(df.schema, vectors)
    return open_sink(
        ref,
        names,
        mode,
        job,
        schema,
        properties=given,
        keys=keys,
        fresh=fresh,
        max_rows=max_rows,
        max_bytes=max_bytes,
        base=base,
    )


def _require_names(columns: Sequence[str]) -> None:
    """Refuse (20) columns that no table can have, before anything runs."""
    if not columns:
        raise TableSchemaValidationError("the DataFrame has no columns; a table has at least one")
    for name in columns:
        if columns.count(name) > 1:
            raise TableSchemaValidationError(
                f"the DataFrame has the column '{name}' more than once; rename one of them"
            )
        if "." in name:
            raise TableSchemaValidationError(
                f"column '{name}' has a dot in its name, which Lance keeps for fields of structs; "
                f"rename it: df.withColumnRenamed('{name}', '{name.replace('.', '_')}')"
            )


def _require_vectors(vectors: Mapping[str, int] | None, schema: pa.Schema) -> None:
    for name, size in (vectors or {}).items():
        index = schema.get_field_index(name)
        kind = None if index < 0 else schema.field(index).type
        if kind is None or not pa.types.is_fixed_size_list(kind) or kind.list_size != size:
            raise TableSchemaValidationError(
                f"vectors says that '{name}' has {size} numbers; in the table it is "
                f"{'not there' if kind is None else kind}"
            )
