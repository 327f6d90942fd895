"""What needs what: the order of a pipeline, its cycles, and what nobody needs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lance_catalog.spark.pipeline.lines import Path
from lance_catalog.spark.pipeline.model import Definition, Source, Step, Target
from lance_catalog.spark.pipeline.problems import nearest
from lance_catalog.spark.pipeline.references import tables_of

__all__ = ["Graph", "Node"]


@dataclass(frozen=True, slots=True)
class Node:
    """A source, a step or a target, and what it takes."""

    kind: str
    name: str
    inputs: tuple[str, ...]
    #: What it does, in a few words.
    does: str
    #: Whether a target needs it; what none needs is not run.
    needed: bool = True


class Graph:
    """The nodes of a definition, in an order in which they can run."""

    def __init__(self, definition: Definition) -> None:
        self._definition = definition
        self.mistakes: list[tuple[Path, str]] = []
        self._real = {name.lower(): name for name in (*definition.sources, *definition.steps)}
        self._inputs = {name: self._inputs_of(name, s) for name, s in definition.steps.items()}
        for name, target in definition.targets.items():
            self._known(("targets", name, "from"), target.from_)
        self._cycles()
        self.nodes = [] if self.mistakes else self._ordered()

    def _inputs_of(self, name: str, step: Step) -> tuple[str, ...]:
        if step.inputs is not None:
            keys: list[Path] = [("steps", name, "inputs", n) for n in range(len(step.inputs))]
            found = list(step.inputs)
        else:
            found = tables_of(step.sql or "")
            keys = [("steps", name, "sql")] * len(found)
        real = [self._known(key, text) for key, text in zip(keys, found, strict=True)]
        return tuple(dict.fromkeys(one for one in real if one is not None))

    def _known(self, path: Path, name: str) -> str | None:
        real = self._real.get(name.lower())
        if real is None:
            advice = nearest(name, self._real.values())
            if path[-1] == "sql":
                advice += " If it is no table, list the inputs of the step"
            self.mistakes.append((path, f"no source or step '{name}'; {advice}"))
        return real

    def _cycles(self) -> None:
        done: set[str] = set()
        for start in self._inputs:
            trail: list[str] = []
            self._walk(start, trail, done)

    def _walk(self, name: str, trail: list[str], done: set[str]) -> None:
        if name in done or name not in self._inputs:
            return
        if name in trail:
            ring = [*trail[trail.index(name) :], name]
            self.mistakes.append((("steps", name), f"needs itself: {' <- '.join(ring)}"))
            return
        trail.append(name)
        for one in self._inputs[name]:
            self._walk(one, trail, done)
        trail.pop()
        done.add(name)

    def _ordered(self) -> list[Node]:
        definition = self._definition
        needed = self._closure(
            self._real[target.from_.lower()] for target in definition.targets.values()
        )
        nodes = [
            Node("source", name, (), _source(source), name in needed)
            for name, source in definition.sources.items()
        ]
        placed = set(definition.sources)
        rest = dict(definition.steps)
        while rest:
            ready = [name for name in rest if set(self._inputs[name]) <= placed]
            for name in ready:
                step = rest.pop(name)
                nodes.append(Node("step", name, self._inputs[name], _step(step), name in needed))
            placed.update(ready)
        for name, target in definition.targets.items():
            source = self._real[target.from_.lower()]
            nodes.append(Node("target", name, (source,), _target(target)))
        return nodes

    def _closure(self, names: Iterable[str]) -> set[str]:
        found: set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting.extend(self._inputs.get(name, ()))
        return found


def _source(source: Source) -> str:
    if source.table is not None:
        points = ((k, getattr(source, k)) for k in ("version", "tag", "as_of"))
        at = "".join(f" at {key} {value}" for key, value in points if value is not None)
        where = f" where {source.filter}" if source.filter else ""
        return f"read table {source.table}{at}{where}"
    if source.files:
        kind = f"{source.format} " if source.format else ""
        return f"read {kind}files {', '.join(source.files)}"
    # Options may hold a password: only the paths are shown.
    return f"read format {source.format} {', '.join(source.path or [])}".rstrip()


def _step(step: Step) -> str:
    if step.function is not None:
        return f"call {step.function}"
    text = " ".join((step.sql or "").split())
    return text if len(text) <= 100 else text[:99] + "…"


def _target(target: Target) -> str:
    text = f"{target.mode} {target.table}"
    if target.keys:
        text += f" by {', '.join(target.keys)}"
    if target.expectations:
        text += ", if its expectations hold"
    kinds = [f"{index.type.upper()} on {index.column}" for index in target.indices]
    return text + (f", then index {'; '.join(kinds)}" if kinds else "")
