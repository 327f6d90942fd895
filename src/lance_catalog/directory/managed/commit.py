"""New versions of managed tables: the row is the commit point, the manifest is in place before the
acknowledgement (I31, I33).

Refused if the final name exists; then the rows of all tables, in one strict commit; then each
manifest under its final name, put-if-absent; then the answer. The staged files go last. Whoever
dies in between leaves rows whose manifests the next reader or writer puts in place.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lance_catalog.directory.context import Context
from lance_catalog.directory.managed.adoption import adopt
from lance_catalog.directory.managed.target import Target
from lance_catalog.directory.managed.voiding import Prepared, void
from lance_catalog.errors import (
    CommitOutcomeUnknownError,
    ConcurrentModificationError,
    InvalidInputError,
    LanceNamespaceError,
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

__all__ = ["Asked", "Prepared", "create", "plan_rows", "prepare", "publish"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Asked:
    """A version somebody asks for: a manifest staged beside the final ones."""

    version: int
    manifest_path: str
    naming_scheme: str | None = None
    size: int | None = None
    e_tag: str | None = None
    metadata: Mapping[str, str] | None = None


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
    schemes: dict[str, Naming] = {}
    prepared: list[Prepared] = []
    for target, asked in wanted:
        with storage_errors(f"creating version {asked.version} of '{target.key}'"):
            if target.key not in heads:
                heads[target.key], naming = target.ready()
                if naming is not None:
                    schemes[target.key] = naming
                if asked.version > heads[target.key] + 1:
                    # Others committed without the catalog, or after our look at it.
                    adopt(target)
                    heads[target.key] = target.now().head()
            _require_next(target.key, asked.version, heads[target.key])
            version = _staged(target, asked, schemes.get(target.key))
            schemes[target.key] = version.naming
            prepared.append(Prepared(target, version))
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


def _naming(target: Target, asked: str | None, kept: Naming | None) -> Naming:
    """Return the scheme of the table, which a request may state but not change (I37)."""
    try:
        naming = Naming(asked.upper()) if asked is not None else kept or Naming.V2
    except ValueError as error:
        raise InvalidInputError(f"naming_scheme '{asked}': known are V1 and V2") from error
    if kept is not None and naming is not kept:
        raise InvalidInputError(
            f"'{target.key}' names its manifests by {kept.value}, the request asks for "
            f"{naming.value}; two schemes in one table hide versions. Reopen the table and retry."
        )
    return naming


def _staged(target: Target, asked: Asked, kept: Naming | None) -> Registered:
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
    return Registered(
        asked.version,
        _naming(target, asked.naming_scheme, kept),
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


def publish(prepared: Sequence[Prepared], *, whole: bool = True) -> list[ObjectInfo]:
    """Put the manifests of registered versions in place, and remove what they were staged as.

    ``whole``: nothing else was committed with them, so that they can be taken back.
    From here on they are committed: whoever reads next puts them in place, if we cannot. So a
    failure is not known to be one.
    """
    try:
        found = _put_all(prepared, whole=whole)
    except (TableVersionAlreadyExistsError, CommitOutcomeUnknownError):
        raise
    except LanceNamespaceError as error:
        raise CommitOutcomeUnknownError(
            f"{error} The version is registered, and the next read of the table puts its manifest "
            "in place if this call did not: look before you retry."
        ) from error
    _unstage(prepared)
    hit("version.staging_deleted")
    return found


def _unstage(prepared: Sequence[Prepared]) -> None:
    """Remove what versions were staged as; where that fails, a repair does it."""
    staged = [one.version.staged_path(one.target.directory) for one in prepared]
    try:
        with storage_errors("removing staged manifests"):
            prepared[0].target.ctx.store.delete([path for path in staged if path is not None])
    except LanceNamespaceError as error:
        log.warning("staged manifests are left for `lance-catalog repair`: %s", error)


def _put_all(prepared: Sequence[Prepared], *, whole: bool) -> list[ObjectInfo]:
    if len(prepared) > 1 and whole:
        taken = [one for one in prepared if _is_taken(one)]
        if taken and void(prepared):
            raise _taken_back(taken, prepared)
    found = []
    for one in prepared:
        found.append(_put(one, alone=whole and len(prepared) == 1))
        hit("version.copied")
    return found


def _taken_back(taken: Sequence[Prepared], prepared: Sequence[Prepared]) -> Exception:
    """Return what to tell of a batch that was taken back: that it failed, if that is sure."""
    _unstage(prepared)
    # From here on nobody can put one in place. A reader of the moment between may just have.
    rest = [one for one in prepared if one not in taken]
    if any(one.target.file(one.version.version) for one in rest):
        return _partly(taken[0])
    return _exists(taken[0].version.version)


def _is_taken(one: Prepared) -> bool:
    """Whether a writer that ignores the catalog took the name while we registered it."""
    store, directory = one.target.ctx.store, one.target.directory
    with storage_errors(f"looking for version {one.version.version} of '{one.target.key}'"):
        there = store.get(one.version.final_path(directory))
        staged = None if there is None else store.get(one.version.staged_path(directory) or "")
        # Without the staged one a reader put it in place, and somebody tidied up.
        return staged is not None and there != staged


def _put(one: Prepared, *, alone: bool) -> ObjectInfo:
    store, directory = one.target.ctx.store, one.target.directory
    final, staged = one.version.final_path(directory), one.version.staged_path(directory)
    assert staged is not None
    with storage_errors(f"finishing version {one.version.version} of '{one.target.key}'"):
        try:
            first = store.copy_if_absent(staged, final)
            info = store.head(final)
            if info is not None and (first or store.get(final) == store.get(staged)):
                return info
        except FileNotFoundError:
            # A reader may have put it in place, and somebody tidied up; or the name is another's,
            # and somebody took ours for a stray.
            alone = False
    if void([one]) and alone:
        raise _exists(one.version.version)
    raise _partly(one)


def _partly(one: Prepared) -> CommitOutcomeUnknownError:
    return CommitOutcomeUnknownError(
        f"version {one.version.version} of '{one.target.key}' was written by a writer that ignores "
        "the catalog, at the same moment as it was registered, or its table went another way: what "
        "was committed with it may be there. Look at each table before you retry."
    )
