"""Commit what the tasks of a write made, and say what became of it."""

from __future__ import annotations

from collections.abc import Sequence

from lance_catalog.errors import (
    CommitOutcomeUnknownError,
    ConcurrentModificationError,
    LanceNamespaceError,
    TableAlreadyExistsError,
)
from lance_catalog.identifiers import format_text
from lance_catalog.spark.fragments import Message
from lance_catalog.spark.results import WriteResult
from lance_catalog.spark.sink import Sink

__all__ = ["committed"]


def committed(sink: Sink, messages: Sequence[Message], mode: str) -> WriteResult:
    """Commit, and end the record of the job, unless files of it may be left."""
    try:
        return sink.commit(messages)
    except TableAlreadyExistsError as error:
        sink.running.end()
        if mode == "ignore":
            return WriteResult(sink.names, None, 0, 0, sink.job.id)
        if mode == "overwrite":
            raise ConcurrentModificationError(
                f"table '{format_text(sink.names)}' was made by somebody else while the job wrote "
                "a first one; nothing was written. Run it again to overwrite that."
            ) from error
        raise
    except CommitOutcomeUnknownError:
        sink.running.stop()
        raise
    except LanceNamespaceError:
        sink.running.end()
        raise
    except BaseException:
        # Interrupted: nobody knows how far it came.
        sink.running.stop()
        raise
