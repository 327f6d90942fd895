"""pytest fixtures: the servers, one of each per session, and a fresh bucket per test.

For use outside this directory: ``pytest_plugins = ["tests.servers.fixtures"]`` in the conftest.py
at the root of the tests.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TypeVar

import pytest
from obstore.store import AzureStore, S3Store

from tests.servers.azure import AzuriteServer
from tests.servers.fetch import NotFetchedError, ToolchainMissingError
from tests.servers.process import ServerProcess
from tests.servers.proxy import CountingProxy
from tests.servers.s3 import S3Server

AnyServer = TypeVar("AnyServer", bound=ServerProcess)


@dataclass(frozen=True)
class Cloud:
    """One bucket of one server, possibly seen through a proxy."""

    server: S3Server | AzuriteServer
    bucket: str
    proxy: CountingProxy | None = None

    @property
    def options(self) -> dict[str, str]:
        endpoint = self.proxy.endpoint if self.proxy else None
        return self.server.storage_options(self.bucket, endpoint=endpoint)

    @property
    def store(self) -> S3Store | AzureStore:
        endpoint = self.proxy.endpoint if self.proxy else None
        return self.server.store(self.bucket, endpoint=endpoint)

    def uri(self, path: str) -> str:
        return self.server.uri(self.bucket, path)


def start_or_skip(server: AnyServer, stack: ExitStack) -> AnyServer:
    """Start ``server`` until ``stack`` ends. Not installed: a skip, but a failure in CI."""
    try:
        stack.enter_context(server)
    except (NotFetchedError, ToolchainMissingError) as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
    return server


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    with ExitStack() as stack:
        yield start_or_skip(S3Server(), stack)


@pytest.fixture(scope="session")
def azurite_server() -> Iterator[AzuriteServer]:
    with ExitStack() as stack:
        yield start_or_skip(AzuriteServer(), stack)


@pytest.fixture(params=["s3_server", "azurite_server"])
def cloud(request: pytest.FixtureRequest) -> Cloud:
    """A fresh bucket on each server in turn."""
    server: S3Server | AzuriteServer = request.getfixturevalue(request.param)
    bucket = f"test-{uuid.uuid4().hex}"
    server.create_bucket(bucket)
    return Cloud(server, bucket)


@pytest.fixture
def proxied(cloud: Cloud) -> Iterator[tuple[Cloud, CountingProxy]]:
    """The same, through a counting proxy of its own."""
    with CountingProxy(cloud.server.endpoint) as proxy:
        yield Cloud(cloud.server, cloud.bucket, proxy), proxy
