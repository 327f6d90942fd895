"""What changed in the catalog, between any two points that can still be read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from lance_catalog.directory.context import Context
from lance_catalog.directory.namespaces import ROOT_PROPERTIES
from lance_catalog.directory.version_history import VersionChanges, version_changes
from lance_catalog.errors import (
    InvalidInputError,
    InvalidTableStateError,
    TableVersionNotFoundError,
    UnsupportedOperationError,
    storage_errors,
)
from lance_catalog.identifiers import Identifier, decode, encode, is_internal_key
from lance_catalog.lifecycle import trash
from lance_catalog.lifecycle.spans import Spans
from lance_catalog.lifecycle.states import HiddenState
from lance_catalog.lifecycle.trash import TrashRow
from lance_catalog.manifest import ManifestLog, Snapshot
from lance_catalog.manifest.past import Point, point_of, points, read_at, resolve_point, step_to
from lance_catalog.model import Entry, Kind, user_properties
from lance_catalog.versions.registry import is_managed

__all__ = ["CatalogChange", "diff", "history"]

Moment = int | str | datetime


@dataclass(frozen=True, slots=True)
class CatalogChange:
    """One change of one object: when, by whom if known, what, and how it was before."""

    version: int
    timestamp_ms: int
    who: str | None
    #: created, dropped, undropped, deregistered, registered, renamed, purged, changed; of versions
    #: committed, deleted; of the catalog enabled and disabled managed versions.
    action: str
    #: namespace, table, catalog, or what another writer calls it.
    kind: str
    id: Identifier
    #: The versions that were committed, the properties that changed, the drop id.
    detail: str = ""
    #: The id before a rename, or before an undrop under another name.
    former: Identifier | None = None
    #: Of versions, those that were committed or deleted: runs of numbers, as (first, last).
    versions: tuple[tuple[int, int], ...] = ()


def _log(ctx: Context, what: str) -> ManifestLog:
    if ctx.log is None:
        raise UnsupportedOperationError(
            f"{what}: V1 (manifest_enabled=false) has no manifest, and so no past. "
            "Set manifest_enabled=true."
        )
    return ctx.log


def history(
    ctx: Context, since: Moment | None = None, until: Moment | None = None
) -> Iterator[CatalogChange]:
    """Yield what changed after one point up to another, oldest first.

    Without a beginning from the oldest point that can still be read, which is left out itself.
    """
    log = _log(ctx, "log")
    there = points(log)
    if not there:
        return
    first = _oldest(log, there) if since is None else resolve_point(log, since)
    last = there[-1] if until is None else resolve_point(log, until)
    if first > last:
        raise InvalidInputError(
            f"version {first} is after version {last}; give the older one first"
        )
    if since is None and first == 1:
        # Nothing was before the first version: all of it is news.
        view = Snapshot.empty()
        steps = there
    else:
        view = read_at(log, first)
        steps = [version for version in there if version > first]
    for version in steps:
        if version > last:
            return
        after, delta = step_to(log, version, view)
        with storage_errors(f"reading version {version} of the catalog"):
            keys = _all_keys(view, after) if delta.whole else {*delta.removed, *delta.added}
            told = list(_told(log, view, after, keys))
        if told:
            point = point_of(log, version)
            for one in told:
                yield one.at(point)
        view = after


def _oldest(log: ManifestLog, there: list[int]) -> int:
    """Return the oldest point that is whole: retention may have died while it removed one."""
    for version in there[:-1]:
        try:
            read_at(log, version)
        except TableVersionNotFoundError:
            continue
        return version
    return there[-1]


def diff(ctx: Context, one: Moment, other: Moment) -> list[CatalogChange]:
    """Return what is different between two points, as if it had been one change."""
    log = _log(ctx, "diff")
    first, last = resolve_point(log, one), resolve_point(log, other)
    before, after = read_at(log, first), read_at(log, last)
    point = replace(point_of(log, last), who=None)
    with storage_errors(f"comparing versions {first} and {last} of the catalog"):
        keys = _all_keys(before, after)
        return [told.at(point) for told in _told(log, before, after, keys)]


@dataclass(frozen=True, slots=True)
class _Told:
    """A change that does not know yet when it was, and by whom."""

    action: str
    kind: str
    id: Identifier
    detail: str = ""
    former: Identifier | None = None
    versions: tuple[tuple[int, int], ...] = ()

    def at(self, point: Point) -> CatalogChange:
        return CatalogChange(
            point.version,
            point.timestamp_ms,
            point.who,
            self.action,
            self.kind,
            self.id,
            self.detail,
            self.former,
            self.versions,
        )


def _all_keys(before: Snapshot, after: Snapshot) -> set[str]:
    return {entry.object_id for view in (before, after) for entry in view.entries()}


def _told(log: ManifestLog, before: Snapshot, after: Snapshot, keys: set[str]) -> Iterator[_Told]:
    changes = list(_changes(before, after, keys))
    yield from _of_the_catalog(before, after)
    yield from changes
    # Before the switch is on, versions are imported; once it is off, only forgotten.
    if is_managed(before.table_metadata) and is_managed(after.table_metadata):
        yield from _of_versions(version_changes(log, before, after), changes)


def _of_the_catalog(before: Snapshot, after: Snapshot) -> Iterator[_Told]:
    """Tell what is kept beside the rows: the root's properties, and who decides over versions."""
    old, new = before.table_metadata, after.table_metadata
    if is_managed(old) != is_managed(new):
        yield _Told("enabled" if is_managed(new) else "disabled", "catalog", (), "managed versions")
    one, other = (Entry("", "", metadata=data.get(ROOT_PROPERTIES)) for data in (old, new))
    if one.metadata != other.metadata:
        yield _Told("changed", Kind.NAMESPACE.value, (), _difference(one, other))


def _of_versions(found: VersionChanges, changes: list[_Told]) -> Iterator[_Told]:
    """Tell commits and deletions; versions that came or went with their table are no news."""
    for one in changes:
        if one.action == "renamed" and one.former is not None:
            found.moved(encode(one.former), encode(one.id))
        elif one.action not in ("created", "changed"):
            found.forget(encode(one.id))
    for action, tables in (("committed", found.added), ("deleted", found.removed)):
        for table in sorted(tables):
            if tables[table]:
                spans = Spans.of(tables[table])
                noun = "versions" if len(tables[table]) > 1 else "version"
                detail = f"{noun} {spans.text().replace(',', ', ')}"
                yield _Told(action, Kind.TABLE.value, decode(table), detail, versions=spans.runs)


def _changes(before: Snapshot, after: Snapshot, keys: set[str]) -> Iterator[_Told]:
    """Yield what became of some ids, in their order; what only moved did not change."""
    gone: dict[str, Entry] = {}
    come: dict[str, Entry] = {}
    for key in sorted(keys):
        old, new = before.get(key), after.get(key)
        if old is not None and new is not None:
            if _same(old, new) or is_internal_key(key):
                continue
            detail = _difference(old, new)
            # Our own bookkeeping is no change that anybody made.
            if detail or old.object_type != new.object_type:
                yield _Told("changed", new.object_type, decode(key), detail)
        elif old is not None:
            gone[key] = old
        elif new is not None:
            come[key] = new
    by_place = {entry.location: entry for entry in gone.values() if entry.is_table}
    for key, new in come.items():
        old = by_place.get(new.location) if new.is_table else None
        if old is not None:
            gone.pop(old.object_id, None)
        yield from _arrived(after, before, key, new, old)
    for key, old in gone.items():
        former = trash.get(before, key) if is_internal_key(key) else None
        if former is not None:
            yield _Told("purged", "table", decode(former.object_id), former.hidden.drop_id)
        elif not is_internal_key(key):
            yield _Told("dropped", old.object_type, decode(key))


def _arrived(
    after: Snapshot, before: Snapshot, key: str, new: Entry, old: Entry | None
) -> Iterator[_Told]:
    hidden: TrashRow | None = trash.get(after, key) if is_internal_key(key) else None
    if hidden is not None:
        dropped = hidden.hidden.state is HiddenState.DROPPED
        action = "dropped" if dropped else "deregistered"
        yield _Told(action, "table", decode(hidden.object_id), hidden.hidden.drop_id)
        return
    if is_internal_key(key):
        return
    former = trash.get(before, old.object_id) if old is not None else None
    if former is not None:
        dropped = former.hidden.state is HiddenState.DROPPED
        action = "undropped" if dropped else "registered"
        was = None if former.object_id == key else decode(former.object_id)
        yield _Told(action, "table", decode(key), former.hidden.drop_id, was)
    elif old is not None:
        was = decode(old.object_id)
        yield _Told("renamed", new.object_type, decode(key), _difference(old, new), was)
    else:
        yield _Told("created", new.object_type, decode(key))


def _same(old: Entry, new: Entry) -> bool:
    return replace(old, address=new.address) == new


def _difference(old: Entry, new: Entry) -> str:
    """Say which properties changed."""

    def readable(entry: Entry) -> dict[str, Any]:
        try:
            return dict(user_properties(entry.properties()))
        except InvalidTableStateError:
            # Another writer left something that is no JSON; `check` reports it.
            return {}

    a, b = readable(old), readable(new)
    parts = [f"{key}={b[key]}" for key in sorted(b) if a.get(key) != b[key]]
    parts += [f"-{key}" for key in sorted(a) if key not in b]
    if old.location != new.location:
        parts.append(f"location {new.location}")
    return ", ".join(parts)
