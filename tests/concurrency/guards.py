"""Where racers for a dropped table are made to meet, and the guards that a test switches off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from lance_catalog.directory import claiming, undropping
from lance_catalog.directory.context import Context
from lance_catalog.lifecycle import claim_files, markers, purge
from tests.concurrency.racing import PATIENCE


@contextmanager
def meeting(barrier: Any) -> Iterator[Callable[[], AbstractContextManager[None]]]:
    """Let the racers meet right before they claim: each once, who never claims at its end."""
    take, commit = claim_files.take, Context.commit
    waiting = [False]

    def arrive() -> None:
        if waiting[0]:
            waiting[0] = False
            barrier.wait(PATIENCE)

    def late_take(*args: Any) -> Any:
        arrive()
        return take(*args)

    def late_commit(self: Context, run: Any) -> Any:
        arrive()
        return commit(self, run)

    @contextmanager
    def meet() -> Iterator[None]:
        waiting[0] = True
        try:
            yield
        finally:
            arrive()

    patched: Any = Context
    claim_files.take, patched.commit = late_take, late_commit  # type: ignore[assignment]
    try:
        yield meet
    finally:
        claim_files.take, patched.commit = take, commit


@contextmanager
def planted(bug: str | None) -> Iterator[None]:
    """Switch one guard off in this process."""
    delete, real_claim = purge.delete_data, markers.claim

    def unfenced(store: Any, place: Any, fence: Any, *rest: Any) -> Any:
        return delete(store, replace(place, begin=lambda: None), lambda: None, *rest)

    def blind(store: Any, name: str, directory: str, hidden: Any, verb: Any, terms: Any) -> Any:
        return claim_files.take(store, name, hidden.drop_id, verb, terms)

    with ExitStack() as undo:

        def switch(owner: Any, name: str, value: Any) -> None:
            undo.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, value)

        if bug == "claim ignored":
            for owner in (claim_files, claiming, purge, undropping):
                switch(owner, "obstacle", lambda *args, **more: None)
            switch(markers, "require_back", lambda *args: None)
        elif bug == "fence off":
            switch(purge, "delete_data", unfenced)
        elif bug == "marker unchecked":
            switch(markers, "claim", blind)
            switch(markers, "require_back", lambda *args: None)
        elif bug == "manifest unread":
            switch(Context, "_require_no_row", lambda *args: None)
            switch(purge, "require_own_marker", lambda *args: None)
            switch(markers, "require_back", lambda *args: None)
        else:
            assert bug is None
        yield
    assert (purge.delete_data, markers.claim) == (delete, real_claim)
