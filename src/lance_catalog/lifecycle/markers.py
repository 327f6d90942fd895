"""Hidden tables in V1: ``<root>/<name>.deleted`` exists ⇔ the directory ``<name>.lance`` is hidden.

The root-level marker is the commit point; the nested ``.lance-deregistered`` follows, so that
other implementations hide the table too. Bringing back removes the nested one first and the
root-level one last (R7). Whoever ends a hiding holds a claim on it: exactly one does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lance_catalog.errors import (
    CommitOutcomeUnknownError,
    ConcurrentModificationError,
    LanceNamespaceError,
)
from lance_catalog.failpoints import hit
from lance_catalog.lifecycle import claim_files
from lance_catalog.lifecycle.claim_files import Terms
from lance_catalog.lifecycle.claims import Claim, Verb
from lance_catalog.lifecycle.states import Hidden, HiddenState
from lance_catalog.storage.port import Store

__all__ = [
    "NESTED",
    "SUFFIX",
    "claim",
    "hide",
    "is_hidden",
    "lift",
    "mark",
    "marker_path",
    "read",
    "read_with_claim",
    "remove_own",
    "require_back",
    "reveal",
    "show",
    "turn_into_drop",
    "unhide",
]

SUFFIX: Final = ".deleted"
NESTED: Final = ".lance-deregistered"
#: What native writes into its marker.
NESTED_BODY: Final = b"reserved"


def marker_path(name: str) -> str:
    """Return the path of the root-level marker."""
    return name + SUFFIX


def is_hidden(store: Store, name: str, directory: str) -> bool:
    """Whether a V1 table is hidden, by either marker."""
    if store.head(marker_path(name)) is not None:
        return True
    return store.head(f"{directory}/{NESTED}") is not None


def read(store: Store, name: str, directory: str) -> Hidden | None:
    """Return how a V1 table is hidden, or None; a nested marker alone is another writer's."""
    body = store.get(marker_path(name))
    if body is not None:
        return Hidden.from_body(body, name)
    nested = store.head(f"{directory}/{NESTED}")
    return None if nested is None else Hidden.by_nested(name, nested.modified_ms)


def read_with_claim(store: Store, name: str, directory: str) -> Hidden | None:
    """As :func:`read`, with the claim that counts: what decides who may end the hiding."""
    hidden = read(store, name, directory)
    if hidden is None or hidden.state is HiddenState.CREATING:
        return hidden
    return hidden.claimed(claim_files.latest(store, name, hidden.drop_id))


def hide(store: Store, name: str, directory: str, hidden: Hidden) -> bool:
    """Hide a table; False when another hiding was first, or has ended with its deletion."""
    if not store.put_if_absent(marker_path(name), hidden.body()):
        return False
    hit("marker.root_written")
    if not store.any_object(directory):
        # Between our look and our marker somebody dropped it, all the way.
        remove_own(store, name, hidden)
        return False
    store.put(f"{directory}/{NESTED}", NESTED_BODY)
    hit("marker.nested_written")
    return True


def mark(store: Store, name: str, directory: str, hidden: Hidden) -> None:
    """Write both markers of a hiding that the log has decided, over whatever is there."""
    store.put(marker_path(name), hidden.body())
    hit("marker.root_written")
    store.put(f"{directory}/{NESTED}", NESTED_BODY)
    hit("marker.nested_written")


def lift(store: Store, name: str, directory: str, hidden: Hidden | None = None) -> bool:
    """Give a table that only its nested marker hides the root-level one; whether it has it now.

    False when there is nothing to do any more, or when somebody else has the root-level marker.
    ``hidden`` is the hiding, where a row tells of it.
    """
    nested = store.head(f"{directory}/{NESTED}")
    if nested is None:
        return False
    # The same hiding goes on, under the id by which a register on its way knows it.
    own = hidden or Hidden.by_nested(name, nested.modified_ms)
    if not store.put_if_absent(marker_path(name), own.body()):
        return False
    hit("marker.lifted")
    if store.head(f"{directory}/{NESTED}") is None:
        # Registered, or dropped all the way, since we looked: then it is not hidden.
        with store.exclusive():
            remove_own(store, name, own)
        return False
    return True


def remove_own(store: Store, name: str, hidden: Hidden) -> bool:
    """Remove the root-level marker, if it still is this hiding's; whether it was."""
    if not _is_still(store, name, hidden):
        return False
    store.delete([marker_path(name)])
    return True


def unhide(store: Store, name: str, directory: str, hidden: Hidden) -> None:
    """Take back one's own hiding, if it still is."""
    if _is_still(store, name, hidden):
        store.delete([f"{directory}/{NESTED}"])
        store.delete([marker_path(name)])


def _is_still(store: Store, name: str, hidden: Hidden) -> bool:
    body = store.get(marker_path(name))
    return body is not None and Hidden.from_body(body, name).drop_id == hidden.drop_id


def claim(
    store: Store, name: str, directory: str, hidden: Hidden, verb: Verb, terms: Terms
) -> Claim:
    """Win the right to end a hiding that is still the one that was looked at; 14 otherwise."""
    # Asked again under the claim; but whoever is refused anyway should stand in nobody's way.
    terms.no_row(directory, verb)
    won = claim_files.take(store, name, hidden.drop_id, verb, terms)
    # Whoever ended it before us removed the marker, then looked for our claim (see `show`).
    now = read(store, name, directory)
    if now is None or (now.drop_id, now.state) != (hidden.drop_id, hidden.state):
        claim_files.give_back(store, name, hidden.drop_id, won, ended=True)
        raise ConcurrentModificationError(f"table '{name}' was changed meanwhile; look again")
    try:
        terms.no_row(directory, verb)
    except LanceNamespaceError:
        claim_files.give_back(store, name, hidden.drop_id, won)
        raise
    return won


def show(
    store: Store, name: str, directory: str, hidden: Hidden, held: Claim, terms: Terms
) -> None:
    """Remove the markers under a claim; unknown (14) when somebody took it over meanwhile."""
    with store.exclusive():
        # A marker of another hiding is not ours to remove: the table was hidden again meanwhile.
        body = store.get(marker_path(name))
        mine = body is None or Hidden.from_body(body, name).drop_id == hidden.drop_id
        if not mine or not claim_files.holds(store, name, hidden.drop_id, held):
            raise ConcurrentModificationError(
                f"table '{name}' was taken over by another process meanwhile, and is not brought "
                "back by this call; look again"
            )
        store.delete([f"{directory}/{NESTED}"])
        hit("marker.nested_removed")
        store.delete([marker_path(name)])
        hit("marker.root_removed")
    # A purge claims, then looks for the marker; we removed the marker, now look for its claim.
    # At least one sees the other, so nothing acknowledged is ever deleted.
    if not claim_files.holds(store, name, hidden.drop_id, held):
        raise CommitOutcomeUnknownError(
            f"bringing back '{name}' took longer than its claim lasts, and another process took "
            "over. Whether it came back is not known: look (`lance-catalog trash status`)."
        )
    try:
        require_back(store, name, directory, held, terms)
    finally:
        # Its markers are gone, and this hiding with them.
        claim_files.clear(store, name, hidden.drop_id)


def require_back(store: Store, name: str, directory: str, held: Claim, terms: Terms) -> None:
    """Raise 14 when a drop by the manifest passed us by: it writes its row, then its marker.

    Had we removed that marker, the row tells; or, when it was purged since, the empty place.
    """
    unknown = f"'{name}' was dropped by another process while it was brought back; look again"
    try:
        terms.no_row(directory, held.verb)
    except LanceNamespaceError as error:
        raise CommitOutcomeUnknownError(unknown) from error
    if not store.any_object(directory):
        raise CommitOutcomeUnknownError(unknown)


def reveal(
    store: Store,
    name: str,
    directory: str,
    hidden: Hidden,
    terms: Terms,
    verb: Verb = Verb.REGISTER,
) -> None:
    """Bring a hidden table back, data as it is."""
    held = claim(store, name, directory, hidden, verb, terms)
    hit("undrop.claimed")
    show(store, name, directory, hidden, held, terms)


def turn_into_drop(
    store: Store, name: str, directory: str, hidden: Hidden, drop: Hidden, terms: Terms
) -> Hidden:
    """Make a deregistered table a dropped one: the same hiding goes on, only its end changes."""
    held = claim(store, name, directory, hidden, Verb.DROP, terms)
    own = replace(drop, drop_id=hidden.drop_id)
    # Over a root-level marker, or beside a nested one that another implementation left alone.
    store.put(marker_path(name), own.body())
    hit("marker.root_written")
    claim_files.give_back(store, name, hidden.drop_id, held)
    return own
