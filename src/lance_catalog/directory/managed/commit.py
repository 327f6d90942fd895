"""New versions of managed tables: the row is the commit point, the manifest is in place before the
acknowledgement (I31, I33).

Refused if the final name exists; then the rows of all tables, in one strict commit; then each
manifest under its final name, put-if-absent; then the answer. The staged files go last. Whoever
dies in between leaves rows whose manifests the next reader or writer puts in place.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lance_catalog.directory.context import Context
from lance_catalog.directory.managed.adoption import adopt
from lance_catalog.directory.managed.rows import forgetting
from lance_catalog.directory.managed.target import Target
from lance_catalog.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    TableNotFoundError,
    TableVersionAlreadyExistsError,
    storage_errors,
)
from lance_catalog.failpoints import hit
from lance_catalog.manifest import Change, Snapshot
from lance_catalog.model import Entry
from lance_catalog.storage.manifests import Naming
from lance_catalog.storage.port import ObjectInfo
from lance_catalog.versions import registry
from lance_catalog.versions.finalize import staged_name
from lance_catalog.versions.registry import Registered

__all__ = ["Asked", "create", "plan_rows", "prepare", "publish"]


@dataclass(frozen=True, slots=True)
class Asked:
    """A version somebody asks for: a manifest staged beside the final ones."""

    version: int
    manifest_path: str
    naming_scheme: str | None = None
    size: int | None = None
    e_tag: str | None = None
    metadata: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A version that can be registered, as far as a look tells."""

    target: Target
    version: Registered

    @property
    def row(self) -> Entry:
        return self.version.row(self.target.key, self.target.directory)


def create(ctx: Context, wanted: Sequence[tuple[Target, Asked]]) -> list[ObjectInfo]:
    """Register versions of one or several tables as one commit; all of them or none."""
    prepared = prepare(wanted)
    hit("version.staged")
    ctx.commit(lambda view: (Change(add=plan_rows(ctx, view, prepared)), None))
    hit("version.row_written")
    return publish(prepared)


def prepare(wanted: Sequence[tuple[Target, Asked]]) -> list[Prepared]:
    """Check what can be checked before the commit; nothing is written, but what others left."""
    heads: dict[str, int] = {}
    prepared: list[Prepared] = []
    for target, asked in wanted:
        with storage_errors(f"creating version {asked.version} of '{target.key}'"):
            if target.key not in heads:
                heads[target.key] = target.ready()
                if asked.version > heads[target.key] + 1 and adopt(target):
                    # Others committed without the catalog, and this one builds upon them.
                    heads[target.key] = target.now().head()
            _require_next(target.key, asked.version, heads[target.key])
            prepared.append(Prepared(target, _staged(target, asked)))
            if target.file(asked.version) is not None:
                # Written behind our back: it is a version all the same, and not this one.
                adopt(target)
                raise _exists(asked.version)
            heads[target.key] = asked.version
    return prepared


def _require_next(table: str, version: int, head: int) -> None:
    if version < 1:
        raise InvalidInputError(f"version {version}: versions count from 1")
    if version <= head:
        raise _exists(version)
    if version > head + 1:
        raise ConcurrentModificationError(
            f"version {version} is not the next of '{table}', which is {head + 1}. "
            "Rebase on the latest version and retry."
        )


def _exists(version: int) -> TableVersionAlreadyExistsError:
    return TableVersionAlreadyExistsError(
        f"version {version} exists already, written by somebody else or by an earlier try of "
        "yours; describe_table_version shows it. Rebase on the latest version and retry."
    )


def _staged(target: Target, asked: Asked) -> Registered:
    name = staged_name(asked.manifest_path)
    info = target.ctx.store.head(f"{target.directory}/_versions/{name}")
    if info is None or info.size == 0:
        raise InvalidInputError(
            f"nothing is staged at '{target.directory}/_versions/{name}'. The manifest must lie "
            "beside the table's versions when create_table_version is called."
        )
    if asked.size is not None and asked.size != info.size:
        raise InvalidInputError(
            f"the staged manifest '{name}' has {info.size} bytes, the request says {asked.size}; "
            "it was not written whole, or another one was meant"
        )
    try:
        naming = Naming((asked.naming_scheme or "V2").upper())
    except ValueError as error:
        raise InvalidInputError(
            f"naming_scheme '{asked.naming_scheme}': known are V1 and V2"
        ) from error
    return Registered(
        asked.version,
        naming,
        info.size,
        asked.e_tag or info.e_tag,
        target.ctx.clock(),
        name,
        asked.metadata,
    )


def plan_rows(ctx: Context, view: Snapshot, prepared: Sequence[Prepared]) -> tuple[Entry, ...]:
    """Return the rows of prepared versions, each still the next of its table in a view."""
    if not registry.is_managed(view.table_metadata):
        raise ConcurrentModificationError(
            "managed versions were switched off meanwhile; open the table anew and retry"
        )
    heads: dict[str, int] = {}
    for one in prepared:
        key = one.target.key
        current = view.get(key)
        if current is None or current.location != one.target.entry.location:
            raise TableNotFoundError(f"table '{key}' was dropped or renamed meanwhile")
        if key not in heads:
            heads[key] = Target(ctx, view, current, one.target.directory).head()
        _require_next(key, one.version.version, heads[key])
        heads[key] = one.version.version
    return tuple(one.row for one in prepared)


def publish(prepared: Sequence[Prepared]) -> list[ObjectInfo]:
    """Put the manifests of registered versions in place, and remove what they were staged as."""
    found = []
    for one in prepared:
        with storage_errors(f"finishing version {one.version.version} of '{one.target.key}'"):
            found.append(_finish(one))
    hit("version.copied")
    staged = [one.version.staged_path(one.target.directory) for one in prepared]
    prepared[0].target.ctx.store.delete([path for path in staged if path is not None])
    hit("version.staging_deleted")
    return found


def _finish(one: Prepared) -> ObjectInfo:
    store, directory = one.target.ctx.store, one.target.directory
    final, staged = one.version.final_path(directory), one.version.staged_path(directory)
    assert staged is not None
    first = True
    # A reader may have put it in place, and somebody tidied up.
    with contextlib.suppress(FileNotFoundError):
        first = store.copy_if_absent(staged, final)
    info = store.head(final)
    if first and info is not None:
        return info
    if info is None or store.get(final) != (store.get(staged) or store.get(final)):
        _void(one)
        raise _exists(one.version.version)
    return info


def _void(one: Prepared) -> None:
    """Take back a row whose name a writer that ignores the catalog took at the same moment.

    What lies under the name is the version, for every reader; so the row tells of that.
    """
    target, number = one.target, one.version.version
    file = target.file(number)

    def plan(view: Snapshot) -> tuple[Change, None]:
        now = Target(target.ctx, view, target.entry, target.directory).registered(number)
        mine = now.get(number)
        if mine is None or mine.entry is None or mine.staged != one.version.staged:
            return Change(), None
        if file is None:
            return forgetting(view, target.key, [mine.entry]), None
        naming, info = file
        theirs = Registered(number, naming, info.size, info.e_tag, info.modified_ms)
        row = theirs.row(target.key, target.directory)
        return Change((mine.entry,), (row,)), None

    target.ctx.commit(plan)
