"""``table count|head``: looking into tables; and how values and types are written."""

from __future__ import annotations

import base64
import math
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any

import typer

from lance_catalog.cli.command import command
from lance_catalog.cli.options import TableId, TableVersion
from lance_catalog.cli.past import version_then
from lance_catalog.cli.results import Listing, Result, Value
from lance_catalog.cli.session import Session

__all__ = ["add_to", "column"]

Filter = Annotated[
    str | None,
    typer.Option("--filter", metavar="SQL", help="Only rows for which this holds, as 'id > 10'."),
]


def add_to(app: typer.Typer) -> None:
    """Register the commands with their noun."""
    command(app, "count", past=True)(count)
    command(app, "head", past=True)(head)


def count(
    session: Session, id: TableId, filter: Filter = None, version: TableVersion = None
) -> Result:
    """Count the rows of a table."""
    names = session.parse_table(id)
    version, note = version_then(session, names, version)
    answer = session.catalog.count_table_rows(
        {"id": list(names), "predicate": filter, "version": version}
    )
    return Value(name="count", value=answer.count, note=note)


def head(
    session: Session,
    id: TableId,
    rows: Annotated[int, typer.Option("--rows", "-n", min=1, metavar="N", help="How many.")] = 10,
    columns: Annotated[
        list[str] | None,
        typer.Option("--column", "-c", metavar="NAME", help="Only this column; repeatable."),
    ] = None,
    filter: Filter = None,
    version: TableVersion = None,
) -> Result:
    """Show some rows of a table; a table cuts long vectors and texts, JSON and plain do not."""
    import pyarrow as pa

    names = session.parse_table(id)
    version, note = version_then(session, names, version)
    request: dict[str, Any] = {
        "id": list(names),
        "vector": {},
        "k": rows,
        "filter": filter,
        "version": version,
    }
    if columns:
        request["columns"] = {"column_names": columns}
    answer = session.catalog.query_table(request)
    with pa.ipc.open_file(pa.py_buffer(answer.data)) as reader:
        found = reader.read_all()
    values = [_values(column) for column in found.columns]
    keys = tuple(found.column_names)
    return Listing(
        rows=[dict(zip(keys, row, strict=True)) for row in zip(*values, strict=True)],
        columns=keys,
        plain=keys,
        shorten=True,
        note=note if found.num_rows else "no rows",
    )


def _values(column: Any) -> list[Any]:
    import pyarrow as pa

    try:
        values = column.to_pylist()
    except (ValueError, OverflowError, pa.ArrowException):
        # Python's times are coarser and fewer than Arrow's.
        values = column.cast(pa.string()).to_pylist()
    return [_as_json(value) for value in values]


def _as_json(value: Any) -> Any:
    """A value of a table as JSON has it; what JSON lacks becomes a text."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case Decimal():
            return str(value)
        case dict():
            return {str(key): _as_json(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_as_json(inner) for inner in value]
    return str(value)


def column(field: Any) -> dict[str, Any]:
    """Return a column of a schema as results show it."""
    return {"name": field.name, "type": _type(field.type), "nullable": field.nullable}


def _type(kind: Any) -> str:
    inner = list(kind.fields or ())
    if kind.type in ("struct", "map"):
        return f"{kind.type}<{', '.join(f'{f.name}: {_type(f.type)}' for f in inner)}>"
    if inner:
        size = "" if kind.length is None else f"[{kind.length}]"
        return f"{kind.type}<{_type(inner[0].type)}>{size}"
    if kind.type.startswith("decimal") and kind.length is not None:
        # Precision and scale travel in one number.
        return f"{kind.type}({kind.length // 1000}, {kind.length % 1000})"
    return str(kind.type) if kind.length is None else f"{kind.type}[{kind.length}]"
