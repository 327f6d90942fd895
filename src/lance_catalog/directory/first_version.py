"""Writing the first version of a table: of many who try, exactly one succeeds.

Plain ``write_dataset(mode="create")`` lets several racers win (facts: native §9.2). Here the first
manifest goes through a commit gate; a loser removes the files it wrote, all under unique names.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import lance
import pyarrow as pa
from lance.fragment import write_fragments

from lance_catalog.errors import CommitOutcomeUnknownError, storage_errors
from lance_catalog.failpoints import hit
from lance_catalog.storage.gate import CommitGate, Outcome
from lance_catalog.storage.port import Store

__all__ = ["FirstVersion", "has_versions", "write_first_version"]


@dataclass(frozen=True, slots=True)
class FirstVersion:
    """A table just written: Lance's handle, and the files that are this writer's alone."""

    dataset: Any
    files: tuple[str, ...]

    @property
    def version(self) -> int:
        return int(self.dataset.version)


def has_versions(store: Store, directory: str) -> bool:
    """Whether a table has data: without a version it is only declared."""
    level = store.list_level(f"{directory}/_versions")
    return any(".manifest" in info.path and info.size > 0 for info in level.objects)


def write_first_version(
    store: Store, directory: str, data: pa.Table, properties: Mapping[str, str]
) -> FirstVersion | None:
    """Write version 1 of the table at ``directory``; None when somebody else has written it.

    Properties go into the table's own metadata (R14), which is a second version.
    """
    uri = store.uri_of(directory)
    options = dict(store.lance_options) or None
    files: list[str] = []
    gate = CommitGate(store, directory, 0, on_step=lambda step: hit(f"table.version_{step}"))
    with storage_errors(f"writing a table at {uri}"):
        planned: Any = write_fragments(
            data, uri, mode="create", return_transaction=True, storage_options=options
        )
        files += [
            f"{directory}/data/{file.path}"
            for fragment in planned.operation.fragments
            for file in fragment.files
        ]
        hit("table.data_written")
        transaction = lance.Transaction(0, planned.operation, str(uuid.uuid4()))
        files.append(f"{directory}/_transactions/0-{transaction.uuid}.txn")
        dataset = _commit(store, uri, transaction, gate, directory)
        gate.discard_staged()
        if dataset is None:
            discard(store, directory, files)
            return None
        files.append(gate.final_path(1))
        if properties:
            dataset = lance.dataset(uri, storage_options=options)
            dataset.update_metadata(dict(properties))
    return FirstVersion(dataset, tuple(files))


def _commit(store: Store, uri: str, transaction: Any, gate: CommitGate, directory: str) -> Any:
    # Typed as any: the gate is not a whole namespace, and Lance does not ask it to be.
    client: Any = gate
    try:
        return lance.LanceDataset.commit(
            uri,
            transaction,
            storage_options=dict(store.lance_options) or None,
            enable_v2_manifest_paths=True,
            max_retries=0,
            namespace_client=client,
            table_id=[directory],
            namespace_client_managed_versioning=True,
        )
    except (OSError, RuntimeError, ValueError) as error:
        if gate.outcome is Outcome.UNKNOWN:
            raise CommitOutcomeUnknownError(
                f"writing version 1 at {uri} failed ({error}) and may or may not have landed. "
                "Look before retrying."
            ) from error
        if gate.outcome is Outcome.LANDED:
            return lance.dataset(uri, version=1, storage_options=dict(store.lance_options) or None)
        if gate.outcome is Outcome.REFUSED or "already exists" in str(error).lower():
            return None
        raise


def discard(store: Store, directory: str, files: list[str] | tuple[str, ...]) -> None:
    """Remove files this writer made, and the folders that are empty then."""
    store.delete(files)
    for folder in ("data", "_transactions", "_versions"):
        store.prune(f"{directory}/{folder}")
