"""Spark's own processes on loopback: a cluster of two workers, a Connect server; whom to kill.

The two workers say that they are two hosts, for Spark starts no copy of a task on the host of the
first.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pyspark

from lance_catalog.spark.java import find_java
from tests.servers.process import LOOPBACK, ServerProcess, wait_until

HOME: Final = Path(pyspark.__file__).parent
BASE: Final = Path(__file__).parents[2]
HOSTS: Final = (LOOPBACK, "127.0.0.2")
PATIENCE: Final = 300.0
#: For a Java that lives a minute: no time goes into making it fast for hours.
QUICK: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def environment(**more: str) -> dict[str, str]:
    """What processes of Spark's inherit: this Java, this Python, this source tree."""
    return {
        "JAVA_HOME": str(find_java().home),
        "SPARK_HOME": str(HOME),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(BASE / "src"), str(BASE)]),
        "PYTHONWARNINGS": "ignore",
        **more,
    }


class SparkProcess(ServerProcess):
    """One of them; ready when its log says so."""

    ready_seconds = PATIENCE
    says = ""
    memory = "256m"

    def __init__(self, **more: str) -> None:
        super().__init__()
        self._more = more

    def log(self) -> str:
        return (self.scratch / "log").read_text(errors="replace")

    def _is_ready(self) -> bool:
        return self.says in self.log()

    def _environment(self, data: Path, host: str) -> dict[str, str]:
        where = {"SPARK_LOCAL_IP": host, "SPARK_LOCAL_DIRS": str(data)}
        where |= {"SPARK_DAEMON_MEMORY": self.memory, "SPARK_DAEMON_JAVA_OPTS": QUICK}
        return environment(**where, **self._more)


class Master(SparkProcess):
    says = "I have been elected leader"

    @property
    def url(self) -> str:
        return f"spark://{LOOPBACK}:{self.port}"

    def _command(self, data: Path) -> tuple[list[str], dict[str, str]]:
        where = ["--host", LOOPBACK, "--port", str(self.port), "--webui-port", "0"]
        command = [str(HOME / "bin" / "spark-class"), "org.apache.spark.deploy.master.Master"]
        return [*command, *where], self._environment(data, LOOPBACK)


class Worker(SparkProcess):
    says = "Successfully registered with master"

    def __init__(self, master: str, host: str, **more: str) -> None:
        super().__init__(**more)
        self._master, self._host = master, host

    def _command(self, data: Path) -> tuple[list[str], dict[str, str]]:
        # More than one application uses at a time: one that was killed must not hold up the next.
        size = ["--cores", "4", "--memory", "4g", "--work-dir", str(data), "--webui-port", "0"]
        where = ["--host", self._host, "--port", str(self.port), *size, self._master]
        command = [str(HOME / "bin" / "spark-class"), "org.apache.spark.deploy.worker.Worker"]
        return [*command, *where], self._environment(data, self._host)


class ConnectServer(SparkProcess):
    """A Spark Connect server that runs its tasks itself."""

    says = "Spark Connect server started"
    memory = "1g"

    def __init__(self, config: dict[str, str], **more: str) -> None:
        super().__init__(**more)
        self._config = config

    @property
    def url(self) -> str:
        return f"sc://{LOOPBACK}:{self.port}"

    def _command(self, data: Path) -> tuple[list[str], dict[str, str]]:
        config = {
            "spark.connect.grpc.binding.address": LOOPBACK,
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.driver.bindAddress": LOOPBACK,
            "spark.driver.host": LOOPBACK,
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(data / "warehouse"),
            "spark.ui.enabled": "false",
            **self._config,
        }
        command = [str(HOME / "bin" / "spark-submit"), "--master", "local[2]"]
        for key, value in config.items():
            command += ["--conf", f"{key}={value}"]
        command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
        return [*command, "spark-internal"], self._environment(data, LOOPBACK)


class Cluster:
    """A master and two workers, and the fail points that their processes obey."""

    def __init__(self, folder: Path) -> None:
        self.orders = Orders(folder)
        self._stack = ExitStack()
        self.workers: list[Worker] = []

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            more = self.orders.environment()
            self.master = stack.enter_context(Master())
            for host in HOSTS:
                self.workers.append(stack.enter_context(Worker(self.master.url, host, **more)))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Those of a worker's Python have groups of their own.
        left = [pid for worker in self.workers for pid in below(worker.pid)]
        self._stack.close()
        for pid in left:
            send(pid, signal.SIGKILL)

    def executors(self) -> list[int]:
        """The executors that run, by worker."""
        found = (pid for worker in self.workers for pid in below(worker.pid))
        return [pid for pid in found if is_executor(pid)]

    def pythons(self) -> list[int]:
        """The Python workers of the executors that run."""
        return [pid for one in self.executors() for pid in below(one) if is_python_worker(pid)]


class Orders:
    """Fail points that processes obey while they run, and who came by."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def environment(self) -> dict[str, str]:
        return {"LANCE_CATALOG_FAILPOINTS_FOLDER": str(self._folder)}

    def give(self, point: str, verb: str = "stop") -> None:
        for old in self._folder.glob(f"{point}*"):
            old.unlink()
        whole = self._folder / f".{point}"
        whole.write_text(verb)
        whole.rename(self._folder / point)

    def taken(self, point: str) -> int:
        """The process that stopped at a point, once it has."""

        def came() -> bool:
            return any(state(pid) == "T" for pid in self._who(point))

        assert wait_until(came, PATIENCE), f"nobody came by {point}"
        return next(pid for pid in self._who(point) if state(pid) == "T")

    def _who(self, point: str) -> list[int]:
        return [int(path.name.rpartition(".")[2]) for path in self._folder.glob(f"{point}.*")]

    def withdraw(self) -> None:
        for path in self._folder.iterdir():
            path.unlink()


# Processes, by what Linux tells of them.


def _stat(pid: int) -> list[str]:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return ["", "0"]


def state(pid: int) -> str:
    """``T`` for one that is stopped, an empty text for one that is gone."""
    return _stat(pid)[0]


def parent(pid: int) -> int:
    return int(_stat(pid)[1])


def below(pid: int) -> list[int]:
    """All that it started, and what those started."""
    every = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    parents = {one: parent(one) for one in every}
    found = [pid]
    for one in found:
        found += [child for child, of in parents.items() if of == one]
    return found[1:]


def above(pid: int) -> Iterator[int]:
    while (pid := parent(pid)) > 1:
        yield pid


def _command_of(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    return ""


def is_executor(pid: int) -> bool:
    return "CoarseGrainedExecutorBackend" in _command_of(pid)


def is_python_worker(pid: int) -> bool:
    """Whether it runs tasks: a child of the daemon that its executor started."""
    daemon = "-m pyspark.daemon"
    return daemon in _command_of(pid) and daemon in _command_of(parent(pid))


def executor_of(pid: int) -> int | None:
    """The executor that a Python worker belongs to; None for a process of the driver's."""
    return next((one for one in above(pid) if is_executor(one)), None)


def send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
