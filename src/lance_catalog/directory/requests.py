"""Requests come as the library's models, as dicts, or as the dict subclass Lance's Rust side sends.

The models drop keys they do not know without a word, so anything a caller may put beside the
model's fields (``lance_catalog.*`` controls) is read before a model is built (R13).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from lance_catalog.errors import InvalidInputError

__all__ = ["CONTROL_PREFIX", "control", "parse"]

Model = TypeVar("Model", bound=BaseModel)

CONTROL_PREFIX = "lance_catalog."


def parse(request: Any, model: type[Model]) -> Model:
    """Return ``request`` as an instance of ``model``; 13 when it does not fit."""
    if isinstance(request, model):
        return request
    if isinstance(request, BaseModel):
        request = request.model_dump(exclude_none=True)
    if not isinstance(request, Mapping):
        raise InvalidInputError(
            f"expected a {model.__name__} or a dict, got {type(request).__name__}"
        )
    try:
        return model.model_validate(dict(request))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidInputError(f"{model.__name__}: field '{where}': {first['msg']}") from error


def control(request: Any, name: str) -> str | None:
    """Return the per-call control ``lance_catalog.<name>`` of a request, if it carries one."""
    key = CONTROL_PREFIX + name
    if isinstance(request, Mapping):
        if name in request and request[name] is not None and not isinstance(request, BaseModel):
            return str(request[name])
        context = request.get("context")
    else:
        context = getattr(request, "context", None)
    value = (context or {}).get(key)
    return None if value is None else str(value)
