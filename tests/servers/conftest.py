from __future__ import annotations

import pytest

from tests.servers.fixtures import azurite_server, cloud, proxied, s3_server

__all__ = ["azurite_server", "cloud", "proxied", "s3_server"]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "integration: needs the servers of tests/servers")
