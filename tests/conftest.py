"""Fixtures and settings of every suite: the servers, Spark, markers, hypothesis."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

from tests.servers.fixtures import azurite_server, cloud, proxied, s3_server
from tests.spark.running import spark

__all__ = ["azurite_server", "cloud", "proxied", "s3_server", "spark"]

# Sessions of Spark in tests live for seconds: what a JVM compiles well in that time is never used.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# Storage answers when it answers: a slow example is no finding. The same examples every time, so
# that red is red for everybody; `make soak` looks further.
settings.register_profile(
    "steady",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("steady")


@pytest.hookimpl(tryfirst=True)  # Before the plugin that reads these marks.
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests on Spark run in one of several processes: there it starts once.

    They come first: the longest are among them, and at the end one process would wait for them.
    """
    items.sort(key=lambda item: not item.nodeid.startswith("tests/spark/"))
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))


def pytest_configure(config: pytest.Config) -> None:
    for line in (
        "needs(*capabilities): run only in the modes that have them (tests.behaviour.catalogs)",
        "modes(*modes): run only in these modes",
        "stores(*stores): run only on these stores",
        "homes(*homes): for tables in these namespaces: 'root', 'nested'",
    ):
        config.addinivalue_line("markers", line)
