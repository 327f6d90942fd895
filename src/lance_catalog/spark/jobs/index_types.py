"""Which indices there are, and what each takes: checked before anything is built."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from lance_catalog.errors import InvalidInputError

__all__ = ["SCALAR_TYPES", "VECTOR_TYPES", "IndexSpec"]

_IVF: Final = ("metric", "num_partitions", "target_partition_size", "sample_rate", "max_iters")
_PQ: Final = (*_IVF, "num_sub_vectors", "num_bits")
_GRAPH: Final = ("m", "ef_construction")
_TEXT: Final = (
    "with_position",
    "base_tokenizer",
    "language",
    "max_token_length",
    "lower_case",
    "stem",
    "remove_stop_words",
    "ascii_folding",
)
#: The vector indices, and the options of each.
VECTOR_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "IVF_FLAT": _IVF,
    "IVF_PQ": _PQ,
    "IVF_SQ": _IVF,
    "IVF_RQ": (*_IVF, "num_bits"),
    "IVF_HNSW_FLAT": (*_IVF, *_GRAPH),
    "IVF_HNSW_PQ": (*_PQ, *_GRAPH),
    "IVF_HNSW_SQ": (*_IVF, *_GRAPH),
}
#: The indices of values and texts, and the options of each.
SCALAR_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "BTREE": (),
    "BITMAP": (),
    "LABEL_LIST": (),
    "NGRAM": (),
    "ZONEMAP": (),
    "BLOOMFILTER": (),
    "INVERTED": _TEXT,
}
_ALIASES: Final = {"FTS": "INVERTED", "FULL_TEXT": "INVERTED", "VECTOR": "IVF_PQ"}


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """An index to build on one column."""

    column: str
    type: str
    name: str
    replace: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_vector(self) -> bool:
        return self.type in VECTOR_TYPES

    @classmethod
    def of(
        cls,
        column: str,
        type: str,
        name: str | None = None,
        replace: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> IndexSpec:
        """Check what somebody asked for; 13 for a type or an option that there is not."""
        given = type.upper()
        kind = _ALIASES.get(given, given)
        types = {**VECTOR_TYPES, **SCALAR_TYPES}
        if kind not in types:
            close = difflib.get_close_matches(given, [*types, *_ALIASES], n=1)
            meant = f"did you mean {close[0]}? " if close else ""
            raise InvalidInputError(
                f"index type '{type}' is not known; {meant}There are {', '.join(types)} and FTS"
            )
        for key in options or {}:
            if key not in types[kind]:
                takes = ", ".join(types[kind]) or "none"
                raise InvalidInputError(
                    f"'{key}' is no option of an index of type {kind}; it takes {takes}"
                )
        return cls(column, kind, name or f"{column}_idx", replace, dict(options or {}))
