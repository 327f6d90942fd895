"""Fetching: once, whole or not at all, and clear about what is missing. Needs no network."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.servers import fetch
from tests.servers.__main__ import main


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a PATH on which only the stand-ins made by the test are found."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    tools = tmp_path / "bin"
    tools.mkdir()
    monkeypatch.setenv("PATH", str(tools))
    return tools


def _stand_in(tools: Path, name: str, script: str) -> None:
    (tools / name).write_text(f"#!/bin/sh\n{script}\n")
    (tools / name).chmod(0o755)


def test_missing_toolchain_is_named(tools: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(fetch.ToolchainMissingError, match="`go` is not on PATH"):
        fetch.fetch(fetch.MINIO)
    assert main(["fetch"]) == 1
    errors = capfd.readouterr().err
    assert "`go` is not on PATH" in errors
    assert "`npm` is not on PATH" in errors


def test_not_fetched_says_what_to_do(tools: Path) -> None:
    with pytest.raises(fetch.NotFetchedError, match=r"python -m tests\.servers fetch minio"):
        fetch.MINIO.path()


def test_fetched_once(tools: Path, capfd: pytest.CaptureFixture[str]) -> None:
    _stand_in(tools, "go", 'echo "built $*"; echo x >"$GOBIN/minio"')
    path = fetch.fetch(fetch.MINIO)
    assert path == fetch.cache_root() / "minio" / fetch.MINIO_VERSION / "minio"
    assert f"built install -trimpath -ldflags=-s -w {fetch.MINIO_MODULE}@" in capfd.readouterr().out
    assert fetch.fetch(fetch.MINIO) == path
    assert capfd.readouterr().out == f"minio {fetch.MINIO_VERSION}: already installed\n"
    assert fetch.MINIO.path() == path


@pytest.mark.parametrize("script", ["exit 1", "exit 0", 'echo x >"$GOBIN/minio"; exit 1'])
def test_a_failed_install_leaves_nothing(tools: Path, script: str) -> None:
    _stand_in(tools, "go", script)
    with pytest.raises(fetch.FetchError):
        fetch.fetch(fetch.MINIO)
    assert not fetch.MINIO.is_installed()
    assert os.listdir(fetch.cache_root() / "minio") == []


def test_a_broken_install_is_replaced(tools: Path) -> None:
    fetch.MINIO.directory.mkdir(parents=True)
    (fetch.MINIO.directory / fetch.MARKER).write_text("something else\n")
    _stand_in(tools, "go", 'echo x >"$GOBIN/minio"')
    assert fetch.fetch(fetch.MINIO).is_file()
    assert fetch.MINIO.is_installed()


def test_another_fetch_may_win(tools: Path) -> None:
    there = fetch.MINIO.directory
    _stand_in(
        tools,
        "go",
        f'echo x >"$GOBIN/minio"; /bin/mkdir -p {there}; echo y >{there}/minio; '
        f"echo {fetch.MINIO_VERSION} >{there}/{fetch.MARKER}",
    )
    assert fetch.fetch(fetch.MINIO).read_text() == "y\n"


def test_unknown_server(tools: Path) -> None:
    with pytest.raises(SystemExit):
        main(["fetch", "nonesuch"])
