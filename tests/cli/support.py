"""Running the command line in this process and as a real one."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import select
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from typer.testing import CliRunner

from lance_catalog import connect, errors
from lance_catalog.cli.main import app
from lance_catalog.cli.settings import EffectiveSettings

PROGRAM = str(Path(sys.executable).parent / "lance-catalog")
MODES = {
    "v1": {"manifest_enabled": False},
    "v2": {"dir_listing_enabled": False},
    "compat": {},
}


class Ran:
    """What a run left: exit code, data, messages."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, Any]:
        return dict(json.loads(self.err.splitlines()[-1])["error"])

    def __repr__(self) -> str:
        return f"exit {self.code}\n{self.out}\n--- stderr\n{self.err}"


class Cli:
    """The command line on one root in one mode."""

    def __init__(self, root: Path, mode: str) -> None:
        self.root, self.mode = root, mode

    def run(self, *args: str) -> Ran:
        return run("--root", str(self.root), "--mode", self.mode, *args)

    def ok(self, *args: str) -> Ran:
        ran = self.run(*args)
        assert ran.code == 0, ran
        return ran

    def json(self, *args: str) -> Any:
        return self.ok("--output", "json", *args).json

    def plain(self, *args: str) -> list[str]:
        return self.ok("--output", "plain", *args).out.splitlines()

    def create(self, *names: str, rows: int = 3, **properties: str) -> str:
        """Write a table with vectors through the library; return its location."""
        catalog = connect(str(self.root), **MODES[self.mode])
        answer = catalog.create_table(
            {"id": list(names), "properties": properties}, stream(sample(rows))
        )
        assert answer.location is not None
        return answer.location

    def append(self, *names: str, times: int = 1) -> Any:
        """Write versions of two rows as a stock writer does: Lance, the catalog as its client."""
        catalog = connect(str(self.root), **MODES[self.mode])
        for _ in range(times):
            try:
                catalog.table_exists({"id": list(names)})
                mode = "append"
            except errors.TableNotFoundError:
                mode = "create"
            table = lance.write_dataset(
                sample(2), namespace_client=catalog, table_id=list(names), mode=mode
            )
        return table


def run(*args: str) -> Ran:
    ran = CliRunner().invoke(app, list(args))
    if ran.exception is not None and not isinstance(ran.exception, SystemExit):
        raise ran.exception
    return Ran(ran.exit_code, ran.stdout, ran.stderr)


def process(*args: str, stdin: str = "", env: dict[str, str] | None = None) -> Ran:
    """A real process, without a terminal."""
    done = subprocess.run(
        [PROGRAM, *args],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **(env or {})},
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def at_terminal(*args: str, answer: str) -> Ran:
    """A real process with a terminal for stdin and stderr, and an answer typed into it."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (50, 500))
    child = subprocess.Popen(
        [PROGRAM, *args],
        stdin=theirs,
        stderr=theirs,
        stdout=subprocess.PIPE,
        text=True,
        # Spelled out: readline puts COLUMNS into the environment behind Python's back.
        env=dict(os.environ),
    )
    os.close(theirs)
    shown = b""
    answered = False
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if not select.select([ours], [], [], 1)[0]:
            continue
        try:
            chunk = os.read(ours, 4096)
        except OSError:
            break
        if not chunk:
            break
        shown += chunk
        if not answered and (b"to go on:" in shown or b"[y/N]" in shown):
            os.write(ours, f"{answer}\n".encode())
            answered = True
    out = child.communicate(timeout=60)[0]
    os.close(ours)
    return Ran(child.returncode, out, shown.decode())


def sample(rows: int) -> pa.Table:
    vectors = [[float(i)] * 16 for i in range(rows)]
    return pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "text": pa.array([f"row {i}" for i in range(rows)]),
            "vector": pa.array(vectors, pa.list_(pa.float32(), 16)),
        }
    )


def stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def digest(root: Path) -> str:
    """Every path, content and time of change below a root: what a dry run must not touch."""
    found = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        found.update(f"{path.relative_to(root)} {path.lstat().st_mtime_ns}\n".encode())
        if path.is_file():
            found.update(path.read_bytes())
    return found.hexdigest()


def settings(**values: str) -> EffectiveSettings:
    return EffectiveSettings({"output": "table", "delimiter": ".", **values}, {})
