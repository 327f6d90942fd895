"""Hidden tables in V1: ``<root>/<name>.deleted`` exists ⇔ the directory ``<name>.lance`` is hidden.

The root-level marker is the commit point; the nested ``.lance-deregistered`` follows, so that
other implementations hide the table too. Bringing back removes the nested one first and the
root-level one last (R7). What ends a marker (register or purge) first wins a claim: an object
created by put-if-absent and named after the drop id, so exactly one of them goes on.
"""

from __future__ import annotations

import uuid
from typing import Final

from lance_catalog.errors import ConcurrentModificationError
from lance_catalog.failpoints import hit
from lance_catalog.identifiers import CLAIMS
from lance_catalog.lifecycle.states import Hidden
from lance_catalog.storage.port import Store

__all__ = [
    "NESTED",
    "SUFFIX",
    "claim",
    "claim_path",
    "hide",
    "is_hidden",
    "lift",
    "mark",
    "marker_path",
    "read",
    "remove_own",
    "reveal",
    "unhide",
]

SUFFIX: Final = ".deleted"
NESTED: Final = ".lance-deregistered"
#: What native writes into its marker.
NESTED_BODY: Final = b"reserved"


def marker_path(name: str) -> str:
    """Return the path of the root-level marker."""
    return name + SUFFIX


def claim_path(name: str, drop_id: str) -> str:
    """Return the path of the claim on one hiding."""
    return f"{CLAIMS}/{name}/{drop_id}"


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
    body = store.get(marker_path(name))
    if body is None or Hidden.from_body(body, name).drop_id != hidden.drop_id:
        return False
    store.delete([marker_path(name)])
    return True


def unhide(store: Store, name: str, directory: str, hidden: Hidden) -> None:
    """Take back one's own hiding, if it still is."""
    body = store.get(marker_path(name))
    if body is not None and Hidden.from_body(body, name).drop_id == hidden.drop_id:
        store.delete([f"{directory}/{NESTED}"])
        store.delete([marker_path(name)])


def claim(store: Store, name: str, hidden: Hidden, verb: str, *, resume: bool = False) -> None:
    """Win the right to end a hiding by ``verb``; 14 when somebody else has it.

    ``resume`` takes over a claim of the same verb that a crash left: for repair only.
    """
    path = claim_path(name, hidden.drop_id)
    # The claimant is in the bytes, so that a store's own retry is not taken for a rival.
    body = f"{verb} {uuid.uuid4().hex}".encode()
    if not store.put_if_absent(path, body) and not (
        resume and (store.get(path) or b"").split(b" ")[0] == verb.encode()
    ):
        raise ConcurrentModificationError(
            f"table '{name}' is being changed by another process; look again and retry. "
            "If that process died, `lance-catalog repair` finishes its work."
        )
    now = store.get(marker_path(name))
    if now is not None and Hidden.from_body(now, name).drop_id != hidden.drop_id:
        store.delete([path])
        raise ConcurrentModificationError(f"table '{name}' was changed meanwhile; look again")


def release(store: Store, name: str, hidden: Hidden) -> None:
    """Remove a claim whose work is done."""
    path = claim_path(name, hidden.drop_id)
    store.delete([path])
    store.prune(path.rsplit("/", 1)[0])


def reveal(
    store: Store, name: str, directory: str, hidden: Hidden, *, resume: bool = False
) -> None:
    """Bring a hidden table back."""
    claim(store, name, hidden, "register", resume=resume)
    with store.exclusive():
        # A marker of another hiding is not ours to remove: the table was hidden again meanwhile.
        body = store.get(marker_path(name))
        if body is None or Hidden.from_body(body, name).drop_id == hidden.drop_id:
            store.delete([f"{directory}/{NESTED}"])
            hit("marker.nested_removed")
            store.delete([marker_path(name)])
            hit("marker.root_removed")
    release(store, name, hidden)
