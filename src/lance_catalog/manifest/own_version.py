"""A version of upkeep's own: through the gate like any other, tried once, and given up at once.

Lance's own maintenance calls (``optimize_indices``, ``compact_files``) commit with twenty retries:
refused by the gate they kept a caller for up to 30 s, and left what they had built (measured on
pylance 14.0.2). So upkeep builds first, knows what it built, and commits itself.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import lance

from lance_catalog.failpoints import hit
from lance_catalog.manifest import gated
from lance_catalog.manifest.schema import DIRECTORY
from lance_catalog.storage.gate import CommitGate, Outcome
from lance_catalog.storage.manifests import Naming
from lance_catalog.storage.port import Store

__all__ = ["OwnVersion"]


@dataclass
class OwnVersion:
    """One attempt to land version N+1 with no change of what the catalog says."""

    store: Store
    uri: str
    dataset: Any
    naming: Naming
    #: Files and index folders below ``__manifest`` that this attempt wrote.
    files: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)

    def run(self, build: Callable[[OwnVersion], tuple[Any, Sequence[str]]]) -> bool:
        """Land what ``build`` makes: an operation, and the folders nobody needs once it landed.

        False when another writer was first. Whatever did not land is removed (invariant 2); only
        an outcome that nobody knows leaves its files, which ``check`` then finds or needs.
        """
        gate = CommitGate(self.store, DIRECTORY, self.dataset.version, self.naming)
        landed = False
        spare: Sequence[str] = ()
        try:
            operation, spare = build(self)
            hit("upkeep.written")
            landed = self._commit(gate, operation)
            if landed:
                hit("upkeep.landed")
        finally:
            gate.discard_staged()
            if landed:
                self._remove((), spare)
            elif gate.outcome in (Outcome.REFUSED, Outcome.NOT_TRIED):
                self._remove(self.files, self.folders)
        return landed

    def _commit(self, gate: CommitGate, operation: Any) -> bool:
        version = self.dataset.version
        transaction = lance.Transaction(version, operation, str(uuid.uuid4()))
        self.files.append(f"_transactions/{version}-{transaction.uuid}.txn")
        return gated.commit(gate, self.dataset, transaction) is not None

    def _remove(self, files: Sequence[str], folders: Sequence[str]) -> None:
        self.store.delete([f"{DIRECTORY}/{path}" for path in files])
        for folder in folders:
            self.store.delete_tree(f"{DIRECTORY}/{folder}")
