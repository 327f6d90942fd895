"""Listing and describing managed versions: the registry, and what lies above it (I34, I35).

The highest version may be one whose committer died before its manifest was in place: then a read
puts it there. That is the one write a read does, and it changes nothing that was not committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, TypeVar

from lance_namespace import TableVersion

from lance_catalog.directory.managed.adoption import above
from lance_catalog.directory.managed.target import TakenBackError, Target
from lance_catalog.errors import TableVersionNotFoundError, storage_errors
from lance_catalog.storage.manifests import newest_versions
from lance_catalog.storage.port import ObjectInfo
from lance_catalog.versions import registry
from lance_catalog.versions.files import as_table_version, missing, parse_token
from lance_catalog.versions.registry import Registered

__all__ = ["describe", "list_page"]

#: How many numbers one lookup asks for; after so many empty ones all rows are read.
_CHUNK: Final = 64
_EMPTY: Final = 4

T = TypeVar("T")


def list_page(
    target: Target,
    *,
    descending: bool | None,
    limit: int | None,
    page_token: str | None,
) -> tuple[list[TableVersion], str | None]:
    """Return a page of versions, latest first unless ``descending`` is False, and a token."""
    after = parse_token(page_token)
    wanted = None if limit is None or limit < 0 else limit
    if wanted == 0:
        return [], None
    down = descending is not False
    with storage_errors(f"listing the versions of '{target.key}'"):
        return _again(target, lambda now: _page(now, after, down=down, limit=wanted))


def _again(target: Target, look: Callable[[Target], T]) -> T:
    """Look; where a version was taken back meanwhile, look at the catalog as it is now."""
    try:
        return look(target)
    except TakenBackError:
        return look(target.now())


def _page(
    target: Target, after: int | None, *, down: bool, limit: int | None
) -> tuple[list[TableVersion], str | None]:
    head = target.head()
    if limit == 1 and down and after is None:
        latest = _latest(target, head)
        if latest is not None:
            return latest
    found: list[Registered] = []
    token = None
    for one in _ordered(target, head, after, down=down, limit=limit):
        if limit is not None and len(found) == limit:
            token = str(found[-1].version)
            break
        found.append(one)
    return [_model(target, one, head) for one in found if not _is_lost(target, one, head)], token


def _latest(target: Target, head: int) -> tuple[list[TableVersion], str | None] | None:
    """Return the page of the latest version alone; None where it takes a look at the registry.

    Whoever opens a table asks for this one: the row is in memory, and that there is another below
    it shows by its manifest.
    """
    one = target.latest(head)
    if one is None:
        return None
    token = str(head) if head > 1 else None
    if target.ctx.store.remote:
        if target.is_past():
            return None  # Its number may be another version's by now.
        # One request tells what is newest, and that both are there.
        files = newest_versions(target.ctx.store, target.directory)
        if max(files, default=0) != head or (head > 1 and head - 1 not in files):
            return None
        naming, e_tag = files[head]
        return [_told(target, replace(one, naming=naming, e_tag=e_tag))], token
    if _is_lost(target, one, head) or above(target, head):
        return None
    if head > 1 and target.file(head - 1) is None:
        return None
    return [_model(target, one, head)], token


def _is_lost(target: Target, one: Registered, head: int) -> bool:
    """Whether others committed and cleaned up without the catalog, the latest we know included."""
    if one.version != head or one.entry is None or target.file(head) is not None:
        return False
    staged = one.staged_path(target.directory)
    if staged is not None and target.ctx.store.head(staged) is not None:
        return False
    return bool(above(target, head))


def _ordered(
    target: Target, head: int, after: int | None, *, down: bool, limit: int | None
) -> Iterator[Registered]:
    later = [one for one in above(target, head) if _past(one.version, after, down=down)]
    if down:
        yield from reversed(later)
        yield from _below(target, head if after is None else min(head, after - 1), limit)
    else:
        yield from sorted(
            (one for one in _all(target) if _past(one.version, after, down=False)),
            key=lambda one: one.version,
        )
        yield from later


def _past(version: int, after: int | None, *, down: bool) -> bool:
    return after is None or (version < after if down else version > after)


def _below(target: Target, top: int, limit: int | None) -> Iterator[Registered]:
    """Yield registered versions from a number downwards: by lookups, while they find any."""
    empty = 0
    while top > 0 and limit is not None and empty < _EMPTY:
        low = max(1, top - max(_CHUNK, limit) + 1)
        found = target.registered(*range(low, top + 1))
        yield from sorted(found.values(), key=lambda one: -one.version)
        empty = 0 if found else empty + 1
        top = low - 1
    if top > 0:
        rest = (one for one in _all(target) if one.version <= top)
        yield from sorted(rest, key=lambda one: -one.version)


def _all(target: Target) -> Iterator[Registered]:
    assert target.ctx.log is not None
    for entry in registry.all_rows(target.ctx.log, target.view, target.key):
        parsed = registry.parse(entry)
        if parsed is not None:
            yield parsed


def describe(target: Target, version: int | None) -> TableVersion:
    """Return one version, the latest for None; 11 when it is not registered (any more)."""
    with storage_errors(f"looking for a version of '{target.key}'"):
        if version is not None:
            return _again(target, lambda now: _describe(now, version))
        found, _ = list_page(target, descending=True, limit=1, page_token=None)
        if not found:
            raise TableVersionNotFoundError(
                f"table '{target.key}' is declared but has no version yet; write to it first"
            )
        return found[0]


def _describe(target: Target, version: int) -> TableVersion:
    head = target.head()
    if version > head:
        for one in above(target, head):
            if one.version == version:
                return _model(target, one, head)
    elif version > 0:
        known = target.registered(version).get(version)
        if known is not None and version < head:
            known = _as_it_lies(target, known)
        if known is not None:
            return _model(target, known, head)
    raise missing(target.ctx.store, target.directory, version)


def _as_it_lies(target: Target, one: Registered) -> Registered | None:
    """Return a version under the name it has; None if Lance's own cleanup took it."""
    file = target.file(one.version)
    if file is None:
        target.ready()  # Or one commit registered several, and its committer died.
        file = target.file(one.version)
    return None if file is None else replace(one, naming=file[0])


def _model(target: Target, one: Registered, head: int) -> TableVersion:
    if one.version == head and one.entry is not None:
        return _told(target, one, target.put_in_place(one))
    return _told(target, one)


def _told(target: Target, one: Registered, info: ObjectInfo | None = None) -> TableVersion:
    """Return the library's model of a version: by its file, or by its row alone."""
    if info is None:
        path = one.final_path(target.directory)
        info = ObjectInfo(path, one.size, one.timestamp_ms, one.e_tag)
    made = as_table_version(target.ctx.store, one.version, info)
    made.timestamp_millis = one.timestamp_ms
    made.metadata = dict(one.metadata) if one.metadata else None
    return made
