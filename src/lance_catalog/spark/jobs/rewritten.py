"""What executors rewrote of one table: committed, or removed when it is known not to be.

Before they begin a record is left beside the table, as every job does that writes files. It goes
when all of them are named by a version or deleted; it stays after a death, or while nobody knows,
and tells `lance-catalog check` of the files.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from lance.optimize import Compaction

from lance_catalog.directory import job_records
from lance_catalog.directory.job_records import Running
from lance_catalog.directory.operations.access import lance_errors
from lance_catalog.errors import (
    CommitOutcomeUnknownError,
    ConcurrentModificationError,
    LanceNamespaceError,
    TableNotFoundError,
    storage_errors,
)
from lance_catalog.identifiers import format_text
from lance_catalog.spark.jobs.pinned import Pinned
from lance_catalog.spark.jobs.sweep import Row

if TYPE_CHECKING:
    from lance_catalog.directory.namespace import DirectoryNamespace

__all__ = ["CONFLICT", "Rewritten"]

#: The key of a row whose table others changed meanwhile.
CONFLICT: Final = "conflict"


class Rewritten:
    """The rewritten fragments of one table, on their way."""

    def __init__(self, catalog: DirectoryNamespace, pinned: Pinned, job_id: str) -> None:
        self._catalog, self._pinned, self._job = catalog, pinned, job_id
        self._store = catalog.context.store
        self._running: Running | None = None
        self._text = format_text(pinned.names)

    def begin(self) -> None:
        """Leave the record, before the first file is written."""
        self._running = job_records.begin(self._store, self._pinned.place, self._job)

    def stop(self) -> None:
        """Renew the record no more; what ended well has none."""
        if self._running is not None:
            self._running.stop()

    def land(self, results: Sequence[Any], *, repeated: bool) -> Row:
        """Commit what the tasks wrote; return what that changed.

        ``repeated``: Spark ran a task twice, so that one of them may have left a file which nobody
        was told of.
        """
        if not results:
            self._end(repeated=repeated)
            return {}
        files = [file for result in results for one in result.new_fragments for file in one.files]
        paths = [f"data/{file.path}" for file in files]
        try:
            self._look(results)
        except (ConcurrentModificationError, TableNotFoundError) as error:
            self._discard(paths, repeated=repeated)
            return _refused(error)
        try:
            with lance_errors(f"committing the compaction of '{self._text}'"):
                # The dataset that was planned on: one opened by name could be another table's.
                Compaction.commit(self._pinned.dataset, list(results))
        except CommitOutcomeUnknownError:
            if not self._named(paths):
                raise  # The files stay, and the record tells of them.
        except ConcurrentModificationError as error:
            self._discard(paths, repeated=repeated)
            return _refused(error)
        self._end(repeated=repeated)
        return self._told(results)

    def _look(self, results: Sequence[Any]) -> None:
        """Find what is in the way before Lance does: it would leave indices it had moved by then.

        14 when others changed what was rewritten, 4 when the table is gone.
        """
        assert self._running is not None
        now = self._pinned.require()
        self._running.require()
        current = {one.fragment_id: _content(one.metadata) for one in now.get_fragments()}
        for result in results:
            for one in result.original_fragments:
                if current.get(one.id) != _content(one):
                    raise ConcurrentModificationError(
                        f"others changed fragment {one.id} of '{self._text}' while it was "
                        "rewritten. Run it again."
                    )

    def _told(self, results: Sequence[Any]) -> Row:
        now: Any = self._catalog.open_table(list(self._pinned.names))
        return {
            "version": now.version,
            "fragments_after": len(now.get_fragments()),
            "files_removed": sum(result.metrics.files_removed for result in results),
            "files_added": sum(result.metrics.files_added for result in results),
        }

    def _named(self, paths: Sequence[str]) -> bool:
        """Whether a version names one of the files; so all of them came into the table."""
        try:
            with lance_errors("looking for rewritten files"):
                now: Any = self._catalog.open_table(list(self._pinned.names))
                told = set(now.tracked_files().read_all()["path"].to_pylist())
        except TableNotFoundError:
            return False
        return any(path in told for path in paths)

    def _discard(self, paths: Sequence[str], *, repeated: bool) -> None:
        place = self._pinned.place
        with storage_errors("removing files of a compaction that was not committed"):
            self._store.delete([f"{place}/{path}" for path in paths])
            for path in paths:
                # Where large values lie, beside the file they belong to.
                self._store.delete_tree(f"{place}/{PurePosixPath(path).with_suffix('')}")
        self._end(repeated=repeated)

    def _end(self, *, repeated: bool) -> None:
        assert self._running is not None
        try:
            if repeated and job_records.strays(self._store, self._pinned.place, self._running):
                self._running.stop()
            else:
                self._running.end()
        except (LanceNamespaceError, OSError):
            # What is committed is; a check looks after the record.
            self._running.stop()


def _refused(error: LanceNamespaceError) -> Row:
    again = isinstance(error, ConcurrentModificationError)
    return {CONFLICT: again, "status": "failed", "error": str(error)}


def _content(fragment: Any) -> tuple[Any, ...]:
    """What of a fragment must be the same for its rewritten rows to be right."""
    deletion = fragment.deletion_file
    paths = tuple(file.path for file in fragment.files)
    return paths, None if deletion is None else deletion.json()
