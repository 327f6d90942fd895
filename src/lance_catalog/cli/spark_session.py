"""Spark for a command: found or said to be missing, quiet, and stopped at the end."""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final

import typer

from lance_catalog.cli.failures import CommandError
from lance_catalog.cli.session import Session, key_values

__all__ = ["Conf", "Master", "Remote", "Tasks", "need_spark", "running_spark", "silent_start"]

Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="The master, as local[4] or spark://host:7077; default local, all cores.",
        show_default=False,
    ),
]
Remote = Annotated[
    str | None,
    typer.Option(
        "--remote",
        metavar="URL",
        help="A Spark Connect server instead, as sc://host:15002.",
        show_default=False,
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option(
        "--conf",
        metavar="NAME=VALUE",
        help="A setting of Spark's, as spark.executor.memory=4g; repeatable.",
        show_default=False,
    ),
]
Tasks = Annotated[
    int | None,
    typer.Option(
        "--tasks",
        min=1,
        metavar="N",
        help="How many tasks share the work; default about two for each core.",
        show_default=False,
    ),
]

_SETTINGS: Final = {
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def need_spark() -> None:
    """Say what to install where PySpark is missing."""
    if importlib.util.find_spec("pyspark") is None:
        raise CommandError(
            "this command runs on Spark, and PySpark is not installed",
            hint="pip install 'lance-catalog[spark]' brings it, with a Java",
            name="Unsupported",
            code=0,
        )


@contextmanager
def running_spark(
    session: Session, master: str | None, remote: str | None, conf: list[str] | None
) -> Iterator[Any]:
    """Give a Spark session; one that was made for this command ends with it."""
    need_spark()
    from lance_catalog.spark.jobs.active import active_session
    from lance_catalog.spark.session import session as make

    found = active_session()
    with tempfile.TemporaryDirectory(prefix="lance-catalog-spark-") as scratch:
        # Spark makes a folder for tables of its own, else in the one that the command is typed in.
        room = {} if remote or found is not None else {"spark.sql.warehouse.dir": scratch}
        settings = {**({} if remote else _SETTINGS), **room, **key_values(conf, "--conf")}
        if not session.debug and found is None and remote is None:
            with silent_start():
                spark = make(master=master, remote=remote, config=settings)
        else:
            spark = make(master=master, remote=remote, config=settings)
        try:
            yield spark
        finally:
            if found is None:
                spark.stop()


@contextmanager
def silent_start() -> Iterator[None]:
    """Keep what the JVM says from stderr, where messages of ours are read by programs too.

    It inherits the stream when it starts, for its whole life. What it said is shown when it does
    not start; --debug leaves the stream alone.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as said:
        os.dup2(said.fileno(), 2)
        try:
            yield
        except Exception as error:
            said.seek(0)
            told = " ".join(said.read().decode(errors="replace").split())[-1000:]
            if told:
                error.add_note(f"Spark said: {told}")
            raise
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
