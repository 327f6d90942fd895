"""Guards of managed commits that a test switches off, to see that it would notice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from lance_catalog.directory.managed import commit
from lance_catalog.directory.managed.target import Target
from lance_catalog.manifest.heads import Heads
from lance_catalog.storage.local import LocalStore

BUGS = ("overwriting", "any number", "heads asleep", "never in place")


@contextmanager
def planted(bug: str | None) -> Iterator[None]:
    """Switch one guard off in this process."""
    with ExitStack() as undo:

        def switch(owner: Any, name: str, value: Any) -> None:
            undo.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, value)

        def copy(self: LocalStore, source: str, target: str) -> bool:
            self.copy(source, target)
            return True

        if bug == "overwriting":
            # The final name is written over, whoever has it; nobody looks whether it is free.
            switch(LocalStore, "copy_if_absent", copy)
            switch(commit, "_require_next", lambda table, version, head: None)
            switch(Target, "file", lambda self, version: None)
        elif bug == "foreign overwritten":
            # The same, but for those who ask the catalog.
            switch(LocalStore, "copy_if_absent", copy)
            switch(Target, "file", lambda self, version: None)
        elif bug == "any number":
            switch(commit, "_require_next", lambda table, version, head: None)
        elif bug == "heads asleep":
            # What others registered meanwhile is not followed.
            switch(Heads, "step", lambda self, delta: None)
            switch(Target, "file", lambda self, version: None)
        elif bug == "never in place":
            switch(commit, "publish", lambda prepared, **how: [None] * len(prepared))
            switch(Target, "put_in_place", lambda self, version: None)
        else:
            assert bug is None
        yield
