"""Properties that come with the rows of a table."""

from __future__ import annotations

from collections.abc import Mapping

import lance

from lance_catalog.directory.context import Context
from lance_catalog.directory.jobs import Done, open_for_job
from lance_catalog.directory.properties import set_of_table
from lance_catalog.identifiers import Identifier

__all__ = ["give_properties"]


def give_properties(
    ctx: Context, names: Identifier, done: Done, properties: Mapping[str, str]
) -> None:
    """Give a table the properties that came with its rows, in a commit of their own.

    A run that died between the two is completed by the next one, unless others wrote since.
    """
    if not properties or (done.repeated and not _is_on_top(ctx, names, done)):
        return
    set_of_table(ctx, names, dict(properties), ())


def _is_on_top(ctx: Context, names: Identifier, done: Done) -> bool:
    """Whether no rows came after a job's; a table without a row has its properties there."""
    opened = open_for_job(ctx, names)
    if opened.version != done.version + 1:
        return opened.version == done.version
    try:
        transaction = opened.dataset.read_transaction(opened.version)
    except TypeError:
        return False  # A compaction that rewrote an index; pylance 14.0.2 cannot show it.
    operation = None if transaction is None else transaction.operation
    return isinstance(operation, lance.LanceOperation.UpdateConfig)
