"""Claims on V1 hidings: ``__claims/<name>/<drop id>/<n>``, each made by put-if-absent.

The highest number counts. Works on every store: no compare-and-swap, no lock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from lance_catalog.errors import ConcurrentModificationError
from lance_catalog.identifiers import CLAIMS
from lance_catalog.lifecycle.claims import LEASE_MS, Claim, Verb, new_claim, obstacle
from lance_catalog.storage.port import Store

__all__ = ["Terms", "clear", "folder", "give_back", "holds", "latest", "renew", "take"]

_TRIES: Final = 16


@dataclass(frozen=True, slots=True)
class Terms:
    """On what terms a claim is taken: the time, the lease, and whether to wait for it."""

    now_ms: int
    lease_ms: int = LEASE_MS
    force: bool = False
    #: Raises when a row of the manifest decides about the place: asked under the claim, and again
    #: when the markers are gone.
    no_row: Callable[[str, Verb], None] = lambda place, verb: None


def folder(name: str, drop_id: str) -> str:
    """Return the folder of the claims on one hiding."""
    return f"{CLAIMS}/{name}/{drop_id}"


def _numbers(store: Store, where: str) -> list[int]:
    names = (info.path.rsplit("/", 1)[-1] for info in store.list_level(where).objects)
    return sorted(int(name) for name in names if name.isdecimal())


def latest(store: Store, name: str, drop_id: str) -> Claim | None:
    """Return the claim that counts."""
    where = folder(name, drop_id)
    for number in reversed(_numbers(store, where)):
        body = store.get(f"{where}/{number}")
        if body is not None:
            # One that nobody can read is nobody's: old enough to be taken over.
            unknown = Claim(Verb.REGISTER, "", 0, number)
            return Claim.parse(body.decode(errors="replace"), number) or unknown
    return None


def take(store: Store, name: str, drop_id: str, verb: Verb, terms: Terms) -> Claim:
    """Win the right to end a hiding; 14 when somebody else has it.

    The caller looks at the hiding again afterwards: it may have ended before.
    """
    where = folder(name, drop_id)
    why: str | None = None
    for _ in range(_TRIES):
        before = latest(store, name, drop_id)
        why = obstacle(before, verb, terms.now_ms, terms.lease_ms, force=terms.force)
        if why is not None:
            break
        claim = new_claim(verb, terms.now_ms, before)
        # The holder is in the bytes, so that a store's own retry is not taken for a rival.
        if store.put_if_absent(f"{where}/{claim.number}", claim.text().encode()):
            return claim
    raise ConcurrentModificationError(
        f"table '{name}': {why or 'others keep claiming it'}; look again and retry. If that "
        "process died, its claim lapses by itself, and `lance-catalog repair` ends it at once."
    )


def holds(store: Store, name: str, drop_id: str, claim: Claim) -> bool:
    """Whether a claim is still the one that counts."""
    now = latest(store, name, drop_id)
    return now is not None and now.holder == claim.holder


def renew(store: Store, name: str, drop_id: str, claim: Claim, now_ms: int) -> Claim:
    """Give a sign of life; only right after a look that it still counts."""
    fresh = claim.renewed(now_ms)
    store.put(f"{folder(name, drop_id)}/{claim.number}", fresh.text().encode())
    return fresh


def give_back(store: Store, name: str, drop_id: str, claim: Claim, *, ended: bool = False) -> None:
    """Give up a claim without having changed anything.

    One that was taken over from somebody stays, as free: whoever had it before must not find that
    it counts again. Unless the hiding itself has ended. A purge that took over from another purge
    has nothing to give back: what that one deleted is gone.
    """
    where = folder(name, drop_id)
    path = f"{where}/{claim.number}"
    mine = Claim.parse((store.get(path) or b"").decode(errors="replace"))
    if mine is None or mine.holder != claim.holder:
        return
    if claim.number and not ended:
        if any(_may_have_deleted(store, f"{where}/{number}") for number in range(claim.number)):
            return
        store.put(path, claim.freed().text().encode())
        return
    store.delete([path])
    store.prune(where)


def _may_have_deleted(store: Store, path: str) -> bool:
    """Whether an earlier claim was to purge, and was not given back; one not to be read may be."""
    body = store.get(path)
    if body is None:
        return False
    claim = Claim.parse(body.decode(errors="replace"))
    return claim is None or claim.verb is Verb.PURGE


def clear(store: Store, name: str, drop_id: str) -> None:
    """Remove the claims on a hiding that has ended, the highest last: until then it counts."""
    where = folder(name, drop_id)
    for number in _numbers(store, where):
        store.delete([f"{where}/{number}"])
    store.prune(where)
