"""Files to ingest: which there are, how they are cut into tasks, and their rows as Arrow batches.

Parquet is cut by row groups, Lance by fragments; a CSV, JSON-lines or Arrow file is one piece. What
a task holds at a time is a batch, never a file.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import lance
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq
from pyarrow import fs

from lance_catalog.errors import (
    InvalidInputError,
    TableNotFoundError,
    TableSchemaValidationError,
    storage_errors,
)

__all__ = [
    "FORMATS",
    "Piece",
    "Source",
    "batches_of",
    "find_files",
    "format_of",
    "pieces_of",
    "schema_of",
]

FORMATS: Final = ("parquet", "csv", "json", "arrow", "lance")
_ENDINGS: Final = {
    "parquet": "parquet",
    "pq": "parquet",
    "csv": "csv",
    "json": "json",
    "jsonl": "json",
    "ndjson": "json",
    "arrow": "arrow",
    "ipc": "arrow",
    "feather": "arrow",
    "lance": "lance",
}
_COMPRESSED: Final = (".gz", ".zst", ".bz2", ".lz4")
#: Bytes of one read; a CSV row must fit.
_BLOCK: Final = 8 << 20
_ROWS: Final = 16_384
#: Bytes of rows that are held at a time, and of a file that may be fetched before it is needed.
_BATCH: Final = 4 << 20
_AHEAD: Final = 192 << 20


@dataclass(frozen=True, slots=True)
class Source:
    """One file, or one Lance table, with how to reach its store."""

    path: str
    format: str
    size: int = 0


@dataclass(frozen=True, slots=True)
class Piece:
    """What one task reads of a source: some of its parts, all of them for None."""

    source: Source
    parts: tuple[int, ...] | None = None
    size: int = 0


def format_of(path: str) -> str | None:
    """Return the format that a name tells."""
    name = path.rstrip("/").lower()
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    return _ENDINGS.get(name.rpartition(".")[2])


def filesystem(path: str, storage: Mapping[str, str]) -> tuple[Any, str]:
    """Return pyarrow's file system for a path or URI, and the path in it."""
    parts = urlsplit(path)
    if len(parts.scheme) < 2 or parts.scheme == "file":
        return fs.LocalFileSystem(), parts.path if parts.scheme == "file" else os.path.abspath(path)
    if parts.scheme == "s3":
        given = {key.lower().removeprefix("aws_"): value for key, value in storage.items()}
        known = {
            "access_key": given.get("access_key_id"),
            "secret_key": given.get("secret_access_key"),
            "session_token": given.get("session_token"),
            "region": given.get("region"),
            "endpoint_override": given.get("endpoint") or given.get("endpoint_url"),
        }
        chosen = {key: value for key, value in known.items() if value is not None}
        return fs.S3FileSystem(**chosen), parts.netloc + parts.path
    with storage_errors(f"opening {parts.scheme}://{parts.netloc}"):
        found: tuple[Any, str] = fs.FileSystem.from_uri(path)
        return found


def find_files(
    paths: Sequence[str], format: str | None, storage: Mapping[str, str]
) -> list[Source]:
    """Return the files that paths, folders and patterns name; 4 when one names nothing."""
    if format is not None and format not in FORMATS:
        raise InvalidInputError(f"format '{format}' is not one of {', '.join(FORMATS)}")
    found: list[Source] = []
    for path in paths:
        some = list(_found(path, format, storage))
        if not some:
            raise TableNotFoundError(f"there is nothing to ingest at '{path}'")
        found += some
    return found


def _found(path: str, format: str | None, storage: Mapping[str, str]) -> Iterator[Source]:
    told = format or format_of(path)
    if told == "lance":
        yield Source(path, "lance")
        return
    local = "://" not in path
    if local and any(sign in path for sign in "*?["):
        for one in sorted(glob.glob(path, recursive=True)):
            yield from _found(one, format, storage)
        return
    system, inside = filesystem(path, storage)
    with storage_errors(f"looking for '{path}'"):
        info = system.get_file_info(inside)
        if info.type == fs.FileType.Directory:
            level = system.get_file_info(fs.FileSelector(inside, recursive=True))
            prefix = path.rstrip("/")
            files = [
                (prefix + one.path.removeprefix(inside.rstrip("/")), one.size)
                for one in sorted(level, key=lambda one: one.path)
                if one.type == fs.FileType.File and one.base_name[:1] not in ("_", ".")
            ]
        else:
            files = [(path, info.size)] if info.type == fs.FileType.File else []
    for name, size in files:
        kind = format or format_of(name)
        if kind is None:
            raise InvalidInputError(
                f"'{name}' does not tell its format by its ending; give format=, one of "
                f"{', '.join(FORMATS)}"
            )
        yield Source(name, kind, int(size or 0))


def pieces_of(source: Source, storage: Mapping[str, str], target: int) -> list[Piece]:
    """Return what the tasks for a source are, each about ``target`` bytes."""
    if source.format == "parquet":
        file = _parquet(source, storage)
        groups = [file.metadata.row_group(n).total_byte_size for n in range(file.num_row_groups)]
    elif source.format == "lance":
        groups = [
            sum(one.file_size_bytes or 0 for one in fragment.metadata.files)
            for fragment in _lance(source, storage).get_fragments()
        ]
    else:
        return [Piece(source, None, source.size)]
    made: list[Piece] = []
    parts: list[int] = []
    size = 0
    for number, more in enumerate(groups):
        if parts and size + more > target:
            made.append(Piece(source, tuple(parts), size))
            parts, size = [], 0
        parts.append(number)
        size += more
    return [*made, Piece(source, tuple(parts), size)] if parts else made


def joined(pieces: Iterable[Piece]) -> list[Piece]:
    """Return neighbours of one file as one piece, up to what is fetched ahead: it opens once."""
    made: list[Piece] = []
    for one in pieces:
        last = made[-1] if made else None
        if (
            last is not None
            and last.source == one.source
            and last.parts is not None
            and one.parts is not None
            and last.size + one.size <= _AHEAD
        ):
            made[-1] = Piece(one.source, last.parts + one.parts, last.size + one.size)
        else:
            made.append(one)
    return made


def schema_of(source: Source, storage: Mapping[str, str]) -> pa.Schema:
    """Return the columns of a source; of text they are guessed from its first block."""
    with _named(source):
        if source.format == "parquet":
            return _parquet(source, storage).schema_arrow
        if source.format == "lance":
            return _lance(source, storage).schema
        if source.format == "arrow":
            return _arrow(source, storage)[0]
        reader = _text(source, storage, None)
        return reader.schema


def batches_of(
    piece: Piece, schema: pa.Schema, columns: Sequence[str], storage: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a piece; ``schema`` says as what text is to be read."""
    source = piece.source
    with _named(source):
        if source.format == "parquet":
            file = _parquet(source, storage)
            known = [name for name in columns if name in file.schema_arrow.names]
            parts = list(range(file.num_row_groups)) if piece.parts is None else list(piece.parts)
            groups = [file.metadata.row_group(number) for number in parts]
            if sum(one.total_byte_size for one in groups) > _AHEAD:
                file = _parquet(source, storage, ahead=False)
            # One by one: what was fetched of a row group is let go with it.
            for number, group in zip(parts, groups, strict=True):
                rows = _rows_of(group.total_byte_size, group.num_rows)
                yield from file.iter_batches(batch_size=rows, row_groups=[number], columns=known)
        elif source.format == "lance":
            dataset = _lance(source, storage)
            fragments = dataset.get_fragments()
            chosen = [fragments[number] for number in piece.parts or range(len(fragments))]
            known = [name for name in columns if name in dataset.schema.names]
            for one in chosen:
                size = sum(file.file_size_bytes or 0 for file in one.metadata.files)
                scanner = dataset.scanner(
                    columns=known,
                    fragments=[one],
                    batch_size=_rows_of(size, one.physical_rows),
                    batch_readahead=2,
                    io_buffer_size=_BATCH * 8,
                    blob_handling="all_binary",
                )
                yield from scanner.to_reader()
        elif source.format == "arrow":
            yield from _arrow(source, storage)[1]
        else:
            yield from _text(source, storage, schema)


def _rows_of(size: int, rows: int) -> int:
    """Return how many rows are about as many bytes as are held at a time."""
    return max(1, min(_ROWS, _BATCH * rows // max(1, size)))


def _parquet(source: Source, storage: Mapping[str, str], *, ahead: bool = True) -> Any:
    """Open a file: to be fetched by row groups, or a little at a time."""
    with _named(source):
        system, inside = filesystem(source.path, storage)
        buffer = 0 if ahead else _BATCH
        return pq.ParquetFile(inside, filesystem=system, pre_buffer=ahead, buffer_size=buffer)


def _lance(source: Source, storage: Mapping[str, str]) -> Any:
    with _named(source):
        remote = "://" in source.path and not source.path.startswith("file:")
        return lance.dataset(source.path, storage_options=dict(storage) if remote else None)


def _arrow(source: Source, storage: Mapping[str, str]) -> tuple[pa.Schema, Iterator[Any]]:
    """Open an IPC file, a feather file, or a stream."""
    system, inside = filesystem(source.path, storage)
    file = system.open_input_file(inside)
    if file.read(6) == b"ARROW1":
        opened = pa.ipc.open_file(file)
        numbers = range(opened.num_record_batches)
        return opened.schema, (opened.get_batch(number) for number in numbers)
    file.seek(0)
    stream = pa.ipc.open_stream(file)
    return stream.schema, iter(stream)


def _text(source: Source, storage: Mapping[str, str], schema: pa.Schema | None) -> Any:
    system, inside = filesystem(source.path, storage)
    # pyarrow decompresses by the name.
    stream = system.open_input_stream(inside)
    if source.format == "csv":
        types = None if schema is None else {f.name: f.type for f in schema if _in_text(f.type)}
        convert = pa_csv.ConvertOptions(column_types=types, strings_can_be_null=True)
        return pa_csv.open_csv(
            stream, read_options=pa_csv.ReadOptions(block_size=_BLOCK), convert_options=convert
        )
    parse = pa_json.ParseOptions(
        explicit_schema=None if schema is None else _for_json(schema),
        unexpected_field_behavior="infer",
    )
    return pa_json.open_json(
        stream, read_options=pa_json.ReadOptions(block_size=_BLOCK), parse_options=parse
    )


def _in_text(kind: pa.DataType) -> bool:
    return not pa.types.is_nested(kind) and not isinstance(kind, pa.BaseExtensionType)


def _for_json(schema: pa.Schema) -> pa.Schema:
    """Vectors stand in JSON as lists of any length; the table's own check names a wrong one."""
    fields = [
        pa.field(f.name, pa.list_(f.type.value_type)) if pa.types.is_fixed_size_list(f.type) else f
        for f in schema
    ]
    return pa.schema(fields)


class _named:  # noqa: N801 - reads as a word in ``with``
    """Says which file a failure is about."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, FileNotFoundError):
            raise TableNotFoundError(f"'{self._source.path}' is not there (any more)") from error
        if isinstance(error, (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError)):
            raise TableSchemaValidationError(
                f"'{self._source.path}' cannot be read as {self._source.format}: "
                f"{str(error).splitlines()[0][:300]}"
            ) from error
        if isinstance(error, OSError):
            with storage_errors(f"reading '{self._source.path}'"):
                raise error
