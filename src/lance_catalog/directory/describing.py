"""Opening tables and telling about them (I21, I22)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import lance

from lance_catalog.directory.context import Context
from lance_catalog.directory.first_version import has_versions
from lance_catalog.directory.managed.target import put_in_place
from lance_catalog.directory.operations.access import checkout
from lance_catalog.directory.resolve import FoundTable
from lance_catalog.errors import InvalidTableStateError, storage_errors
from lance_catalog.identifiers import format_text
from lance_catalog.model import user_properties

__all__ = ["is_declared", "open_dataset", "properties_of"]

#: So often may the version that Lance is about to open be replaced and deleted under its hands.
_DELETED_MEANWHILE: Final = 4


def is_declared(ctx: Context, place: str) -> bool:
    """Whether a table has a name and a place, but no data yet."""
    with storage_errors(f"looking at {place}"):
        return not has_versions(ctx.store, place)


def open_dataset(
    ctx: Context,
    found: FoundTable,
    *,
    version: int | None = None,
    branch: str | None = None,
    tag: str | None = None,
    client: Any = None,
) -> Any:
    """Open a table; 11, 8 or 22 for a version, tag or branch it does not have, 19 without data.

    ``client`` is the namespace, where it decides over the table's versions: what is written by the
    handle is committed through it.
    """
    text = format_text(found.names)
    uri = ctx.store.uri_of(found.location)
    options = dict(ctx.store.lance_options) or None
    put_in_place(ctx, found)
    if is_declared(ctx, found.location):
        raise InvalidTableStateError(
            f"table '{text}' is declared but has no data yet; create_table writes it"
        )
    with storage_errors(f"opening '{text}'"):
        if client is None:
            dataset = _latest(lambda: lance.dataset(uri, storage_options=options))
        else:
            names = list(found.names)
            dataset = _latest(
                lambda: lance.dataset(
                    namespace_client=client, table_id=names, storage_options=options
                )
            )
    return checkout(dataset, f"table '{text}'", version=version, branch=branch, tag=tag)


def _latest(open_: Callable[[], Any]) -> Any:
    """Open at the latest version, whatever is committed and deleted while Lance looks for it."""
    for _ in range(_DELETED_MEANWHILE):
        try:
            return open_()
        except ValueError as error:
            if "_versions/" not in str(error) or "was not found" not in str(error):
                raise
    return open_()


def properties_of(found: FoundTable, dataset: Any) -> dict[str, str] | None:
    """Return a table's properties: the row's (R14); without a row, those in its own metadata."""
    if found.entry is not None:
        return user_properties(found.entry.properties())
    return None if dataset is None else user_properties(dict(dataset.metadata))
