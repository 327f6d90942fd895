"""One Lance commit through a gate: as the very next version of a table, or not at all."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

import lance

from lance_catalog.errors import CommitOutcomeUnknownError
from lance_catalog.storage.gate import CommitGate, Outcome
from lance_catalog.storage.manifests import newest_versions
from lance_catalog.storage.port import Store

__all__ = ["commit", "is_conflict", "latest", "put_on_top"]


def latest(store: Store, directory: str, version: int | None = None) -> Any:
    """Return Lance's handle on the latest version of a table, or on one of them."""
    options = dict(store.lance_options) or None
    return lance.dataset(store.uri_of(directory), version=version, storage_options=options)


def is_conflict(error: Exception) -> bool:
    """Whether Lance saw another version before it asked the gate."""
    text = str(error).lower()
    return isinstance(error, lance.commit.CommitConflictError) or "ncompatible transaction" in text


def commit(
    gate: CommitGate,
    target: Any,
    transaction: Any,
    lost: Callable[[Exception], bool] = is_conflict,
) -> Any:
    """Commit a transaction on a dataset, or on the URI of one to be; None when another was first.

    ``lost`` tells, of a failure before the gate was asked, whether it means that.
    """
    store, directory = gate.store, gate.directory
    # Typed as any: the gate is not a whole namespace, and Lance does not ask it to be.
    client: Any = gate
    try:
        return lance.LanceDataset.commit(
            target,
            transaction,
            storage_options=dict(store.lance_options) or None,
            enable_v2_manifest_paths=True,
            max_retries=0,
            namespace_client=client,
            table_id=[directory],
            namespace_client_managed_versioning=True,
        )
    except (OSError, RuntimeError, ValueError) as error:
        version = gate.read_version + 1
        if gate.outcome is Outcome.UNKNOWN:
            raise CommitOutcomeUnknownError(
                f"writing version {version} at {store.uri_of(directory)} failed ({error}) and may "
                "or may not have landed. Look before retrying."
            ) from error
        if gate.outcome is Outcome.LANDED:
            return latest(store, directory, version)  # Only the way back failed.
        if gate.outcome is Outcome.REFUSED or lost(error):
            return None
        # What was raised inside the gate crossed Rust as a text; here it is whole.
        raise (gate.error or error) from error


def put_on_top(
    store: Store,
    directory: str,
    dataset: Any,
    operation: Any,
    token: uuid.UUID,
    on_step: Callable[[str], None] = lambda step: None,
    properties: Mapping[str, str] | None = None,
) -> Any:
    """Commit an operation as the version after ``dataset``'s; None when another was first.

    ``token`` is the transaction's id, by which a version is known again. ``on_step`` is told
    "staged" right before the version lands, and may raise to keep it from landing. ``properties``
    are kept in the transaction.
    """
    found = newest_versions(store, directory)
    naming = found[max(found)][0]
    gate = CommitGate(store, directory, dataset.version, naming, on_step=on_step)
    transaction = lance.Transaction(dataset.version, operation, str(token), dict(properties or {}))
    made = None
    try:
        made = commit(gate, dataset, transaction)
    finally:
        gate.discard_staged()
        if made is None and gate.outcome is not Outcome.UNKNOWN:
            store.delete([f"{directory}/_transactions/{dataset.version}-{token}.txn"])
    return made
