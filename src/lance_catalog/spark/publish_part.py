"""One table of a publish: its DataFrame, its options, and the rows that were written for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lance_catalog.directory.jobs import Done, Job, Looker
from lance_catalog.errors import InvalidInputError
from lance_catalog.identifiers import Identifier, format_text
from lance_catalog.spark.catalogs import CatalogRef, table_names
from lance_catalog.spark.fragments import Message
from lance_catalog.spark.merge import Merger, merger_for
from lance_catalog.spark.sink import Sink, exists
from lance_catalog.spark.source_writer import run_write
from lance_catalog.spark.write import check_mode, sink_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Part"]

_OPTIONS: Final = frozenset(
    {"keys", "max_bytes_per_file", "max_rows_per_file", "mode", "properties", "vectors"}
)


@dataclass
class Part:
    """One table of a publish."""

    names: Identifier
    df: DataFrame
    how: dict[str, Any]
    sink: Sink | None = None
    merger: Merger | None = None
    messages: Sequence[Message] = ()
    #: What became of it: by an earlier run, or another at the same time, or this one.
    done: Done | None = None
    looker: Looker | None = None

    @classmethod
    def of(cls, key: Any, given: Any) -> Part:
        names = table_names(key)
        df, options = given if isinstance(given, tuple) else (given, {})
        unknown = sorted(set(options) - _OPTIONS)
        if unknown:
            raise InvalidInputError(
                f"publish: '{format_text(names)}' has the option '{unknown[0]}'; known are "
                f"{', '.join(sorted(_OPTIONS))}"
            )
        how = {"mode": "overwrite", **options}
        check_mode(how["mode"], how.get("keys"))
        return cls(names, df, how)

    def open(self, ref: CatalogRef, job: Job) -> None:
        """Check the DataFrame against its table, before anything runs."""
        mode = self.how["mode"]
        if mode == "ignore":
            if exists(ref.open().context, self.names):
                return
            mode = "create"
        if mode == "merge":
            self.merger = merger_for(self.df, ref, self.names, self.how["keys"], job)
            self.sink = self.merger.sink
            return
        self.sink = sink_for(
            self.df,
            ref,
            self.names,
            mode,
            job,
            vectors=self.how.get("vectors"),
            properties=self.how.get("properties"),
            max_rows=self.how.get("max_rows_per_file"),
            max_bytes=self.how.get("max_bytes_per_file"),
            # A dropped table of the name stays where it is: two could not come back at once.
            fresh=True,
        )

    def write(self) -> None:
        if self.merger is not None:
            self.merger.write(self.df)
            self.messages = self.merger.messages
        elif self.sink is not None:
            self.messages = run_write(self.df, self.sink)

    def files(self) -> list[str]:
        assert self.sink is not None
        place = self.sink.target.place
        return [f"{place}/{path}" for one in self.messages for path in one.files()]

    def job(self, job: Job) -> Job:
        return job.wrote(sum(m.rows for m in self.messages), sum(m.bytes for m in self.messages))
