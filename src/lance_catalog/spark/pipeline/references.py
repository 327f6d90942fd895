"""Which tables a text of Spark SQL reads: the names that stand where a table stands.

No parser of the whole language: it looks for what follows FROM and JOIN. A step whose text it
misreads can list its ``inputs``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

__all__ = ["parameters", "tables_of"]

_TOKEN: Final = re.compile(
    r"""(?P<skip>\s+|--[^\n]*|/\*.*?\*/)
    |(?P<string>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    |(?P<quoted>`(?:[^`]|``)*`)
    |(?P<word>[^\W\d]\w*)
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_PARAMETER: Final = re.compile(r"(?<![:\w]):([A-Za-z_]\w*)")
#: What ends a list of tables.
_ENDS: Final = frozenset(
    {"where", "group", "having", "order", "limit", "offset", "union", "intersect", "except"}
    | {"minus", "select", "window", "qualify", "cluster", "distribute", "sort", "pivot"}
    | {"unpivot", "tablesample"}
)
#: What may stand between FROM and a name, or instead of one.
_NOT_NAMES: Final = frozenset({"lateral", "select", "values", "table", "only", "unnest"})


@dataclass
class _Scope:
    """A pair of brackets: whether a query is in it, and whether a table comes next."""

    query: bool = False
    tables: bool = False
    expected: bool = False


def tables_of(sql: str) -> list[str]:
    """Return the unqualified names of the tables a query reads, in order, without its own CTEs."""
    tokens = _tokens(sql)
    own = _ctes(tokens)
    scopes = [_Scope()]
    found: dict[str, str] = {}
    for number, (kind, text) in enumerate(tokens):
        scope = scopes[-1]
        low = text.lower() if kind == "word" else text
        if text == "(" and kind == "other":
            scope.expected = False
            scopes.append(_Scope())
        elif text == ")" and kind == "other":
            if len(scopes) > 1:
                scopes.pop()
        elif kind == "word" and low == "select":
            scope.query, scope.tables, scope.expected = True, False, False
        elif kind == "word" and low == "from":
            before = tokens[number - 1][1].lower() if number else ""
            # `extract(day from x)` and `is distinct from x` name no table.
            if before != "distinct" and (scope.query or before in ("", "(")):
                scope.tables = scope.expected = True
        elif kind == "word" and low == "join":
            scope.tables = scope.expected = True
        elif kind == "word" and low in _ENDS:
            scope.tables = scope.expected = False
        elif text == "," and kind == "other":
            scope.expected = scope.tables
        elif kind in ("word", "quoted") and scope.expected and low not in _NOT_NAMES:
            scope.expected = False
            name = _plain(kind, text)
            after = tokens[number + 1][1] if number + 1 < len(tokens) else ""
            # `db.t` is a table of Spark's own, `range(3)` a function.
            if after not in (".", "(") and name.lower() not in own:
                found.setdefault(name.lower(), name)
    return list(found.values())


def parameters(sql: str) -> set[str]:
    """Return the names of the parameter markers, as ``:day``, of a query."""
    code = "".join(
        " " if found.lastgroup in ("string", "quoted", "skip") else found[0]
        for found in _TOKEN.finditer(sql)
    )
    return set(_PARAMETER.findall(code))


def _tokens(sql: str) -> list[tuple[str, str]]:
    return [
        (str(found.lastgroup), found[0])
        for found in _TOKEN.finditer(sql)
        if found.lastgroup != "skip"
    ]


def _plain(kind: str, text: str) -> str:
    return text[1:-1].replace("``", "`") if kind == "quoted" else text


def _ctes(tokens: list[tuple[str, str]]) -> set[str]:
    """The names a WITH defines: a name, perhaps columns, AS and a bracket."""
    if not any(kind == "word" and text.lower() == "with" for kind, text in tokens):
        return set()
    names: set[str] = set()
    for number in range(1, len(tokens) - 1):
        kind, text = tokens[number]
        if kind != "word" or text.lower() != "as" or tokens[number + 1][1] != "(":
            continue
        before = number - 1
        if tokens[before][1] == ")":
            while before > 0 and tokens[before][1] != "(":
                before -= 1
            before -= 1
        if before >= 0 and tokens[before][0] in ("word", "quoted"):
            names.add(_plain(*tokens[before]).lower())
    return names
