"""Install the test servers into the user's cache, outside the clone, once per pinned version."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# MinIO's release tags are not Go versions, so a commit is pinned by its pseudo-version: the one
# that @latest meant when this was written. Its go.mod asks for Go 1.24; Go 1.26 builds it.
MINIO_MODULE = "github.com/minio/minio"
MINIO_VERSION = "v0.0.0-20260212201848-7aac2a2c5b7c"
# The newest Azurite that still runs on Node 20; later ones ask for Node 21 and 22.
AZURITE_VERSION = "3.35.0"
# Not a server, but fetched for the same reason: 800 MB that only `make integration` needs. Ray's
# wheels are made for one version of Python.
LANCE_RAY_VERSION = "0.5.0"
RAY_VERSION = "2.60.0"
# What the extra `pyspark[connect]` brings: a client of Spark Connect needs pandas, and nothing of
# ours may come to need it unnoticed. PySpark 4.3 does not take pandas 3.
CONNECT_VERSIONS = {
    "grpcio": "1.85.1",
    "grpcio-status": "1.85.1",
    "googleapis-common-protos": "1.76.0",
    "pandas": "2.3.3",
    "protobuf": "7.36.2",
    "zstandard": "0.25.0",
}

MARKER = "installed"


class FetchError(RuntimeError):
    """A server could not be installed."""


class ToolchainMissingError(FetchError):
    """The program that installs the server (go, npm) is not on PATH."""


class NotFetchedError(RuntimeError):
    """A server is needed that was never installed."""


def cache_root() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "lance-catalog"


@dataclass(frozen=True)
class Server:
    name: str
    version: str
    tool: str
    entry: str
    """The file that is run, relative to the directory of the version."""
    commands: Callable[[Path], tuple[list[str], dict[str, str]]]
    """From the directory to install into: the command, and what it adds to the environment."""

    @property
    def directory(self) -> Path:
        return cache_root() / self.name / self.version

    def is_installed(self) -> bool:
        try:
            marked = (self.directory / MARKER).read_text().strip()
        except OSError:
            return False
        return marked == self.version and (self.directory / self.entry).is_file()

    def path(self) -> Path:
        """The file to run; NotFetchedError, saying what to do, if it is not there."""
        if not self.is_installed():
            message = (
                f"{self.name} {self.version} is not installed under {cache_root()}: "
                f"run `python -m tests.servers fetch {self.name}` (needs {self.tool})"
            )
            raise NotFetchedError(message)
        return self.directory / self.entry


def _go_install(into: Path) -> tuple[list[str], dict[str, str]]:
    # Without cgo no C compiler is needed; without symbols the binary is a third smaller.
    command = ["go", "install", "-trimpath", "-ldflags=-s -w", f"{MINIO_MODULE}@{MINIO_VERSION}"]
    return command, {"GOBIN": str(into), "CGO_ENABLED": "0"}


def _npm_install(into: Path) -> tuple[list[str], dict[str, str]]:
    # Azurite is plain JavaScript: no package in its tree needs to run a script to be installed.
    flags = ["--no-audit", "--no-fund", "--omit=dev", "--ignore-scripts"]
    return ["npm", "install", "--prefix", str(into), *flags, f"azurite@{AZURITE_VERSION}"], {}


def _pip_install(wanted: list[str]) -> Callable[[Path], tuple[list[str], dict[str, str]]]:
    """Into a folder for PYTHONPATH, with the versions that the tests themselves run with."""
    constraints = Path(__file__).parents[2] / "constraints.txt"
    command = [sys.executable, "-m", "pip", "install", "--quiet"]
    given = ["--constraint", str(constraints), *wanted]
    return lambda into: ([*command, "--target", str(into), *given], {})


def _python() -> str:
    return f"py{sys.version_info.major}.{sys.version_info.minor}"


MINIO = Server("minio", MINIO_VERSION, "go", "minio", _go_install)
AZURITE = Server(
    "azurite", AZURITE_VERSION, "npm", "node_modules/azurite/dist/src/blob/main.js", _npm_install
)
LANCE_RAY = Server(
    "lance-ray",
    f"{LANCE_RAY_VERSION}-{RAY_VERSION}-{_python()}",
    "python3",
    "lance_ray/__init__.py",
    _pip_install([f"lance-ray=={LANCE_RAY_VERSION}", f"ray[data]=={RAY_VERSION}"]),
)
SPARK_CONNECT = Server(
    "spark-connect",
    f"{CONNECT_VERSIONS['grpcio']}-{CONNECT_VERSIONS['pandas']}-{_python()}",
    "python3",
    "grpc/__init__.py",
    _pip_install([f"{name}=={version}" for name, version in CONNECT_VERSIONS.items()]),
)
SERVERS = {server.name: server for server in (MINIO, AZURITE, LANCE_RAY, SPARK_CONNECT)}


def fetch(server: Server) -> Path:
    """Install ``server`` unless it is there already; return the file to run."""
    if server.is_installed():
        print(f"{server.name} {server.version}: already installed", flush=True)
        return server.path()
    if shutil.which(server.tool) is None:
        message = f"`{server.tool}` is not on PATH; it is needed to install {server.name}"
        raise ToolchainMissingError(message)

    print(f"{server.name} {server.version}: installing with {server.tool} ...", flush=True)
    started = time.monotonic()
    server.directory.parent.mkdir(parents=True, exist_ok=True)
    # Built beside its final place and renamed there, so that an interrupted fetch leaves nothing
    # that looks installed, and two fetches at once do not write into each other.
    with tempfile.TemporaryDirectory(dir=server.directory.parent, prefix=".fetch-") as scratch:
        stage = Path(scratch) / server.version
        stage.mkdir()
        command, extra = server.commands(stage)
        done = subprocess.run(command, env={**os.environ, **extra}, cwd=scratch, check=False)
        if done.returncode != 0:
            message = f"`{' '.join(command)}` ended with {done.returncode}; its output is above"
            raise FetchError(message)
        if not (stage / server.entry).is_file():
            message = f"`{' '.join(command)}` succeeded but made no {server.entry}"
            raise FetchError(message)
        (stage / MARKER).write_text(server.version + "\n")
        _move_into_place(stage, server)
    print(f"{server.name}: done in {time.monotonic() - started:.0f} s", flush=True)
    return server.path()


def _move_into_place(stage: Path, server: Server) -> None:
    if server.directory.exists() and not server.is_installed():
        shutil.rmtree(server.directory)
    try:
        stage.rename(server.directory)
    except OSError:
        # Somebody else's fetch was faster. Theirs is as good as ours, if it is whole.
        if not server.is_installed():
            raise
