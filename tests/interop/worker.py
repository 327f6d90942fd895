"""One process of a mixed crowd: does random operations, prints what was acknowledged.

``python -m tests.interop.worker '{"kind": ..., "root": ..., ...}'``; waits for the file ``go``.
Names: its own (nobody else touches them) and shared ones (everybody wants them).
"""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path
from typing import Any

import lance_namespace as ln

from tests.interop.peers import COMPAT, Peer

#: Answers that say "refused, nothing happened", by the kind of operation.
REFUSALS = (
    ln.NamespaceAlreadyExistsError,
    ln.NamespaceNotFoundError,
    ln.NamespaceNotEmptyError,
    ln.TableAlreadyExistsError,
    ln.TableNotFoundError,
)
SHARED = 6
ATTEMPTS = 50


class Worker:
    """Chooses operations and keeps the log of their outcomes."""

    def __init__(self, kind: str, root: str, mode: str, number: int, seed: int) -> None:
        self.peer = Peer(kind, Path(root), mode)
        self.number = number
        self.random = random.Random(seed * 100 + number)
        self.own_namespaces: list[str] = []
        self.own_tables: list[tuple[str, ...]] = []
        self.log: list[dict[str, Any]] = []
        self.retries = 0

    def run(self, count: int) -> None:
        for step in range(count):
            self._step(step)

    def _step(self, step: int) -> None:
        dice = self.random.random()
        mine = f"w{self.number}_{step}"
        if dice < 0.30:
            shared = ("shared", f"s{self.random.randrange(SHARED)}")
            verb = self.random.choice(("create_namespace", "drop_namespace"))
            self._do(verb, shared)
        elif dice < 0.45:
            shared = ("shared", f"t{self.random.randrange(SHARED)}")
            self._do(self.random.choice(("declare", "drop")), shared)
        elif dice < 0.60:
            if self._do("create_namespace", ("own", mine)):
                self.own_namespaces.append(mine)
        elif dice < 0.70 and self.own_namespaces:
            self._do("drop_namespace", ("own", self.own_namespaces.pop()))
        elif dice < 0.80 and self.own_tables:
            self._do(self.random.choice(("drop", "deregister")), self.own_tables.pop())
        elif dice < 0.85 and self.own_tables and self.peer.kind == "ours":
            old = self.own_tables.pop()
            new = ("own", f"{mine}_renamed")
            if self._do("rename", old, to=new):
                self.own_tables.append(new)
        else:
            at_root = self.peer.mode == COMPAT and self.random.random() < 0.3
            names = (f"{mine}_root",) if at_root else ("own", f"{mine}_table")
            if self._do("create", names, rows=(self.number, step)) and not at_root:
                # Limit: in compatibility mode native's deregister hides no root table.
                self.own_tables.append(names)

    def _do(self, verb: str, names: tuple[str, ...], **more: Any) -> bool:
        outcome, detail = "unacknowledged", ""
        began = time.monotonic_ns()  # One clock for all processes of a machine.
        for _ in range(ATTEMPTS):
            try:
                getattr(self.peer, verb)(*names, **more)
                outcome = "ok"
            except REFUSALS as error:
                outcome, detail = "refused", type(error).__name__
            except ln.InternalError as error:
                # Native lost the directory of its drop to another drop, after taking out the row
                # (or after another did): it may have happened.
                if self.peer.kind != "native" or "delete table directory" not in str(error):
                    raise
                outcome, detail = "maybe", "directory gone"
            except ln.ConcurrentModificationError as error:
                # Native: "still conflicting after 20 retries", or lost to another creator.
                if "concurrently" in str(error):
                    outcome, detail = "refused", "concurrently created"
                else:
                    self.retries += 1
                    continue
            break
        entry = {"verb": verb, "names": names, "outcome": outcome, "detail": detail, **more}
        entry |= {"began": began, "ended": time.monotonic_ns()}
        self.log.append(entry)
        return outcome == "ok"


def main() -> None:
    """Do what the argument says and print the log as one line of JSON."""
    told = json.loads(sys.argv[1])
    count, go = told.pop("count"), Path(told.pop("go"))
    worker = Worker(**told)
    worker.peer.namespaces()  # Everything is imported and open before the race begins.
    go.with_name(f"ready{told['number']}").touch()
    deadline = time.monotonic() + 60
    while not go.exists():
        if time.monotonic() > deadline:
            sys.exit("nobody said go")
        time.sleep(0.001)
    began = time.monotonic()
    worker.run(count)
    log = getattr(worker.peer.api, "context", None)
    answer = {
        "kind": told["kind"],
        "log": worker.log,
        "retries": worker.retries,
        "conflicts": log.log.conflicts if log is not None else 0,
        "seconds": time.monotonic() - began,
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
