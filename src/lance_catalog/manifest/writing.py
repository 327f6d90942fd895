"""One attempt to land a change as the next version, and the clean-up when it is refused."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import lance
import pyarrow as pa
import pyarrow.compute as pc
from lance.fragment import write_fragments

from lance_catalog.errors import CommitOutcomeUnknownError, LanceNamespaceError
from lance_catalog.failpoints import hit
from lance_catalog.manifest.author import WHO, author
from lance_catalog.manifest.base import VERSION_TYPE
from lance_catalog.manifest.change import Change
from lance_catalog.manifest.overlay import Layer
from lance_catalog.manifest.reading import entries_of, fragment_states
from lance_catalog.manifest.schema import (
    DIRECTORY,
    SCHEMA,
    STORAGE_VERSION,
    rows_table,
)
from lance_catalog.manifest.snapshot import Snapshot
from lance_catalog.manifest.upkeep import choose_merge
from lance_catalog.manifest.versions import Latest
from lance_catalog.manifest.workshop import Workshop
from lance_catalog.model import Entry
from lance_catalog.storage.landing import Landing, Outcome
from lance_catalog.storage.manifests import Naming, leave_hint, newest_versions
from lance_catalog.storage.port import Store

__all__ = ["Attempt", "Landed"]

#: Rows moved by a merge that the next snapshot takes over one by one; more are read back.
_MOVED: Final = 4096
#: Rows whose file is made in memory, and put from there.
_FEW: Final = 4096


@dataclass(frozen=True, slots=True)
class Landed:
    """A commit that landed: which version and, where it is known, the snapshot."""

    latest: Latest
    snapshot: Snapshot | None


@dataclass
class Attempt:
    """Writes a change against one snapshot.

    ``workshop`` stands at the snapshot's version; ``opened`` gives Lance's handle on the catalog
    itself, at that version if it is asked for exactly, else at one with the same schema.
    """

    store: Store
    uri: str
    workshop: Workshop
    opened: Callable[[bool], Any]
    view: Snapshot
    naming: Naming
    #: Whether the look that made ``view`` the latest is too old to build on.
    stale: Callable[[], bool]
    #: On whose behalf: kept with the version.
    who: str = field(default_factory=author)
    _files: list[str] = field(default_factory=list)

    def run(self, change: Change) -> Landed | None:
        """Return what landed, or None when another writer was first: nothing of ours is left."""
        try:
            operation, rows, merged = self._operation(change)
            hit("manifest.data_written")
            transaction = lance.Transaction(
                self.view.version, operation, str(uuid.uuid4()), {WHO: self.who}
            )
            made, manifest = self.workshop.build(transaction)
        except BaseException as error:
            self._discard()
            if isinstance(error, OSError) and self._was_made_meanwhile():
                return None
            raise
        landing = Landing(
            self.store,
            DIRECTORY,
            self.view.version,
            self.naming,
            on_step=lambda step: hit(f"manifest.{step}"),
            body=manifest,
        )
        landed = False
        try:
            landed = self._land(landing, manifest)
        finally:
            if not landed:
                self.workshop.discard(made)
        if not landed:
            hit("manifest.refused")
            self._discard()
            return None
        self.workshop.step(made)
        leave_hint(self.store, DIRECTORY, made.version)
        snapshot = None if merged else self._next_snapshot(change, made, rows)
        return Landed(Latest(made.version, self.naming, landing.e_tag), snapshot)

    def _land(self, landing: Landing, manifest: bytes) -> bool:
        """Return whether the version landed; raise when that cannot be told."""
        try:
            landing.on_step("staged")
            landing.land(
                lambda final: self.store.put_if_absent(final, manifest), looked=not self.stale()
            )
        except (OSError, LanceNamespaceError) as error:
            if isinstance(error, CommitOutcomeUnknownError):
                raise
            if landing.outcome is Outcome.NOT_TRIED:
                self._discard()
                raise
            if landing.outcome is Outcome.REFUSED:
                return False
            return landing.resolve(error)
        return True

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
        merge = choose_merge(self.workshop.dataset)
        dropped: dict[int, list[int]] = {}
        for entry in change.remove:
            dropped.setdefault(entry.address >> 32, []).append(entry.address & 0xFFFFFFFF)
        removed: list[int] = list(merge)
        updated: list[Any] = []
        for number, offsets in dropped.items():
            if number in merge:
                continue
            after = self.opened(True).get_fragment(number).delete_rows(offsets)
            if after is None:
                removed.append(number)
            else:
                updated.append(after)
                self._note_deletions(after)
        new, moved = self._write(change, merge)
        if not removed and not updated:
            return lance.LanceOperation.Append(new), change.add, False
        operation = lance.LanceOperation.Update(
            removed_fragment_ids=removed, updated_fragments=updated, new_fragments=new
        )
        return operation, (*(moved or ()), *change.add), moved is None

    def _write(
        self, change: Change, merge: Sequence[int]
    ) -> tuple[list[Any], Sequence[Entry] | None]:
        """Return the new fragments, and the rows that moved into them; None if those are many."""
        moved: Sequence[Entry] | None = ()
        schema = self.workshop.dataset.schema
        carried = [self._others(change.replaces.get(entry.object_id)) for entry in change.add]
        table = rows_table(change.add, carried, schema)
        if merge:
            # The rows of small fragments move into the one this change writes anyway.
            gone = {entry.address for entry in change.remove}
            dataset = self.opened(True)
            rows = dataset.scanner(
                fragments=[dataset.get_fragment(number) for number in merge],
                with_row_address=True,
            ).to_table()
            keep = [address not in gone for address in rows["_rowaddr"].to_pylist()]
            kept = rows.filter(pa.array(keep, pa.bool_()))
            moved = entries_of(kept) if kept.num_rows <= _MOVED else None
            table = pa.concat_tables([kept.select(schema.names).cast(schema), table])
        if table.num_rows == 0:
            return [], moved
        if table.num_rows <= _FEW:
            few, files = self.workshop.write(table)
            self._note(few)
            for name, body in files.items():
                self.store.put_flag(f"{DIRECTORY}/data/{name}", body)
            return few, moved
        fragments: list[Any] = write_fragments(
            table,
            self.opened(False),
            mode="append",
            data_storage_version=self.workshop.dataset.data_storage_version,
        )
        self._note(fragments)
        return fragments, moved

    def _others(self, replaced: Entry | None) -> dict[str, object] | None:
        if replaced is None:
            return None
        dataset = self.opened(True)
        if dataset.has_stable_row_ids:
            # Another writer's choice: its row ids are not addresses, so look where the row lies.
            fragment = dataset.get_fragment(replaced.address >> 32)
            rows = dataset.scanner(fragments=[fragment], with_row_address=True).to_table()
            rows = rows.filter(pc.equal(rows["_rowaddr"], replaced.address))
        else:
            rows = dataset._take_rows([replaced.address])
        row: dict[str, object] = rows.to_pylist()[0]
        return row

    def _was_made_meanwhile(self) -> bool:
        """Whether the manifest came into being while we made it: Lance then fails in its own words.

        It looks for version 0, or says that the dataset exists, before it asks the gate.
        """
        return self.view.version == 0 and bool(newest_versions(self.store, DIRECTORY))

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
            if entry.object_type == VERSION_TYPE:
                continue  # Not held; and a table of that very id may be: `t$5` is both.
            if entry.object_id in self.view.base.duplicates:
                return None
            layer.set(entry.object_id, None)
        for offset, row in enumerate(rows):
            if row.object_type == VERSION_TYPE:
                continue
            if layer.rows.get(row.object_id) or row.object_id in self.view.base.duplicates:
                return None
            layer.set(row.object_id, replace(row, address=(fresh[0] << 32) | offset))
        return self.view.layered(dataset.version, layer, states, dict(dataset.metadata))

    def _note(self, fragments: Sequence[Any]) -> None:
        self._files += [f"data/{file._path}" for part in fragments for file in part.files]

    def _note_deletions(self, fragment: Any) -> None:
        made = json.loads(fragment.deletion_file.json())
        ending = "arrow" if made["file_type"] == "array" else "bin"
        name = f"{fragment.id}-{made['read_version']}-{made['id']}.{ending}"
        self._files.append(f"_deletions/{name}")

    def _discard(self) -> None:
        """Remove every file this attempt wrote: a refused commit leaves nothing (invariant 2)."""
        self.store.delete([f"{DIRECTORY}/{path}" for path in self._files])
        if self.view.version == 0:
            for folder in ("data", "_versions"):
                self.store.prune(f"{DIRECTORY}/{folder}")
