"""``trash purge``: some dropped tables by their ids, or as a sweep all whose time has passed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lance_catalog.cli.command import command
from lance_catalog.cli.completion import complete_dropped
from lance_catalog.cli.failures import ERROR, usage
from lance_catalog.cli.options import DryRun
from lance_catalog.cli.results import Listing, Plan, Result, Step
from lance_catalog.cli.session import Session
from lance_catalog.cli.wording import in_cli_words

if TYPE_CHECKING:
    from lance_catalog.errors import LanceNamespaceError
    from lance_catalog.identifiers import Identifier

__all__ = ["add_to"]

_KEYS = ("outcome", "text", "drop_id", "objects", "bytes", "why")


def add_to(app: typer.Typer) -> None:
    """Register the command with its noun."""
    command(app, "purge")(purge)


@dataclass(frozen=True)
class _Drop:
    """One dropped table to purge: the one that was looked at, not a later one of the same id."""

    names: Identifier
    drop_id: str | None


def purge(
    session: Session,
    ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ID",
            help="Dropped tables, as they were called.",
            autocompletion=complete_dropped,
            show_default=False,
        ),
    ] = None,
    drop_id: Annotated[
        str | None,
        typer.Option(
            "--drop-id",
            metavar="DROP-ID",
            help="Which drop of the one ID, as `trash list` shows it; default the latest.",
            show_default=False,
        ),
    ] = None,
    expired: Annotated[
        bool, typer.Option("--expired", help="Instead of ids: all whose time to live has passed.")
    ] = False,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than",
            metavar="TIME",
            help="With --expired: of these only what was dropped longer ago, as 3d or 12h.",
            show_default=False,
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also what has not expired yet, or is protected.")
    ] = False,
    dry_run: DryRun = False,
) -> Result:
    """Delete the data of dropped tables for good."""
    if older_than is not None and not expired:
        raise usage("--older-than narrows --expired, and goes with it only")
    if expired:
        if ids or drop_id is not None:
            raise usage("--expired chooses the tables itself; ids and --drop-id do not go with it")
        chosen = _expired(session, older_than)
    else:
        if not ids:
            raise usage("which tables? Give their ids, or --expired for all whose time has passed")
        if drop_id is not None and len(ids) > 1:
            raise usage("--drop-id goes with one id")
        parsed = dict.fromkeys(session.parse_table(text) for text in ids)
        chosen = [_Drop(names, drop_id) for names in parsed]
    return _Purge(session, chosen, sweep=expired, force=force).run(dry_run=dry_run)


def _expired(session: Session, older_than: str | None) -> list[_Drop]:
    from lance_catalog.config import parse_duration_ms

    found = session.catalog.list_purgable_tables()
    if older_than is not None:
        age = parse_duration_ms("--older-than", older_than)
        if age is None:
            raise usage("--older-than takes a time span, as 3d or 12h")
        before = session.context.clock() - age
        found = [table for table in found if table.deleted_at_ms < before]
    return [_Drop(table.id, table.drop_id) for table in found]


class _Purge:
    """One run: a plan where somebody is asked or wants to see it, then each table on its own."""

    def __init__(self, session: Session, chosen: list[_Drop], *, sweep: bool, force: bool) -> None:
        self._session, self._chosen = session, chosen
        self._sweep, self._force = sweep, force
        #: One table by its id: its failure is the command's.
        self._alone = not sweep and len(chosen) == 1

    def run(self, *, dry_run: bool) -> Result:
        if not self._chosen:
            note = "nothing to purge"
            if dry_run:
                return Plan(title=note, note=note)
            return _listing(self._carry_out(), note)
        # Of several ids all are looked at before the first is deleted.
        several = not self._sweep and not self._alone
        plan = self._plan() if dry_run or several else None
        if dry_run and plan is not None:
            return plan
        word = self._session.text(self._chosen[0].names) if self._alone else None
        self._session.confirm(lambda: plan or self._plan(), word)
        rows = self._carry_out()
        failed = any(row["outcome"] == "failed" for row in rows)
        return _listing(rows, _summary(rows), ERROR if failed else 0)

    def _plan(self) -> Plan:
        steps = []
        for drop in self._chosen:
            row = self._outcome(drop, None, strict=not self._sweep)
            goes = row["outcome"] == "purged"
            size = f"{row['objects']} objects, {row['bytes']} bytes"
            action = "purge" if goes else f"purge: {row['outcome']}"
            steps.append(Step(action, row["text"], size if goes else row["why"], goes))
        return Plan(title="Purging, after which nothing comes back:", steps=steps)

    def _carry_out(self) -> list[dict[str, Any]]:
        from lance_catalog.directory.redoing import reopen_names

        if self._sweep:
            reopen_names(self._session.context)
        rows = []
        total = None if self._alone else len(self._chosen)
        with self._session.output.progress("purging") as progress:
            for number, drop in enumerate(self._chosen):
                # Of one table the objects are counted, of several the tables.
                count = progress if self._alone else None
                rows.append(self._outcome(drop, count or _silent, strict=self._alone))
                progress(number + 1, total)
        return rows

    def _outcome(
        self, drop: _Drop, progress: Callable[[int, int | None], None] | None, *, strict: bool
    ) -> dict[str, Any]:
        """Purge one table, or without ``progress`` measure it; ``strict`` raises what failed."""
        from lance_catalog.errors import LanceNamespaceError

        self._session.subject = drop.names
        told = None if progress is None else lambda _, objects, size: progress(objects, None)
        row = {"outcome": "purged", **self._session.row(drop.names), "drop_id": drop.drop_id}
        try:
            gone = self._session.catalog.purge_table(
                drop.names,
                force=self._force,
                drop_id=drop.drop_id,
                dry_run=progress is None,
                progress=told,
            )
        except LanceNamespaceError as error:
            if strict:
                raise
            outcome, why = self._excuse(drop, error)
            return {**row, "outcome": outcome, "objects": 0, "bytes": 0, "why": why}
        size = {"objects": gone.objects, "bytes": gone.bytes}
        return {**row, "drop_id": gone.table.drop_id, **size, "why": ""}

    def _excuse(self, drop: _Drop, error: LanceNamespaceError) -> tuple[str, str]:
        """Tell a failure from what a sweep leaves alone: the protected, and others' work."""
        from lance_catalog.errors import (
            ConcurrentModificationError,
            InvalidTableStateError,
            TableNotFoundError,
        )

        if self._sweep and isinstance(error, TableNotFoundError):
            return "gone", "another process was there first"
        why = self._session.scrub(in_cli_words(str(error)))
        if self._sweep and isinstance(error, InvalidTableStateError) and "is protected" in why:
            return "kept", why
        if self._sweep and isinstance(error, ConcurrentModificationError):
            now = self._session.catalog.list_dropped_tables()
            mine = [table for table in now if table.drop_id == drop.drop_id]
            if not mine or mine[0].purging:
                return "left", why
        return "failed", why


def _silent(done: int, total: int | None) -> None:
    return


def _listing(rows: list[dict[str, Any]], note: str, exit_code: int = 0) -> Listing:
    return Listing(
        rows=rows,
        columns=_KEYS,
        titles=("outcome", "id", "drop id", "objects", "bytes", "why"),
        plain=_KEYS,
        note=note,
        exit_code=exit_code,
    )


def _summary(rows: Sequence[dict[str, Any]]) -> str:
    purged = [row for row in rows if row["outcome"] == "purged"]
    size = sum(row["bytes"] for row in purged)
    text = f"purged {len(purged)}: {sum(row['objects'] for row in purged)} objects, {size} bytes"
    for outcome, words in (
        ("kept", "kept because they are protected"),
        ("left", "left to another process"),
        ("gone", "gone already"),
        ("failed", "failed"),
    ):
        count = sum(1 for row in rows if row["outcome"] == outcome)
        text += f", {count} {words}" if count else ""
    return text
