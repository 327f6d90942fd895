"""A process that works on a catalog until it is killed, and says what it does in a log on disk.

One line before each operation (the intent), one after (the acknowledgement), each forced to disk
before going on. ``python -m tests.crash.worker <root> <mode> <seed> <prefix> <log>``.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from lance_catalog import DirectoryNamespace
from lance_catalog.config import Mode
from tests.concurrency.racing import ipc, open_catalog

Names = tuple[str, ...]


@dataclass
class State:
    """What a worker's part of the catalog holds: rows by id (None: declared), hidden tables."""

    tables: dict[Names, list[int] | None] = field(default_factory=dict)
    hidden: dict[Names, tuple[list[int] | None, str]] = field(default_factory=dict)
    namespaces: set[Names] = field(default_factory=set)

    def copy(self) -> State:
        tables = {key: None if rows is None else list(rows) for key, rows in self.tables.items()}
        return State(tables, dict(self.hidden), set(self.namespaces))

    def apply(self, intent: dict[str, Any], answer: dict[str, Any] | None) -> None:
        """Change the state as an operation does."""
        verb, names = intent["verb"], tuple(intent["id"])
        if verb in ("create", "overwrite"):
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
        elif verb == "drop":
            if names in self.tables:
                del self.tables[names]
            else:
                del self.hidden[names]
        elif verb == "create_namespace":
            self.namespaces.add(names)
        else:
            assert verb == "drop_namespace"
            self.namespaces.discard(names)
            for key in [key for key in self.tables if key[:-1] == names]:
                del self.tables[key]


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
        if names in state.tables:
            yield {"verb": "drop", "id": names}
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
    elif verb == "drop":
        ns.drop_table(request)
    elif verb == "create_namespace":
        ns.create_namespace(request)
    else:
        ns.drop_namespace({**request, "behavior": "cascade"})
    return {}


def main(root: str, mode_name: str, seed: str, prefix: str, log_path: str) -> None:
    mode = Mode(mode_name)
    chance = random.Random(int(seed))
    ns = open_catalog(root, mode)
    state = State()
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


def replay(log_path: str) -> tuple[State, dict[str, Any] | None, int]:
    """Read a log: the acknowledged state, the operation in flight if any, and how many were."""
    state, flying, done = State(), None, 0
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
