"""What can be wrong below the root, seen from the directories."""

from __future__ import annotations

from collections.abc import Iterator

from lance_catalog.config import Mode
from lance_catalog.directory.context import Context
from lance_catalog.directory.layout import RESERVED
from lance_catalog.directory.layout_flag import FLAG
from lance_catalog.directory.migration import refusal
from lance_catalog.identifiers import CLAIMS, TRASH, is_internal_key
from lance_catalog.lifecycle import claim_files, markers, trash
from lance_catalog.lifecycle.claims import Verb
from lance_catalog.lifecycle.locations import normalise, v1_name
from lance_catalog.lifecycle.states import HiddenState
from lance_catalog.maintenance.check_rows import is_left
from lance_catalog.maintenance.findings import Kind, Problem
from lance_catalog.manifest import Snapshot
from lance_catalog.manifest.schema import DIRECTORY as MANIFEST
from lance_catalog.storage.manifests import parse_manifest_name
from lance_catalog.storage.port import Level, ObjectInfo, Store

__all__ = ["check"]


def check(ctx: Context, view: Snapshot, older_than_ms: int) -> list[Problem]:
    """Return the problems of directories, markers and claims."""
    level = ctx.store.list_level()
    flagged = any(info.path == FLAG for info in level.objects)
    owners: dict[str, str] = {}
    for entry in view.entries():
        place = normalise(entry.location) if entry.is_table else None
        if place is not None:
            owners.setdefault(place, entry.object_id)
    problems = list(_markers(ctx, level, view, older_than_ms))
    claimed = _claimed(ctx.store)
    problems += _claims(ctx, view, claimed, older_than_ms)
    problems += _aside(ctx.store, view, {where.rsplit("/", 1)[-1] for where in claimed})
    problems += _staging(ctx.store, "", older_than_ms)
    for place, owner in owners.items():
        if not is_internal_key(owner):
            problems += _table(ctx.store, place, owner, older_than_ms, registered=True)
        else:
            problems += _unfinished(ctx.store, _Looked(ctx.store, place), older_than_ms)
    # A registered table may lie deeper; what holds it is not a stray.
    holders = {place.split("/", 1)[0] for place in owners}
    for folder in sorted(level.folders):
        if folder not in holders and folder not in (MANIFEST, TRASH, CLAIMS):
            problems += _unowned(ctx, view, folder, older_than_ms, flagged=flagged)
    return problems


def _table(
    store: Store, place: str, owner: str, older_than_ms: int, *, registered: bool = False
) -> Iterator[Problem]:
    """A table that a row, or its visible directory, stands for."""
    state = _Looked(store, place)
    if state.empty:
        yield Problem(
            Kind.ROW_WITHOUT_DATA,
            owner,
            f"nothing lies at {place}",
            "repair reserves the place again: the table is then declared, without data",
            (place,),
        )
        return
    name = v1_name(place)
    # With a marker at the root as well, the check of the rows says it.
    if registered and state.hidden and name and store.head(markers.marker_path(name)) is None:
        yield Problem(
            Kind.UNFINISHED_REGISTER,
            place,
            f"'{owner}' is registered, but another implementation's marker hides the directory",
            "repair removes the marker",
        )
    yield from _unfinished(store, state, older_than_ms)
    if not state.versions and state.reserved:
        files = [info.path for info in state.files("data") if info.modified_ms <= older_than_ms]
        if files:
            yield _stray(place, files)
    if not state.versions and not state.reserved:
        yield Problem(
            Kind.BROKEN_TABLE,
            owner,
            f"{place} holds files but no version of a table",
            "restore its _versions folder, or deregister it",
        )


def _unfinished(store: Store, state: _Looked, older_than_ms: int) -> Iterator[Problem]:
    """Files on their way into a table, hidden or not, when their writer died."""
    staged = state.staged_before(older_than_ms)
    if staged:
        yield _stray(state.place, staged)
    yield from _staging(store, state.place, older_than_ms)


class _Looked:
    """What a look into a table's directory shows."""

    def __init__(self, store: Store, place: str) -> None:
        self._store, self.place = store, place
        level = store.list_level(place)
        names = {info.path.rsplit("/", 1)[-1] for info in level.objects}
        listed = store.list_level(f"{place}/_versions").objects
        self.reserved = RESERVED in names
        self.hidden = markers.NESTED in names
        self.folders = level.folders
        self.versions = [i for i in listed if i.size and parse_manifest_name(_name(i)) is not None]
        self._staged = [i for i in listed if ".manifest-" in _name(i)]
        self.empty = not names and not store.any_object(place)

    def staged_before(self, older_than_ms: int) -> list[str]:
        return [info.path for info in self._staged if info.modified_ms <= older_than_ms]

    def files(self, folder: str) -> list[ObjectInfo]:
        if folder not in self.folders:
            return []
        return list(self._store.list_tree(f"{self.place}/{folder}"))


def _unowned(
    ctx: Context, view: Snapshot, folder: str, older_than_ms: int, *, flagged: bool
) -> Iterator[Problem]:
    """A folder at the root that no row owns: a V1 table, a leftover, or somebody else's."""
    store = ctx.store
    state = _Looked(store, folder)
    name = v1_name(folder)
    if name is not None and store.head(markers.marker_path(name)) is not None:
        # Hidden: what else is to be said of it, its marker says.
        yield from _unfinished(store, state, older_than_ms)
        return
    if name is not None and state.hidden and flagged:
        yield Problem(
            Kind.UNLISTED_MARKER,
            folder,
            f"another implementation deregistered '{name}'; listings by name still show it",
            "repair, or `lance-catalog migrate`, writes the marker at the root",
        )
        return
    if state.versions:
        if name is None:
            if min(info.modified_ms for info in state.versions) > older_than_ms:
                return  # A creation between its first version and its row.
            yield from _unfinished(store, state, older_than_ms)
            yield Problem(
                Kind.DIRECTORY_WITHOUT_ROW,
                folder,
                "a Lance table that no entry names: created without being registered, or "
                "deregistered by another implementation",
                "repair lists it as deregistered: `lance-catalog table list --deregistered` shows "
                "it, `table register` brings it in, `table drop` drops it",
            )
            yield from _unfinished(store, state, older_than_ms)
        elif ctx.mode is Mode.V2:
            why = refusal(view, name)
            yield Problem(
                Kind.UNMIGRATED_TABLE,
                folder,
                f"table '{name}' is found by its directory only, which this mode does not read",
                "`lance-catalog migrate` registers it"
                if why is None
                else f"migrate skips it: {why}",
            )
        else:
            yield from _table(store, folder, name, older_than_ms)
        return
    if state.reserved and name is not None and ctx.mode is not Mode.V2:
        yield from _table(store, folder, name, older_than_ms)
        return
    ours = state.reserved or name is not None or "data" in state.folders or state.empty
    if not ours:
        return  # Not a table at all: another tool's folder.
    # All of them: what counts as empty may hold a file of ours that never came in.
    files = list(store.list_tree(folder))
    if all(info.modified_ms <= older_than_ms for info in files):
        yield Problem(
            Kind.LEFTOVER_DIRECTORY,
            folder,
            f"{len(files)} files of a creation that did not finish",
            "repair deletes it",
            tuple(info.path for info in files),
        )


def _markers(ctx: Context, level: Level, view: Snapshot, older_than_ms: int) -> Iterator[Problem]:
    for info in level.objects:
        name = info.path.removesuffix(markers.SUFFIX)
        if name == info.path:
            continue
        place = name + ".lance"
        owned = view.at_location(place)
        hidden = markers.read_with_claim(ctx.store, name, place)
        if hidden is None or owned:
            continue  # What a row says of it, the check of the rows tells.
        if hidden.state is HiddenState.CREATING:
            yield from _unborn(ctx.store, info, place, older_than_ms)
            continue
        if hidden.state is HiddenState.UNREADABLE and ctx.store.any_object(place):
            yield Problem(
                Kind.UNREADABLE_MARKER,
                info.path,
                f"'{name}' is hidden by a marker that cannot be read: hidden it stays, and "
                "nothing is deleted",
                "remove the marker by hand to show the table, then drop it again if it should go",
            )
            continue
        if hidden.state is HiddenState.PURGED:
            if ctx.clock() - hidden.deleted_at_ms >= ctx.settings.quarantine_ms:
                why = "the name of a purged table need not be closed any more"
                yield Problem(Kind.STALE_MARKER, info.path, why, "repair removes the marker")
            continue
        if hidden.is_purging:
            if hidden.claim is not None and is_left(ctx, hidden.claim, older_than_ms):
                yield Problem(
                    Kind.UNFINISHED_PURGE,
                    place,
                    f"'{name}' was dropped, and the deletion of its data did not finish",
                    "repair finishes it",
                )
            continue
        if not ctx.store.any_object(place):
            yield Problem(
                Kind.STALE_MARKER, info.path, f"{place} is gone", "repair removes the marker"
            )
        elif ctx.store.head(f"{place}/{markers.NESTED}") is None:
            yield Problem(
                Kind.MISSING_MARKER,
                place,
                f"'{name}' is {hidden.state.value}, but other implementations still see it",
                "repair writes the marker",
            )


def _unborn(store: Store, marker: ObjectInfo, place: str, older_than_ms: int) -> Iterator[Problem]:
    """A creation that never got its row: nobody has seen the directory."""
    files = [marker, *store.list_tree(place)]
    if any(info.modified_ms < marker.modified_ms for info in files):
        # A creation marks before it writes: what is older is another's, and only the marker ours.
        files = [marker]
    if all(info.modified_ms <= older_than_ms for info in files):
        yield Problem(
            Kind.LEFTOVER_DIRECTORY,
            place,
            f"{len(files)} files of a creation that did not finish",
            "repair deletes it",
            # The marker last: until then nobody sees what is half deleted.
            tuple(info.path for info in reversed(files)),
        )


def _claimed(store: Store) -> dict[str, int]:
    """Return the folders of claims, each with the time of its newest."""
    found: dict[str, int] = {}
    if store.list_level(CLAIMS) == Level():
        return found
    for info in store.list_tree(CLAIMS):
        where, _, last = info.path.rpartition("/")
        # A file directly at the top is what a probe of the store left.
        where = where if last.isdecimal() and where.count("/") == 2 else info.path
        found[where] = max(found.get(where, 0), info.modified_ms)
    return found


def _claims(
    ctx: Context, view: Snapshot, claimed: dict[str, int], older_than_ms: int
) -> Iterator[Problem]:
    for where, modified_ms in claimed.items():
        parts = where.split("/")
        if len(parts) == 3:
            claim = claim_files.latest(ctx.store, parts[1], parts[2])
            if claim is None or not is_left(ctx, claim, older_than_ms):
                continue
            place = parts[1] + ".lance"
            hidden = markers.read(ctx.store, parts[1], place)
            own = hidden is not None and hidden.drop_id == parts[2]
            if claim.verb is Verb.PURGE and own and not view.at_location(place):
                continue  # The marker says it.
        elif modified_ms > older_than_ms:
            continue
        yield Problem(
            Kind.STALE_CLAIM,
            where,
            "somebody won the right to end a hiding and did not finish",
            "repair finishes what it claimed",
        )


def _aside(store: Store, view: Snapshot, claimed: set[str]) -> Iterator[Problem]:
    pending = {row.hidden.drop_id for row in trash.rows(view)} | claimed
    for drop_id in store.list_level(TRASH).folders:
        if drop_id not in pending:
            yield Problem(
                Kind.UNFINISHED_PURGE,
                f"{TRASH}/{drop_id}",
                "data of a dropped table whose deletion did not finish",
                "repair finishes it",
            )


def _staging(store: Store, place: str, older_than_ms: int) -> Iterator[Problem]:
    files = [i.path for i in store.list_staging(place) if i.modified_ms <= older_than_ms]
    if files:
        yield _stray(place or ".", files)


def _stray(place: str, files: list[str]) -> Problem:
    return Problem(
        Kind.STRAY_FILES,
        place,
        f"{len(files)} files of a write that did not finish",
        "repair deletes them",
        tuple(files),
    )


def _name(info: ObjectInfo) -> str:
    return info.path.rsplit("/", 1)[-1]
