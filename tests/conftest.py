"""Fixtures and settings of every suite: the servers, Spark, markers, hypothesis."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from tests.servers.fixtures import azurite_server, cloud, proxied, s3_server
from tests.spark.running import spark

__all__ = ["azurite_server", "cloud", "proxied", "s3_server", "spark"]

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


def pytest_configure(config: pytest.Config) -> None:
    for line in (
        "needs(*capabilities): run only in the modes that have them (tests.behaviour.catalogs)",
        "modes(*modes): run only in these modes",
        "stores(*stores): run only on these stores",
        "homes(*homes): for tables in these namespaces: 'root', 'nested'",
    ):
        config.addinivalue_line("markers", line)
