"""Writing the first version of a table: of many who try, exactly one succeeds.

Plain ``write_dataset(mode="create")`` lets several racers win (facts: native §9.2). Here the first
manifest goes through a commit gate; a loser removes the files it wrote, all under unique names.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, Final

import lance
import pyarrow as pa
from lance.fragment import write_fragments

from lance_catalog.errors import (
    CommitOutcomeUnknownError,
    ConcurrentModificationError,
    LanceNamespaceError,
    storage_errors,
)
from lance_catalog.failpoints import hit
from lance_catalog.lifecycle.locations import v1_name
from lance_catalog.manifest import gated
from lance_catalog.model import user_properties
from lance_catalog.storage.gate import CommitGate, Outcome
from lance_catalog.storage.manifests import Naming, manifest_name
from lance_catalog.storage.port import Store

__all__ = ["FirstVersion", "has_versions", "write_first_version"]

#: How often others may take an empty folder away between its making and its first file.
_TRIES: Final = 8


@dataclass(frozen=True, slots=True)
class FirstVersion:
    """A table just written: Lance's handle, and the files that are this writer's alone."""

    dataset: Any
    files: tuple[str, ...]
    #: Manifests by path, each with the transaction id in it: others use the same names.
    manifests: Mapping[str, str] = field(default_factory=dict)

    @property
    def version(self) -> int:
        return int(self.dataset.version)


def has_versions(store: Store, directory: str) -> bool:
    """Whether a table has data: without a version it is only declared."""
    return bool(_manifests(store, directory))


def _manifests(store: Store, directory: str) -> list[str]:
    level = store.list_level(f"{directory}/_versions")
    return [i.path for i in level.objects if i.path.endswith(".manifest") and i.size > 0]


def _is_of(store: Store, path: str, transaction: str) -> bool:
    """Whether the manifest at a path was made by a transaction: Lance writes its id into it."""
    return transaction.encode() in (store.get(path) or b"")


def write_first_version(
    store: Store, directory: str, data: pa.Table, properties: Mapping[str, str]
) -> FirstVersion | None:
    """Write version 1 of the table at ``directory``; None when somebody else has written it.

    Properties go into the table's own metadata (R14), which is a second version.
    """
    files: list[str] = []
    manifests: dict[str, str] = {}
    gate = CommitGate(store, directory, 0, on_step=lambda step: hit(f"table.version_{step}"))
    try:
        dataset = _write(store, directory, data, properties, gate, files, manifests)
    except CommitOutcomeUnknownError:
        raise  # It may have landed: what it points at must stay.
    except LanceNamespaceError:
        gate.discard_staged()
        discard(store, directory, files, manifests)
        raise
    if dataset is None:
        discard(store, directory, files)
        return None
    return FirstVersion(dataset, tuple(files), manifests)


def _write(
    store: Store,
    directory: str,
    data: pa.Table,
    properties: Mapping[str, str],
    gate: CommitGate,
    files: list[str],
    manifests: dict[str, str],
) -> Any:
    """Write and commit; ``files`` and ``manifests`` grow with what is on disk."""
    uri = store.uri_of(directory)
    options = dict(store.lance_options) or None
    with storage_errors(f"writing a table at {uri}"):
        try:
            planned = _write_data(data, uri, options)
        except OSError as error:
            if _was_taken(error) or has_versions(store, directory):
                return None
            raise
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
            return None
        manifests[gate.final_path(1)] = transaction.uuid
        if properties:
            dataset = _put_properties(store, directory, dataset, properties, files, manifests)
    return dataset


def _put_properties(
    store: Store,
    directory: str,
    dataset: Any,
    properties: Mapping[str, str],
    files: list[str],
    manifests: dict[str, str],
) -> Any:
    """Write the properties as version 2, through a gate.

    Plain Lance would, after a drop, go on in a directory that is not there any more.
    """
    gate = CommitGate(store, directory, 1)
    updates = lance.LanceOperation.UpdateMap(dict(properties))
    operation = lance.LanceOperation.UpdateConfig(table_metadata_updates=updates)
    transaction = lance.Transaction(1, operation, str(uuid.uuid4()))
    files.append(f"{directory}/_transactions/1-{transaction.uuid}.txn")
    try:
        made = _commit(store, dataset, transaction, gate, directory)
    except (OSError, RuntimeError, ValueError, LanceNamespaceError) as error:
        gate.discard_staged()
        if still_there(store, manifests):
            raise
        raise _gone(directory) from error
    gate.discard_staged()
    if made is not None:
        manifests[gate.final_path(2)] = transaction.uuid
        return made
    if not still_there(store, manifests):
        raise _gone(directory)
    # Somebody who saw the table has written already; the properties go on top.
    options = dict(store.lance_options) or None
    latest = lance.dataset(store.uri_of(directory), storage_options=options)
    latest.update_metadata(dict(properties))
    return latest


def _write_data(data: pa.Table, uri: str, options: dict[str, str] | None) -> Any:
    """Write the data files; again when a drop, or a loser's tidying, took the folder away."""
    for _ in range(_TRIES):
        try:
            return write_fragments(
                data, uri, mode="create", return_transaction=True, storage_options=options
            )
        except OSError as error:
            if not _is_missing(error):
                raise
    return write_fragments(
        data, uri, mode="create", return_transaction=True, storage_options=options
    )


def _is_missing(error: Exception) -> bool:
    """Whether a folder went away under Lance: a loser's tidying removes those that are empty."""
    return "No such file or directory" in str(error)


def _was_taken(error: Exception) -> bool:
    """Whether Lance found a table where a first version was to be: it says so in words only.

    Dropped since, a look would not find it any more. (It asks for the version we read: none, 0.)
    """
    text = str(error)
    return "already exists" in text or "/_versions/0.manifest was not found" in text


def _gone(directory: str) -> ConcurrentModificationError:
    return ConcurrentModificationError(
        f"the table at {directory} was dropped by somebody else while it was created; "
        "nothing is left of it. Retry."
    )


def overwrite(
    store: Store, directory: str, data: pa.Table, properties: Mapping[str, str]
) -> FirstVersion:
    """Replace rows and properties of a table by new versions on top; say what was written."""
    uri = store.uri_of(directory)
    options = dict(store.lance_options) or None
    dataset = lance.write_dataset(data, uri, mode="overwrite", storage_options=options)
    files = [
        f"{directory}/data/{file.path}"
        for fragment in dataset.get_fragments()
        for file in fragment.metadata.files
    ]
    versions = [dataset.version]
    if user_properties(dict(dataset.metadata)) != dict(properties):
        dataset.update_metadata(dict(properties), replace=True)
        versions.append(dataset.version)
    manifests: dict[str, str] = {}
    for version in versions:
        _note(store, directory, dataset, version, files, manifests)
    return FirstVersion(dataset, tuple(files), manifests)


def _note(
    store: Store,
    directory: str,
    dataset: Any,
    version: int,
    files: list[str],
    manifests: dict[str, str],
) -> None:
    """Note the files of a version that Lance wrote without a gate."""
    made = dataset.read_transaction(version)
    files.append(f"{directory}/_transactions/{made.read_version}-{made.uuid}.txn")
    for naming in Naming:
        path = f"{directory}/_versions/{manifest_name(version, naming)}"
        if store.head(path) is not None:
            manifests[path] = made.uuid


def still_there(store: Store, manifests: Mapping[str, str]) -> bool:
    """Whether manifests are still those that their writer put there."""
    return all(_is_of(store, path, token) for path, token in manifests.items())


def _commit(store: Store, target: Any, transaction: Any, gate: CommitGate, directory: str) -> Any:
    def lost(error: Exception) -> bool:
        # Who comes to a table that is there already may fail before the gate is asked.
        return _was_taken(error) or has_versions(store, directory)

    # A later version must not go on in a directory that was made anew.
    for _ in range(_TRIES if gate.read_version == 0 else 0):
        try:
            return gated.commit(gate, target, transaction, lost)
        except OSError as error:
            if gate.outcome is not Outcome.NOT_TRIED or not _is_missing(error):
                raise
    return gated.commit(gate, target, transaction, lost)


def discard(
    store: Store,
    directory: str,
    files: Sequence[str],
    manifests: Mapping[str, str] | None = None,
) -> None:
    """Remove files this writer made, and the folders that are empty then.

    A manifest only while it is this writer's: after a drop the next creation puts its own under
    the same name. The lock keeps a drop from passing between the look and the deletion. Nothing
    goes when somebody has written a version on top, for that one needs the files.
    """
    # Only places named after their table are used again, so only they need the lock.
    shared = v1_name(directory) is not None and manifests
    with store.exclusive() if shared else nullcontext():
        own = [p for p, token in (manifests or {}).items() if _is_of(store, p, token)]
        others = set(_manifests(store, directory)) - set(own)
        if own and others:
            return
        if not others:
            own.append(f"{directory}/_versions/latest_version_hint.json")
        store.delete([*own, *files])
    for folder in ("data", "_transactions", "_versions"):
        store.prune(f"{directory}/{folder}")
