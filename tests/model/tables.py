"""Rules for tables, in every mode: declared, created, filled, renamed, taken out and back in."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from lance_catalog.config import Mode
from lance_catalog.directory.migration import migrate
from tests.concurrency.racing import ipc
from tests.model.machine import (
    ALL_TABLES,
    DRAWN_TABLES,
    PROPERTIES,
    ROOT_NAMES,
    TABLE_IDS,
    Drawn,
    likely,
)
from tests.model.model import Drop, Hidden, Names, Table
from tests.model.undoing import UndoMachine


class CatalogMachine(UndoMachine):
    @initialize(count=st.integers(0, 2), dropped=st.integers(0, 2))
    def begin_with_tables(self, count: int, dropped: int) -> None:
        """Not every example has to find its way from nothing."""
        for number, name in enumerate(ROOT_NAMES[:count]):
            self.create(((name,), 31), "create", {}, fresh=False)
            if number < dropped:
                self.drop(((name,), 31), None, purge=False, force=False)

    @rule(drawn=DRAWN_TABLES)
    def declare(self, drawn: Drawn) -> None:
        names = likely(drawn, self.model.free_names(ALL_TABLES))
        wanted = self.model.refuses_declaration(names)
        answer = self.expect(wanted, "declare_table", {"id": list(names)})
        if answer is not None:
            place = self.place_of(answer.location)
            self.model.tables[names] = Table(place, has_row=self.model.rows_kept)

    @rule(
        drawn=DRAWN_TABLES,
        mode=st.sampled_from(["create", "exist_ok", "overwrite"]),
        properties=PROPERTIES,
        fresh=st.booleans(),
    )
    def create(self, drawn: Drawn, mode: str, properties: dict[str, str], fresh: bool) -> None:
        over = self.model.free_names(self.model.dropped_names())
        names = likely(drawn, over or self.model.free_names(ALL_TABLES))
        rows = self.fresh_rows()
        known = self.model.tables.get(names)
        filled = known is not None and known.rows is not None
        wanted = (5 if mode == "create" else None) if filled else None
        if known is None:
            wanted = self.model.refuses_creation(names)
        request: dict[str, object] = {"id": list(names), "mode": mode, "properties": properties}
        if fresh and self.mode is not Mode.V1:
            request["context"] = {"lance_catalog.recreate": "fresh"}
        answer = self.expect(wanted, "create_table", request, ipc(rows))
        if answer is None:
            return
        place = self.place_of(answer.location)
        if known is None:
            self.created(names, Table(place, rows, properties, self.model.rows_kept), fresh)
            return
        assert place == known.place
        if filled and mode == "exist_ok":
            assert (answer.properties or {}) == known.properties
            return
        replaced = properties if filled else {**known.properties, **properties}
        # Creating a root table registers it (C17), also over a declared directory.
        has_row = known.has_row or (not filled and self.model.rows_kept)
        self.model.tables[names] = Table(place, rows, replaced, has_row)

    def created(self, names: Names, table: Table, fresh: bool) -> None:
        """A creation where nothing was to be seen: over the latest drop that has data (S08)."""
        drops = self.model.drops(names)
        over = None if fresh and self.mode is not Mode.V1 else next(iter(drops), None)
        if over is not None and (over.table.rows is not None or self.mode is Mode.V1):
            assert table.place == over.table.place
            self.model.trash.remove(over)
        else:
            assert table.place not in self.model.places()
        self.model.tables[names] = table

    @precondition(lambda self: self.model.tables)
    @rule(drawn=DRAWN_TABLES)
    def insert(self, drawn: Drawn) -> None:
        names = likely(drawn, self.model.tables)
        rows = self.fresh_rows()
        known = self.model.tables.get(names)
        wanted = self.model.missing(names) if known is None else 19 if known.rows is None else None
        answer = self.expect(wanted, "insert_into_table", {"id": list(names)}, ipc(rows))
        if answer is not None:
            assert known is not None
            assert known.rows is not None
            known.rows += rows

    @precondition(lambda self: self.model.tables)
    @rule(drawn=DRAWN_TABLES)
    def deregister(self, drawn: Drawn) -> None:
        names = likely(drawn, self.model.tables)
        known = self.model.tables.get(names)
        wanted = self.model.missing(names) if known is None else None
        began = self.clock()
        answer = self.expect(wanted, "deregister_table", {"id": list(names)})
        if answer is not None:
            assert known is not None
            assert self.place_of(answer.location) == known.place
            assert (answer.properties or {}) == known.properties
            self.model.hidden.append(Hidden(names, self.model.tables.pop(names), began))

    @precondition(lambda self: self.model.hidden or self.model.trash)
    @rule(names=TABLE_IDS, pick=st.integers(0, 7), same=st.booleans())
    def register(self, names: Names, pick: int, same: bool) -> None:
        """What was deregistered comes back; what was dropped does not, not by this way."""
        both: list[Hidden | Drop] = [*self.model.hidden, *self.model.trash]
        chosen = both[pick % len(both)]
        if same:
            names = chosen.names
        place = chosen.table.place
        wanted = self.model.refuses_register(names, place)
        answer = self.expect(wanted, "register_table", {"id": list(names), "location": place})
        if answer is not None:
            assert isinstance(chosen, Hidden)
            assert (answer.properties or {}) == chosen.table.properties
            self.model.hidden.remove(chosen)
            chosen.table.has_row = self.model.rows_kept
            self.model.tables[names] = chosen.table

    @precondition(lambda self: self.model.tables)
    @rule(names=TABLE_IDS, pick=st.integers(0, 7))
    def register_where_one_lives(self, names: Names, pick: int) -> None:
        """A place has one table: refused, whatever the name."""
        tables = self.model.tables
        owner, table = sorted(tables.items())[pick % len(tables)]
        own = not table.has_row and names == owner
        if self.mode is Mode.COMPAT and own:
            return  # Registering what only its directory tells of: see `register_directory`.
        wanted: int | set[int]
        if not self.model.has_parent(names):
            wanted = 1
        elif names in tables and not tables[names].has_row:
            wanted = {5, 13}  # Name and place are taken; either is a good answer.
        else:
            wanted = 5 if self.model.is_taken(names) else 13
        if self.mode is Mode.V1 and names != owner:
            wanted = 13
        self.expect(wanted, "register_table", {"id": list(names), "location": table.place})

    @precondition(lambda self: self.model.tables)
    @rule(drawn=DRAWN_TABLES, to=DRAWN_TABLES)
    def rename(self, drawn: Drawn, to: Drawn) -> None:
        names = likely(drawn, self.model.tables)
        new = likely(to, self.model.free_names(ALL_TABLES))
        request = {"id": list(names), "new_table_name": new[-1]}
        if new[:-1] != names[:-1]:
            request["new_namespace_id"] = list(new[:-1])
        wanted = self.model.refuses_rename(names, new)
        if self.expect(wanted, "rename_table", request) is not None:
            moved = self.model.tables.pop(names)
            moved.has_row = True
            self.model.tables[new] = moved

    @rule(drawn=DRAWN_TABLES)
    def describe(self, drawn: Drawn) -> None:
        names = likely(drawn, self.model.tables)
        if names in self.model.tables:
            self.compare_table(names)
            self.ns.table_exists({"id": list(names)})
        else:
            wanted = self.model.missing(names)
            self.expect(wanted, "describe_table", {"id": list(names)})
            self.expect(wanted, "table_exists", {"id": list(names)})

    @rule(dry=st.booleans())
    def migrate(self, dry: bool) -> None:
        report = migrate(self.ns.context, dry_run=dry)
        kept = self.mode is not Mode.V1
        todo = {names[0]: t for names, t in self.model.tables.items() if not t.has_row}
        assert report.registered == (sorted(todo) if kept else [])
        # What this catalog hides has its marker at the root already.
        assert report.hidden == []
        both: list[Hidden | Drop] = [*self.model.hidden, *self.model.trash]
        marked = {one.table.place: one for one in both if not one.table.has_row}
        names = sorted(place.removesuffix(".lance") for place in marked)
        assert report.trashed == (names if kept else [])
        wanted = not self.model.flagged and any(p.endswith(".lance") for p in self.model.places())
        assert report.flagged == wanted
        if dry:
            return
        self.model.flagged = self.model.flagged or wanted
        if kept:
            for table in (*todo.values(), *(one.table for one in marked.values())):
                table.has_row = True
            # A drop by its marker gets an id by which its row is found.
            now = {one.location: one.drop_id for one in self.ns.list_dropped_tables()}
            for drop in self.model.trash:
                if drop.table.place in marked:
                    drop.drop_id = now[drop.table.place]
