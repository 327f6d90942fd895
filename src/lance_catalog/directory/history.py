"""What changed in the catalog, between any two points that can still be read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lance_catalog.directory.context import Context
from lance_catalog.errors import InvalidInputError, UnsupportedOperationError, storage_errors
from lance_catalog.identifiers import Identifier, decode, is_internal_key, split_key
from lance_catalog.lifecycle import trash
from lance_catalog.lifecycle.states import HiddenState
from lance_catalog.lifecycle.trash import TrashRow
from lance_catalog.manifest import ManifestLog, Snapshot
from lance_catalog.manifest.past import Point, point_of, points, resolve_point
from lance_catalog.manifest.reading import advance
from lance_catalog.model import Entry, user_properties

__all__ = ["CatalogChange", "diff", "history"]

Moment = int | str | datetime


@dataclass(frozen=True, slots=True)
class CatalogChange:
    """One change of one object: when, by whom if known, what, and how it was before."""

    version: int
    timestamp_ms: int
    who: str | None
    #: created, dropped, undropped, deregistered, registered, renamed, purged, changed, committed.
    action: str
    #: namespace, table, or what another writer calls it.
    kind: str
    id: Identifier
    #: The id before a rename, the version that was committed, the properties that changed.
    detail: str = ""


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
    first = there[0] if since is None else resolve_point(log, since)
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
        view, _ = advance(Snapshot.empty(), log.opened(first), log.uri)
        steps = [version for version in there if version > first]
    for version in steps:
        if version > last:
            return
        with storage_errors(f"reading version {version} of the catalog"):
            after, delta = advance(view, log.opened(version), log.uri)
        whole = delta.whole
        keys = _all_keys(view, after) if whole else {*delta.removed, *delta.added}
        changes = [*_changes(view, after, keys), *_commits(delta.versions)]
        if changes:
            point = point_of(log, version)
            for action, kind, names, detail in changes:
                yield CatalogChange(
                    version, point.timestamp_ms, point.who, action, kind, names, detail
                )
        view = after


def diff(ctx: Context, one: Moment, other: Moment) -> list[CatalogChange]:
    """Return what is different between two points, as if it had been one change."""
    log = _log(ctx, "diff")
    first, last = resolve_point(log, one), resolve_point(log, other)
    before, _ = advance(Snapshot.empty(), log.opened(first), log.uri)
    after, _ = advance(Snapshot.empty(), log.opened(last), log.uri)
    point: Point = point_of(log, last)
    return [
        CatalogChange(point.version, point.timestamp_ms, None, action, kind, names, detail)
        for action, kind, names, detail in _changes(before, after, _all_keys(before, after))
    ]


_Told = tuple[str, str, Identifier, str]


def _all_keys(before: Snapshot, after: Snapshot) -> set[str]:
    return {entry.object_id for view in (before, after) for entry in view.entries()}


def _commits(ids: tuple[str, ...]) -> Iterator[_Told]:
    for key in ids:
        table, number = split_key(key)
        yield "committed", "table", decode(table), f"version {number}"


def _changes(before: Snapshot, after: Snapshot, keys: set[str]) -> Iterator[_Told]:
    """Yield what became of some ids, in their order; what only moved did not change."""
    gone: dict[str, Entry] = {}
    come: dict[str, Entry] = {}
    for key in sorted(keys):
        old, new = before.get(key), after.get(key)
        if old is not None and new is not None:
            if (old.object_type, old.location, old.metadata) != (
                new.object_type,
                new.location,
                new.metadata,
            ) and not is_internal_key(key):
                yield "changed", new.object_type, decode(key), _difference(old, new)
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
            yield "purged", "table", decode(former.object_id), former.hidden.drop_id
        elif not is_internal_key(key):
            yield "dropped", old.object_type, decode(key), ""


def _arrived(
    after: Snapshot, before: Snapshot, key: str, new: Entry, old: Entry | None
) -> Iterator[_Told]:
    hidden: TrashRow | None = trash.get(after, key) if is_internal_key(key) else None
    if hidden is not None:
        dropped = hidden.hidden.state is HiddenState.DROPPED
        action = "dropped" if dropped else "deregistered"
        yield action, "table", decode(hidden.object_id), hidden.hidden.drop_id
        return
    if is_internal_key(key):
        return
    former = trash.get(before, old.object_id) if old is not None else None
    if former is not None:
        dropped = former.hidden.state is HiddenState.DROPPED
        detail = "" if former.object_id == key else f"was {former.object_id}"
        yield "undropped" if dropped else "registered", "table", decode(key), detail
    elif old is not None:
        yield "renamed", new.object_type, decode(key), f"was {old.object_id}"
    else:
        yield "created", new.object_type, decode(key), ""


def _difference(old: Entry, new: Entry) -> str:
    """Say which properties changed."""

    def readable(entry: Entry) -> dict[str, Any]:
        try:
            return dict(user_properties(entry.properties()))
        except ValueError:
            return {}

    a, b = readable(old), readable(new)
    parts = [f"{key}={b[key]}" for key in sorted(b) if a.get(key) != b[key]]
    parts += [f"-{key}" for key in sorted(a) if key not in b]
    if old.location != new.location:
        parts.append(f"location {new.location}")
    return ", ".join(parts)
