"""Variables of a pipeline file: ``${name}`` in any text, defaults in ``[variables]``.

A text that is nothing but ``${name}`` takes the variable's own type, so that numbers can be
variables too. ``$${`` stands for ``${``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from lance_catalog.spark.pipeline.lines import Path
from lance_catalog.spark.pipeline.problems import nearest

__all__ = ["Scalar", "effective", "substitute", "used"]

Scalar = str | int | float | bool

_USE: Final = re.compile(r"\$\$\{|\$\{([^}]*)\}")
_BOOLS: Final = {"true": True, "false": False}

#: A mistake: which key, and what is wrong.
Mistake = tuple[Path, str]


def effective(
    declared: Mapping[str, Any], given: Mapping[str, Any], used_names: set[str]
) -> tuple[dict[str, Scalar], list[Mistake]]:
    """Return the value of each variable: given, else declared; and what is wrong with them."""
    values: dict[str, Scalar] = {}
    wrong: list[Mistake] = []
    for name, default in declared.items():
        if isinstance(default, str | int | float | bool):
            values[name] = default
        else:
            wrong.append((("variables", name), "expected text, a number or true/false"))
    for name, value in given.items():
        if name not in declared and name not in used_names:
            known = {*declared, *used_names}
            wrong.append(((), f"no variable '{name}' in this pipeline; {nearest(name, known)}"))
            continue
        try:
            values[name] = _typed(value, values.get(name))
        except ValueError:
            kind = type(values[name]).__name__
            wrong.append((("variables", name), f"the value given is no {kind}, as its default is"))
    return values, wrong


def _typed(value: Any, default: Scalar | None) -> Scalar:
    """A value from a command line is text: give it the type of the default."""
    if not isinstance(value, str):
        if not isinstance(value, int | float | bool):
            raise ValueError(value)
        return value
    if isinstance(default, bool):
        if value.lower() not in _BOOLS:
            raise ValueError(value)
        return _BOOLS[value.lower()]
    if isinstance(default, int):
        return int(value)
    return float(value) if isinstance(default, float) else value


def used(data: Any) -> set[str]:
    """Return the names of the variables that texts use."""
    if isinstance(data, str):
        return {found[1] for found in _USE.finditer(data) if found[1] is not None}
    if isinstance(data, Mapping):
        return set().union(*(used(value) for value in data.values()))
    if isinstance(data, list):
        return set().union(*(used(value) for value in data))
    return set()


def substitute(data: Any, values: Mapping[str, Scalar], path: Path, wrong: list[Mistake]) -> Any:
    """Return the data with every variable replaced; mistakes are added to ``wrong``."""
    if isinstance(data, Mapping):
        return {key: substitute(v, values, (*path, key), wrong) for key, v in data.items()}
    if isinstance(data, list):
        return [substitute(v, values, (*path, n), wrong) for n, v in enumerate(data)]
    if not isinstance(data, str):
        return data
    alone = _USE.fullmatch(data)
    if alone is not None and alone[1] in values:
        return values[alone[1]]

    def replaced(found: re.Match[str]) -> str:
        name = found[1]
        if name is None:
            return "${"
        if name not in values:
            advice = f"give it with --set {name}=..., or a default in [variables]"
            if values:
                advice += f" ({nearest(name, values)})"
            wrong.append((path, f"variable '{name}' has no value; {advice}"))
            return found[0]
        value = values[name]
        return str(value).lower() if isinstance(value, bool) else str(value)

    return _USE.sub(replaced, data)
