"""Undoing versions of a table that were never acknowledged: by a version on top, never by deleting.

Somebody may have built on them, and a version file that is deleted by its name may be another's by
then. Lance's Restore on top leaves both alone.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, Final

import lance

from lance_catalog.directory import first_version
from lance_catalog.errors import ConcurrentModificationError, storage_errors
from lance_catalog.manifest import gated
from lance_catalog.storage.port import Store

__all__ = ["undo_versions"]

#: Writers that have the table open may put versions between; each costs one try.
_TRIES: Final = 16


def undo_versions(
    store: Store,
    place: str,
    unfinished: Callable[[str], bool],
    fence: Callable[[], None] | None = None,
) -> bool:
    """Undo the latest versions, as far as ``unfinished`` says so of their transaction's id.

    Whether there was anything to undo, or a later writer built on it. With a ``fence`` a version
    lands in any case, so that a writer who slept finds its place taken; it raises to forbid that.
    """

    def on_step(step: str) -> None:
        if fence is not None and step == "staged":
            fence()

    with storage_errors(f"undoing what was not finished at {place}"):
        for _ in range(_TRIES):
            if not first_version.has_versions(store, place):
                return False
            dataset = gated.latest(store, place)
            base = _before(dataset, unfinished)
            if base == dataset.version and fence is None:
                return _built_upon(dataset, unfinished)
            undo = lance.LanceOperation.Restore(base)
            if gated.put_on_top(store, place, dataset, undo, uuid.uuid4(), on_step) is not None:
                return True
    raise ConcurrentModificationError(f"others keep writing at {place}; look again and retry")


def _before(dataset: Any, unfinished: Callable[[str], bool]) -> int:
    """Return the version below those on top that are to be undone."""
    version = int(dataset.version)
    while version > 1 and unfinished(_token(dataset, version)):
        version -= 1
    return version


def _built_upon(dataset: Any, unfinished: Callable[[str], bool]) -> bool:
    """Whether a version below the latest is to be undone: then its files are in use."""
    found = (v["version"] for v in dataset.versions())
    return any(unfinished(_token(dataset, version)) for version in found)


def _token(dataset: Any, version: int) -> str:
    """Return the id of the transaction that made a version, its digits alone."""
    try:
        transaction = dataset.read_transaction(version)
    except (OSError, ValueError, RuntimeError, TypeError):
        # Cleaned up, or a compaction (pylance 14.0.2): not one of those that just landed.
        return ""
    return "" if transaction is None else str(transaction.uuid).replace("-", "")
