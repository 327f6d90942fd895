"""The steps of a repair. Each looks again before it acts: time has passed since the check."""

from __future__ import annotations

import re
from typing import Final

from lance_catalog.directory.context import Context
from lance_catalog.directory.layout import RESERVED, RESERVED_BODY
from lance_catalog.identifiers import DELIMITER, TRASH, Identifier, decode, encode
from lance_catalog.lifecycle import markers, purge, trash
from lance_catalog.lifecycle.locations import overlapping, v1_name
from lance_catalog.lifecycle.states import Hidden, HiddenState, new_drop_id
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
    hidden = Hidden(new_drop_id(), HiddenState.DEREGISTERED, ctx.clock())
    row = trash.hide(Entry(_former_id(place), Kind.TABLE.value, place), hidden)

    def plan(view: Snapshot) -> tuple[Change, None]:
        return Change(add=() if overlapping(view, place) else (row,)), None

    ctx.commit(plan)


def delete_files(ctx: Context, problem: Problem) -> None:
    """Delete the files a check named, and the folders that are empty then."""
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
        for row in trash.rows(ctx.view()):
            if row.entry.object_id == subject and ctx.log is not None:
                purge.purge_row(ctx.log, row)
    else:
        name = v1_name(subject)
        hidden = None if name is None else markers.read(ctx.store, name, subject)
        if name is not None and hidden is not None and purge.is_purging(hidden):
            purge.purge_directory(ctx.store, name, subject, hidden, resume=True)


def remove_markers(ctx: Context, problem: Problem) -> None:
    """Show a registered table to readers of directories again."""
    place = problem.subject
    name = v1_name(place)
    hidden = None if name is None else markers.read(ctx.store, name, place)
    if name is not None and hidden is not None and ctx.view().at_location(place):
        markers.reveal(ctx.store, name, place, hidden, resume=True)


def write_markers(ctx: Context, problem: Problem) -> None:
    """Hide a deregistered table from readers of directories."""
    place = problem.subject
    name = v1_name(place)
    if name is None:
        return
    former = trash.owner_of(ctx.view(), place)
    hidden = former[0].hidden if former else markers.read(ctx.store, name, place)
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
    """Remove the marker of a directory that is gone."""
    name = problem.subject.removesuffix(markers.SUFFIX)
    with ctx.store.exclusive():
        if not ctx.store.any_object(name + ".lance"):
            ctx.store.delete([problem.subject])
            ctx.store.prune_tree(name + ".lance")


def finish_claim(ctx: Context, problem: Problem) -> None:
    """Finish what a claim began; a claim without its marker is only in the way."""
    path = problem.subject
    folder, _, drop_id = path.rpartition("/")
    name = folder.rpartition("/")[2]
    place = name + ".lance"
    verb = (ctx.store.get(path) or b"").split(b" ")[0]
    hidden = markers.read(ctx.store, name, place)
    if hidden is not None and hidden.drop_id == drop_id:
        if verb == b"purge":
            purge.purge_directory(ctx.store, name, place, hidden, resume=True)
        else:
            markers.reveal(ctx.store, name, place, hidden, resume=True)
        return
    if verb == b"purge":
        ctx.store.delete_tree(f"{TRASH}/{drop_id}")
        ctx.store.prune(TRASH)
    ctx.store.delete([path])
    ctx.store.prune(folder)
