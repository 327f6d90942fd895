"""What an executor does: Arrow batches become data files of a table that nobody sees yet.

A task leaves a message beside the table that names its files. The driver commits the files of
exactly one message per partition and removes those of all others: attempts that were repeated,
speculative copies, tasks of a job that failed.
"""

from __future__ import annotations

import base64
import itertools
import json
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import lance
import pyarrow as pa
from lance.fragment import FragmentMetadata, write_fragments
from pyspark import TaskContext

from lance_catalog import failpoints
from lance_catalog.directory.operations.access import lance_errors
from lance_catalog.errors import (
    ConcurrentModificationError,
    InternalError,
    LanceNamespaceError,
)
from lance_catalog.spark.allocator import give_back
from lance_catalog.spark.batches import slices, to_lance
from lance_catalog.spark.catalogs import CatalogRef

__all__ = ["MAX_BYTES", "MAX_ROWS", "FragmentTarget", "Message", "attempt_number", "fragments_of"]

MAX_ROWS: Final = 1 << 20
MAX_BYTES: Final = 4 << 30
#: What goes to Lance at a time: it makes a page of it, and whoever reads a row reads the page.
_PART: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class Message:
    """The files of one task, as text: what the driver needs to commit or to remove them."""

    #: Of Lance's ``FragmentMetadata``, as JSON.
    fragments: tuple[str, ...] = ()
    rows: int = 0
    bytes: int = 0
    #: Fragments of the table that lost rows by a merge, likewise; and those that lost all.
    updated: tuple[str, ...] = ()
    removed: tuple[int, ...] = ()
    #: Files beside the data: deletion vectors, relative to the table.
    others: tuple[str, ...] = ()
    id: str = ""
    #: Which try of its partition the task was.
    attempt: int = 0

    def to_json(self) -> str:
        """Return the text."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__})

    @classmethod
    def from_json(cls, text: str) -> Message:
        """Read what :meth:`to_json` made."""
        told = json.loads(text)
        lists: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in told.items()}
        return cls(**lists)

    def files(self) -> list[str]:
        """Return the files that the task wrote, relative to the table."""
        data = [f"data/{f['path']}" for one in self.fragments for f in json.loads(one)["files"]]
        return [*data, *self.others]


def fragments_of(messages: Iterable[Message]) -> list[Any]:
    """Return what Lance commits."""
    return [FragmentMetadata.from_json(text) for one in messages for text in one.fragments]


@dataclass(frozen=True)
class FragmentTarget:
    """Where executors write, and what: travels to them as an option, without credentials."""

    #: The table as its writer calls it, for messages.
    text: str
    #: Its directory below the root.
    place: str
    schema: pa.Schema
    #: Below which messages of tasks are left.
    tasks: str
    #: The version whose columns the files have; None for new columns.
    version: int | None = None
    storage_version: str | None = None
    max_rows: int = MAX_ROWS
    max_bytes: int = MAX_BYTES
    #: Columns whose values are left beside the messages, for a merge.
    keys: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Return the text that the option holds."""
        told = {name: getattr(self, name) for name in self.__dataclass_fields__}
        told["schema"] = base64.b64encode(self.schema.serialize().to_pybytes()).decode()
        return json.dumps(told)

    @classmethod
    def from_json(cls, text: str) -> FragmentTarget:
        """Read what :meth:`to_json` made."""
        told = json.loads(text)
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(told.pop("schema"))))
        return cls(**{**told, "keys": tuple(told["keys"])}, schema=schema)

    def write(self, catalog: CatalogRef, batches: Iterable[pa.RecordBatch]) -> Message:
        """Write the batches of one task, and leave the message; nothing is left of a failure."""
        store = catalog.open().context.store
        number = uuid.uuid4().hex
        feed = _Feed(self, batches)
        made: list[Any] = []
        try:
            failpoints.hit("job.task_begun")
            if feed.begin():
                made = self._write(store, feed)
                failpoints.hit("job.task_written")
            message = Message(
                tuple(json.dumps(one.to_json()) for one in made),
                sum(one.physical_rows for one in made),
                sum(file.file_size_bytes or 0 for one in made for file in one.files),
                id=number,
                attempt=attempt_number(),
            )
            if self.keys:
                feed.leave_keys(store, f"{self.tasks}/{number}")
            store.put(f"{self.tasks}/{number}.json", message.to_json().encode())
            failpoints.hit("job.task_told")
            self._require_job(store)
        except BaseException:
            left = [f"{self.place}/data/{f.path}" for one in made for f in one.files]
            store.delete([*left, f"{self.tasks}/{number}.json", f"{self.tasks}/{number}.arrow"])
            store.prune(self.tasks)
            raise
        return message

    def _require_job(self, store: Any) -> None:
        """Refuse (14) to have written for a job that has ended.

        Spark gives up executors that it hears nothing of. They may write on, and nobody would ever
        look for their files.
        """
        folder, _, number = self.tasks.rpartition("/tasks/")
        if store.head(f"{folder}/running/{number}.json") is None:
            raise ConcurrentModificationError(
                f"the job that this task wrote to '{self.text}' for has ended without it"
            )

    def _write(self, store: Any, feed: _Feed) -> list[Any]:
        options = dict(store.lance_options) or None
        uri = store.uri_of(self.place)
        target: Any = uri
        with lance_errors(f"writing to '{self.text}'"):
            if self.version is not None:
                # Pinned: all tasks give columns the same ids, whatever comes meanwhile.
                target = lance.dataset(uri, version=self.version, storage_options=options)
        reader = pa.RecordBatchReader.from_batches(self.schema, feed)
        try:
            with lance_errors(f"writing to '{self.text}'"):
                return list(
                    write_fragments(
                        reader,
                        target,
                        schema=self.schema,
                        mode="append" if self.version is not None else "overwrite",
                        max_rows_per_file=self.max_rows,
                        max_bytes_per_file=self.max_bytes,
                        data_storage_version=self.storage_version,
                        storage_options=options,
                    )
                )
        except LanceNamespaceError:
            # What a batch was refused for crossed Rust as a text; here it is whole.
            if feed.error is not None:
                raise feed.error from None
            raise
        except BaseException as error:
            # A panic of Rust's is no Exception.
            if type(error).__name__ != "PanicException":
                raise
            raise InternalError(f"writing to '{self.text}': Lance gave up: {error}") from error
        finally:
            give_back()


def attempt_number() -> int:
    """Return which try of its partition the running task is, from 0."""
    context = TaskContext.get()
    return 0 if context is None else int(context.attemptNumber())


class _Feed:
    """The batches of a task as the table holds them."""

    def __init__(self, target: FragmentTarget, batches: Iterable[pa.RecordBatch]) -> None:
        self._target = target
        parts = (part for batch in batches for part in slices(batch, _PART))
        self._batches: Iterator[pa.RecordBatch] = parts
        self._rows = 0
        self._keys: list[pa.RecordBatch] = []
        self.error: BaseException | None = None

    def begin(self) -> bool:
        """Whether there is a row at all: of nothing no file is made."""
        first = next(self._batches, None)
        if first is not None:
            self._batches = itertools.chain([first], self._batches)
        return first is not None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        try:
            batch = next(self._batches)
            made = to_lance(batch, self._target.schema, first_row=self._rows)
        except StopIteration:
            raise
        except BaseException as error:
            self.error = error
            raise
        self._rows += batch.num_rows
        if self._target.keys:
            self._keys.append(made.select(list(self._target.keys)))
        return made

    def leave_keys(self, store: Any, folder: str) -> None:
        """Leave the keys of what was written, so that a merge can join them."""
        if not self._keys:
            return
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, self._keys[0].schema) as writer:
            for batch in self._keys:
                writer.write_batch(batch)
        store.put(f"{folder}.arrow", sink.getvalue().to_pybytes())
