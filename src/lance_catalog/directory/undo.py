"""Undo for tables, as the namespace offers it: undrop, purge, and what is in the trash.

Beside the library's interface: no request models, plain arguments and frozen answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from lance_catalog.config import (
    DROP_BEHAVIORS,
    parse_bool,
    parse_choice,
    parse_duration_ms,
    parse_recreate,
)
from lance_catalog.directory import dropped, properties, purging, undropping
from lance_catalog.directory.context import Context
from lance_catalog.directory.dropped import DroppedTable, TableStatus
from lance_catalog.directory.dropping import Drop
from lance_catalog.directory.edge import operation
from lance_catalog.directory.purging import PurgedTable, PurgeReport, Told, timestamp
from lance_catalog.directory.requests import control
from lance_catalog.directory.resolve import table_id
from lance_catalog.directory.undropping import Undropped
from lance_catalog.errors import InvalidInputError
from lance_catalog.identifiers import from_request

__all__ = ["TableLifecycle", "drop_of", "starts_fresh"]

Names = Sequence[str]
Moment = int | float | datetime


def drop_of(
    ctx: Context,
    request: Any,
    ttl: str | float | None,
    purge: bool | None,
    force: bool | None,
) -> Drop:
    """Return how to drop: an argument, else the request's context (R13), else the settings."""
    behavior = control(request, "drop_behavior")
    given = control(request, "ttl_ms")
    forced = control(request, "force")
    if purge is None:
        chosen = (
            None if behavior is None else parse_choice("drop_behavior", behavior, DROP_BEHAVIORS)
        )
        purge = ctx.settings.drop_purges if chosen is None else chosen == "purge"
    ttl_ms = ctx.settings.drop_ttl_ms
    if ttl is not None:
        ttl_ms = parse_duration_ms("ttl", ttl)
    elif given is not None:
        if not given.isdecimal() or len(given) > 15:
            raise InvalidInputError(f"'lance_catalog.ttl_ms' is {given!r}; expected milliseconds")
        ttl_ms = int(given)
    if force is None:
        force = forced is not None and parse_bool("lance_catalog.force", forced)
    return Drop(ttl_ms, purge, force)


def starts_fresh(ctx: Context, request: Any) -> bool:
    """Whether create_table leaves a dropped table of its name where it is, and starts anew."""
    given = control(request, "recreate")
    if given is None:
        return ctx.settings.recreate_fresh
    return parse_recreate(given, ctx.mode) == "fresh"


class TableLifecycle:
    """What a namespace can do with dropped tables; mixed into the namespace."""

    _ctx: Context

    @operation
    def undrop_table(
        self, id: Names, as_id: Names | None = None, drop_id: str | None = None
    ) -> Undropped:
        """Bring a dropped table back as it was (S07), under its id or, not in V1, another.

        Of several drops of the id the latest, or the one named by ``drop_id``. 4 when it is not
        in the trash, 5 when the id is taken, 1 when its namespace is gone: nothing is created
        silently.
        """
        names = table_id(self._ctx, id, "undrop_table")
        target = None if as_id is None else table_id(self._ctx, as_id, "undrop_table: as_id")
        return undropping.undrop(self._ctx, names, target, drop_id)

    @operation
    def purge_table(
        self,
        id: Names,
        force: bool = False,
        drop_id: str | None = None,
        dry_run: bool = False,
        progress: Told | None = None,
    ) -> PurgedTable:
        """Delete a dropped table for good (S04); 19 while it can still be undropped.

        ``force`` does not wait for its time to live, and deletes a protected one. Can be run
        again after a crash: it goes on where it was. ``dry_run`` counts the objects and bytes and
        deletes nothing. ``progress`` is told (table, objects, bytes).
        """
        names = table_id(self._ctx, id, "purge_table")
        return purging.purge_one(
            self._ctx, names, drop_id, force=force, dry_run=dry_run, told=progress
        )

    @operation
    def purge_tables(
        self,
        ids: Sequence[Names] | None = None,
        deleted_before: Moment | None = None,
        dry_run: bool = False,
        force: bool = False,
        progress: Told | None = None,
    ) -> PurgeReport:
        """Purge exactly some dropped tables, or all that :meth:`list_purgable_tables` lists.

        Safe to run from many places at once, and again. One table's failure stops no other: the
        report has both. ``dry_run`` counts the objects and bytes and deletes nothing.
        """
        chosen = None if ids is None else [table_id(self._ctx, i, "purge_tables") for i in ids]
        before = timestamp(deleted_before, "deleted_before")
        return purging.purge_some(
            self._ctx, chosen, before, force=force, dry_run=dry_run, told=progress
        )

    @operation
    def list_purgable_tables(self, deleted_before: Moment | None = None) -> list[DroppedTable]:
        """Return the dropped tables a purge would take (S05).

        Those whose time to live has passed; or with ``deleted_before`` (a datetime, or
        milliseconds) those dropped before it, whatever their time to live: the caller's policy.
        """
        before = timestamp(deleted_before, "deleted_before")
        return [found.told() for found in purging.list_purgable(self._ctx, before)]

    @operation
    def list_dropped_tables(self) -> list[DroppedTable]:
        """Return every dropped table, by id and then the latest drop first."""
        return [found.told() for found in dropped.drops(self._ctx)]

    @operation
    def table_status(self, id: Names) -> TableStatus:
        """Tell whether a table exists, is soft-deleted (since and until when), or neither (S06)."""
        return dropped.status(self._ctx, table_id(self._ctx, id, "table_status"))

    @operation
    def set_table_properties(
        self,
        id: Names,
        set: dict[str, str] | None = None,
        unset: Sequence[str] = (),
    ) -> dict[str, str]:
        """Set and remove properties of a table, others stay; return all of them.

        ``lance_catalog.protected=true`` refuses drop and purge until it is unset or forced.
        """
        names = table_id(self._ctx, id, "set_table_properties")
        return properties.set_of_table(self._ctx, names, set or {}, unset)

    @operation
    def set_namespace_properties(
        self,
        id: Names,
        set: dict[str, str] | None = None,
        unset: Sequence[str] = (),
    ) -> dict[str, str]:
        """Set and remove properties of a namespace, others stay; return all of them."""
        names = from_request(id, "set_namespace_properties")
        return properties.set_of_namespace(self._ctx, names, set or {}, unset)
