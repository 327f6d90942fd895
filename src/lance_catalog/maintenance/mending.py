"""The steps of a repair. Each looks again before it acts: time has passed since the check."""

from __future__ import annotations

import re
from typing import Final

from lance_catalog.directory import claiming, job_records, reviving, trashing
from lance_catalog.directory.context import Context
from lance_catalog.directory.dropped import Found
from lance_catalog.directory.job_ids import FOLDER
from lance_catalog.directory.layout import RESERVED, RESERVED_BODY
from lance_catalog.directory.marking import mark_v1, require_unregistered
from lance_catalog.identifiers import DELIMITER, TRASH, Identifier, decode, encode
from lance_catalog.lifecycle import claim_files, markers, purge, trash
from lance_catalog.lifecycle.claims import Verb
from lance_catalog.lifecycle.locations import overlapping, v1_name
from lance_catalog.lifecycle.states import Hidden, HiddenState, new_drop_id
from lance_catalog.maintenance import check_versions
from lance_catalog.maintenance.findings import Problem
from lance_catalog.manifest import Change, Snapshot
from lance_catalog.model import Entry, Kind

__all__ = [
    "adopt",
    "create_parents",
    "delete_files",
    "finish_claim",
    "finish_purge",
    "former_names",
    "lift_marker",
    "remove_markers",
    "remove_stale_marker",
    "reserve",
    "write_markers",
]

#: ``<hash>_<object_id>``: sixteen digits of ours, eight of native's.
_HASHED: Final = re.compile(r"(?:[0-9a-f]{16}|[0-9a-f]{8})_(.+)", re.DOTALL)


def create_parents(ctx: Context, problem: Problem) -> None:
    """Create the namespaces an orphan lacks."""

    def plan(view: Snapshot) -> tuple[Change, None]:
        names = decode(problem.subject)
        missing = [
            encode(names[:depth])
            for depth in range(1, len(names))
            if view.get(encode(names[:depth])) is None
        ]
        return Change(add=tuple(Entry(key, Kind.NAMESPACE.value) for key in missing)), None

    ctx.commit(plan)


def reserve(ctx: Context, problem: Problem) -> None:
    """Make a row without data a declared table."""
    place = problem.paths[0]
    if ctx.view().at_location(place) and not ctx.store.any_object(place):
        ctx.store.put_if_absent(f"{place}/{RESERVED}", RESERVED_BODY)


def _former_id(place: str) -> str:
    # Hashed directories carry the id of their table; others have their own name and no other.
    hashed = _HASHED.fullmatch(place)
    return hashed[1] if hashed else place


def former_names(place: str) -> Identifier:
    """Return the id under which :func:`adopt` lists a directory."""
    return decode(_former_id(place))


def adopt(ctx: Context, problem: Problem) -> None:
    """List a table nobody names as deregistered, so that people can decide."""
    place = problem.subject
    former = _former_id(place)
    hidden = Hidden(new_drop_id(former), HiddenState.DEREGISTERED, ctx.clock())
    row = trash.hide(Entry(former, Kind.TABLE.value, place), hidden)

    def plan(view: Snapshot) -> tuple[Change, None]:
        return Change(add=() if overlapping(view, place) else (row,)), None

    ctx.commit(plan)


def delete_files(ctx: Context, problem: Problem) -> None:
    """Delete the files a check named, and the folders that are empty then."""
    if any(f"/{FOLDER}/" in path for path in problem.paths):
        needed = check_versions.pending(ctx, ctx.exact()) if ctx.log is not None else set()
        job_records.remove(ctx.store, problem.paths, problem.subject, needed)
    else:
        ctx.store.delete(problem.paths)
    for folder in {path.rpartition("/")[0] for path in problem.paths} - {""}:
        ctx.store.prune(folder)
    if problem.subject != ".":
        ctx.store.prune_tree(problem.subject)


def finish_purge(ctx: Context, problem: Problem) -> None:
    """Finish a deletion that a crash interrupted."""
    subject = problem.subject
    if subject.startswith(TRASH + "/"):
        ctx.store.delete_tree(subject)
        ctx.store.prune(TRASH)
    elif subject.startswith(TRASH + DELIMITER):
        row = trash.get(ctx.exact(), subject)
        if row is not None and row.hidden.is_purging and ctx.log is not None:
            terms = ctx.terms(force=True)
            claimed = ctx.commit(lambda view: purge.claim_row(view, row, terms))
            purge.purge_row(ctx.log, claimed, ctx.clock, lease_ms=ctx.lease_ms)
    else:
        name = v1_name(subject)
        hidden = None if name is None else markers.read_with_claim(ctx.store, name, subject)
        if name is not None and hidden is not None and hidden.is_purging:
            _purge_directory(ctx, name, subject, hidden)


def _purge_directory(ctx: Context, name: str, place: str, hidden: Hidden) -> None:
    terms = ctx.terms(force=True)
    purge.purge_directory(
        ctx.store,
        name,
        place,
        hidden,
        ctx.clock,
        terms=terms,
        guard=lambda: require_unregistered(ctx, place),
    )


def remove_markers(ctx: Context, problem: Problem) -> None:
    """Show a registered table to readers of directories again."""
    place = problem.subject
    name = v1_name(place)
    hidden = None if name is None else markers.read_with_claim(ctx.store, name, place)
    if name is not None and hidden is not None and ctx.exact().at_location(place):
        if hidden.is_purging:
            # Of a V1 client that died before it saw the row, and so deleted nothing.
            claim_files.clear(ctx.store, name, hidden.drop_id)
        markers.reveal(ctx.store, name, place, hidden, ctx.terms(force=True))


def write_markers(ctx: Context, problem: Problem) -> None:
    """Hide a deregistered table from readers of directories."""
    place = problem.subject
    name = v1_name(place)
    if name is None:
        return
    former = trash.owner_of(ctx.exact(), place)
    if former:
        mark_v1(ctx, former[0])
        return
    hidden = markers.read(ctx.store, name, place)
    if hidden is not None and not markers.hide(ctx.store, name, place, hidden):
        ctx.store.put(f"{place}/{markers.NESTED}", markers.NESTED_BODY)


def lift_marker(ctx: Context, problem: Problem) -> None:
    """Hide a table that another implementation deregistered from listings by name too."""
    place = problem.subject
    name = v1_name(place)
    # A row that came since is the truth: then nothing is hidden.
    if name is not None and not ctx.view().at_location(place):
        markers.lift(ctx.store, name, place)


def remove_stale_marker(ctx: Context, problem: Problem) -> None:
    """Remove the marker of a directory that is gone, or of a purge long past."""
    name = problem.subject.removesuffix(markers.SUFFIX)
    with ctx.store.exclusive():
        if not ctx.store.any_object(name + ".lance"):
            ctx.store.delete([problem.subject])
            ctx.store.prune_tree(name + ".lance")


def finish_claim(ctx: Context, problem: Problem) -> None:
    """Finish what a claim began; a claim without its marker is only in the way."""
    subject = problem.subject
    if subject.startswith(TRASH + DELIMITER):
        _undo_revival(ctx, subject)
        return
    parts = subject.split("/")
    if len(parts) != 3:
        ctx.store.delete([subject])
        ctx.store.prune(subject.rpartition("/")[0])
        return
    _, name, drop_id = parts
    place = name + ".lance"
    if _has_trash_row(ctx, place):
        # A V1 client died between its claim and its look for a row, which it would have obeyed.
        claim_files.clear(ctx.store, name, drop_id)
        return
    hidden = markers.read_with_claim(ctx.store, name, place)
    if hidden is not None and hidden.drop_id == drop_id and hidden.claim is not None:
        if hidden.is_purging:
            _purge_directory(ctx, name, place, hidden)
            return
        begun = ctx.store.head(f"{place}/{markers.NESTED}") is None or ctx.exact().at_location(
            place
        )
        if hidden.claim.verb in (Verb.REGISTER, Verb.UNDROP) and begun:
            markers.reveal(ctx.store, name, place, hidden, ctx.terms(force=True))
            return
        if hidden.state is HiddenState.DROPPED:
            # Under a claim of its own: a creation that only slept must not end meanwhile.
            found = Found((name,), place, hidden)
            held = claiming.claim(ctx, found, Verb.UNDROP, force=True)
            if held is not None:
                reviving.undo_others(held)
    elif drop_id in ctx.store.list_level(TRASH).folders:
        ctx.store.delete_tree(f"{TRASH}/{drop_id}")
        ctx.store.prune(TRASH)
    claim_files.clear(ctx.store, name, drop_id)


def _has_trash_row(ctx: Context, place: str) -> bool:
    """Whether a row decides about a hiding; one that a migration left is settled first."""
    for row in trash.owner_of(ctx.exact(), place):
        trashing.settle_first(ctx, row)
    return bool(trash.owner_of(ctx.exact(), place))


def _undo_revival(ctx: Context, trash_id: str) -> None:
    """Take back a creation over a dropped table that died: the table stays in the trash."""
    row = trash.get(ctx.exact(), trash_id)
    if row is None or row.hidden.claim is None or row.hidden.is_purging:
        return
    if trashing.settle_first(ctx, row):
        return
    found = Found(decode(row.object_id), row.entry.location or "", row.hidden, row)
    held = claiming.claim(ctx, found, Verb.UNDROP, force=True)
    if held is None:
        return
    reviving.undo_others(held)

    def plan(view: Snapshot) -> tuple[Change, None]:
        current = trash.get(view, trash_id)
        if current is None or not held.counts(current.hidden.claim):
            return Change(), None
        freed = trash.reclaimed(current, None)
        return Change(view.rows_of(trash_id), (freed.entry,), {trash_id: current.entry}), None

    ctx.commit(plan)
