"""Making a new table true: its row committed, what it rests on confirmed, losers withdrawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lance_catalog.config import Mode
from lance_catalog.directory import first_version
from lance_catalog.directory.context import Context
from lance_catalog.directory.managed import rows as versions
from lance_catalog.directory.places import taken
from lance_catalog.directory.resolve import FoundTable, require_namespace
from lance_catalog.directory.undoing import undo_versions
from lance_catalog.errors import (
    CommitOutcomeUnknownError,
    ConcurrentModificationError,
    LanceNamespaceError,
    storage_errors,
)
from lance_catalog.failpoints import hit
from lance_catalog.identifiers import (
    Identifier,
    encode,
    format_text,
    is_internal_key,
    parent_of,
)
from lance_catalog.lifecycle import markers
from lance_catalog.lifecycle.locations import overlapping, v1_name
from lance_catalog.lifecycle.states import Hidden, HiddenState
from lance_catalog.manifest import Change, Snapshot
from lance_catalog.model import Entry, Kind, dump_metadata

__all__ = ["Written", "confirm", "confirm_over", "require_still", "settle"]


@dataclass(frozen=True, slots=True)
class Written:
    """What a creation put on disk: files of its own, and manifests whose names others use too."""

    files: tuple[str, ...]
    manifests: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, made: first_version.FirstVersion) -> Written:
        return cls(made.files, made.manifests)


def settle(ctx: Context, names: Identifier, row: Entry, written: Written) -> None:
    """Commit the row of a new table; a loser removes what it wrote, and only that.

    From then on the log decides what becomes of the table, also while this still runs.
    """

    def plan(view: Snapshot) -> tuple[Change, None]:
        require_namespace(view, parent_of(names))
        existing = view.get(row.object_id)
        if existing is not None:
            if _is_declared_here(ctx, existing, row, written):
                return Change(), None
            raise taken(names)
        others = overlapping(view, row.location or "")
        if others:
            raise ConcurrentModificationError(
                f"'{others[0].object_id}' took the place {row.location} meanwhile; retry"
            )
        return Change(add=(row, *versions.arriving(ctx, view, row))), None

    try:
        ctx.commit(plan)
    except CommitOutcomeUnknownError:
        raise  # It may be registered: what it points at must stay.
    except LanceNamespaceError:
        _withdraw(ctx, row.location or "", written)
        raise
    hit("table.registered")


def _is_declared_here(ctx: Context, existing: Entry, row: Entry, written: Written) -> bool:
    """Whether somebody declared the same table at the same place while we wrote its data.

    The first version is still ours (the gate let nobody else), so declare, then create: both hold.
    """
    if not existing.is_table or existing.location != row.location or not written.manifests:
        return False
    return first_version.still_there(ctx.store, written.manifests)


def _withdraw(ctx: Context, place: str, written: Written) -> None:
    """Remove what a loser wrote; a reservation stays when a live row relies on it."""
    if ctx.mode is not Mode.V1 and not written.manifests:
        rows = ctx.exact().at_location(place)
        if any(not is_internal_key(row.object_id) for row in rows):
            return
    with storage_errors("removing the files of a refused creation"):
        first_version.discard(ctx.store, place, written.files, written.manifests)
        ctx.store.prune(place)


def confirm_over(ctx: Context, found: FoundTable, written: Written, given: dict[str, str]) -> None:
    """Make sure that a declared table is still the one that was filled."""
    if found.entry is not None:
        require_still(ctx, found, written)
    elif ctx.mode is Mode.V1:
        confirm(ctx, found.names, found.location, written)
    else:
        # Creating a root table registers it (C17), also where only a directory told of it.
        row = Entry(encode(found.names), Kind.TABLE.value, found.location, dump_metadata(given))
        settle(ctx, found.names, row, written)
        confirm(ctx, found.names, found.location, written, row)


def require_still(ctx: Context, found: FoundTable, written: Written) -> None:
    """Raise 14, and take back what was written, unless the row still has its name and place.

    A drop changes the row before it touches the data, so a row that is there has its data.
    """
    current = ctx.exact().get(encode(found.names))
    assert found.entry is not None
    if current is not None and current.is_table and current.location == found.entry.location:
        return
    _withdraw(ctx, found.location, written)
    if written.manifests and first_version.still_there(ctx.store, written.manifests):
        # On top of versions that are not ours: what was refused must not come back with them.
        own = {token.replace("-", "") for token in written.manifests.values()}
        undo_versions(ctx.store, found.location, own.__contains__)
    raise ConcurrentModificationError(
        f"table '{format_text(found.names)}' was dropped or renamed while it was written; "
        "look again and retry"
    )


def confirm(
    ctx: Context,
    names: Identifier,
    place: str,
    written: Written,
    row: Entry | None = None,
) -> None:
    """Make sure that a drop by directory did not pass us by, before acknowledging.

    A dropper writes its marker, then looks for rows; we wrote the row, now look for markers. At
    least one sees the other (and the dropper that saw nothing has deleted before unmarking).
    """
    name = v1_name(place)
    if name is None:
        return
    with storage_errors(f"confirming '{format_text(names)}'"):
        body = ctx.store.get(markers.marker_path(name))
        marked = body is not None
        if body is not None and ctx.mode is Mode.V1:
            # Deregistered or dropped as soon as it was there: created, then hidden.
            marked = Hidden.from_body(body, name).state is HiddenState.PURGED
        # Transaction files are Lance's own business: it may keep them inline.
        kept = (path for path in written.files if "/_transactions/" not in path)
        lost = any(ctx.store.head(path) is None for path in kept)
        lost = lost or not first_version.still_there(ctx.store, written.manifests)
        # Whoever is at the same place now, with data of its own, relies on the row.
        taken = lost and first_version.has_versions(ctx.store, place)
    if not marked and not lost:
        return
    if row is not None and not taken:

        def undo(view: Snapshot) -> tuple[Change, bool]:
            mine = [e for e in view.rows_of(row.object_id) if e.location == row.location]
            gone = (*mine, *(versions.leaving(ctx, view, mine[0]) if mine else ()))
            return Change(remove=gone), bool(mine)

        if not ctx.commit(undo):
            return  # Somebody found the row and acted on it: it was created, then that.
    _withdraw(ctx, place, written)
    raise ConcurrentModificationError(
        f"table '{format_text(names)}' was dropped by somebody else while it was created; "
        "nothing is left of it. Retry."
    )
