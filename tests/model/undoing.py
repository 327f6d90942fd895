"""Rules for what can be undone: drops, undrops, purges, time, protection, and failures midway."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from lance_catalog import failpoints
from lance_catalog.config import Mode
from lance_catalog.directory.deregistered import deregistered
from lance_catalog.directory.dropped import TableState
from lance_catalog.maintenance.check import check
from lance_catalog.maintenance.repair import apply, plan
from lance_catalog.model import PROTECTED
from tests.concurrency.racing import attempt, ipc
from tests.model.machine import ALL_TABLES, DRAWN_TABLES, Drawn, Machine, likely
from tests.model.model import DAY_MS, DEFAULT_TTL_MS, Drop, Names, Table

#: (as given, milliseconds or never)
TTLS: dict[str | None, int | None] = {
    None: DEFAULT_TTL_MS,
    "0": 0,
    "2d": 2 * DAY_MS,
    "never": None,
}
#: Where an operation that ends or begins a drop can fail.
POINTS = sorted(
    point
    for point in failpoints.POINTS
    if point.split(".")[0] in ("manifest", "table", "marker", "revive", "undrop", "purge")
    # Reached only when two writers meet, or when a migration finds another's marker.
    and point not in ("manifest.refused", "marker.lifted")
)


class UndoMachine(Machine):
    # Dropping.

    @precondition(lambda self: self.model.droppable_names())
    @rule(
        drawn=DRAWN_TABLES,
        ttl=st.sampled_from(list(TTLS)),
        purge=st.sampled_from([False, False, False, True]),
        force=st.booleans(),
    )
    def drop(self, drawn: Drawn, ttl: str | None, purge: bool, force: bool) -> None:
        names = likely(drawn, self.model.droppable_names())
        wanted = self.model.refuses_drop(names, force=force)
        began = self.clock()
        request = {"id": list(names)}
        answer = self.expect(wanted, "drop_table", request, ttl=ttl, purge=purge, force=force)
        if answer is None:
            return
        table = self.take(names)
        assert self.place_of(answer.location) == table.place
        drop_id = answer.transaction_id
        assert answer.properties["lance_catalog.drop_id"] == drop_id
        if not purge:
            self.bin(names, table, drop_id, TTLS[ttl], began)

    def take(self, names: Names) -> Table:
        """Take out of the model what a drop of an id means."""
        if names in self.model.tables:
            return self.model.tables.pop(names)
        former = self.model.latest_hidden(names)
        assert former is not None
        self.model.hidden.remove(former)
        return former.table

    def bin(self, names: Names, table: Table, drop_id: str, ttl_ms: int | None, began: int) -> None:
        """Put a table into the model's trash; when exactly, only the catalog knows."""
        (at_ms,) = (
            one.deleted_at_ms for one in self.ns.list_dropped_tables() if one.drop_id == drop_id
        )
        assert began < at_ms < self.clock()
        expires = None if ttl_ms is None else at_ms + ttl_ms
        self.model.trash.append(Drop(names, table, drop_id, at_ms, expires))

    # Bringing back.

    @precondition(lambda self: self.model.trash)
    @rule(
        drawn=DRAWN_TABLES,
        other=st.one_of(st.none(), DRAWN_TABLES),
        pick=st.one_of(st.none(), st.integers(0, 7)),
    )
    def undrop(self, drawn: Drawn, other: Drawn | None, pick: int | None) -> None:
        names = likely(drawn, self.model.dropped_names())
        free = self.model.free_names(ALL_TABLES)
        as_names = None if other is None else likely(other, free)
        chosen, drop_id = self.choose(names, pick)
        if pick is not None and chosen is not None:
            names = chosen.names
        target = names if as_names is None else as_names
        wanted = self.model.refuses_undrop(chosen, names, target)
        if self.mode is Mode.V1 and len(target) > 1:
            wanted = 0
        as_id = None if as_names is None else list(as_names)
        answer = self.expect_call(
            wanted, names, "undrop_table", list(names), as_id=as_id, drop_id=drop_id
        )
        if answer is not None:
            assert chosen is not None
            assert (answer.id, answer.location) == (target, chosen.table.place)
            assert answer.drop_id == chosen.drop_id
            self.bring_back(chosen, target)

    def choose(self, names: Names, pick: int | None) -> tuple[Drop | None, str | None]:
        """A drop by its id out of all there are, or the latest of a name."""
        if pick is not None and self.model.trash:
            chosen = self.model.trash[pick % len(self.model.trash)]
            return chosen, chosen.drop_id
        drops = self.model.drops(names)
        return (drops[0] if drops else None), None

    def bring_back(self, chosen: Drop, target: Names) -> None:
        self.model.trash.remove(chosen)
        table = chosen.table
        table.has_row = table.has_row or (self.model.rows_kept and target != chosen.names)
        self.model.tables[target] = table

    # Purging.

    @precondition(lambda self: self.model.trash)
    @rule(drawn=DRAWN_TABLES, force=st.booleans(), pick=st.one_of(st.none(), st.integers(0, 7)))
    def purge(self, drawn: Drawn, force: bool, pick: int | None) -> None:
        names = likely(drawn, self.model.dropped_names())
        chosen, drop_id = self.choose(names, pick)
        if chosen is not None:
            names = chosen.names
        wanted = self.model.refuses_purge(chosen, names, self.clock(), force=force)
        answer = self.expect_call(
            wanted, names, "purge_table", list(names), force=force, drop_id=drop_id
        )
        if answer is not None:
            assert chosen is not None
            assert answer.table.drop_id == chosen.drop_id
            assert answer.objects >= 1
            self.model.trash.remove(chosen)

    @precondition(lambda self: self.model.trash or self.model.tables)
    @rule(drawn=DRAWN_TABLES, pick=st.integers(0, 7))
    def undrop_one(self, drawn: Drawn, pick: int) -> None:
        """As `undrop`, but of something that is there: chance alone comes to it too seldom."""
        for number in range(2):
            if self.something_dropped(drawn):
                self.undrop(drawn, None, pick + number)

    @precondition(lambda self: self.model.trash or self.model.tables)
    @rule(drawn=DRAWN_TABLES, pick=st.integers(0, 7), sweep=st.sampled_from([False, False, True]))
    def purge_one(self, drawn: Drawn, pick: int, sweep: bool) -> None:
        if self.something_dropped(drawn):
            if sweep:
                self.sweep(False, 1)
            else:
                self.purge(drawn, True, pick)

    def something_dropped(self, drawn: Drawn) -> bool:
        if not self.model.trash:
            self.drop((drawn[0], 0), None, purge=False, force=True)
        return bool(self.model.trash)

    @rule(dry=st.booleans(), days=st.sampled_from([None, None, -1, 0, 1]))
    def sweep(self, dry: bool, days: int | None) -> None:
        """Everything whose time has come; or, with a time, everything dropped before it."""
        now = self.clock()
        before = None if days is None else now + days * DAY_MS
        ripe = {
            one.drop_id
            for one in self.model.trash
            if (one.is_expired(now) if before is None else one.at_ms < before)
        }
        listed = self.ns.list_purgable_tables(deleted_before=before)
        assert {one.drop_id for one in listed} == ripe
        report = self.ns.purge_tables(deleted_before=before, dry_run=dry)
        guarded = {one.drop_id for one in self.model.trash if one.table.protected}
        assert {one.table.drop_id for one in report.purged} == ripe - guarded
        failed = {(one.drop_id, int(error.code)) for one, error in report.failed}
        assert failed == {(drop_id, 19) for drop_id in ripe & guarded}
        if not dry:
            gone = ripe - guarded
            self.model.trash = [one for one in self.model.trash if one.drop_id not in gone]

    @rule(days=st.sampled_from([-30, -1, 1, 3, 8]))
    def time_passes(self, days: int) -> None:
        """Also backwards: what expires then is told by the clock, and nothing else changes."""
        self.clock.jump(days)

    # Protection.

    @precondition(lambda self: self.model.tables)
    @rule(drawn=DRAWN_TABLES, on=st.sampled_from([True, False, False]))
    def protect(self, drawn: Drawn, on: bool) -> None:
        names = likely(drawn, self.model.tables)
        known = self.model.tables.get(names)
        wanted = self.model.missing(names) if known is None else None
        if known is not None and not known.has_row and known.rows is None:
            wanted = 19  # Nowhere to keep a property before there is data.
        change: dict[str, Any] = {"set": {PROTECTED: "true"}} if on else {"unset": [PROTECTED]}
        answer = self.expect_call(wanted, names, "set_table_properties", list(names), **change)
        if answer is None:
            return
        assert known is not None
        known.properties = {k: v for k, v in known.properties.items() if k != PROTECTED}
        if on:
            known.properties[PROTECTED] = "true"
        assert answer == known.properties

    # Failing midway.

    def stumble(self, point: str, run: Callable[[], object]) -> None:
        """Run with a failure at a point, as another process would find it: repaired, restarted."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(failpoints, "_plan", {point: ("raise", 1)})
            patch.setattr(failpoints, "_hits", {})
            code, text = attempt(run)
        assert code in (None, 14, 17, 18), (point, text)
        self.restart()
        for step, why in apply(self.ns.context, plan(self.ns.context, grace_seconds=-3600)):
            assert why is None, (point, step, why)
        problems = check(self.ns.context, grace_seconds=-3600).problems
        assert problems == [], (point, problems)

    def state_of(self, names: Names) -> TableState:
        return self.ns.table_status(list(names)).state

    @precondition(lambda self: self.model.droppable_names())
    @rule(drawn=DRAWN_TABLES, point=st.sampled_from(POINTS), purge=st.booleans())
    def drop_fails(self, drawn: Drawn, point: str, purge: bool) -> None:
        names = likely(drawn, self.model.droppable_names())
        if self.mode is Mode.V1 and len(names) > 1:
            return
        if self.model.refuses_drop(names, force=True) is not None:
            return
        live, began = names in self.model.tables, self.clock()
        older = {one.drop_id for one in self.model.drops(names)}
        request = {"id": list(names)}
        self.stumble(point, lambda: self.ns.drop_table(request, purge=purge, force=True))
        now = {one.drop_id: one for one in self.ns.list_dropped_tables() if one.id == names}
        new = now.keys() - older
        if new:
            # A drop that was to purge and did not get there can be undropped until the sweep.
            ttl = 0 if purge else DEFAULT_TTL_MS
            self.bin(names, self.take(names), new.pop(), ttl, began)
        elif live and self.state_of(names) is not TableState.EXISTS:
            assert purge, "neither there nor dropped"
            self.take(names)
        elif not live and not self.is_deregistered(names):
            assert purge, "neither deregistered nor dropped"
            self.take(names)

    def is_deregistered(self, names: Names) -> bool:
        former = self.model.latest_hidden(names)
        place = None if former is None else former.table.place
        return any(one.location == place for one in deregistered(self.ns.context))

    @precondition(lambda self: self.model.trash)
    @rule(pick=st.integers(0, 7), point=st.sampled_from(POINTS))
    def undrop_fails(self, pick: int, point: str) -> None:
        chosen, drop_id = self.choose((), pick)
        assert chosen is not None
        names = chosen.names
        if self.model.refuses_undrop(chosen, names, names) is not None:
            return
        self.stumble(point, lambda: self.ns.undrop_table(list(names), drop_id=drop_id))
        if self.state_of(names) is TableState.EXISTS:
            self.bring_back(chosen, names)

    @precondition(lambda self: self.model.trash)
    @rule(pick=st.integers(0, 7), point=st.sampled_from(POINTS))
    def purge_fails(self, pick: int, point: str) -> None:
        chosen, drop_id = self.choose((), pick)
        assert chosen is not None
        names = list(chosen.names)
        self.stumble(point, lambda: self.ns.purge_table(names, force=True, drop_id=drop_id))
        if drop_id not in {one.drop_id for one in self.ns.list_dropped_tables()}:
            self.model.trash.remove(chosen)

    @precondition(lambda self: self.model.trash)
    @rule(pick=st.integers(0, 7), point=st.sampled_from(POINTS))
    def revive_fails(self, pick: int, point: str) -> None:
        """The dropped rows, or the new ones; never a mixture, and never the old ones live."""
        chosen = self.model.drops(self.model.trash[pick % len(self.model.trash)].names)[0]
        names, rows = chosen.names, self.fresh_rows()
        if chosen.table.rows is None or self.model.refuses_creation(names) is not None:
            return
        self.stumble(point, lambda: self.ns.create_table({"id": list(names)}, ipc(rows)))
        if self.state_of(names) is TableState.EXISTS:
            self.model.trash.remove(chosen)
            place = chosen.table.place
            self.model.tables[names] = Table(place, rows, {}, self.model.rows_kept)
            self.compare_table(names)
        else:
            self.compare_rows(chosen.table)
