"""The parts of a pipeline file: sources, steps, targets, and what is expected of the rows."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field

from lance_catalog.spark.jobs.index_types import IndexSpec

__all__ = [
    "MODES",
    "NAME",
    "Condition",
    "Definition",
    "Expectations",
    "Header",
    "IndexTable",
    "Mode",
    "RowBounds",
    "RunSettings",
    "Source",
    "Step",
    "Target",
]

Mode = Literal["create", "append", "overwrite", "merge", "ignore"]
MODES: Final = ("create", "append", "overwrite", "merge", "ignore")
#: What can be a temporary view of Spark's without quoting.
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _number(value: Any) -> Any:
    """A variable that was given on a command line is text."""
    return int(value) if isinstance(value, str) and value.isdecimal() else value


def _one_or_many(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _texts(value: Any) -> Any:
    """Options are texts; TOML has numbers and booleans."""
    if not isinstance(value, dict):
        return value
    return {
        key: str(v).lower() if isinstance(v, bool) else str(v) if isinstance(v, int | float) else v
        for key, v in value.items()
    }


def _conditions(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    return [{"expect": one} if isinstance(one, str) else one for one in value]


def _keys_of(value: Any) -> Any:
    """``["a", "b"]`` is one key of two columns; a list of lists is several keys."""
    if isinstance(value, list) and value and all(isinstance(one, str) for one in value):
        return [value]
    return value


def _moment(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


Number = Annotated[int, BeforeValidator(_number)]
Texts = Annotated[dict[str, str], BeforeValidator(_texts)]
Names = Annotated[list[str], BeforeValidator(_one_or_many)]


class _Table(BaseModel):
    """A table of the file: every key is known, every value has its type."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Header(_Table):
    """``[pipeline]``: what it is called, and whether its targets need one commit."""

    name: str | None = None
    description: str = ""
    atomic: bool = True


class RunSettings(_Table):
    """``[run]``: where the record of a run goes."""

    namespace: str | None = None
    record: bool = True


class Source(_Table):
    """``[sources.NAME]``: files, any format of Spark's, or a table of the catalog."""

    files: Names | None = None
    format: str | None = None
    path: Names | None = None
    options: Texts = Field(default_factory=dict)
    schema_: Annotated[str | None, Field(alias="schema")] = None
    table: str | None = None
    version: Number | None = None
    tag: str | None = None
    as_of: Annotated[str | None, BeforeValidator(_moment)] = None
    columns: list[str] | None = None
    filter: str | None = None

    @property
    def kind(self) -> str:
        """``table``, ``files`` or ``format``."""
        return "table" if self.table is not None else "files" if self.files else "format"


class Step(_Table):
    """``[steps.NAME]``: a query, or a function of Python, over what came before."""

    sql: str | None = None
    function: str | None = None
    inputs: list[str] | None = None
    params: dict[str, Any] = Field(default_factory=dict)
    cache: bool = False


class RowBounds(_Table):
    """How many rows there may be."""

    min: Number | None = None
    max: Number | None = None


class Condition(_Table):
    """A condition in SQL that is true of every row, but for a fraction of them."""

    expect: str
    max_failing: Annotated[float, Field(ge=0, le=1, strict=False)] = 0.0
    name: str | None = None


class Expectations(_Table):
    """What must hold before anything is published."""

    not_null: Names = Field(default_factory=list)
    unique: Annotated[list[list[str]], BeforeValidator(_keys_of)] = Field(default_factory=list)
    rows: RowBounds = Field(default_factory=RowBounds)
    conditions: Annotated[list[Condition], BeforeValidator(_conditions)] = Field(
        default_factory=list
    )

    def __bool__(self) -> bool:
        bounded = self.rows.min is not None or self.rows.max is not None
        return bool(self.not_null or self.unique or bounded or self.conditions)


class IndexTable(_Table):
    """An index to build once the rows are published."""

    column: str
    type: str
    name: str | None = None
    replace: bool = False
    options: dict[str, Any] = Field(default_factory=dict)

    def spec(self) -> IndexSpec:
        """Return what the index job takes."""
        return IndexSpec.of(self.column, self.type, self.name, self.replace, self.options)


class Target(_Table):
    """``[targets.NAME]``: which rows become which table, and how."""

    table: str
    from_: Annotated[str, Field(validation_alias=AliasChoices("from", "from_"))]
    mode: Mode = "create"
    keys: list[str] = Field(default_factory=list)
    vectors: dict[str, Number] = Field(default_factory=dict)
    properties: Texts = Field(default_factory=dict)
    indices: list[IndexTable] = Field(default_factory=list)
    expectations: Expectations = Field(default_factory=Expectations)


class Definition(_Table):
    """The whole file."""

    pipeline: Header = Field(default_factory=Header)
    variables: dict[str, Any] = Field(default_factory=dict)
    run: RunSettings = Field(default_factory=RunSettings)
    sources: dict[str, Source] = Field(default_factory=dict)
    steps: dict[str, Step] = Field(default_factory=dict)
    targets: dict[str, Target] = Field(default_factory=dict)
