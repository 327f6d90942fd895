"""What can be wrong with the rows of the manifest."""

from __future__ import annotations

from collections.abc import Iterator

from lance_catalog.directory.context import Context
from lance_catalog.directory.trashing import is_unsettled
from lance_catalog.errors import InvalidTableStateError
from lance_catalog.identifiers import is_internal_key, split_key
from lance_catalog.lifecycle import markers, trash
from lance_catalog.lifecycle.claims import Claim
from lance_catalog.lifecycle.locations import normalise, v1_name
from lance_catalog.lifecycle.states import HiddenState
from lance_catalog.maintenance.findings import Kind, Problem
from lance_catalog.manifest import Snapshot
from lance_catalog.model import Entry

__all__ = ["check", "is_left"]


def check(ctx: Context, view: Snapshot, older_than_ms: int) -> list[Problem]:
    """Return the problems of the rows; looks into the store only for V1 markers."""
    problems = list(_duplicates(view))
    places: dict[str, list[str]] = {}
    for entry in view.entries():
        problems += _readable(entry)
        if not is_internal_key(entry.object_id):
            problems += _parent(view, entry)
        if entry.is_table:
            place = normalise(entry.location)
            if place is None:
                problems.append(_bad_location(entry))
            else:
                places.setdefault(place, []).append(entry.object_id)
    problems += [
        Problem(
            Kind.SHARED_LOCATION,
            place,
            f"{', '.join(sorted(ids))} all lie there, so none of them can be dropped or purged",
            "deregister all but one of them",
        )
        for place, ids in sorted(places.items())
        if len(ids) > 1
    ]
    for row in trash.rows(view):
        problems += _hidden(ctx, row, older_than_ms)
    problems += _shown(ctx, view, older_than_ms)
    return problems


def _duplicates(view: Snapshot) -> Iterator[Problem]:
    for key, rows in view.base.duplicates.items():
        if key not in view.overlay:
            yield Problem(
                Kind.DUPLICATE_ID,
                key,
                f"{len(rows)} rows have this id; native writers fail until one is left",
                "deregister it and register it again where the data is",
            )


def _readable(entry: Entry) -> Iterator[Problem]:
    try:
        entry.properties()
    except InvalidTableStateError as error:
        yield Problem(
            Kind.UNREADABLE_METADATA,
            entry.object_id,
            str(error).split(";", 1)[0],
            "deregister it and register it again with its properties",
        )


def _parent(view: Snapshot, entry: Entry) -> Iterator[Problem]:
    parent, _ = split_key(entry.object_id)
    if not parent:
        return
    above = view.get(parent)
    if above is None or not above.is_namespace:
        yield Problem(
            Kind.ORPHAN,
            entry.object_id,
            f"its namespace '{parent}' does not exist, so no listing shows it",
            "repair creates the namespace" if above is None else "rename the table above it",
        )


def _bad_location(entry: Entry) -> Problem:
    return Problem(
        Kind.BAD_LOCATION,
        entry.object_id,
        f"its location {entry.location!r} is no folder of a table below the root",
        "deregister it; the data is not touched",
    )


def _hidden(ctx: Context, row: trash.TrashRow, older_than_ms: int) -> Iterator[Problem]:
    claim = row.hidden.claim
    if is_unsettled(row):
        if claim is not None and is_left(ctx, claim, older_than_ms):
            yield Problem(
                Kind.STALE_CLAIM,
                row.entry.object_id,
                f"a migration of the hidden table '{row.object_id}' did not finish",
                "repair, or `lance-catalog migrate`, finishes it",
            )
        return  # Until then its marker decides.
    if claim is not None and is_left(ctx, claim, older_than_ms):
        if row.hidden.is_purging:
            yield Problem(
                Kind.UNFINISHED_PURGE,
                row.entry.object_id,
                f"'{row.object_id}' was dropped, and the deletion of its data did not finish",
                "repair finishes it",
            )
        else:
            yield Problem(
                Kind.STALE_CLAIM,
                row.entry.object_id,
                f"a creation over the dropped table '{row.object_id}' did not finish",
                "repair undoes it; the table stays in the trash",
            )
    if row.hidden.is_purging:
        return
    place = normalise(row.entry.location)
    name = v1_name(place)
    if name is None or place is None or not ctx.store.any_object(place):
        return
    rooted = ctx.store.head(markers.marker_path(name)) is not None
    nested = ctx.store.head(f"{place}/{markers.NESTED}") is not None
    if not (rooted and nested):
        yield Problem(
            Kind.MISSING_MARKER,
            place,
            f"'{row.object_id}' is {row.hidden.state.value}, but readers of directories see it",
            "repair writes the marker",
        )


def is_left(ctx: Context, claim: Claim, older_than_ms: int) -> bool:
    """Whether a claim is nobody's any more: its lease has passed, or the grace period."""
    return claim.at_ms <= older_than_ms or claim.is_stale(ctx.clock(), ctx.lease_ms)


def _shown(ctx: Context, view: Snapshot, older_than_ms: int) -> Iterator[Problem]:
    """Live tables that a marker hides from readers of directories."""
    for info in ctx.store.list_level().objects:
        name = info.path.removesuffix(markers.SUFFIX)
        if name == info.path:
            continue
        place = name + ".lance"
        live = [e for e in view.at_location(place) if not is_internal_key(e.object_id)]
        hidden = markers.read(ctx.store, name, place)
        left = {HiddenState.DEREGISTERED, HiddenState.DROPPED, HiddenState.PURGED}
        if info.modified_ms <= older_than_ms:
            left.add(HiddenState.CREATING)
        if live and hidden is not None and hidden.state in left:
            yield Problem(
                Kind.UNFINISHED_REGISTER,
                place,
                f"'{live[0].object_id}' is registered, but its marker still hides the directory",
                "repair removes the marker",
            )
