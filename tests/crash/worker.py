"""A process that works on a catalog until it is killed, and says what it does in a log on disk.

One line before each operation (the intent), one after (the acknowledgement), each forced to disk
before going on. ``python -m tests.crash.worker <root> <mode> <seed> <prefix> <log>``.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import sys
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from lance_catalog import DirectoryNamespace
from lance_catalog.config import Mode
from tests.concurrency.racing import ipc, open_catalog

Names = tuple[str, ...]


@dataclass
class State:
    """What a worker's part of the catalog holds: rows by id (None: declared), and what is hidden.

    ``hidden`` are the deregistered tables, ``trash`` the drops of an id, the latest last.
    """

    mode: Mode
    tables: dict[Names, list[int] | None] = field(default_factory=dict)
    hidden: dict[Names, tuple[list[int] | None, str]] = field(default_factory=dict)
    namespaces: set[Names] = field(default_factory=set)
    trash: dict[Names, list[list[int] | None]] = field(default_factory=dict)

    def copy(self) -> State:
        return deepcopy(self)

    def apply(self, intent: dict[str, Any], answer: dict[str, Any] | None) -> None:
        """Change the state as an operation does."""
        verb, names = intent["verb"], tuple(intent["id"])
        if verb == "create":
            drops = self.trash.get(names, [])
            # Over the latest drop, which is then the older version; without data it makes way.
            if names not in self.tables and drops and (drops[-1] or self.mode is Mode.V1):
                drops.pop()
            self.tables[names] = intent["rows"]
        elif verb == "overwrite":
            self.tables[names] = intent["rows"]
        elif verb == "declare":
            self.tables[names] = None
        elif verb == "insert":
            rows = self.tables[names]
            assert rows is not None
            self.tables[names] = rows + intent["rows"]
        elif verb == "rename":
            self.tables[tuple(intent["to"])] = self.tables.pop(names)
        elif verb == "deregister":
            place = "" if answer is None else answer["location"]
            self.hidden[names] = (self.tables.pop(names), place)
        elif verb == "register":
            self.tables[names] = self.hidden.pop(names)[0]
        elif verb in ("drop", "drop and purge"):
            live = names in self.tables
            rows = self.tables.pop(names) if live else self.hidden.pop(names)[0]
            if verb == "drop":
                self.trash.setdefault(names, []).append(rows)
        elif verb == "undrop":
            self.tables[names] = self.trash[names].pop()
        elif verb == "purge":
            self.trash[names].pop()
        elif verb == "create_namespace":
            self.namespaces.add(names)
        else:
            assert verb == "drop_namespace"
            self.namespaces.discard(names)
            for key in [key for key in self.tables if key[:-1] == names]:
                self.trash.setdefault(key, []).append(self.tables.pop(key))


def universe(mode: Mode, prefix: str) -> list[Names]:
    """The table ids that a worker uses: its own alone."""
    ids: list[Names] = [(f"{prefix}t{i}",) for i in range(4)]
    if mode is not Mode.V1:
        ids += [(f"{prefix}n", f"t{i}") for i in range(2)]
    return ids


def choices(state: State, mode: Mode, prefix: str) -> Iterator[dict[str, Any]]:
    """Every operation that should succeed now."""
    space = (f"{prefix}n",)
    for names in universe(mode, prefix):
        if len(names) > 1 and space not in state.namespaces:
            continue
        if state.trash.get(names):
            yield {"verb": "purge", "id": names}
        if names in state.tables:
            yield {"verb": "drop", "id": names}
            yield {"verb": "drop and purge", "id": names}
            yield {"verb": "deregister", "id": names}
            if state.tables[names] is None:
                yield {"verb": "create", "id": names}
            else:
                yield {"verb": "insert", "id": names}
                yield {"verb": "overwrite", "id": names}
            if mode is not Mode.V1:
                for to in universe(mode, prefix):
                    known = to in state.tables or to in state.hidden
                    if not known and (len(to) == 1 or space in state.namespaces):
                        yield {"verb": "rename", "id": names, "to": to}
        elif names in state.hidden:
            yield {"verb": "register", "id": names}
            yield {"verb": "drop", "id": names}
        else:
            yield {"verb": "create", "id": names}
            dropped = bool(state.trash.get(names))
            if dropped:
                yield {"verb": "create", "id": names}
                yield {"verb": "undrop", "id": names}
            if not dropped or mode is not Mode.V1:
                yield {"verb": "declare", "id": names}
    if mode is not Mode.V1:
        hidden = any(key[:-1] == space for key in state.hidden)
        if space not in state.namespaces:
            yield {"verb": "create_namespace", "id": space}
        elif not hidden:
            yield {"verb": "drop_namespace", "id": space}


def perform(ns: DirectoryNamespace, intent: dict[str, Any], state: State) -> dict[str, Any]:
    verb, request = intent["verb"], {"id": list(intent["id"])}
    if verb in ("create", "overwrite"):
        ns.create_table({**request, "mode": verb}, ipc(intent["rows"]))
    elif verb == "declare":
        ns.declare_table(request)
    elif verb == "insert":
        ns.insert_into_table(request, ipc(intent["rows"]))
    elif verb == "rename":
        *space, name = intent["to"]
        ns.rename_table({**request, "new_table_name": name, "new_namespace_id": space})
    elif verb == "deregister":
        return {"location": ns.deregister_table(request).location}
    elif verb == "register":
        place = state.hidden[tuple(intent["id"])][1]
        ns.register_table({**request, "location": place})
    elif verb in ("drop", "drop and purge"):
        ns.drop_table(request, purge=verb != "drop")
    elif verb == "undrop":
        ns.undrop_table(request["id"])
    elif verb == "purge":
        ns.purge_table(request["id"], force=True)
    elif verb == "create_namespace":
        ns.create_namespace(request)
    else:
        ns.drop_namespace({**request, "behavior": "cascade"})
    return {}


def main(root: str, mode_name: str, seed: str, prefix: str, log_path: str) -> None:
    mode = Mode(mode_name)
    chance = random.Random(int(seed))
    ns = open_catalog(root, mode)
    # Two drops in one millisecond would have no order.
    ticks = itertools.count(ns.context.clock())
    ns.context.clock = lambda: next(ticks)
    state = State(mode)
    number = 0
    with open(log_path, "a", encoding="utf-8") as log:

        def say(line: dict[str, Any]) -> None:
            log.write(json.dumps(line) + "\n")
            log.flush()
            os.fsync(log.fileno())

        say({"ready": os.getpid()})
        while True:
            intent = chance.choice(list(choices(state, mode, prefix)))
            if intent["verb"] in ("create", "overwrite", "insert"):
                intent["rows"] = [number, number + 1]
                number += 2
            say({"intent": intent})
            answer = perform(ns, intent, state)
            say({"ack": answer})
            state.apply(intent, answer)


def replay(log_path: str, mode: Mode) -> tuple[State, dict[str, Any] | None, int]:
    """Read a log: the acknowledged state, the operation in flight if any, and how many were."""
    state, flying, done = State(mode), None, 0
    with open(log_path, encoding="utf-8") as log:
        for text in log.read().split("\n")[:-1]:
            line = json.loads(text)
            if "intent" in line:
                flying = line["intent"]
            elif "ack" in line:
                assert flying is not None
                state.apply(flying, line["ack"])
                flying, done = None, done + 1
    return state, flying, done


if __name__ == "__main__":
    main(*sys.argv[1:])
