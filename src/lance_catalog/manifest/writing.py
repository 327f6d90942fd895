"""One attempt to land a change as the next version, and the clean-up when it is refused."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
from lance.fragment import write_fragments

from lance_catalog.errors import CommitOutcomeUnknownError, LanceNamespaceError
from lance_catalog.failpoints import hit
from lance_catalog.manifest.change import Change
from lance_catalog.manifest.overlay import Layer
from lance_catalog.manifest.reading import fragment_states
from lance_catalog.manifest.schema import (
    DIRECTORY,
    SCHEMA,
    STORAGE_VERSION,
    rows_table,
)
from lance_catalog.manifest.snapshot import VERSION_TYPE, Snapshot
from lance_catalog.manifest.upkeep import choose_merge
from lance_catalog.model import Entry
from lance_catalog.storage.gate import CommitGate, Outcome
from lance_catalog.storage.manifests import Naming, newest_versions
from lance_catalog.storage.port import Store

__all__ = ["Attempt", "Landed"]


@dataclass(frozen=True, slots=True)
class Landed:
    """A commit that landed: Lance's handle on it and, where it is known, the snapshot."""

    dataset: Any
    snapshot: Snapshot | None
    naming: Naming
    e_tag: str | None


@dataclass
class Attempt:
    """Writes a change against one snapshot, through a gate of its own."""

    store: Store
    uri: str
    dataset: Any
    view: Snapshot
    naming: Naming
    _files: list[str] = field(default_factory=list)

    def run(self, change: Change) -> Landed | None:
        """Return what landed, or None when another writer was first: nothing of ours is left."""
        try:
            operation, rows, merged = self._operation(change)
            hit("manifest.data_written")
        except BaseException as error:
            self._discard()
            if isinstance(error, OSError) and self._was_made_meanwhile():
                return None
            raise
        gate = CommitGate(
            self.store,
            DIRECTORY,
            self.view.version,
            self.naming,
            on_step=lambda step: hit(f"manifest.{step}"),
        )
        transaction = lance.Transaction(self.view.version, operation, str(uuid.uuid4()))
        self._files.append(f"_transactions/{self.view.version}-{transaction.uuid}.txn")
        dataset = self._commit(transaction, gate)
        if dataset is None:
            hit("manifest.refused")
            self._discard()
            gate.discard_staged()
            return None
        gate.discard_staged()
        snapshot = None if merged else self._next_snapshot(change, dataset, rows)
        info = self.store.head(gate.final_path(dataset.version))
        return Landed(dataset, snapshot, gate.naming, info.e_tag if info else None)

    def _operation(self, change: Change) -> tuple[Any, Sequence[Entry], bool]:
        if change.table_metadata:
            updates = lance.LanceOperation.UpdateMap(dict(change.table_metadata))
            return lance.LanceOperation.UpdateConfig(table_metadata_updates=updates), (), False
        if self.view.version == 0:
            table = rows_table(change.add, [None] * len(change.add), SCHEMA)
            transaction: Any = write_fragments(
                table,
                self.uri,
                mode="create",
                return_transaction=True,
                data_storage_version=STORAGE_VERSION,
                storage_options=dict(self.store.lance_options) or None,
            )
            self._note(transaction.operation.fragments)
            return transaction.operation, change.add, False
        return self._update(change)

    def _update(self, change: Change) -> tuple[Any, Sequence[Entry], bool]:
        merge = choose_merge(self.dataset)
        dropped: dict[int, list[int]] = {}
        for entry in change.remove:
            dropped.setdefault(entry.address >> 32, []).append(entry.address & 0xFFFFFFFF)
        removed: list[int] = list(merge)
        updated: list[Any] = []
        for number, offsets in dropped.items():
            if number in merge:
                continue
            after = self.dataset.get_fragment(number).delete_rows(offsets)
            if after is None:
                removed.append(number)
            else:
                updated.append(after)
                self._note_deletions(after)
        new = self._write(change, merge)
        if not removed and not updated:
            return lance.LanceOperation.Append(new), change.add, False
        operation = lance.LanceOperation.Update(
            removed_fragment_ids=removed, updated_fragments=updated, new_fragments=new
        )
        return operation, change.add, bool(merge)

    def _write(self, change: Change, merge: Sequence[int]) -> list[Any]:
        schema = self.dataset.schema
        carried = [self._others(change.replaces.get(entry.object_id)) for entry in change.add]
        table = rows_table(change.add, carried, schema)
        if merge:
            # The rows of small fragments move into the one this change writes anyway.
            gone = {entry.address for entry in change.remove}
            rows = self.dataset.scanner(
                fragments=[self.dataset.get_fragment(number) for number in merge],
                with_row_address=True,
            ).to_table()
            keep = [address not in gone for address in rows["_rowaddr"].to_pylist()]
            kept = rows.filter(pa.array(keep, pa.bool_())).drop_columns(["_rowaddr"])
            table = pa.concat_tables([kept.select(schema.names).cast(schema), table])
        if table.num_rows == 0:
            return []
        fragments: list[Any] = write_fragments(
            table,
            self.dataset,
            mode="append",
            data_storage_version=self.dataset.data_storage_version,
        )
        self._note(fragments)
        return fragments

    def _others(self, replaced: Entry | None) -> dict[str, object] | None:
        if replaced is None:
            return None
        if self.dataset.has_stable_row_ids:
            # Another writer's choice: its row ids are not addresses, so look where the row lies.
            fragment = self.dataset.get_fragment(replaced.address >> 32)
            rows = self.dataset.scanner(fragments=[fragment], with_row_address=True).to_table()
            rows = rows.filter(pc.equal(rows["_rowaddr"], replaced.address))
        else:
            rows = self.dataset._take_rows([replaced.address])
        row: dict[str, object] = rows.to_pylist()[0]
        return row

    def _commit(self, transaction: Any, gate: CommitGate) -> Any:
        target = self.uri if self.dataset is None else self.dataset
        # Typed as any: the gate is not a whole namespace, and Lance does not ask it to be.
        client: Any = gate
        try:
            dataset = lance.LanceDataset.commit(
                target,
                transaction,
                storage_options=dict(self.store.lance_options) or None,
                enable_v2_manifest_paths=True,
                max_retries=0,
                namespace_client=client,
                table_id=[DIRECTORY],
                namespace_client_managed_versioning=True,
            )
        except (OSError, RuntimeError, ValueError) as error:
            return self._after_failure(error, gate)
        if gate.outcome is Outcome.UNKNOWN and not isinstance(
            gate.error, CommitOutcomeUnknownError
        ):
            # The reply was lost, and Lance looked: its own manifest is in place.
            gate.outcome = Outcome.LANDED
        if gate.outcome is not Outcome.LANDED:
            raise CommitOutcomeUnknownError(
                "Lance reported a commit that the gate did not see; the catalog is as it was "
                "or has one more version. Look before retrying."
            )
        return dataset

    def _after_failure(self, error: Exception, gate: CommitGate) -> Any:
        """Decide what a failed commit was: refused, failed before the gate, landed or unknown."""
        if isinstance(gate.error, CommitOutcomeUnknownError):
            raise gate.error
        if gate.outcome is Outcome.UNKNOWN:
            self._resolve(gate, error)
        if gate.outcome is Outcome.LANDED:
            # Only the way back failed.
            return lance.dataset(
                self.uri,
                version=self.view.version + 1,
                storage_options=dict(self.store.lance_options) or None,
            )
        if gate.outcome is Outcome.NOT_TRIED and gate.error is not None:
            # Our own failure, which Lance reports as a conflict: trying again would not end.
            self._discard()
            gate.discard_staged()
            raise gate.error
        if gate.outcome is Outcome.REFUSED or isinstance(error, lance.commit.CommitConflictError):
            return None
        text = str(error)
        if "ncompatible transaction" in text or "conflict" in text.lower():
            return None
        if self._was_made_meanwhile():
            return None
        self._discard()
        gate.discard_staged()
        raise gate.error or error

    def _was_made_meanwhile(self) -> bool:
        """Whether the manifest came into being while we made it: Lance then fails in its own words.

        It looks for version 0, or says that the dataset exists, before it asks the gate.
        """
        return self.view.version == 0 and bool(newest_versions(self.store, DIRECTORY))

    def _resolve(self, gate: CommitGate, error: Exception) -> None:
        """Find out what became of a put whose reply was lost: the bytes at the name tell."""
        final = gate.final_path(self.view.version + 1)
        for _ in range(5):
            if gate.body is None:
                break  # An empty place alone tells nothing: the put may still be on its way.
            try:
                there = self.store.get(final)
                if there is None:
                    # Put again, the same bytes: whichever of the two lands, it is ours.
                    landed = self.store.put_if_absent(final, gate.body)
                else:
                    landed = there == gate.body
            except (OSError, LanceNamespaceError):
                continue
            gate.outcome = Outcome.LANDED if landed else Outcome.REFUSED
            return
        raise CommitOutcomeUnknownError(
            f"writing version {self.view.version + 1} of the catalog failed ({error}) and the "
            "store does not answer, so it may or may not have landed. Look before retrying."
        ) from error

    def _next_snapshot(
        self, change: Change, dataset: Any, rows: Sequence[Entry]
    ) -> Snapshot | None:
        """Return what the version holds without reading it, where that is certain."""
        states = fragment_states(dataset)
        fresh = [number for number in states if number not in self.view.fragments]
        if len(fresh) > 1 or (rows and not fresh):
            return None
        layer = Layer()
        for entry in change.remove:
            if entry.object_id in self.view.base.duplicates:
                return None
            layer.set(entry.object_id, None)
        for offset, row in enumerate(rows):
            if row.object_type != VERSION_TYPE:
                layer.set(row.object_id, replace(row, address=(fresh[0] << 32) | offset))
        return self.view.layered(dataset.version, layer, states, dict(dataset.metadata))

    def _note(self, fragments: Sequence[Any]) -> None:
        self._files += [f"data/{file.path}" for part in fragments for file in part.files]

    def _note_deletions(self, fragment: Any) -> None:
        made = json.loads(fragment.deletion_file.json())
        ending = "arrow" if made["file_type"] == "array" else "bin"
        name = f"{fragment.id}-{made['read_version']}-{made['id']}.{ending}"
        self._files.append(f"_deletions/{name}")

    def _discard(self) -> None:
        """Remove every file this attempt wrote: a refused commit leaves nothing (invariant 2)."""
        self.store.delete([f"{DIRECTORY}/{path}" for path in self._files])
        if self.view.version == 0:
            for folder in ("data", "_transactions", "_versions"):
                self.store.prune(f"{DIRECTORY}/{folder}")
