"""Threads that want the same thing at once: one gets it, on every store; losers leave nothing.

Processes race in tests/concurrency; here every mode and store is shown to have the arbiter.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from lance_catalog.config import Mode
from tests.behaviour.catalogs import FLAG, Catalog, ipc, outcome, rows

RACERS = 6


def race(catalog: Catalog, act: Callable[[Any, int], Any]) -> list[int | None]:
    """Let every racer act through a namespace object of its own, at once; their outcomes."""
    barrier = threading.Barrier(RACERS)
    outcomes: list[int | None] = [-1] * RACERS
    namespaces = [catalog.open() for _ in range(RACERS)]

    def run(number: int) -> None:
        barrier.wait()
        outcomes[number] = outcome(act, namespaces[number], number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(RACERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


@pytest.mark.homes("root", "nested")
class TestTables:
    def test_create_has_one_winner(self, catalog: Catalog) -> None:
        """C09, I26: losers get 5 or 14; the data is the winner's; no file of a loser is left."""
        for turn in range(3):
            wanted = catalog.at(f"t{turn}")
            outcomes = race(
                catalog, lambda ns, n, w=wanted: ns.create_table({"id": w}, ipc(rows([n])))
            )
            assert outcomes.count(None) == 1, outcomes
            assert set(outcomes) <= {None, 5, 14}, outcomes
            assert catalog.data(wanted) == [outcomes.index(None)]
            place = catalog.place(wanted)
            assert len(catalog.root.paths(f"{place}/data/")) == 1
        places = {catalog.place(catalog.at(f"t{turn}")) for turn in range(3)}
        assert catalog.root.level() - {"__manifest", "__claims", FLAG} == places

    def test_who_takes_what_is_there_does_not_lose(self, catalog: Catalog) -> None:
        """I26, exist_ok: whoever comes second takes the first one's table."""
        for turn in range(3):
            wanted = catalog.at(f"t{turn}")
            outcomes = race(
                catalog,
                lambda ns, n, w=wanted: ns.create_table(
                    {"id": w, "mode": "exist_ok"}, ipc(rows([n]))
                ),
            )
            assert set(outcomes) <= {None, 14}, outcomes
            assert len(catalog.data(wanted)) == 1

    def test_declare_has_one_winner(self, catalog: Catalog) -> None:
        """C09, I20: and only the winner's reservation is left."""
        outcomes = race(catalog, lambda ns, _: ns.declare_table({"id": catalog.at("t")}))
        assert outcomes.count(None) == 1, outcomes
        assert set(outcomes) <= {None, 5, 14}, outcomes
        place = catalog.place(catalog.at("t"))
        left = [path for path in catalog.root.paths() if path.endswith(".lance-reserved")]
        assert left == [f"{place}/.lance-reserved"]

    def test_drop_has_one_winner(self, catalog: Catalog) -> None:
        """I25: losers find nothing (4) or a conflict (14); no byte is left."""
        catalog.create(catalog.at("t"))
        place = catalog.place(catalog.at("t"))
        outcomes = race(catalog, lambda ns, _: ns.drop_table({"id": catalog.at("t")}, purge=True))
        assert outcomes.count(None) == 1, outcomes
        assert set(outcomes) <= {None, 4, 14}, outcomes
        assert catalog.root.paths(f"{place}/") == []
        assert not catalog.exists(catalog.at("t"))

    def test_deregister_has_one_winner(self, catalog: Catalog) -> None:
        """I23: the second one finds nothing."""
        catalog.create(catalog.at("t"))
        outcomes = race(catalog, lambda ns, _: ns.deregister_table({"id": catalog.at("t")}))
        assert outcomes.count(None) == 1, outcomes
        assert set(outcomes) <= {None, 4, 14}, outcomes


@pytest.mark.modes(Mode.V2, Mode.COMPAT)
class TestRows:
    def test_create_namespace_has_one_winner(self, catalog: Catalog) -> None:
        """C09, I10: losers get 2; one row."""
        for turn in range(3):
            outcomes = race(
                catalog,
                lambda ns, n, t=turn: ns.create_namespace(
                    {"id": [f"n{t}"], "properties": {"n": str(n)}}
                ),
            )
            assert outcomes.count(None) == 1, outcomes
            assert set(outcomes) <= {None, 2, 14}, outcomes
            properties = catalog.describe_namespace({"id": [f"n{turn}"]}).properties
            assert properties == {"n": str(outcomes.index(None))}
        assert set(catalog.rows()) == {"n0", "n1", "n2"}

    def test_different_names_all_win(self, catalog: Catalog) -> None:
        """C09: rivals for a version are not rivals for a name."""
        outcomes = race(catalog, lambda ns, n: ns.create_namespace({"id": [f"n{n}"]}))
        assert outcomes == [None] * RACERS
        assert len(catalog.namespaces()) == RACERS

    def test_rename_has_one_winner(self, catalog: Catalog) -> None:
        """I26: of many new names one."""
        catalog.create(["t"])
        outcomes = race(
            catalog, lambda ns, n: ns.rename_table({"id": ["t"], "new_table_name": f"u{n}"})
        )
        assert outcomes.count(None) == 1, outcomes
        assert set(outcomes) <= {None, 4, 14}, outcomes
        assert catalog.tables() == [f"u{outcomes.index(None)}"]

    def test_children_against_the_parent_s_drop(self, catalog: Catalog) -> None:
        """I13: no interleaving leaves a child without its parent."""
        for turn in range(5):
            catalog.namespace(f"p{turn}")

            def act(ns: Any, number: int, turn: int = turn) -> Any:
                if number == 0:
                    return ns.drop_namespace({"id": [f"p{turn}"]})
                return ns.create_namespace({"id": [f"p{turn}", f"c{number}"]})

            outcomes = race(catalog, act)
            children = [key for key in catalog.rows() if key.startswith(f"p{turn}$")]
            assert len(children) == outcomes[1:].count(None)
            if outcomes[0] is None:
                assert children == []
                assert set(outcomes[1:]) == {1}
            else:
                assert outcomes[0] == 3
                assert children != []
