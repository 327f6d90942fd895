"""What a read asks for, and how it travels as options of Spark's: text, by name, all of it known.

The same names are arguments of ``read`` and options of ``format("lance")``.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, cast

from lance_catalog.config import PROPERTIES, STORAGE_PREFIX, parse_bool, parse_choice
from lance_catalog.errors import InvalidInputError
from lance_catalog.identifiers import Identifier, format_text
from lance_catalog.spark.catalogs import CatalogRef, table_names
from lance_catalog.spark.shares import DEFAULT_TASK_BYTES
from lance_catalog.spark.types import Blobs

__all__ = [
    "LOCATION_OPTIONS",
    "READ_OPTIONS",
    "STREAM_OPTIONS",
    "Location",
    "ReadOptions",
    "location_of",
]

#: Which table: understood by reading and writing alike, with the properties of the catalog.
LOCATION_OPTIONS: Final[Mapping[str, str]] = {
    "root": "the root of the catalog, a path or URI",
    "table": "the table in the catalog, as db.events; a name with a dot by a JSON list",
    "path": "a Lance table without a catalog; with root, the same as table",
    "location": "where a table lay when it was first looked at; set by lance_catalog.spark",
    "stamp": "by what its version was known then; set by lance_catalog.spark",
    "catalog_token": "made by lance_catalog.spark in place of root and properties",
    **{name: text for name, text in PROPERTIES.items() if name not in ("root", "as_of")},
}

#: What of it.
READ_OPTIONS: Final[Mapping[str, str]] = {
    "columns": "the columns to read, a JSON list or separated by commas",
    "filter": "a condition in Lance's SQL",
    "version": "a version of the table",
    "tag": "a tag of the table",
    "as_of": "a time, or with managed versions a version of the catalog",
    "limit": "at most so many rows in all",
    "with_row_id": "add the column _rowid",
    "nearest": "a vector search, JSON: column, q, k, metric, nprobes, refine_factor, ...",
    "full_text": "a full text search: the words, or JSON: query, columns",
    "batch_bytes": "how many bytes of rows go to Spark at a time; default 2 MiB",
    "partition_bytes": "how many bytes on disk make a task; default 512 MiB",
    "parallelism": "how many tasks a table should make when it is large enough for them",
    "blobs": "'bytes' or 'descriptors': what a blob column holds; default bytes",
    "truncate_ns": "cut digits below the microsecond instead of refusing them; default false",
}

#: What a stream of it is asked for besides (see streaming.py).
STREAM_OPTIONS: Final[Mapping[str, str]] = {
    "starting_version": "a stream begins after this version, without the rows that were there",
    "include_updates": "a stream yields the rows that updates and merges wrote, too",
}

DEFAULT_BATCH_BYTES: Final = 2 << 20
_NEAREST: Final = frozenset(
    {"column", "q", "k", "metric", "use_index", "nprobes", "minimum_nprobes", "maximum_nprobes"}
    | {"refine_factor", "ef", "distance_range", "query_parallelism"}
)
_FULL_TEXT: Final = frozenset({"query", "columns"})


@dataclass(frozen=True)
class Location:
    """Where a table is: names in a catalog, or a path with the options of its store."""

    catalog: CatalogRef | None = None
    names: Identifier = ()
    path: str | None = None
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)

    def to_option(self) -> str:
        """Return the names as option ``table`` takes them; a name may hold a dot."""
        return json.dumps(list(self.names), ensure_ascii=False)

    def __str__(self) -> str:
        return self.path if self.path is not None else format_text(self.names)


def location_of(options: Mapping[str, str]) -> Location:
    """Return the table that the options of a data source name; 13 when they name none."""
    given = {key.lower(): value for key, value in options.items()}
    table, path = given.get("table"), given.get("path")
    token, root = given.get("catalog_token"), given.get("root")
    if token is not None:
        catalog = CatalogRef.from_token(token)
    elif root is not None:
        catalog = CatalogRef(root, _properties(given))
    elif path is not None and table is None:
        # Here the path is the table itself, and of the properties only the store's count.
        return Location(path=path, storage=_storage(given))
    else:
        raise InvalidInputError(
            "which table? give option 'root' with option 'table', or the path of a Lance table: "
            "format('lance').load(path)"
        )
    if table is not None and path is not None:
        raise InvalidInputError("with 'root' give option 'table' or a path, not both")
    name = table if table is not None else path
    if name is None:
        raise InvalidInputError("which table of the catalog? give option 'table', as db.events")
    return Location(catalog, table_names(_json_list(name) or name))


def _properties(given: Mapping[str, str]) -> dict[str, str]:
    return {
        key: value
        for key, value in given.items()
        if key.startswith(STORAGE_PREFIX) or (key in PROPERTIES and key not in ("root", "as_of"))
    }


def _storage(given: Mapping[str, str]) -> dict[str, str]:
    return {
        key.removeprefix(STORAGE_PREFIX): value
        for key, value in given.items()
        if key.startswith(STORAGE_PREFIX)
    }


def _json_list(text: str) -> list[str] | None:
    return cast("list[str]", _json(text, "list")) if text.startswith("[") else None


def _json(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidInputError(f"option '{what}' is not JSON: {error}") from error


@dataclass(frozen=True)
class ReadOptions:
    """What to read of a table. Checked when it is made: 13 for what contradicts itself."""

    columns: tuple[str, ...] | None = None
    filter: str | None = None
    version: int | None = None
    tag: str | None = None
    as_of: str | None = None
    limit: int | None = None
    with_row_id: bool = False
    nearest: Mapping[str, Any] | None = None
    full_text: Mapping[str, Any] | None = None
    batch_bytes: int = DEFAULT_BATCH_BYTES
    partition_bytes: int = DEFAULT_TASK_BYTES
    parallelism: int | None = None
    blobs: Blobs = "bytes"
    truncate_ns: bool = False

    def __post_init__(self) -> None:
        chosen = [name for name in ("version", "tag", "as_of") if getattr(self, name) is not None]
        if len(chosen) > 1:
            raise InvalidInputError(f"give one of version, tag and as_of, not {chosen}")
        if self.nearest is not None and self.full_text is not None:
            raise InvalidInputError("'nearest' and 'full_text' cannot be searched together")
        if self.columns is not None and not self.columns:
            raise InvalidInputError("'columns' is empty; leave it out to read all of them")
        if self.columns is not None and len(set(self.columns)) < len(self.columns):
            raise InvalidInputError(f"'columns' gives a name twice: {', '.join(self.columns)}")
        for name, least in (("limit", 0), ("batch_bytes", 1), ("partition_bytes", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InvalidInputError(f"'{name}' is {value}; expected {least} or more")
        _check_keys("nearest", self.nearest, _NEAREST, ("column", "q"))
        _check_keys("full_text", self.full_text, _FULL_TEXT, ("query",))

    @classmethod
    def make(
        cls,
        *,
        columns: Sequence[str] | None = None,
        as_of: datetime | int | str | None = None,
        nearest: Mapping[str, Any] | None = None,
        full_text: Mapping[str, Any] | str | None = None,
        batch_bytes: int | None = None,
        blobs: str = "bytes",
        **others: Any,
    ) -> ReadOptions:
        """Build one from what callers of the Python API give."""
        if isinstance(columns, str):
            raise InvalidInputError(f"'columns' is a list of names, not the text {columns!r}")
        vector = nearest.get("q") if isinstance(nearest, Mapping) else None
        if nearest is not None and hasattr(vector, "tolist"):
            # numpy and Arrow say it each their way; JSON knows lists.
            nearest = {**nearest, "q": cast("Any", vector).tolist()}
        moment = as_of.isoformat() if isinstance(as_of, datetime) else as_of
        return cls(
            columns=None if columns is None else tuple(columns),
            as_of=None if moment is None else str(moment),
            nearest=nearest,
            full_text={"query": full_text} if isinstance(full_text, str) else full_text,
            batch_bytes=DEFAULT_BATCH_BYTES if batch_bytes is None else batch_bytes,
            blobs=_blobs(blobs),
            **others,
        )

    def to_options(self) -> dict[str, str]:
        """Return the options of Spark's that say the same."""
        found: dict[str, str] = {}
        for name in READ_OPTIONS:
            value = getattr(self, name)
            if value is None or value is False:
                continue
            text = isinstance(value, str)
            found[name] = value if text else json.dumps(value, default=list)
        return found

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> ReadOptions:
        """Read the options of a data source; 13 for one that nobody knows."""
        given = {key.lower(): value for key, value in options.items()}
        for key in given:
            _check_known(key)
        columns = given.get("columns")
        names = None
        if columns is not None:
            names = _json_list(columns.strip()) or [one.strip() for one in columns.split(",")]
        search = given.get("full_text")
        return cls.make(
            columns=names,
            filter=given.get("filter"),
            version=_number(given, "version"),
            tag=given.get("tag"),
            as_of=given.get("as_of"),
            limit=_number(given, "limit"),
            with_row_id=parse_bool("with_row_id", given.get("with_row_id", False)),
            nearest=_json(given["nearest"], "nearest") if "nearest" in given else None,
            full_text=_json(search, "full_text")
            if search is not None and search.lstrip().startswith("{")
            else search,
            batch_bytes=_number(given, "batch_bytes"),
            partition_bytes=_number(given, "partition_bytes") or DEFAULT_TASK_BYTES,
            parallelism=_number(given, "parallelism"),
            blobs=given.get("blobs", "bytes"),
            truncate_ns=parse_bool("truncate_ns", given.get("truncate_ns", False)),
        )


def _blobs(value: str) -> Blobs:
    found = parse_choice("blobs", value, ("bytes", "descriptors"))
    return cast("Literal['bytes', 'descriptors']", found)


def _number(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError as error:
        raise InvalidInputError(f"option '{name}' is {text!r}; expected a whole number") from error


def _check_keys(what: str, given: object, known: frozenset[str], needed: tuple[str, ...]) -> None:
    if given is None:
        return
    if not isinstance(given, Mapping):
        raise InvalidInputError(f"'{what}' is a {type(given).__name__}; expected a mapping")
    for key in given:
        if key not in known:
            raise InvalidInputError(f"'{what}' has no '{key}'; it knows {', '.join(sorted(known))}")
    for key in needed:
        if given.get(key) is None:
            raise InvalidInputError(f"'{what}' needs '{key}'")


def _check_known(key: str) -> None:
    names = [*READ_OPTIONS, *LOCATION_OPTIONS, *STREAM_OPTIONS]
    if key in names or key.startswith(STORAGE_PREFIX):
        return
    near = difflib.get_close_matches(key, names, n=1, cutoff=0.0)
    raise InvalidInputError(f"unknown option '{key}'; did you mean '{near[0]}'?")
